/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that leave in tutti_ps_resize with updates that n_push holds back: these are pushed
 * first, also under BSP, where no worker ends the clock in which they come.
 */
#include "tests/mp/job.h"

#include <errno.h>

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

static void run(const char *env)
{
	static const struct leave leave[] = {{0, 1}, {0, 2}, {1, 1}, {TUTTI_PS_ASYNC, 2}};
	size_t i;

	for (i = 0; i < sizeof(leave) / sizeof(*leave); i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = leave_body, .arg = (void *)&leave[i]));
	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = refused_body));
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
