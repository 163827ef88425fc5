/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Push-sum: sums of vectors and weights stay, and z comes to the mean, while 20 % of the directed
 * exchanges are skipped, while a rank makes no calls, and after deaths; refused arguments. Also the
 * synchronous form: the vector with its weight as one more element of a neighbour all-reduce.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/graph/push_sum.h"

#define SHM "TUTTI_TRANSPORT=shm "
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "
#define VERBS "TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=30s"
#define MAX_N 8
#define MAX_COUNT 5000

static double first_value(int rank, size_t i)
{
	return (double)((rank + 1) * 10 + (int)(i % 13));
}

static double mean_of(int n, size_t i)
{
	return 10.0 * (n + 1) / 2 + (double)(i % 13);
}

/*
 * The exponential graph without a fifth of its edges, others in each step, by dice that all ranks
 * throw alike.
 */
static int skipping(int n, uint64_t step, struct tutti_graph **g)
{
	struct tutti_edge edge[MAX_N * MAX_N];
	uint64_t dice = step * 977 + 5;
	size_t m = 0;
	int r, k;

	for (k = 1; k < n; k *= 2)
		for (r = 0; r < n; r++)
			if (tt_random(&dice) % 5)
				edge[m++] = (struct tutti_edge){r, (r + k) % n, 0};
	return tutti_graph_edges(n, edge, m, TUTTI_WEIGHTS_OUT, g);
}

/* ---- the synchronous form ---- */

/* 1,000 rounds; the last element is the weight. */
static int skipped_body(struct mp_job *job)
{
	double x[4], sum[4], before[4];
	struct tutti_graph *g;
	uint64_t t;
	int i;

	for (i = 0; i < 3; i++)
		x[i] = first_value(job->rank, (size_t)i);
	x[3] = 1;
	MP_OK(tutti_allreduce(x, before, 4, TUTTI_FLOAT64, TUTTI_SUM, job->world));
	for (t = 0; t < 1000; t++) {
		MP_OK(skipping(job->n, t, &g));
		MP_OK(tutti_graph_check(g, TUTTI_GRAPH_COLUMNS));
		MP_OK(tutti_neighbor_allreduce(TUTTI_IN_PLACE, x, 4, TUTTI_FLOAT64, g, 0,
					       job->world));
		MP_OK(tutti_graph_free(g));
	}
	MP_OK(tutti_allreduce(x, sum, 4, TUTTI_FLOAT64, TUTTI_SUM, job->world));
	for (i = 0; i < 4; i++)
		TT_EXPECT(fabs(sum[i] / before[i] - 1) < 1e-12);
	TT_EXPECT(fabs(sum[3] - job->n) < 1e-12 * job->n);
	for (i = 0; i < 3; i++)
		TT_EXPECT(fabs(x[i] / x[3] / mean_of(job->n, (size_t)i) - 1) < 1e-12);
	return 0;
}

/* ---- without waiting ---- */

static int begin(struct mp_job *job, size_t count, struct tutti_push_sum **p)
{
	double x[MAX_COUNT];
	size_t i;

	for (i = 0; i < count; i++)
		x[i] = first_value(job->rank, i);
	MP_OK(tutti_push_sum_create(job->world, count, p));
	MP_OK(tutti_push_sum_add(*p, x));
	return 0;
}

/* After a drain: the sums over the ranks, and whether this rank's z is near the mean. */
static int check_sums(struct mp_job *job, struct tutti_push_sum *p, size_t count, bool *near)
{
	double z[MAX_COUNT], sum[2], mine[2], w;
	size_t i;

	MP_OK(tutti_push_sum_get(p, z, &w));
	mine[0] = w;
	mine[1] = w * z[0];
	MP_OK(tutti_allreduce(mine, sum, 2, TUTTI_FLOAT64, TUTTI_SUM, job->world));
	TT_EXPECT(fabs(sum[0] - job->n) < 1e-11 * job->n);
	TT_EXPECT(fabs(sum[1] / (job->n * mean_of(job->n, 0)) - 1) < 1e-11);
	for (*near = true, i = 0; i < count; i++)
		*near &= fabs(z[i] / mean_of(job->n, i) - 1) < 1e-9;
	return 0;
}

/* All ranks are near, by the library. */
static int all_near(struct mp_job *job, bool near, bool *all)
{
	int32_t v = near;

	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_MIN, job->world));
	*all = v;
	return 0;
}

