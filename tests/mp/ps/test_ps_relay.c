/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP with blocks that workers pass on: a server sends less, and nothing else changes, whichever
 * rank dies or stops. Every worker adds 1 to all elements in every clock, so sums tell which
 * clocks were seen.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 6
#define BIG 150001 /* elements: several blocks */
#define KEYS 300
#define WIDTH 6
#define CLOCKS 10
#define LONG 20 /* clocks while a rank is stopped */

struct how {
	int staleness, clocks;
	int dies, stops; /* the worker that does, in clock 3; -1: none */
	bool half;	 /* each worker pulls some of the rows only */
	double most;	 /* tables that the server sends in a clock */
	enum {
		GOES_ON,
		IS_SAVED,
		IS_RESIZED
	} then; /* after clock 5; saved: and those after it, but the last */
};

struct tables {
	struct tutti_ps_table *dense, *rows;
	uint64_t key[KEYS];
	int keys;
	float *one, *v;
};

static int in_bounds(const struct mp_job *job, const float *v, size_t n, int clock)
{
	const struct how *how = job->arg;
	int s = how->staleness, others = clock < s ? 0 : clock - s;
	float least = (float)(clock + (WORKERS - 1) * others),
	      most = (float)(WORKERS * how->clocks);
	size_t i;

	if (how->dies >= 0) /* its pushes end somewhere */
		least = (float)(clock + (WORKERS - 2) * others);
	if (s == 0)
		most = (float)(WORKERS * clock);
	for (i = 0; i < n; i++)
		if (v[i] < least || v[i] > most) {
			fprintf(stderr, "rank %d, clock %d, element %zu: %g, not %g to %g\n",
				job->rank, clock, i, v[i], least, most);
			return 1;
		}
	return 0;
}

static int pull_all(struct mp_job *job, struct tables *t, int clock)
{
	memset(t->v, 0xff, BIG * sizeof(float));
	MP_OK(tutti_ps_pull(t->dense, t->v, 0, BIG, TUTTI_FLOAT32));
	TT_EXPECT(!in_bounds(job, t->v, BIG, clock));
	if (((const struct how *)job->arg)->half && clock)
		return 0; /* rows are pushed by others, each some of them */
	MP_OK(tutti_ps_pull_rows(t->rows, t->key, (size_t)t->keys, t->v, TUTTI_FLOAT32));
	if (!((const struct how *)job->arg)->half)
		TT_EXPECT(!in_bounds(job, t->v, (size_t)t->keys * WIDTH, clock));
	return 0;
}

/* In rank order, so the first relays to the next two, and these to the others. */
static int subscribe(struct mp_job *job, struct tables *t)
{
	int r;

	for (r = 1; r < job->n; r++) {
		if (r == job->rank)
			TT_EXPECT(!pull_all(job, t, 0));
		mp_meet(job);
	}
	return 0;
}

/* At this clock the victim dies, or stops until all other ranks have reached the end. */
static int accident(struct mp_job *job, int clock)
{
	const struct how *how = job->arg;
	int w = job->rank - 1;

	if (clock == 3 && how->dies == w)
		raise(SIGKILL);
	if (clock == 3 && how->stops == w)
		raise(SIGSTOP);
	if (clock == how->clocks && how->stops >= 0 && how->stops != w &&
	    atomic_fetch_add(&job->shared->word[0], 1) == WORKERS - 2)
		kill(atomic_load(&job->shared->pid[how->stops + 1]), SIGCONT);
	return 0;
}

/* The relay trees are rebuilt, and the values are the same. */
static int resize(struct mp_job *job, struct tutti_ps **ps, struct tables *t)
{
	MP_OK(tutti_ps_resize(*ps, job->world, NULL, ps));
	MP_OK(tutti_ps_find(*ps, "d", &t->dense));
	MP_OK(tutti_ps_find(*ps, "r", &t->rows));
	return 0;
}

/*
 * Values as if nothing had been pushed since this clock; at the end values from the server's
 * messages, though no clock moves.
 */
