/* SPDX-License-Identifier: BSD-3-Clause */
/* The test harness; see test.h. */
#include "tests/test.h"

#include <CUnit/TestRun.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"

#define MAX_RANKS 128

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/*
 * In place of libc's, for this program and its libraries. A descriptor that is closed twice can be
 * another thread's the second time: no test may pass in which that happens.
 */
__attribute__((visibility("default"))) int close(int fd)
{
	static const char text[] = "close: the descriptor is closed already\n";
	int rc = (int)syscall(SYS_close, fd);

	if (!rc || fd < 0 || errno != EBADF)
		return rc;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	abort();
}
#endif

static char skip_reason[256];
static int nskipped;

void tt_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(skip_reason, sizeof(skip_reason), fmt, ap);
	va_end(ap);
}

void tt_expect_failed(const char *cond, const char *file, int line)
{
	fprintf(stderr, "%s:%d: expected %s\n", file, line, cond);
}

static bool wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

static void print_failures(void)
{
	const CU_FailureRecord *f;

	for (f = CU_get_failure_list(); f; f = f->pNext)
		printf("  %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
}

/* One CUnit run a test, so that failures and times belong to it. */
static bool run_one(CU_pSuite suite, const char *suite_name, CU_pTest test)
{
	uint64_t t0 = tt_now_ns();
	bool failed;

	skip_reason[0] = 0;
	CU_run_test(suite, test);
	failed = CU_get_number_of_failures() > 0;
	if (skip_reason[0] && !failed) {
		nskipped++;
		printf("skip %s.%s: %s\n", suite_name, test->pName, skip_reason);
	} else {
		printf("%s %s.%s (%llu ms)\n", failed ? "FAIL" : "ok", suite_name, test->pName,
		       (unsigned long long)((tt_now_ns() - t0) / TT_MS));
	}
	if (failed)
		print_failures();
	fflush(stdout);
	return !failed;
}

int tt_test_main(const char *suite_name, const struct tt_test *tests, int argc, char **argv)
{
	int run = 0, failed = 0;
	CU_pSuite suite;
	CU_pTest test;

	signal(SIGPIPE, SIG_IGN);
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 1;
	suite = CU_add_suite(suite_name, NULL, NULL);
	for (; tests->name; tests++) {
		if (argc == 2 && !strcmp(argv[1], "-l")) {
			puts(tests->name);
			continue;
		}
		if (!wanted(tests->name, argc, argv))
			continue;
		test = CU_add_test(suite, tests->name, tests->fn);
		run++;
		failed += !run_one(suite, suite_name, test);
	}
	CU_cleanup_registry();
	printf("# %s: %d passed, %d failed, %d skipped\n", suite_name, run - failed - nskipped,
	       failed, nskipped);
	return failed ? 1 : run && run == nskipped ? 77 : 0;
}

static void reap(pid_t *pids, int n, int *status, bool *done)
{
	int i, st;

	for (i = 0; i < n; i++)
		if (!done[i] && waitpid(pids[i], &st, WNOHANG) == pids[i]) {
			status[i] = st;
			done[i] = true;
		}
}

static int count_failures(int n, const int *status, const bool *hung, unsigned expect_killed,
			  unsigned may_end)
{
	int i, failed = 0;

	for (i = 0; i < n; i++) {
		bool killed = WIFSIGNALED(status[i]);
		bool expected = i < 32 && (expect_killed >> i & 1);

		if (!hung[i] && killed && WTERMSIG(status[i]) == SIGKILL && i < 32 &&
		    may_end >> i & 1)
			continue;
		if (!hung[i] && killed == expected && (killed || WEXITSTATUS(status[i]) == 0))
			continue;
		failed++;
		fprintf(stderr, "rank %d of %d %s %d\n", i, n,
			hung[i]	 ? "hung; killed with signal"
			: killed ? "died of signal"
				 : "failed with exit status",
			killed ? WTERMSIG(status[i]) : WEXITSTATUS(status[i]));
	}
	return failed;
}

int tt_run_ranks(int n, tt_rank_fn *fn, void *arg, int timeout_ms, unsigned expect_killed)
{
	return tt_run_ranks_that(n, fn, arg, timeout_ms, expect_killed, 0);
}

int tt_run_ranks_that(int n, tt_rank_fn *fn, void *arg, int timeout_ms, unsigned expect_killed,
		      unsigned may_end)
{
	uint64_t deadline = tt_deadline_ms(timeout_ms);
	bool done[MAX_RANKS] = {0}, hung[MAX_RANKS] = {0};
	int status[MAX_RANKS] = {0}, i, left = n;
	pid_t pids[MAX_RANKS];

	fflush(NULL);
	for (i = 0; i < n; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			i = fn(i, n, arg);
			fflush(NULL);
			_exit(i);
		}
	}
	while (left) {
		reap(pids, n, status, done);
		for (i = 0, left = 0; i < n; i++)
			left += !done[i];
		if (left && tt_passed(deadline))
			for (i = 0; i < n; i++)
				if (!done[i]) {
					hung[i] = true;
					kill(pids[i], SIGKILL);
				}
		if (left)
			usleep(1000);
	}
	return count_failures(n, status, hung, expect_killed, may_end);
}

