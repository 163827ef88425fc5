/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP: servers send blocks that a worker has pulled before, so that a pull reads nothing at the
 * servers. Values, bounds and the worker's own pushes do not change; the trace checker proves
 * this.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/hash.h"

#define BIG 200001 /* elements: several blocks on each server */
#define KEYS 700
#define WIDTH 6
#define CLOCKS 12

struct how {
	int servers; /* -1: every rank is both */
	int staleness;
	bool slow; /* one worker is */
};

/*
 * Every worker adds 1 to all, clock after clock: between least and most, and whole within a block.
 */
static int in_bounds(struct mp_job *job, const struct how *how, const float *v, size_t n, int clock)
{
	int workers = how->servers < 0 ? job->n : job->n - how->servers, s = how->staleness;
	int others = s < 0 || clock < s ? 0 : clock - s; /* clocks of each that must be there */
	float least = (float)(clock + (workers - 1) * others), most = (float)(workers * CLOCKS);
	size_t i;

	if (s == 0)
		most = least = (float)(workers * clock);
	for (i = 0; i < n; i++)
		if (v[i] < least || v[i] > most) {
			fprintf(stderr, "rank %d, clock %d, element %zu: %g, not %g to %g\n",
				job->rank, clock, i, v[i], least, most);
			return 1;
		}
	return 0;
}

struct tables {
	struct tutti_ps_table *dense, *rows;
	uint64_t key[KEYS];
	float *one, *v;
};

static int pull_all(struct mp_job *job, const struct how *how, struct tables *t, int clock)
{
	memset(t->v, 0xff, BIG * sizeof(float));
	MP_OK(tutti_ps_pull(t->dense, t->v, 0, BIG, TUTTI_FLOAT32));
	TT_EXPECT(!in_bounds(job, how, t->v, BIG, clock));
	MP_OK(tutti_ps_pull(t->dense, t->v, BIG / 3, 1000, TUTTI_FLOAT32));
	TT_EXPECT(!in_bounds(job, how, t->v, 1000, clock));
	MP_OK(tutti_ps_pull_rows(t->rows, t->key, KEYS, t->v, TUTTI_FLOAT32));
	TT_EXPECT(!in_bounds(job, how, t->v, KEYS * WIDTH, clock));
	return 0;
}

/*
 * From which clock on nothing is read at the servers: when a clock is needed behind which the
 * first subscription was; without a bound when that has had ample time.
 */
static int settled(const struct how *how)
{
	return how->staleness < 0 ? 6 : how->staleness + 1;
}

static int work(struct mp_job *job, const struct how *how, struct tutti_ps *ps, struct tables *t)
{
	uint64_t before;
	int c;

	TT_EXPECT(!pull_all(job, how, t, 0));
	for (c = 1; c <= CLOCKS; c++) {
		MP_OK(tutti_ps_push(t->dense, t->one, 0, BIG, TUTTI_FLOAT32));
		MP_OK(tutti_ps_push_rows(t->rows, t->key, KEYS, t->one, TUTTI_FLOAT32));
		if (how->slow && job->rank == job->n - 1)
			mp_sleep_ms(3);
		MP_OK(tutti_ps_clock(ps));
		before = mp_got_bytes(job);
		TT_EXPECT(!pull_all(job, how, t, c));
		if (c < settled(how))
			continue;
		if (mp_got_bytes(job) != before)
			fprintf(stderr, "rank %d, clock %d: %llu bytes were read\n", job->rank, c,
				(unsigned long long)(mp_got_bytes(job) - before));
		TT_EXPECT(mp_got_bytes(job) == before);
	}
	return 0;
}