static int arrives(struct mp_job *job, struct tables *t, int clock)
{
	size_t i, n = (size_t)t->keys * WIDTH;
	double end = mp_now() + 10;
	uint64_t before;

	do {
		before = mp_got_bytes(job);
		MP_OK(tutti_ps_pull_rows(t->rows, t->key, (size_t)t->keys, t->v, TUTTI_FLOAT32));
		MP_OK(tutti_ps_pull(t->dense, t->v + n, 0, BIG, TUTTI_FLOAT32));
		for (i = 0; i < n + BIG; i++)
			TT_EXPECT(t->v[i] == (float)(WORKERS * clock));
	} while (mp_got_bytes(job) != before && mp_now() < end);
	TT_EXPECT(mp_got_bytes(job) == before);
	return 0;
}

static int push_all(struct mp_job *job, struct tables *t)
{
	MP_OK(tutti_ps_push(t->dense, t->one, 0, BIG, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push_rows(t->rows, t->key, (size_t)t->keys, t->one, TUTTI_FLOAT32));
	return 0;
}

/* Later messages are newer than all earlier ones and include the pushes made meanwhile. */
static int save_and_restore(struct mp_job *job, struct tutti_ps *ps, struct tables *t, int clock)
{
	char path[80];

	snprintf(path, sizeof(path), "%s/x", job->shared->dir);
	MP_OK(tutti_ps_save(ps, path));
	if (((const struct how *)job->arg)->staleness)
		TT_EXPECT(!push_all(job, t) && !pull_all(job, t, clock));
	MP_OK(tutti_ps_restore(ps, path));
	TT_EXPECT(!arrives(job, t, clock));
	MP_OK(tutti_barrier(job->world)); /* no worker pushes before all have seen that */
	return 0;
}

static int work(struct mp_job *job, struct tutti_ps **own, struct tables *t)
{
	const struct how *how = job->arg;
	struct tutti_ps *ps = *own;
	int c;

	TT_EXPECT(!subscribe(job, t));
	for (c = 1; c <= how->clocks; c++) {
		TT_EXPECT(!push_all(job, t));
		MP_OK(tutti_ps_clock(ps));
		if (c == 5 && how->then == IS_RESIZED)
			TT_EXPECT(!resize(job, own, t));
		if (c >= 5 && c < how->clocks && how->then == IS_SAVED)
			TT_EXPECT(!save_and_restore(job, ps, t, c));
		ps = *own;
		TT_EXPECT(!pull_all(job, t, c));
		TT_EXPECT(!accident(job, c));
	}
	return 0;
}

/* Bytes that this rank has sent, in tables. */
static double sent(struct mp_job *job)
{
	struct tutti_stats stats = {.size = sizeof(stats)};

	tutti_stats_get(job->ctx, &stats);
	return (double)stats.put_bytes / (BIG * sizeof(float));
}

static void fill(struct mp_job *job, struct tables *t)
{
	const struct how *how = job->arg;
	int i;

	for (i = 0; i < BIG; i++)
		t->one[i] = 1;
	for (i = 0; i < KEYS; i++) /* of half: two neighbouring workers have some in common */
		if (!how->half || i / 50 == job->rank - 1 || i / 50 == job->rank % WORKERS ||
		    i < 20)
			t->key[t->keys++] = (uint64_t)(i * 7919 % KEYS) << 20;
}

static int relay_body(struct mp_job *job)
{
	const struct how *how = job->arg;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = how->staleness,
					 .role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER};
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .essp = 1};
	struct tables t = {.keys = 0};
	struct tutti_ps *ps;
	double tables;
	int r;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "d", BIG, TUTTI_FLOAT32, &opt, &t.dense));
	MP_OK(tutti_ps_rows(ps, "r", WIDTH, 2 * KEYS, TUTTI_FLOAT32, &opt, &t.rows));
	for (r = 1; r < job->n && !job->rank; r++)
		mp_meet(job);
	if (job->rank) {
		t.v = malloc((BIG + KEYS * WIDTH) * sizeof(float));
		MP_OK(tutti_alloc(job->ctx, BIG * sizeof(float), (void **)&t.one));
		fill(job, &t);
		TT_EXPECT(!work(job, &ps, &t));
		MP_OK(tutti_free(t.one));
		free(t.v);
	} else if (how->then == IS_RESIZED) {
		TT_EXPECT(!resize(job, &ps, &t));
	} else if (how->then == IS_SAVED) {
		for (r = 5; r < how->clocks; r++)
			MP_OK(tutti_barrier(job->world));
	}
	MP_OK(tutti_ps_close(ps));
	tables = sent(job) / (how->clocks + 1);
	if (!job->rank && how->most > 0 && tables > how->most)
		fprintf(stderr, "the server sent %.2f tables in a clock, not at most %.2f\n",
			tables, how->most);
	TT_EXPECT(job->rank || how->most <= 0 || tables <= how->most);
	return 0;
}

