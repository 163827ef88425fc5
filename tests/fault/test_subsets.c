/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every set of ranks that can die: all but one at most, killed or stopped, at once or some time
 * apart, the lowest first or last. The survivors shrink until they agree on exactly the others, see
 * no other rank as failed, and go on. Jobs mostly wait, so several run beside each other.
 *
 *	TT_SUBSETS=8 test_subsets apart		jobs of up to that many ranks, all spacings (soak)
 *	TT_SET="5 0x9 19 0" test_subsets one	ranks, victims, signal, ms apart
 *
 * Prints how long it took from the last death until the survivors had agreed.
 */
#include "config.h"

#include "tests/fault/survive.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LANES 10
#define LIMIT_MS 1500 /* of heartbeats */
#define PATIENCE_MS 20000

/* One set of victims. */
struct set {
	int n, signal, apart_ms;
	unsigned victims;
	bool down; /* the highest dies first */
};

/* Totals of all jobs of this program. */
struct result {
	atomic_int jobs, failed, slowest_ms[2]; /* killed, stopped */
};
static struct result *result;

static unsigned all_of(int n)
{
	return (1u << n) - 1;
}

/* When rank dies, in ms after the first one. */
static int turn_of(const struct set *s, int rank)
{
	unsigned before = s->down ? s->victims >> (rank + 1) : s->victims & all_of(rank);

	return __builtin_popcount(before) * s->apart_ms;
}

static int last_turn(const struct set *s)
{
	return (__builtin_popcount(s->victims) - 1) * s->apart_ms;
}

/* The failed ranks of the world are victims; all of them: exactly. */
static int check_failed(struct mp_job *job, const struct set *s, bool exactly)
{
	struct tutti_failed list[MP_MAX];
	unsigned seen = 0;
	int i, n = -1;

	MP_OK(tutti_comm_failed(job->world, list, MP_MAX, &n));
	for (i = 0; i < n; i++)
		seen |= 1u << list[i].world_rank;
	if (exactly ? seen != s->victims : (seen & ~s->victims) != 0)
		fprintf(stderr, "rank %d sees %#x as failed\n", job->rank, seen);
	TT_EXPECT(exactly ? seen == s->victims : !(seen & ~s->victims));
	return 0;
}

/* A death may follow the agreement: then the new communicator fails, and the next one leaves it
 * out. */
static int shrink_all(struct mp_job *job, const struct set *s, struct tutti_comm **comm)
{
	int want = s->n - __builtin_popcount(s->victims), err;
	struct tutti_comm *next;

	for (;;) {
		MP_OK(tutti_comm_shrink(job->world, &next));
		TT_EXPECT(tutti_comm_size(next) >= want);
		if (tutti_comm_size(next) == want)
			break;
		while (!(err = tutti_barrier(next)))
			;
		MP_ERR(err, -TUTTI_EPEER);
		MP_OK(tutti_comm_free(next));
	}
	*comm = next;
	return 0;
}

static void note_time(const struct set *s, double ms)
{
	atomic_int *slowest = &result->slowest_ms[s->signal == SIGSTOP];
	int old = atomic_load(slowest);

	while (old < (int)ms && !atomic_compare_exchange_weak(slowest, &old, (int)ms))
		;
}