static bool port_is_free(int port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	bool is_free;

	in.sin_port = htons((uint16_t)port);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* as tutti does */
	is_free = !bind(fd, (struct sockaddr *)&in, sizeof(in)) && !listen(fd, 1);
	close(fd);
	return is_free;
}

int tt_free_port(void)
{
	static unsigned n;
	unsigned i;
	int port;

	for (i = 0; i < 20000; i++) {
		port = 10000 + (int)(((unsigned)getpid() * 37 + n++) % 20000);
		if (port_is_free(port))
			return port;
	}
	return 0;
}

int tt_open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

long tt_resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (!f || fscanf(f, "%*s %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

long tt_proc_number(const char *file, const char *label)
{
	size_t len = strlen(label);
	char path[64], line[256];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/%s", file);
	f = fopen(path, "re");
	while (f && n < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, label, len))
			sscanf(line + len, ": %ld", &n);
	if (f)
		fclose(f);
	return n;
}

int tt_times(const char *name, int few)
{
	const char *text = getenv(name);

	return text ? atoi(text) : few;
}

/* Is the inode one of this process's sockets? */
static bool own_socket(unsigned long inode)
{
	char path[300], want[64], link[64];
	struct dirent *e;
	bool own = false;
	ssize_t n;
	DIR *d = opendir("/proc/self/fd");

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	while (d && (e = readdir(d)) != NULL) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = 0;
		own |= !strcmp(link, want);
	}
	if (d)
		closedir(d);
	return own;
}

/* As the kernel writes addresses: 127.0.0.1, ::1, and 127.0.0.1 as one of IPv6. */
static bool loopback(const char *addr)
{
	static const char *const own[] = {"0100007F", "00000000000000000000000001000000",
					  "0000000000000000FFFF00000100007F"};

	return !strcmp(addr, own[0]) || !strcmp(addr, own[1]) || !strcmp(addr, own[2]);
}

struct tt_listeners tt_find_listeners(void)
{
	/*
	 * Datagrams are taken by any socket that has a port and no peer, packets by any that has
	 * no peer.
	 */
	static const struct {
		const char *name;
		unsigned state;
	} files[] = {{"/proc/net/tcp", 10}, {"/proc/net/tcp6", 10},   {"/proc/net/udp", 7},
		     {"/proc/net/udp6", 7}, {"/proc/net/udplite", 7}, {"/proc/net/udplite6", 7},
		     {"/proc/net/raw", 7},  {"/proc/net/raw6", 7}};
	struct tt_listeners l = {0};
	unsigned long inode;
	char line[512], addr[64];
	unsigned state, port;
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		FILE *f = fopen(files[i].name, "r");

		while (f && fgets(line, sizeof(line), f)) {
			if (sscanf(line, " %*d: %63[0-9A-F]:%x %*s %x %*s %*s %*s %*s %*s %lu",
				   addr, &port, &state, &inode) != 4 ||
			    state != files[i].state || !own_socket(inode))
				continue;
			if (l.n < 16)
				l.port[l.n] = (int)port;
			l.n++;
			l.beyond += !loopback(addr);
			l.wild += addr[strspn(addr, "0")] == 0;
		}
		if (f)
			fclose(f);
	}
	return l;
}