static void run(const char *env, struct how how)
{
	how.clocks = how.clocks ? how.clocks : CLOCKS;
	if (MP_RUN(.n = WORKERS + 1, .env = env, .fn = relay_body, .arg = &how,
		   .killed = how.dies >= 0 ? 2u << how.dies : 0)) {
		fprintf(stderr, "staleness %d, worker %d dies, %d stops, %s\n", how.staleness,
			how.dies, how.stops, env);
		TT_CHECK(false);
	}
}

/* Under BSP all get the same publications: one root gets each once, six would get it six times. */
static void less(void)
{
	run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1 TUTTI_PS_RELAY=1",
	    (struct how){.dies = -1, .stops = -1, .most = 1.6});
	run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1 TUTTI_PS_RELAY=3",
	    (struct how){.dies = -1, .stops = -1, .most = 3.6});
	run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1 TUTTI_PS_RELAY=1",
	    (struct how){.dies = -1, .stops = -1, .half = true});
}

static void faults(void)
{
	run("TUTTI_TRANSPORT=fault:shm TUTTI_PS_VERIFY=1 TUTTI_PS_RELAY=1 "
	    "TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2,finish=1",
	    (struct how){.staleness = 2, .dies = -1, .stops = -1});
	if (!mp_no_ofi())
		run("TUTTI_TRANSPORT=fault:ofi TUTTI_PS_VERIFY=1 TUTTI_PS_RELAY=1 TUTTI_HOST_ID=%h "
		    "TUTTI_FAULT=seed=4,delay=0.1:100,reorder=0.3,again=0.2",
		    (struct how){.dies = -1, .stops = -1});
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run("TUTTI_TRANSPORT=verbs TUTTI_PS_VERIFY=1 TUTTI_PS_RELAY=1",
	    (struct how){.staleness = 2, .dies = -1, .stops = -1});
	run("TUTTI_TRANSPORT=verbs TUTTI_PS_VERIFY=1 TUTTI_PS_RELAY=1",
	    (struct how){.dies = 0, .stops = -1});
}

/* Over the traces of such runs the checker proves the bound and read-my-writes. */
static void traced(const char *transport, const struct how *ways, int n)
{
	char dir[] = "/tmp/tutti-relay-XXXXXX", env[300], command[300];
	const char *build = getenv("TT_BUILD");
	int i;

	TT_CHECK(mkdtemp(dir) != NULL);
	for (i = 0; i < n; i++) {
		snprintf(env, sizeof(env),
			 "TUTTI_PS_TRACE=%s/t%d TUTTI_PS_RELAY=1 TUTTI_PS_RELAY_WAIT=100ms "
			 "%s TUTTI_FAULT=seed=7,delay=0.1:100,reorder=0.3",
			 dir, i, transport);
		run(env, ways[i]);
		snprintf(command, sizeof(command),
			 "%s/tutti_ps_check %s/t%d.* >%s/out || { cat %s/out; false; }",
			 build ? build : ".", dir, i, dir, dir);
		TT_CHECK(system(command) == 0);
	}
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	TT_CHECK(system(command) == 0);
}

