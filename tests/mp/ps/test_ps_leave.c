/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that leave in tutti_ps_resize with updates that n_push holds back: these are pushed
 * first, also under BSP, where no worker ends the clock in which they come. Others leave with none,
 * or have died before.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define COUNT 300000
#define WIDTH 3

struct leave {
	int staleness, copies;
};

struct tables {
	struct tutti_ps_table *dense, *rows, *mean;
};

static bool leaves(int rank)
{
	return rank == 1 || rank == 2;
}

static int make(struct tutti_ps *ps, bool bsp, struct tables *t)
{
	struct tutti_ps_options o = {.size = sizeof(o), .init = TUTTI_PS_ZERO, .n_push = 2};
	int err = tutti_ps_dense(ps, "dense", COUNT, TUTTI_INT64, &o, &t->dense);

	o.init = TUTTI_PS_UNSET; /* a row is unknown until it is pushed */
	if (!err)
		err = tutti_ps_rows(ps, "rows", WIDTH, 100, TUTTI_INT64, &o, &t->rows);
	o.init = TUTTI_PS_ZERO;
	if (bsp)
		o.combine = TUTTI_PS_COMBINE_MEAN;
	return err ? err : tutti_ps_dense(ps, "mean", 1, TUTTI_FLOAT64, &o, &t->mean);
}

static int find(struct tutti_ps *ps, struct tables *t)
{
	int err = tutti_ps_find(ps, "dense", &t->dense);

	err = err ? err : tutti_ps_find(ps, "rows", &t->rows);
	return err ? err : tutti_ps_find(ps, "mean", &t->mean);
}

/* Each rank has a row of its own, which no one has pushed before. */
static int push(struct mp_job *job, const struct tables *t, int64_t *x)
{
	uint64_t key = 1000 + (uint64_t)job->rank;
	double mean = job->rank;
	int i;

	for (i = 0; i < COUNT; i++)
		x[i] = i + job->rank;
	MP_OK(tutti_ps_push(t->dense, x, 0, COUNT, TUTTI_INT64));
	MP_OK(tutti_ps_push_rows(t->rows, &key, 1, x, TUTTI_INT64));
	MP_OK(tutti_ps_push(t->mean, &mean, 0, 1, TUTTI_FLOAT64));
	return 0;
}

/* The tables contain what these ranks have pushed; n of them: the sum of their numbers is sum. */
static int check(struct mp_job *job, const struct tables *t, int64_t *x, int n, int sum, bool all)
{
	int64_t row[WIDTH];
	uint64_t key;
	int i;

	MP_OK(tutti_ps_pull(t->dense, x, 0, COUNT, TUTTI_INT64));
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(x[i] == (int64_t)n * i + sum);
	for (key = 1000; key < 1000 + (uint64_t)job->n; key++) {
		if (!all && !leaves((int)key - 1000))
			continue;
		MP_OK(tutti_ps_pull_rows(t->rows, &key, 1, row, TUTTI_INT64));
		for (i = 0; i < WIDTH; i++)
			TT_EXPECT(row[i] == i + (int64_t)key - 1000);
	}
	return 0;
}

static int leave_body(struct mp_job *job)
{
	const struct leave *leave = job->arg;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = TUTTI_PS_BOTH,
					 .staleness = leave->staleness,
					 .copies = leave->copies};
	int64_t *x = malloc(COUNT * sizeof(*x));
	bool bsp = !leave->staleness;
	struct tutti_ps *ps, *next;
	struct tables t;
	double mean;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(make(ps, bsp, &t));
	TT_EXPECT(!push(job, &t, x));
	MP_OK(tutti_ps_clock(ps));
	if (leaves(job->rank))
		config.role = TUTTI_PS_LEAVE;
	MP_OK(tutti_ps_resize(ps, job->world, &config, &next));
	if (next) {
		MP_OK(find(next, &t));
		TT_EXPECT(!check(job, &t, x, 2, 1 + 2, false));
		MP_OK(tutti_ps_pull(t.mean, &mean, 0, 1, TUTTI_FLOAT64));
		TT_EXPECT(mean == (bsp ? (1. + 2) / 4 : 1 + 2));
	}
	mp_meet(job); /* after a clock more is in the tables */
	if (next) {
		MP_OK(tutti_ps_clock(next));
		MP_OK(tutti_ps_clock(next));
		if (bsp)
			TT_EXPECT(!check(job, &t, x, 4, 0 + 1 + 2 + 3, true));
		MP_OK(tutti_ps_close(next));
	}
	free(x);
	return 0;
}

