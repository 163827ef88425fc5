/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The moment between an unmapping and its notice, extended: a child stops the thread that takes
 * notices, by ptrace, while another thread unmaps a page and this thread maps its address again.
 * The memory has changed, and tt_watch_changes must report it before the notice is taken.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/mem/watch.h"
#include "tests/test.h"

#define PAGE 4096ul
#define PATIENCE_MS 10000

/* The newest thread of this process; 0: there is only one. */
static int newest_thread(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int newest = 0, tid;

	while (dir && (entry = readdir(dir))) {
		tid = atoi(entry->d_name);
		if (tid != getpid() && tid > newest)
			newest = tid;
	}
	if (dir)
		closedir(dir);
	return newest;
}

/*
 * In the child: stop the thread whose number comes, say so, and let it go when told, or when the
 * pipe ends.
 */
static void tracer(int in, int out)
{
	int tid, status;
	char done;

	alarm(2 * PATIENCE_MS / 1000);
	if (read(in, &tid, sizeof(tid)) != (ssize_t)sizeof(tid))
		_exit(1);
	done = !ptrace(PTRACE_SEIZE, tid, NULL, NULL) &&
	       !ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) && waitpid(tid, &status, __WALL) == tid;
	(void)!write(out, &done, 1);
	(void)!read(in, &tid, 1);
	ptrace(PTRACE_DETACH, tid, NULL, NULL);
	_exit(0);
}

static atomic_bool unmapped;

static void *unmap(void *page)
{
	munmap(page, PAGE);
	atomic_store(&unmapped, true);
	return NULL;
}

/* The page's address, as soon as it is free. */
static bool take_again(char *page)
{
	uint64_t deadline = tt_deadline_ms(PATIENCE_MS);

	while (!tt_passed(deadline))
		if (mmap(page, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == page)
			return true;
	return false;
}

static void unmap_unnoticed(struct tt_watch *w, char *page, pthread_t *thread)
{
	struct tt_range range[TT_WATCH_MAX];
	int n = 0;

	TT_CHECK(!tt_watch_changes(w, range, &n));
	TT_REQUIRE(!pthread_create(thread, NULL, unmap, page));
	TT_CHECK(take_again(page));
	TT_CHECK(!atomic_load(&unmapped)); /* its caller waits for the notice to be taken */
	TT_CHECK(!tt_watch_changes(w, range, &n));
	TT_CHECK(n == 1 && range[0].start == (uintptr_t)page &&
		 range[0].end == (uintptr_t)page + PAGE);
}

static void before_the_notice(void)
{
	pthread_t thread;
	int to[2], from[2], tid;
	struct tt_watch *w;
	char *page, done;
	pid_t child;

	TT_REQUIRE(!pipe(to) && !pipe(from));
	child = fork();
	if (!child) {
		close(to[1]);
		tracer(to[0], from[1]);
	}
	prctl(PR_SET_PTRACER, child, 0, 0, 0);
	if (tt_watch_new(&w)) {
		close(to[1]);
		waitpid(child, NULL, 0);
		TT_SKIP("%s", tt_fail_text(-EOPNOTSUPP));
	}
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TT_REQUIRE(page != MAP_FAILED);
	memset(page, 1, PAGE);
	TT_REQUIRE(!tt_watch_add(w, (uintptr_t)page, (uintptr_t)page + PAGE));
	tid = newest_thread();
	TT_REQUIRE(write(to[1], &tid, sizeof(tid)) == (ssize_t)sizeof(tid));
	done = 0;
	(void)!read(from[0], &done, 1);
	if (done)
		unmap_unnoticed(w, page, &thread);
	else
		tt_skip("a thread cannot be stopped by ptrace here");
	close(to[1]); /* the thread goes on */
	TT_CHECK(waitpid(child, NULL, 0) == child);
	if (done)
		pthread_join(thread, NULL);
	tt_watch_free(w);
	munmap(page, PAGE);
	close(to[0]);
	close(from[0]);
	close(from[1]);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"before_the_notice", before_the_notice},
					       {NULL, NULL}};

	return tt_test_main("watch", tests, argc, argv);
}
