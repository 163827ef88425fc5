/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameter server: dense tables and rows, set, push and pull, under BSP, SSP and without a
 * bound.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define BIG 300001 /* elements: several blocks on each server */

/* Ranks below `servers` serve; all others, or with servers < 0 all, work. */
static int is_worker(const struct mp_job *job, int servers)
{
	return servers < 0 || job->rank >= servers;
}

/* Parameters of the test below. */
struct how {
	int servers, staleness;
};

/* Small integers in floats: sums are exact in any order. */
static float part_of(int rank, int round, size_t i)
{
	return (float)((rank + 1) * (int)(i % 7) + round);
}

/* Every worker adds to all elements in every round; pulls must contain the required updates. */
static int sums(struct mp_job *job, const struct how *how, struct tutti_ps *ps,
		struct tutti_ps_table *t, float *update, float *values)
{
	int first = how->servers < 0 ? 0 : how->servers, round, r;
	float least, most;
	size_t i;

	for (round = 0; round < 6; round++) {
		for (i = 0; i < BIG; i++)
			update[i] = part_of(job->rank, round, i);
		MP_OK(tutti_ps_push(t, update, 0, BIG, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, values, 0, BIG, TUTTI_FLOAT32));
		for (i = 0; i < BIG; i++) {
			least = 0;
			most = 0;
			for (r = first; r < job->n; r++) {
				int k, s = how->staleness < 0 ? 99 : how->staleness;

				for (k = 0; k < 6; k++) {
					most += part_of(r, k, i);
					if (k <= round - s || (r == job->rank && k <= round))
						least += part_of(r, k, i);
				}
			}
			if (how->staleness == 0)
				most = least;
			if (values[i] < least || values[i] > most) {
				fprintf(stderr,
					"rank %d, round %d, element %zu: %g, not %g to %g\n",
					job->rank, round, i, values[i], least, most);
				return 1;
			}
		}
	}
	return 0;
}

static int dense_body(struct mp_job *job)
{
	struct how *how = job->arg;
	struct tutti_ps_table *t, *found;
	float *update, *values;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, how->servers, how->staleness, &ps));
	MP_OK(tutti_ps_dense(ps, "w", BIG, TUTTI_FLOAT32,
			     &(struct tutti_ps_options){.size = sizeof(struct tutti_ps_options),
							.init = TUTTI_PS_ZERO},
			     &t));
	MP_OK(tutti_ps_find(ps, "w", &found));
	TT_EXPECT(found == t);
	if (is_worker(job, how->servers)) {
		MP_OK(tutti_alloc(job->ctx, BIG * sizeof(float), (void **)&update));
		values = malloc(BIG * sizeof(float));
		TT_EXPECT(!sums(job, how, ps, t, update, values));
		MP_OK(tutti_free(update));
		free(values);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/* One sets, all read, in ranges that cross blocks and servers. */
static int set_body(struct mp_job *job)
{
	struct how *how = job->arg;
	double *values = malloc(BIG * sizeof(*values));
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	size_t i, from, n;

	MP_OK(mp_ps_open(job, how->servers, how->staleness, &ps));
	MP_OK(tutti_ps_dense(ps, "w", BIG, TUTTI_FLOAT64, NULL, &t));
	if (is_worker(job, how->servers))
		MP_ERR(tutti_ps_pull(t, values, 0, 10, TUTTI_FLOAT64), -ENODATA);
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < BIG; i++)
		values[i] = (double)i;
	if (job->rank == job->n - 1)
		MP_OK(tutti_ps_set(t, values, BIG, TUTTI_FLOAT64));
	MP_OK(tutti_barrier(job->world));
	for (from = 0; from < BIG && is_worker(job, how->servers); from += n) {
		n = from % 9973 + 1000;
		if (n > BIG - from)
			n = BIG - from;
		memset(values, 0xee, n * sizeof(*values));
		MP_OK(tutti_ps_pull(t, values, from, n, TUTTI_FLOAT64));
		for (i = 0; i < n; i++)
			TT_EXPECT(values[i] == (double)(from + i));
	}
	MP_OK(tutti_ps_close(ps));
	free(values);
	return 0;
}

#define WIDTH 10
#define KEYS 3000

static uint64_t key_of(int i)
{
	return (uint64_t)i * 0x123456789abcdefull;
}