/* arg: elements */
static int free_body(struct mp_job *job)
{
	size_t count = *(size_t *)job->arg;
	struct tutti_push_sum *p;
	struct tutti_graph *g;
	bool near = false;
	uint64_t t = 0;
	int i, round;

	TT_EXPECT(!begin(job, count, &p));
	for (round = 0; round < 200 && !near; round++) {
		for (i = 0; i < 4; i++) {
			MP_OK(skipping(job->n, t++, &g));
			MP_OK(tutti_push_sum_step(p, g, 0));
			MP_OK(tutti_graph_free(g));
		}
		MP_OK(tutti_push_sum_drain(p));
		TT_EXPECT(!check_sums(job, p, count, &near));
		TT_EXPECT(!all_near(job, near, &near));
	}
	TT_EXPECT(near);
	MP_OK(tutti_push_sum_free(p));
	return 0;
}

/* The last rank makes no call while the others make 100 steps: it misses, and they do not wait. */
static int idle_body(struct mp_job *job)
{
	struct tutti_push_sum *p;
	struct tutti_graph *g;
	bool near, idle = job->rank == job->n - 1;
	int t;

	TT_EXPECT(!begin(job, 100, &p));
	MP_OK(tutti_graph_exponential(job->n, &g));
	mp_meet(job);
	for (t = 0; t < 100 && !idle; t++)
		MP_OK(tutti_push_sum_step(p, g, 0));
	if (job->rank == job->n - 2)
		TT_EXPECT(tutti_push_sum_missed(p) >= 90);
	if (job->rank == 1 || job->rank == 2) /* rank 3 has not taken theirs */
		MP_ERR(tutti_push_sum_free(p), -EBUSY);
	mp_meet(job);
	MP_OK(tutti_push_sum_drain(p));
	TT_EXPECT(!check_sums(job, p, 100, &near));
	MP_OK(tutti_push_sum_free(p));
	MP_OK(tutti_graph_free(g));
	return 0;
}

/* Rank 1 dies on the way: the others go on, and come to agree. */
static int death_body(struct mp_job *job)
{
	double z[3], *board = (double *)(void *)job->shared->gather, until, most, least;
	struct tutti_push_sum *p;
	struct tutti_graph *g;
	int t, r;

	TT_EXPECT(!begin(job, 3, &p));
	mp_meet(job); /* no rank is still making its state */
	MP_OK(tutti_graph_exponential(job->n, &g));
	for (t = 0; t < 50; t++)
		MP_OK(tutti_push_sum_step(p, g, 0));
	if (job->rank == 1)
		kill(getpid(), SIGKILL);
	for (until = mp_now() + 30; mp_now() < until; mp_sleep_ms(1)) {
		MP_OK(tutti_push_sum_step(p, g, 0));
		if (!tutti_push_sum_get(p, z, NULL))
			board[job->rank] = z[0];
		for (most = 0, least = 1e9, r = 0; r < job->n; r++) {
			double v = ((volatile double *)board)[r];

			most = r != 1 && v > most ? v : most;
			least = r != 1 && v < least ? v : least;
		}
		if (most - least < 1e-6 && t++ > 80)
			atomic_fetch_or(&job->shared->word[1], 1 << job->rank);
		if (atomic_load(&job->shared->word[1]) == ((1 << job->n) - 1 - 2))
			break; /* all agree */
	}
	TT_EXPECT(mp_now() < until);
	TT_EXPECT(z[0] > 10 && z[0] < 10 * job->n + 13);
	MP_OK(tutti_push_sum_free(p));
	MP_OK(tutti_graph_free(g));
	MP_OK(mp_leave_failed(job));
	return 0;
}

/* Rank 1 tells of a push to each rank, and dies without it: a drain says so. */
static int drain_death_body(struct mp_job *job)
{
	uint64_t told[MAX_N], none[MAX_N];
	double x[3] = {1, 2, 3}, z[3];
	struct tutti_push_sum *p;
	struct tutti_graph *g;
	int r;

	TT_EXPECT(!begin(job, 3, &p));
	MP_OK(tutti_graph_exponential(job->n, &g));
	for (r = 0; r < job->n; r++)
		told[r] = 1;
	mp_meet(job);
	if (job->rank == 1) {
		MP_OK(tutti_alltoall(told, none, 1, TUTTI_UINT64, p->comm));
		mp_sleep_ms(20); /* most counts arrive first */
		kill(getpid(), SIGKILL);
	}
	MP_ERR(tutti_push_sum_drain(p), -TUTTI_EPEER);
	MP_SAID("rank 1");
	MP_OK(tutti_push_sum_step(p, g, 0)); /* goes on */
	MP_OK(tutti_push_sum_add(p, x));
	MP_OK(tutti_push_sum_get(p, z, NULL));
	MP_OK(tutti_push_sum_free(p));
	MP_OK(tutti_graph_free(g));
	MP_OK(mp_leave_failed(job));
	return 0;
}

