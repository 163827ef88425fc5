/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process without the job's secret gets nowhere, costs little and stalls no rank. TT_TIMES makes
 * the counts larger: 50 gives 10,000 junk connections over 1,000 starts.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "tests/fault/stranger.h"
#include "tests/test.h"

static int times(int short_form)
{
	const char *s = getenv("TT_TIMES");

	return short_form * (s && atoi(s) > 0 ? atoi(s) : 1);
}

/* Every test logs many refusals on purpose. */
static void quiet(bool on)
{
	tutti_set_log(NULL, NULL, on ? TUTTI_LOG_NONE : TUTTI_LOG_DEFAULT);
}

/* Join as rank 1 with this secret, or with a proof of zeros; true: refused. */
static bool refused_with(int port, const unsigned char *secret, bool zeros)
{
	unsigned char out[TT_HELLO_SIZE], in[TT_HELLO_SIZE];
	struct tt_self self = {.rank = 1, .nranks = 3};
	struct tt_hello hello;
	struct tt_auth auth;
	int fd = st_connect(port);
	bool refused;

	snprintf(self.version, sizeof(self.version), "%s", tutti_version());
	memcpy(self.secret, secret, sizeof(self.secret));
	tt_auth_hello(&auth, &self, TT_LINK_JOIN, 'C', out);
	if (fd < 0 || !st_write(fd, out, TT_HELLO_SIZE) || !st_read(fd, in, TT_HELLO_SIZE) ||
	    tt_auth_read_hello(&auth, in, 'S', &hello)) {
		close(fd);
		return false;
	}
	tt_auth_prove(&auth, &self, 'C', out);
	if (zeros)
		memset(out, 0, TT_PROOF_SIZE);
	refused = st_write(fd, out, TT_PROOF_SIZE) && st_refused(fd);
	close(fd);
	return refused;
}

static void test_wrong_and_empty(void)
{
	static const unsigned char none[32];
	unsigned char wrong[32], near[32];
	int n = times(30), refused = 0, i;
	struct st_job job;

	quiet(true);
	st_job_init(&job, 3);
	st_start(&job, 0);
	memset(near, 0x5a, sizeof(near));
	for (i = 0; i < n; i++) {
		randombytes_buf(wrong, sizeof(wrong));
		near[i % 32] ^= 1 << i % 8;
		refused += refused_with(job.port, wrong, false);
		refused += refused_with(job.port, near, false);
		refused += refused_with(job.port, none, false);
		refused += refused_with(job.port, near, true);
		near[i % 32] ^= 1 << i % 8;
		refused += refused_with(job.port, near, true); /* the right hello, an empty proof */
	}
	printf("  %d of %d joins with a wrong or empty secret or proof were refused\n", refused,
	       5 * n);
	TT_CHECK(refused == 5 * n);
	TT_CHECK(refused_with(job.port, near, false) == false); /* so this test can tell */
	st_start(&job, 2);
	TT_CHECK(st_started(&job, 0, 0) + st_started(&job, 2, 2) == 2); /* that rank 1 went away */
	quiet(false);
}

/* A recording of rank 1's join and of the store's answer is useless. */
static void test_replayed(void)
{
	unsigned char hello[TT_HELLO_SIZE];
	int n = times(30), refused = 0, i, fd, conn;
	struct st_relay relay;
	struct st_job job;

	quiet(true);
	st_job_init(&job, 3);
	st_relay_start(&relay, job.port);
	snprintf(job.rank[1].params.store, sizeof(job.rank[1].params.store), "127.0.0.1:%d",
		 relay.port);
	st_start(&job, 0);
	st_start(&job, 1);
	for (i = 0; i < 500 && relay.len[0] < TT_HELLO_SIZE + TT_PROOF_SIZE + 40; i++)
		usleep(10000);
	TT_CHECK(relay.len[0] > TT_HELLO_SIZE + TT_PROOF_SIZE &&
		 relay.len[1] >= TT_HELLO_SIZE + TT_PROOF_SIZE);
	for (i = 0; i < n; i++) {
		fd = st_connect(job.port);
		refused += st_write(fd, relay.kept[0], relay.len[0]) &&
			   st_read(fd, hello, sizeof(hello)) && st_refused(fd);
		close(fd);
	}
	st_start(&job, 2);
	TT_CHECK(st_started(&job, 0, 2) == 0);
	TT_CHECK(st_stop(&job) == 0);
	st_relay_stop(&relay);
	/* A store that only repeats the real store's messages. */
	st_job_init(&job, 3);
	close(job.rank[0].params.listen_fd);
	fd = st_listen(&job.port);
	snprintf(job.rank[2].params.store, sizeof(job.rank[2].params.store), "127.0.0.1:%d",
		 job.port);
	st_start(&job, 2);
	conn = accept(fd, NULL, NULL);
	st_write(conn, relay.kept[1], TT_HELLO_SIZE + TT_PROOF_SIZE);
	TT_CHECK(st_started(&job, 2, 2) == 1 && job.rank[2].err == -TUTTI_EAUTH);
	close(conn);
	close(fd);
	quiet(false);
	printf("  %d of %d replayed joins were refused, and a replayed answer\n", refused, n);
	TT_CHECK(refused == n);
}