static int subset_body(struct mp_job *job)
{
	const struct set *s = job->arg;
	struct tutti_comm *comm;
	int32_t v[WORDS] = {0};
	double begin;
	int r;

	TT_EXPECT(!check_sum(job, job->world, all_of(s->n)));
	mp_meet(job);
	begin = mp_now();
	if (s->victims >> job->rank & 1) {
		mp_sleep_ms(turn_of(s, job->rank));
		kill(getpid(), s->signal);
		mp_sleep_ms(PATIENCE_MS * 2);
	}
	while (!tutti_allreduce(TUTTI_IN_PLACE, v, WORDS, TUTTI_INT32, TUTTI_SUM, job->world))
		;
	TT_EXPECT(!shrink_all(job, s, &comm));
	note_time(s, (mp_now() - begin) * 1e3 - last_turn(s));
	TT_EXPECT(!check_failed(job, s, true));
	TT_EXPECT(!check_sum(job, comm, all_of(s->n) & ~s->victims));
	if (s->signal == SIGSTOP && tutti_comm_rank(comm) == 0)
		for (r = 0; r < s->n; r++)
			if (s->victims >> r & 1)
				kill(atomic_load(&job->shared->pid[r]), SIGKILL);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

static void run_set(const struct set *s)
{
	static const char *const env[2] = {"TUTTI_TIMEOUT=20s",
					   "TUTTI_TIMEOUT=20s TUTTI_HEARTBEAT_LIMIT=1500ms"};

	atomic_fetch_add(&result->jobs, 1);
	if (!MP_RUN(.n = s->n, .env = env[s->signal == SIGSTOP], .fn = subset_body,
		    .arg = (void *)s, .killed = s->victims, .timeout_ms = PATIENCE_MS * 2))
		return;
	fprintf(stderr, "%d ranks, %#x by %s, %d ms apart, %s first\n", s->n, s->victims,
		s->signal == SIGSTOP ? "SIGSTOP" : "SIGKILL", s->apart_ms,
		s->down ? "highest" : "lowest");
	atomic_fetch_add(&result->failed, 1);
}

/* All sets of jobs of n ranks; lane is that of this process. */
static void run_lane(struct set s, int lane)
{
	unsigned all = all_of(s.n);
	int i = 0;

	for (s.victims = 1; s.victims < all; s.victims++)
		if (i++ % LANES == lane)
			run_set(&s);
}

static void each_set(struct set s)
{
	pid_t pid[LANES];
	int lane, status;

	fflush(NULL);
	for (lane = 0; lane < LANES; lane++) {
		pid[lane] = fork();
		if (pid[lane])
			continue;
		run_lane(s, lane);
		fflush(NULL);
		_exit(0);
	}
	for (lane = 0; lane < LANES; lane++)
		if (pid[lane] < 0 || waitpid(pid[lane], &status, 0) < 0 || status)
			atomic_fetch_add(&result->failed, 1);
}

static void begin(void)
{
	if (!result)
		result = mp_shared_mem(sizeof(*result));
	memset(result, 0, sizeof(*result));
}

static void end(void)
{
	TT_CHECK(!atomic_load(&result->failed));
	printf("  %d jobs, %d failed; slowest agreement after the last death: killed %d ms, "
	       "stopped "
	       "%d ms with a limit of %d\n",
	       atomic_load(&result->jobs), atomic_load(&result->failed),
	       atomic_load(&result->slowest_ms[0]), atomic_load(&result->slowest_ms[1]), LIMIT_MS);
	fflush(stdout);
}

static void killed(void)
{
	begin();
	each_set((struct set){.n = 4, .signal = SIGKILL});
	each_set((struct set){.n = 5, .signal = SIGKILL});
	end();
}

static void stopped(void)
{
	begin();
	each_set((struct set){.n = 4, .signal = SIGSTOP});
	each_set((struct set){.n = 5, .signal = SIGSTOP});
	end();
}

/* The soak's. */
static void apart(void)
{
	static const int ms[] = {0, 1, 2, 5, 20, 100, 500};
	int most = tt_times("TT_SUBSETS", 0), n, i, down;

	begin();
	for (n = 2; n <= most; n++)
		for (i = 0; i < 7; i++)
			for (down = 0; down < (i ? 2 : 1); down++) {
				struct set s = {.n = n, .apart_ms = ms[i], .down = down};

				s.signal = SIGKILL;
				each_set(s);
				s.signal = SIGSTOP;
				each_set(s);
			}
	end();
}

/* To look closer at a set that failed. */
static void one(void)
{
	const char *text = getenv("TT_SET");
	struct set s = {0};

	if (!text || sscanf(text, "%d %x %d %d", &s.n, &s.victims, &s.signal, &s.apart_ms) != 4)
		TT_SKIP("no TT_SET");
	begin();
	run_set(&s);
	end();
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"killed", killed},
					       {"stopped", stopped},
					       {"apart", apart},
					       {"one", one},
					       {NULL, NULL}};

	return tt_test_main("subsets", tests, argc, argv);
}
