/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library: no signals, short slices, and nothing else changed. */
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/spawn.h"
#include "tests/test.h"

struct attr { /* sched_getattr(2) */
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

struct seen {
	bool brief;
	int policy, blocked;
	struct attr before, after;
};

static void *look(void *arg)
{
	struct seen *seen = arg;
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	seen->blocked =
		sigismember(&now, SIGUSR1) + sigismember(&now, SIGINT) + sigismember(&now, SIGCHLD);
	if (seen->policy)
		sched_setscheduler(0, seen->policy, &(struct sched_param){0});
	syscall(SYS_sched_getattr, 0, &seen->before, sizeof(seen->before), 0);
	if (seen->brief)
		tt_spawned_brief();
	syscall(SYS_sched_getattr, 0, &seen->after, sizeof(seen->after), 0);
	return NULL;
}

static void spawn(struct seen *seen)
{
	sigset_t before, after;
	pthread_t thread;
	int signal;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	TT_REQUIRE(!tt_spawn(&thread, look, seen, "a thread"));
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	TT_CHECK(!pthread_join(thread, NULL));
	for (signal = 1; signal < NSIG; signal++)
		TT_CHECK(sigismember(&before, signal) == sigismember(&after, signal));
	TT_CHECK(seen->blocked == 3);
}

static void test_plain(void)
{
	struct seen seen = {0};

	spawn(&seen);
	TT_CHECK(!memcmp(&seen.before, &seen.after, sizeof(seen.before)));
}

static void test_brief(void)
{
	struct seen seen = {.brief = true};

	TT_REQUIRE(!setpriority(PRIO_PROCESS, 0, 3));
	spawn(&seen);
	if (seen.before.policy != SCHED_OTHER) { /* the whole run may be in class idle */
		TT_CHECK(!memcmp(&seen.before, &seen.after, sizeof(seen.before)));
		TT_SKIP("this runs with policy %u", seen.before.policy);
	}
	TT_CHECK(seen.after.policy == SCHED_OTHER && seen.after.nice == 3);
	if (!seen.before.runtime)
		TT_SKIP("this kernel does not tell slices");
	TT_CHECK(seen.after.runtime == 100000 && seen.before.runtime > seen.after.runtime);
}

/* The program's own thread settings stay. */
static void test_batch(void)
{
	struct seen seen = {.brief = true, .policy = SCHED_BATCH};

	spawn(&seen);
	TT_CHECK(seen.before.policy == SCHED_BATCH);
	TT_CHECK(!memcmp(&seen.before, &seen.after, sizeof(seen.before)));
}

static const struct tt_test tests[] = {
	{"plain", test_plain}, {"batch", test_batch}, {"brief", test_brief}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("spawn", tests, argc, argv);
}