/* A store without the secret: 0 repeats whatever it gets; 1 sends the joiner's own proof back. */
static void *mirror_main(void *arg)
{
	struct {
		int fd, kind;
	} *m = arg;
	struct tt_self self = {.rank = 0, .nranks = 2, .job = {1}};
	unsigned char buf[TT_HELLO_SIZE];
	struct tt_auth auth;
	int conn = accept(m->fd, NULL, NULL);

	if (!st_read(conn, buf, TT_HELLO_SIZE))
		goto out;
	if (m->kind)
		tt_auth_hello(&auth, &self, TT_LINK_JOIN, 'S', buf);
	st_write(conn, buf, TT_HELLO_SIZE);
	if (st_read(conn, buf, TT_PROOF_SIZE))
		st_write(conn, buf, TT_PROOF_SIZE);
	st_refused(conn);
out:
	close(conn);
	return NULL;
}

static void test_reflected(void)
{
	struct {
		int fd, kind;
	} mirror;
	unsigned char hello[TT_HELLO_SIZE];
	int n = times(5), refused = 0, i, fd;
	struct st_job job;
	pthread_t thread;

	quiet(true);
	for (i = 0; i < 2 * n; i++) {
		st_job_init(&job, 2);
		mirror.fd = job.rank[0].params.listen_fd;
		mirror.kind = i % 2;
		job.rank[1].params.init_timeout = mirror.kind ? 20000 : 300;
		pthread_create(&thread, NULL, mirror_main, &mirror);
		st_start(&job, 1);
		st_started(&job, 1, 1);
		refused += job.rank[1].err == (mirror.kind ? -TUTTI_EAUTH : -TUTTI_EBOOT);
		pthread_join(thread, NULL);
		close(mirror.fd);
	}
	/* The store's own words sent back to it. */
	st_job_init(&job, 2);
	st_start(&job, 0);
	for (i = 0; i < n; i++) {
		struct tt_self self = {.rank = 1, .nranks = 2};
		struct tt_auth auth;
		int again = st_connect(job.port);

		fd = st_connect(job.port);
		tt_auth_hello(&auth, &self, TT_LINK_JOIN, 'C', hello);
		refused += st_write(fd, hello, sizeof(hello)) &&
			   st_read(fd, hello, sizeof(hello)) &&
			   st_write(again, hello, sizeof(hello)) && st_refused(again);
		close(fd);
		close(again);
	}
	st_start(&job, 1);
	TT_CHECK(st_started(&job, 0, 1) == 0 && st_stop(&job) == 0);
	quiet(false);
	printf("  %d of %d reflections were refused\n", refused, 3 * n);
	TT_CHECK(refused == 3 * n);
}