static void bounds(void)
{
	static const struct how ways[] = {{.staleness = 0, .dies = -1, .stops = -1},
					  {.staleness = 2, .dies = -1, .stops = -1}};

	traced("TUTTI_TRANSPORT=fault:shm", ways, 2);
}

/* The first relays to two workers, the second to others, the last to none. */
static void deaths(void)
{
	static const struct how ways[] = {{.staleness = 0, .dies = 0, .stops = -1},
					  {.staleness = 2, .dies = 0, .stops = -1},
					  {.staleness = 2, .dies = 1, .stops = -1},
					  {.staleness = 0, .dies = 5, .stops = -1}};

	traced("TUTTI_TRANSPORT=fault:shm", ways, 4);
	if (!mp_no_ofi()) /* each on a host of its own: they subscribe again */
		traced("TUTTI_TRANSPORT=fault:ofi TUTTI_HOST_ID=%r", ways, 2);
}

/* Nor do the workers behind those that it relayed to wait for it: that would be for too long. */
static void forgets(void)
{
	int s;

	for (s = 0; s <= 2; s += 2)
		run("TUTTI_TRANSPORT=shm TUTTI_PS_RELAY=1 TUTTI_PS_RELAY_WAIT=300s",
		    (struct how){.staleness = s, .dies = 0, .stops = -1});
}

/*
 * A stopped relay holds up no worker within the bound: the others get LONG clocks ahead
 * of it.
 */
static void stops(void)
{
	static const struct how ways[] = {
		{.staleness = LONG, .clocks = LONG, .dies = -1, .stops = 0},
		{.staleness = LONG, .clocks = LONG, .dies = -1, .stops = 1}};

	traced("TUTTI_TRANSPORT=fault:shm", ways, 2);
}

/*
 * In the middle of it all is saved and restored, or other ranks serve: relays have to begin anew.
 */
static void anew(void)
{
	static const struct how ways[] = {
		{.dies = -1, .stops = -1, .then = IS_SAVED},
		{.staleness = 2, .dies = -1, .stops = -1, .then = IS_SAVED},
		{.dies = -1, .stops = -1, .most = 2.2, .then = IS_RESIZED},
		{.staleness = 2, .dies = -1, .stops = -1, .then = IS_RESIZED}};

	run("TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1 TUTTI_PS_RELAY=1",
	    (struct how){.dies = -1, .stops = -1, .most = 2.2, .then = IS_SAVED});
	traced("TUTTI_TRANSPORT=fault:shm", ways, 4);
}

#define TABLES 30

/*
 * All workers pull a new table at once, so that the server's answers, its blocks and what others
 * want arrive in any order. Nobody waits for a block that its relay has.
 */
static int orders_body(struct mp_job *job)
{
	const struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .essp = 1};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	char name[16];
	float v[100];
	double start;
	int i;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	for (i = 0; i < TABLES; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		MP_OK(tutti_ps_dense(ps, name, 100, TUTTI_FLOAT32, &opt, &t));
		if (!job->rank)
			continue;
		start = mp_now();
		MP_OK(tutti_ps_pull(t, v, 0, 100, TUTTI_FLOAT32));
		MP_OK(tutti_ps_pull(t, v, 0, 100, TUTTI_FLOAT32));
		TT_EXPECT(mp_now() - start < 10);
		MP_OK(tutti_ps_clock(ps));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void orders(void)
{
	TT_CHECK(!MP_RUN(.n = 5, .fn = orders_body,
			 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_PS_RELAY=1 "
				"TUTTI_PS_RELAY_WAIT=15s "
				"TUTTI_FAULT=seed=3,delay=0.1:10000"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"less", less},	    {"faults", faults},	  {"verbs", verbs}, {"bounds", bounds},
		{"deaths", deaths}, {"forgets", forgets}, {"stops", stops}, {"anew", anew},
		{"orders", orders}, {NULL, NULL}};

	return tt_test_main("ps_relay", tests, argc, argv);
}