/* The same while pushes of many elements are under way, and rank 1 dies in the drain. */
static int late_death_body(struct mp_job *job)
{
	struct tutti_push_sum *p;
	struct tutti_graph *g;
	int err;

	MP_OK(tutti_push_sum_create(job->world, 300000, &p));
	MP_OK(tutti_graph_complete(job->n, &g));
	mp_meet(job);
	if (job->rank == 1)
		ualarm(*(unsigned *)job->arg, 0);
	err = tutti_push_sum_step(p, g, 0);
	if (!err)
		err = tutti_push_sum_drain(p);
	while (job->rank == 1)
		pause();
	TT_EXPECT(!err || err == -TUTTI_EPEER);
	MP_OK(tutti_push_sum_free(p));
	MP_OK(tutti_graph_free(g));
	MP_OK(mp_leave_failed(job));
	return 0;
}

/* Where deaths are not tolerated: the step fails, and says why. */
static int intolerant_body(struct mp_job *job)
{
	struct tutti_push_sum *p;
	struct tutti_graph *g;
	double until;
	int err = 0;

	TT_EXPECT(!begin(job, 3, &p));
	MP_OK(tutti_graph_exponential(job->n, &g));
	mp_meet(job);
	if (job->rank == 1)
		kill(getpid(), SIGKILL);
	for (until = mp_now() + 30; !err && mp_now() < until; mp_sleep_ms(1))
		err = tutti_push_sum_step(p, g, 0);
	MP_ERR(err, -TUTTI_EPEER);
	MP_SAID("rank 1");
	MP_ERR(tutti_push_sum_drain(p), -TUTTI_EPEER);
	MP_OK(tutti_push_sum_free(p));
	MP_OK(tutti_graph_free(g));
	MP_OK(mp_leave_failed(job));
	return 0;
}

static int refused_body(struct mp_job *job)
{
	struct tutti_push_sum *p = NULL;
	struct tutti_graph *g, *small, *bad;
	double x[2] = {1, 2}, w = 7;

	MP_ERR(tutti_push_sum_create(NULL, 1, &p), -EINVAL);
	MP_ERR(tutti_push_sum_create(job->world, 1, NULL), -EINVAL);
	MP_ERR(tutti_push_sum_create(job->world, SIZE_MAX / 2, &p), -EINVAL);
	MP_ERR(tutti_push_sum_create(job->world, 10 + (size_t)job->rank, &p), -TUTTI_EMISMATCH);
	MP_SAID("the ranks pass counts from 10 to ");
	MP_OK(tutti_push_sum_create(job->world, 2, &p));
	MP_OK(tutti_graph_ring(job->n, &g));
	MP_OK(tutti_graph_ring(job->n + 1, &small));
	MP_ERR(tutti_push_sum_add(p, NULL), -EINVAL);
	MP_ERR(tutti_push_sum_add(NULL, x), -EINVAL);
	MP_ERR(tutti_push_sum_step(p, NULL, 0), -EINVAL);
	MP_ERR(tutti_push_sum_step(p, small, 0), -EINVAL);
	MP_SAID("make a graph of its size");
	MP_OK(tutti_graph_edges(job->n, &(struct tutti_edge){0, 1, 2.5}, 1, TUTTI_WEIGHTS_GIVEN,
				&bad));
	if (job->rank == 0) {
		MP_ERR(tutti_push_sum_step(p, bad, 0), -EINVAL);
		MP_SAID("rank 0 sends and keeps sum to 2.5, not 1");
	}
	MP_OK(tutti_graph_free(bad));
	MP_ERR(tutti_push_sum_get(p, NULL, &w), -EINVAL);
	MP_ERR(tutti_push_sum_drain(NULL), -EINVAL);
	TT_EXPECT(tutti_push_sum_missed(NULL) == 0 && w == 7);
	MP_OK(tutti_push_sum_add(p, x));
	MP_OK(tutti_push_sum_get(p, x, &w));
	TT_EXPECT(x[0] == 1 && x[1] == 2 && w == 1);
	MP_OK(tutti_push_sum_drain(p));
	MP_OK(tutti_push_sum_step(p, g, 0)); /* a receive is posted */
	MP_OK(tutti_push_sum_drain(p));
	MP_OK(tutti_group_start());
	MP_ERR(tutti_push_sum_free(p), -EINVAL);
	MP_OK(tutti_group_end());
	MP_OK(tutti_push_sum_free(p));
	MP_OK(tutti_push_sum_free(NULL));
	MP_OK(tutti_graph_free(g));
	MP_OK(tutti_graph_free(small));
	return 0;
}