static int essp_body(struct mp_job *job)
{
	const struct how *how = job->arg;
	struct tutti_ps_config config = {.size = sizeof(config), .staleness = how->staleness};
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .essp = 1};
	struct tutti_ps *ps;
	struct tables t;
	int i;

	if (how->servers >= 0)
		config.role = job->rank < how->servers ? TUTTI_PS_SERVER : TUTTI_PS_WORKER;
	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "d", BIG, TUTTI_FLOAT32, &opt, &t.dense));
	MP_OK(tutti_ps_rows(ps, "r", WIDTH, 2 * KEYS, TUTTI_FLOAT32, &opt, &t.rows));
	if (how->servers < 0 || job->rank >= how->servers) {
		t.v = malloc(BIG * sizeof(float));
		MP_OK(tutti_alloc(job->ctx, BIG * sizeof(float), (void **)&t.one));
		for (i = 0; i < BIG; i++)
			t.one[i] = 1;
		for (i = 0; i < KEYS; i++)
			t.key[i] = (uint64_t)(i * 7919 % KEYS) << 20;
		TT_EXPECT(!work(job, how, ps, &t));
		MP_OK(tutti_free(t.one));
		free(t.v);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/* A table that has no values yet, whose first are seen by all; workers that leave early. */
static int unset_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = 1,
					 .role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER};
	struct tutti_ps_options opt = {.size = sizeof(opt), .essp = 1, .rule = TUTTI_PS_ASSIGN};
	int32_t v[100], i, c;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "u", 100, TUTTI_INT32, &opt, &t));
	if (job->rank)
		MP_ERR(tutti_ps_pull(t, v, 0, 100, TUTTI_INT32), -ENODATA);
	mp_meet(job);
	for (i = 0; i < 100; i++)
		v[i] = 7 * i;
	if (job->rank == 1)
		MP_OK(tutti_ps_set(t, v, 100, TUTTI_INT32));
	mp_meet(job);
	for (c = 0; c < 10 - job->rank * 2 && job->rank; c++) {
		memset(v, 0xff, sizeof(v));
		MP_OK(tutti_ps_pull(t, v, 0, 100, TUTTI_INT32));
		TT_EXPECT(v[99] == 7 * 99);
		MP_OK(tutti_ps_push(t, v, 10, 20, TUTTI_INT32));
		MP_OK(tutti_ps_clock(ps));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/*
 * Rank 0 serves, rank 1 pushes, the other ranks only pull until they see the last update, which is
 * behind the last clock. clocks: the readers' clocks move first, so the server waits for rank 1's;
 * otherwise they stand still.
 */
static int last_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .essp = 1};
	double end = mp_now() + 20;
	struct tutti_ps_table *t;
	int32_t v = -1, one = 1;
	struct tutti_ps *ps;
	int c;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_dense(ps, "last", 1, TUTTI_INT32, &opt, &t));
	if (job->rank)
		MP_OK(tutti_ps_pull(t, &v, 0, 1, TUTTI_INT32));
	for (c = 0; job->rank && *(const bool *)job->arg && c < CLOCKS; c++)
		MP_OK(tutti_ps_clock(ps));
	mp_meet(job);
	for (c = 0; job->rank == 1 && c < CLOCKS; c++) {
		MP_OK(tutti_ps_push(t, &one, 0, 1, TUTTI_INT32));
		if (c < CLOCKS - 1)
			MP_OK(tutti_ps_clock(ps));
	}
	while (job->rank > 1 && v != CLOCKS && mp_now() < end)
		MP_OK(tutti_ps_pull(t, &v, 0, 1, TUTTI_INT32));
	if (job->rank > 1 && v != CLOCKS)
		fprintf(stderr, "rank %d sees %d updates of %d\n", job->rank, v, CLOCKS);
	TT_EXPECT(job->rank < 2 || v == CLOCKS);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void last(void)
{
	bool clocks[] = {true, false};
	int i;

	for (i = 0; i < 2; i++) {
		TT_CHECK(!MP_RUN(.n = 4, .fn = last_body, .arg = &clocks[i],
				 .env = "TUTTI_TRANSPORT=shm"));
		TT_CHECK(!MP_RUN(.n = 4, .fn = last_body, .arg = &clocks[i],
				 .env = "TUTTI_TRANSPORT=shm TUTTI_PS_RELAY=1"));
	}
}

static void run(const char *env, size_t from, size_t step)
{
	static const struct how ways[] = {
		{1, 0, false},	{2, 2, true}, {-1, 0, true}, {1, TUTTI_PS_ASYNC, false},
		{-1, 3, false}, {2, 0, true}, {1, 10, true}};
	size_t i;

	for (i = from; i < sizeof(ways) / sizeof(ways[0]); i += step) {
		int failed = MP_RUN(.n = 4, .env = env, .fn = essp_body, .arg = (void *)&ways[i]);

		if (failed)
			fprintf(stderr, "%d servers, staleness %d, %s\n", ways[i].servers,
				ways[i].staleness, env);
		TT_CHECK(!failed);
	}
	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = unset_body));
}

static void shm(void)
{
	run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1", 0, 1);
}

static void shm_fault(void)
{
	run("TUTTI_TRANSPORT=fault:shm TUTTI_PS_VERIFY=1 "
	    "TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2,finish=1",
	    0, 1);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=ofi TUTTI_PS_VERIFY=1", 0, 3);
	run("TUTTI_TRANSPORT=fault:ofi TUTTI_PS_VERIFY=1 "
	    "TUTTI_FAULT=seed=4,delay=0.1:100,reorder=0.3,again=0.2",
	    1, 3);
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run("TUTTI_TRANSPORT=verbs TUTTI_PS_VERIFY=1", 1, 4);
}