/* The first access creates a row with its initial values; the pushes of all workers add up. */
static int rows_body(struct mp_job *job)
{
	struct how *how = job->arg;
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_CONSTANT, .init_a = 5};
	int workers = how->servers < 0 ? job->n : job->n - how->servers, i, round;
	int64_t *v = malloc(KEYS * WIDTH * sizeof(*v));
	uint64_t *key = malloc(KEYS * sizeof(*key));
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, how->servers, how->staleness, &ps));
	MP_OK(tutti_ps_rows(ps, "rows", WIDTH, KEYS + 100, TUTTI_INT64, &opt, &t));
	for (i = 0; i < KEYS; i++)
		key[i] = key_of((i * 7 + job->rank * 11) % KEYS);
	for (round = 0; round < 4 && is_worker(job, how->servers); round++) {
		for (i = 0; i < KEYS * WIDTH; i++)
			v[i] = i % WIDTH;
		MP_OK(tutti_ps_push_rows(t, key, KEYS, v, TUTTI_INT64));
		MP_OK(tutti_ps_clock(ps));
		memset(v, 0xee, KEYS * WIDTH * sizeof(*v));
		MP_OK(tutti_ps_pull_rows(t, key + round, KEYS - round, v, TUTTI_INT64));
		for (i = 0; i < (KEYS - round) * WIDTH; i++) {
			int64_t each = i % WIDTH, most = 5 + 4 * workers * each;
			int64_t least = 5 + (round + 1) * each * (how->staleness ? 1 : workers);

			if (!how->staleness)
				most = least;
			if (v[i] < least || v[i] > most)
				fprintf(stderr,
					"rank %d, round %d, element %d: %lld, not %lld to %lld\n",
					job->rank, round, i, (long long)v[i], (long long)least,
					(long long)most);
			TT_EXPECT(v[i] >= least && v[i] <= most);
		}
	}
	MP_OK(tutti_ps_close(ps));
	free(v);
	free(key);
	return 0;
}

/* ---- a table beyond 4 GiB ---- */

#define HUGE_COUNT (((size_t)1 << 32) + 12345)

/* A byte for each block, other ones 4 GiB further on. */
static uint8_t huge_value(uint64_t element)
{
	return (uint8_t)((element >> 18) * 37 + (element >> 32) * 101);
}

static void fill_huge(void *value, uint64_t first, size_t count, enum tutti_datatype datatype,
		      void *arg)
{
	(void)datatype;
	(void)arg;
	memset(value, huge_value(first), count);
}

static int huge_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_FILL, .fill = fill_huge};
	size_t wrap = (size_t)1 << 32, i;
	/* two of them are the same in 32 bits */
	size_t from[] = {0, HUGE_COUNT / 2 - 3, wrap - 7, HUGE_COUNT / 3, wrap, HUGE_COUNT - 5};
	uint8_t v[5], one[5] = {1, 1, 1, 1, 1};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	uint64_t bytes;
	int k, round;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC,
			 &ps)); /* one server: offsets in its part have more than 32 bits */
	MP_OK(tutti_ps_dense(ps, "huge", HUGE_COUNT, TUTTI_UINT8, &opt, &t));
	MP_OK(tutti_ps_server_bytes(ps, 0, &bytes));
	TT_EXPECT(bytes == HUGE_COUNT);
	for (round = 0; round < 2 && job->rank; round++)
		for (i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
			MP_OK(tutti_ps_pull(t, v, from[i], 5, TUTTI_UINT8));
			for (k = 0; k < 5; k++)
				TT_EXPECT(v[k] ==
					  (uint8_t)(huge_value(from[i] + (size_t)k) + round));
			MP_OK(tutti_ps_push(t, one, from[i], 5, TUTTI_UINT8));
		}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void huge(void)
{
	if (!getenv("TUTTI_TEST_HUGE"))
		TT_SKIP("it needs 12 GiB of memory: TUTTI_TEST_HUGE=1 runs it");
	TT_CHECK(!MP_RUN(.n = 2, .fn = huge_body, .timeout_ms = 150000,
			 .env = "TUTTI_TRANSPORT=shm "
				"TUTTI_TIMEOUT=100s TUTTI_HEARTBEAT_LIMIT=100s "
				"TUTTI_POOL_LIMIT=9G"));
}

static void run(const char *env, size_t step)
{
	static const struct how ways[] = {{1, 0},
					  {2, 0},
					  {-1, 0},
					  {1, 2},
					  {2, 1},
					  {-1, 3},
					  {1, TUTTI_PS_ASYNC},
					  {-1, TUTTI_PS_ASYNC}};
	static mp_fn *const bodies[] = {dense_body, set_body, rows_body};
	size_t i, b;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i += step)
		for (b = 0; b < sizeof(bodies) / sizeof(bodies[0]); b++) {
			int failed = MP_RUN(.n = 4, .env = env, .fn = bodies[b],
					    .arg = (void *)&ways[i]);

			if (failed)
				fprintf(stderr, "body %zu, %d servers, staleness %d, %s\n", b,
					ways[i].servers, ways[i].staleness, env);
			TT_CHECK(!failed);
		}
}

static void shm(void)
{
	run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1", 1);
}

static void shm_fault(void)
{
	run("TUTTI_TRANSPORT=fault:shm TUTTI_PS_VERIFY=1 "
	    "TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2,finish=1",
	    1);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=ofi TUTTI_PS_VERIFY=1", 2);
}

static void ofi_fault(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=fault:ofi TUTTI_PS_VERIFY=1 "
	    "TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2",
	    3);
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run("TUTTI_TRANSPORT=verbs TUTTI_PS_VERIFY=1", 4);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},	  {"shm_fault", shm_fault}, {"ofi", ofi}, {"ofi_fault", ofi_fault},
		{"verbs", verbs}, {"huge", huge},	    {NULL, NULL}};

	return tt_test_main("ps", tests, argc, argv);
}