/* Rank 1 alone cannot take part: all ranks learn that it is rank 1, and the communicator stays. */
static int refused_on_one_body(struct mp_job *job)
{
	struct tutti_push_sum *p = NULL;
	bool bad = job->rank == 1;

	MP_ERR(tutti_push_sum_create(job->world, 1, bad ? NULL : &p), -EINVAL);
	MP_SAID("tutti_push_sum_create");
	MP_SAID("state is NULL");
	TT_EXPECT(bad || mp_said("failed on rank 1 "));
	MP_ERR(tutti_push_sum_create(job->world, bad ? SIZE_MAX / 2 : 1, &p), -EINVAL);
	MP_SAID("does not fit in memory");
	TT_EXPECT(!p);
	MP_OK(tutti_push_sum_create(job->world, 1, &p));
	MP_OK(tutti_push_sum_free(p));
	return 0;
}

/* Rank 0 gives all it has to rank 1, and a drain brings nothing back. */
static int empty_body(struct mp_job *job)
{
	const struct tutti_edge to1[] = {{0, 1, 1}, {1, 1, 1}};
	struct tutti_push_sum *p;
	struct tutti_graph *g;
	double x = 3, w;

	MP_OK(tutti_push_sum_create(job->world, 1, &p));
	MP_OK(tutti_push_sum_add(p, &x));
	MP_OK(tutti_graph_edges(2, to1, 2, TUTTI_WEIGHTS_GIVEN, &g));
	MP_OK(tutti_push_sum_step(p, g, 0));
	MP_OK(tutti_push_sum_drain(p));
	if (job->rank) {
		MP_OK(tutti_push_sum_get(p, &x, &w));
		TT_EXPECT(x == 3 && w == 2);
	} else {
		MP_ERR(tutti_push_sum_get(p, &x, &w), -EAGAIN);
		MP_SAID("nothing has come yet; make another step");
	}
	MP_OK(tutti_push_sum_free(p));
	MP_OK(tutti_graph_free(g));
	return 0;
}

/* ---- the tests ---- */

static void all(const char *env, int most)
{
	static size_t counts[] = {1, MAX_COUNT};
	int n;

	for (n = 2; n <= most; n += 3)
		TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = free_body, .arg = &counts[n % 2]));
	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = idle_body));
}

static void shm(void)
{
	all(SHM, 8);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	all(OFI, 5);
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	all(VERBS, 2);
}

static void skipped(void)
{
	TT_CHECK(!MP_RUN(.n = 8, .env = SHM, .fn = skipped_body));
	TT_CHECK(!MP_RUN(.n = 5, .env = SHM, .fn = skipped_body));
}

static void deaths(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM "TUTTI_TOLERANT=1", .fn = death_body,
			 .killed = 1u << 1));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = OFI "TUTTI_TOLERANT=1", .fn = death_body,
				 .killed = 1u << 1));
}

static void deaths_in_drain(void)
{
	static unsigned after[] = {300, 1500, 5000}; /* microseconds */
	int i;

	TT_CHECK(!MP_RUN(.n = 4, .env = SHM "TUTTI_TOLERANT=1", .fn = drain_death_body,
			 .killed = 1u << 1));
	for (i = 0; i < 3; i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_TOLERANT=1", .fn = late_death_body,
				 .arg = &after[i], .killed = 1u << 1));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = intolerant_body, .killed = 1u << 1));
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refused_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_TIMEOUT=5s", .fn = refused_on_one_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = empty_body));
}

static const struct tt_test tests[] = {{"shm", shm},	     {"ofi", ofi},
				       {"verbs", verbs},     {"skipped", skipped},
				       {"deaths", deaths},   {"deaths_in_drain", deaths_in_drain},
				       {"refused", refused}, {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("push_sum", tests, argc, argv);
}