/* Over the traces of such runs the checker proves the bound and read-my-writes. */
static void traced(void)
{
	static const struct how ways[] = {{2, 0, true}, {2, 2, true}};
	char dir[] = "/tmp/tutti-essp-XXXXXX", env[300], command[300];
	const char *build = getenv("TT_BUILD");
	int i;

	TT_CHECK(mkdtemp(dir) != NULL);
	for (i = 0; i < 2; i++) {
		snprintf(env, sizeof(env),
			 "TUTTI_PS_TRACE=%s/t%d TUTTI_TRANSPORT=fault:shm "
			 "TUTTI_FAULT=seed=7,delay=0.1:100,reorder=0.3",
			 dir, i);
		TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = essp_body, .arg = (void *)&ways[i]));
		snprintf(command, sizeof(command),
			 "%s/tutti_ps_check %s/t%d.* >%s/out || { cat %s/out; false; }",
			 build ? build : ".", dir, i, dir, dir);
		TT_CHECK(system(command) == 0);
	}
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	TT_CHECK(system(command) == 0);
}

#define NEW_ROWS 150
#define NEW_MOST 20 /* rows of a push or a pull */

/* Rows are made all the time; none of them is looked for in a batch that was sent before. */
static int make_rows(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t, float init,
		     uint64_t *seed)
{
	float zero[2 * NEW_MOST] = {0}, v[2 * NEW_ROWS];
	uint64_t key[NEW_ROWS];
	size_t n = 0, i;
	int clock, k;

	for (clock = 0; clock < 3; clock++) {
		for (k = (int)(tt_random(seed) % 4); k >= 0; k--) { /* the last one is a pull */
			n = 1 + tt_random(seed) % NEW_MOST;
			for (i = 0; i < n; i++)
				key[i] = tt_random(seed) % NEW_ROWS;
			MP_OK(k ? tutti_ps_push_rows(t, key, n, zero, TUTTI_FLOAT32)
				: tutti_ps_pull_rows(t, key, n, v, TUTTI_FLOAT32));
		}
		for (i = 0; i < 2 * n; i++)
			TT_EXPECT(v[i] == init);
		MP_OK(tutti_ps_clock(ps));
		for (i = 0; i < NEW_ROWS; i++)
			key[i] = i;
		if (tt_random(seed) % 2)
			MP_OK(tutti_ps_pull_rows(t, key, NEW_ROWS, v, TUTTI_FLOAT32));
		else
			n = 0;
		for (i = 0; i < 2 * NEW_ROWS && n; i++)
			TT_EXPECT(v[i] == init);
	}
	return 0;
}

static int new_rows_body(struct mp_job *job)
{
	struct tutti_ps_config c = {.size = sizeof(c),
				    .role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER,
				    .staleness = *(const int *)job->arg};
	uint64_t seed = (uint64_t)job->rank + 1;
	int i, err = 0;

	for (i = 0; i < 100 && !err; i++) {
		struct tutti_ps_options o = {
			.size = sizeof(o), .init = TUTTI_PS_CONSTANT, .init_a = 3 + i, .essp = 1};
		struct tutti_ps_table *t;
		struct tutti_ps *ps;

		MP_OK(tutti_ps_open(job->world, &c, &ps));
		MP_OK(tutti_ps_rows(ps, "t", 2, NEW_ROWS, TUTTI_FLOAT32, &o, &t));
		if (job->rank)
			err = make_rows(job, ps, t, 3 + (float)i, &seed);
		MP_OK(tutti_ps_close(ps));
	}
	return err;
}

static void new_rows(void)
{
	static const int staleness[] = {0, 1};
	int i;

	for (i = 0; i < 2; i++)
		TT_CHECK(!MP_RUN(.n = 5, .env = "TUTTI_PS_RELAY=2", .fn = new_rows_body,
				 .arg = (void *)&staleness[i]));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"shm", shm},	       {"shm_fault", shm_fault},
					       {"ofi", ofi},	       {"verbs", verbs},
					       {"traced", traced},     {"last", last},
					       {"new_rows", new_rows}, {NULL, NULL}};

	setenv("TUTTI_PS_RELAY", "0", 1); /* test_ps_relay has the rest */
	return tt_test_main("ps_essp", tests, argc, argv);
}