/* A push since the last clock is refused under BSP, and leaves what is held back as it was. */
static int refused_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config), .role = TUTTI_PS_BOTH};
	struct tutti_ps_options o = {.size = sizeof(o), .init = TUTTI_PS_ZERO};
	int64_t *x = malloc(COUNT * sizeof(*x)), one = 1;
	struct tutti_ps *ps, *next;
	struct tutti_ps_table *now;
	struct tables t;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(make(ps, true, &t));
	MP_OK(tutti_ps_dense(ps, "now", 1, TUTTI_INT64, &o, &now));
	TT_EXPECT(!push(job, &t, x));
	MP_OK(tutti_ps_clock(ps));
	if (job->rank == 3)
		MP_OK(tutti_ps_push(now, &one, 0, 1, TUTTI_INT64));
	if (leaves(job->rank))
		config.role = TUTTI_PS_LEAVE;
	MP_ERR(tutti_ps_resize(ps, job->world, &config, &next), -EBUSY);
	MP_SAID("since its last clock");
	MP_OK(tutti_ps_clock(ps));
	TT_EXPECT(!check(job, &t, x, 4, 0 + 1 + 2 + 3, true));
	MP_OK(tutti_ps_close(ps));
	free(x);
	return 0;
}

struct some {
	unsigned hold; /* of ranks: these push before the resize */
	int copies;
	bool dies; /* rank 3, before the resize: it is no server, or another one has its values */
};

/* *comm: the ranks that are left. */
static int lose_last(struct mp_job *job, struct tutti_comm **comm)
{
	mp_meet(job);
	if (job->rank == 3)
		kill(getpid(), SIGKILL);
	while (!tutti_barrier(job->world))
		;
	return tutti_comm_shrink(job->world, comm);
}

/* Under BSP. The mean is that of the workers that are left; each server has a part of them. */
static int some_body(struct mp_job *job)
{
	const struct some *some = job->arg;
	struct tutti_ps_config config = {
		.size = sizeof(config), .role = TUTTI_PS_BOTH, .copies = some->copies};
	struct tutti_ps_options o = {.size = sizeof(o),
				     .init = TUTTI_PS_ZERO,
				     .n_push = 2,
				     .block = 64,
				     .combine = TUTTI_PS_COMBINE_MEAN};
	double x[1024], sum, n = some->dies ? 3 : 4;
	struct tutti_comm *comm = job->world;
	struct tutti_ps *ps, *next;
	struct tutti_ps_table *t;
	int i, r;

	if (job->rank == 3 && some->copies < 2)
		config.role = TUTTI_PS_WORKER;
	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "mean", 1024, TUTTI_FLOAT64, &o, &t));
	for (i = 0; i < 1024; i++)
		x[i] = 12 * (job->rank + 1) + i;
	if (some->hold >> job->rank & 1)
		MP_OK(tutti_ps_push(t, x, 0, 1024, TUTTI_FLOAT64));
	MP_OK(tutti_ps_clock(ps));
	if (some->dies)
		MP_OK(lose_last(job, &comm));
	if (leaves(job->rank)) /* replicas need two servers */
		config.role = some->copies > 1 ? TUTTI_PS_SERVER : TUTTI_PS_LEAVE;
	MP_OK(tutti_ps_resize(ps, comm, &config, &next));
	if (leaves(job->rank))
		return next ? tutti_ps_close(next) : 0;
	MP_OK(tutti_ps_find(next, "mean", &t));
	MP_OK(tutti_ps_pull(t, x, 0, 1024, TUTTI_FLOAT64));
	for (i = 0; i < 1024; i++) {
		for (sum = 0, r = 0; r < job->n; r++)
			sum += leaves(r) && some->hold >> r & 1 ? 12 * (r + 1) + i : 0;
		TT_EXPECT(x[i] == sum / n);
	}
	return tutti_ps_close(next);
}

static void run_some(const char *env)
{
	static const struct some some[] = {{1 << 2, 1, false},
					   {0, 1, false},
					   {1 << 0 | 1 << 1, 1, true},
					   {1 << 1 | 1 << 2, 2, true},
					   {1 << 2 | 1 << 3, 2, false}};
	size_t i;

	for (i = 0; i < sizeof(some) / sizeof(*some); i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = some_body, .arg = (void *)&some[i],
				 .killed = some[i].dies ? 1 << 3 : 0));
}

static void run(const char *env)
{
	static const struct leave leave[] = {{0, 1}, {0, 2}, {1, 1}, {TUTTI_PS_ASYNC, 2}};
	size_t i;

	for (i = 0; i < sizeof(leave) / sizeof(*leave); i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = leave_body, .arg = (void *)&leave[i]));
	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = refused_body));
	run_some(env);
}

static void shm(void)
{
	run("TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=20s TUTTI_PS_VERIFY=1");
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_TIMEOUT=20s");
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"shm", shm}, {"ofi", ofi}, {NULL, NULL}};

	return tt_test_main("ps_leave", tests, argc, argv);
}