/* Bytes of the heap that 200 strangers cost the store, and that it gives them up in time. */
static void test_cheap_and_short(void)
{
	struct mallinfo2 before, now;
	int fds[200], i, n = 200;
	struct tt_listeners l;
	uint64_t t0 = tt_now_ns();
	struct st_job job;

	quiet(true);
	st_job_init(&job, 2);
	st_start(&job, 0);
	close(st_connect(job.port));
	usleep(100000);
	before = mallinfo2();
	for (i = 0; i < n; i++)
		fds[i] = st_junk(job.port, (uint64_t)i * 8 + i % 3);
	usleep(300000);
	now = mallinfo2();
	printf("  %d strangers cost %zu bytes of the heap each\n", n,
	       (now.uordblks - before.uordblks) / (size_t)n);
	TT_CHECK(now.uordblks - before.uordblks < 4096u * (size_t)n);
	l = tt_find_listeners();
	TT_CHECK(l.n == 1 && !l.beyond);
	/* A byte now and then does not prolong the time they have. */
	for (i = 0; i < 100 && tt_now_ns() - t0 < 7 * TT_SEC; i++) {
		struct pollfd p = {.fd = fds[0], .events = POLLIN};

		if (poll(&p, 1, 100) == 1)
			break;
		send(fds[0], "T", 1, MSG_NOSIGNAL);
	}
	printf("  the slow one was dropped after %.1f s\n", (double)(tt_now_ns() - t0) / TT_SEC);
	TT_CHECK(tt_now_ns() - t0 < 7 * TT_SEC);
	st_start(&job, 1);
	TT_CHECK(st_started(&job, 0, 1) == 0);
	/*
	 * Both listen on, for the tree to mend itself when a rank is gone; strangers are no threat
	 * to that.
	 */
	l = tt_find_listeners();
	TT_CHECK(l.n == 2 && !l.beyond);
	for (i = 0; i < n; i++) {
		close(fds[i]);
		fds[i] = st_junk(job.port, (uint64_t)i);
	}
	TT_CHECK(st_stop(&job) == 0);
	for (i = 0; i < n; i++)
		close(fds[i]);
	quiet(false);
}

/* Opens n connections that say nothing, writes a byte to done, and keeps them. */
static void keep_open(int port, int n, int done)
{
	struct rlimit lim;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	while (n-- && st_connect(port) >= 0)
		;
	(void)!write(done, "", 1);
	pause();
	_exit(0);
}

/* Strangers that come before the ranks leave these the descriptors that they need. */
static void test_few_descriptors(void)
{
	struct pollfd done = {.events = POLLIN};
	struct rlimit before, few;
	int fds[2], open;
	struct st_job job;
	pid_t pid;

	quiet(true);
	TT_REQUIRE(!pipe(fds) && !getrlimit(RLIMIT_NOFILE, &before));
	st_job_init(&job, 2);
	st_start(&job, 0);
	close(st_connect(job.port));
	few = before;
	few.rlim_cur = 128;
	TT_REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
	open = tt_open_fds();
	pid = fork();
	if (!pid)
		keep_open(job.port, 400, fds[1]);
	done.fd = fds[0];
	TT_CHECK(poll(&done, 1, 30000) == 1);
	usleep(100000);
	printf("  400 strangers hold %d of 128 descriptors\n", tt_open_fds() - open);
	TT_CHECK(tt_open_fds() - open <= 128 / 8 + job.n + 8); /* and some of rank 0's own */
	st_start(&job, 1);
	TT_CHECK(st_started(&job, 0, 1) == 0);
	TT_CHECK(st_stop(&job) == 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	setrlimit(RLIMIT_NOFILE, &before);
	close(fds[0]);
	close(fds[1]);
	quiet(false);
}

#define JUNK 10

struct thrower {
	int port, fd[JUNK];
	uint64_t seed;
};

static void *throw_main(void *arg)
{
	struct thrower *t = arg;
	int i;

	for (i = 0; i < JUNK; i++)
		t->fd[i] = st_junk(t->port, t->seed + (uint64_t)i);
	return NULL;
}

/* Junk before, during and after the joins of every start. */
static void test_junk_starts(void)
{
	int n = times(20), failed = 0, i, k;
	uint64_t t0 = tt_now_ns(), longest = 0;
	struct thrower t;
	struct st_job job;
	pthread_t thread;

	quiet(true);
	for (i = 0; i < n; i++) {
		uint64_t t1 = tt_now_ns();

		st_job_init(&job, 3);
		t = (struct thrower){.port = job.port, .seed = (uint64_t)i * JUNK};
		st_start(&job, 0);
		pthread_create(&thread, NULL, throw_main, &t);
		st_start(&job, 1 + i % 2);
		st_start(&job, 2 - i % 2);
		failed += st_started(&job, 0, 2);
		longest = tt_now_ns() - t1 > longest ? tt_now_ns() - t1 : longest;
		pthread_join(thread, NULL);
		failed += st_stop(&job);
		for (k = 0; k < JUNK; k++)
			if (t.fd[k] >= 0)
				close(t.fd[k]);
	}
	quiet(false);
	printf("  %d junk connections over %d starts: %d failures; the longest start took %.0f ms, "
	       "all %.1f s\n",
	       n * JUNK, n, failed, (double)longest / TT_MS, (double)(tt_now_ns() - t0) / TT_SEC);
	TT_CHECK(failed == 0);
}

/* ---- the socket of tutti_ras, which has no permissions of its own ---- */

/* A rank of st_job_init's job, all of which process pid of this user has. */
static struct sockaddr_un ras_name(int rank, pid_t pid, socklen_t *len)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1,
			 "tutti/%u/77777777777777777777777777777777/%d/%d", (unsigned)geteuid(),
			 rank, (int)pid);

	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	return sa;
}

static int ras_connect(const struct sockaddr_un *sa, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval tv = {.tv_sec = 2};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (!connect(fd, (const struct sockaddr *)sa, len))
		return fd;
	close(fd);
	return -1;
}

/* Whether a client of this kind of connection with this secret is accepted; closes fd. */
static bool may_stay(int fd, unsigned kind, unsigned char secret)
{
	unsigned char out[TT_HELLO_SIZE], in[TT_HELLO_SIZE];
	struct tt_self self = {.rank = 1, .nranks = 2};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct tt_hello hello;
	struct tt_auth auth;
	bool stays;

	snprintf(self.version, sizeof(self.version), "%s", tutti_version());
	memset(self.secret, secret, sizeof(self.secret));
	tt_auth_hello(&auth, &self, kind, 'C', out);
	stays = fd >= 0 && st_write(fd, out, TT_HELLO_SIZE) && st_read(fd, in, TT_HELLO_SIZE) &&
		!tt_auth_read_hello(&auth, in, 'S', &hello);
	tt_auth_prove(&auth, &self, 'C', out);
	stays = stays && st_write(fd, out, TT_PROOF_SIZE) && st_read(fd, in, TT_PROOF_SIZE) &&
		!tt_auth_check(&auth, &self, 'S', in) && poll(&p, 1, 200) == 0;
	close(fd);
	return stays;
}

/* In a child: another user is refused at once, before any proof. */
static bool shut_to_others(int rank)
{
	struct sockaddr_un sa;
	socklen_t len;
	pid_t pid;
	int status, fd;
	char c;

	sa = ras_name(rank, getpid(), &len);
	pid = fork();
	if (!pid) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			_exit(2);
		fd = ras_connect(&sa, len);
		_exit(fd >= 0 && recv(fd, &c, 1, 0) == 0 ? 0 : 1);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

static void test_lookers(void)
{
	struct sockaddr_un sa;
	struct st_job job;
	socklen_t len;
	int r;

	quiet(true);
	st_job_init(&job, 2);
	st_start(&job, 0);
	st_start(&job, 1);
	TT_CHECK(st_started(&job, 0, 1) == 0);
	for (r = 0; r < 2; r++) {
		sa = ras_name(r, getpid(), &len);
		TT_CHECK(may_stay(ras_connect(&sa, len), TT_LINK_LOOK, 0x5a));
		TT_CHECK(!may_stay(ras_connect(&sa, len), TT_LINK_LOOK, 0x5b));
		TT_CHECK(!may_stay(ras_connect(&sa, len), TT_LINK_JOIN, 0x5a));
		TT_CHECK(!may_stay(ras_connect(&sa, len), TT_LINK_TREE, 0x5a));
		TT_CHECK(geteuid() || shut_to_others(r));
	}
	TT_CHECK(!may_stay(st_connect(job.port), TT_LINK_LOOK, 0x5a));
	TT_CHECK(st_stop(&job) == 0);
	quiet(false);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"wrong_and_empty", test_wrong_and_empty},
					       {"replayed", test_replayed},
					       {"reflected", test_reflected},
					       {"cheap_and_short", test_cheap_and_short},
					       {"few_descriptors", test_few_descriptors},
					       {"junk_starts", test_junk_starts},
					       {"lookers", test_lookers},
					       {NULL, NULL}};

	if (sodium_init() < 0)
		return 1;
	return tt_test_main("strangers", tests, argc, argv);
}
