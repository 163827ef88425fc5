/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of a nonblocking collective hides behind a computation that takes as long, when only
 * calls advance it and when the progress thread does. As osu_iallreduce: first the collective
 * alone, then it with a computation of that time between start and wait, of which all but the
 * computation is exposed. This does not show what the computation loses, such as a core that the
 * thread takes. So its speed beside the collective is compared with its speed alone, in turns.
 */
#include "perf/coll.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum what { PURE, OVERALL, COMPUTE, WHATS };

#define CELLS 4096 /* floats: in the cache of a core */

struct speed {
	double passes, usec;
};

struct run {
	struct perf *perf; /* with a context of its own */
	struct perf_coll_job job;
	const char *progress;
	double *times[WHATS];
	struct speed beside, alone; /* of the computation: during the collective, and alone */
};

static const struct perf_column columns[] = {
	{"collective", "collective", "", 15, 0, PERF_TEXT},
	{"size", "size", "(B)", 13, 0, PERF_INT},
	{"progress", "progress", "", 9, 0, PERF_TEXT},
	{"pure_us", "pure", "(us)", 10, 0, PERF_USEC},
	{"compute_us", "compute", "(us)", 10, 0, PERF_USEC},
	{"overall_us", "overall", "(us)", 10, 0, PERF_USEC},
	{"exposed_us", "exposed", "(us)", 10, 0, PERF_USEC},
	{"overlap_percent", "overlap", "(%)", 8, 1, PERF_FIXED},
	{"work_percent", "work", "(%)", 8, 1, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

/* A computation that lasts for usec, or longer if the core is taken from it; how long it took. */
static double compute(double usec, struct speed *speed)
{
	static float cells[CELLS];
	uint64_t start = perf_now_ns();
	double took;
	size_t i;

	do {
		for (i = 0; i < CELLS; i++)
			cells[i] = cells[i] * 0.999f + 1;
		__asm__ volatile("" : : "r"(cells) : "memory"); /* treat the cells as read */
		speed->passes++;
		took = (double)(perf_now_ns() - start) / 1e3;
	} while (took < usec);
	speed->usec += took;
	return took;
}

static int pure(struct run *r, double *usec)
{
	struct tutti_request *req;
	uint64_t start = perf_now_ns();
	int err = perf_coll_start(&r->job, &req);

	if (!err)
		err = perf_coll_wait(&r->job, &req);
	*usec = (double)(perf_now_ns() - start) / 1e3;
	return err;
}

static int overlapped(struct run *r, double usec, double *overall, double *computed)
{
	struct tutti_request *req;
	uint64_t start = perf_now_ns();
	int err = perf_coll_start(&r->job, &req);

	if (err)
		return err;
	*computed = compute(usec, &r->beside);
	err = perf_coll_wait(&r->job, &req);
	*overall = (double)(perf_now_ns() - start) / 1e3;
	return err;
}

/* All ranks begin together. */
static int meet(const struct run *r)
{
	int err = tutti_barrier(r->perf->world);

	perf_progress(r->perf, "measuring");
	return err ? perf_call_failed(r->perf, "barrier", err) : 0;
}

/* The median of n times, each that of its slowest rank. */
static int median(const struct run *r, double *times, int n, double *usec)
{
	struct perf_summary sum;
	int err = tutti_allreduce(TUTTI_IN_PLACE, times, (size_t)n, TUTTI_FLOAT64, TUTTI_MAX,
				  r->perf->world);

	if (err)
		return perf_call_failed(r->perf, "allreduce", err);
	perf_summarize(times, (size_t)n, &sum);
	*usec = sum.median;
	return 0;
}

static int measure_pure(struct run *r, double *usec)
{
	const struct perf_options *opt = &r->perf->opt;
	double warm;
	int i, err = 0;

	for (i = -opt->warmup; i < opt->iters && !err; i++) {
		err = meet(r);
		if (!err)
			err = pure(r, i < 0 ? &warm : &r->times[PURE][i]);
	}
	return err ? err : median(r, r->times[PURE], opt->iters, usec);
}

/* Both together, and the computation alone, in turns. */
static int measure_overlapped(struct run *r, double usec[WHATS])
{
	int i, n = r->perf->opt.iters, err = 0;

	r->beside = r->alone = (struct speed){0};
	for (i = 0; i < n && !err; i++) {
		err = meet(r);
		if (!err)
			(void)compute(usec[PURE], &r->alone);
		if (!err)
			err = meet(r);
		if (!err)
			err = overlapped(r, usec[PURE], &r->times[OVERALL][i],
					 &r->times[COMPUTE][i]);
	}
	if (!err)
		err = median(r, r->times[OVERALL], n, &usec[OVERALL]);
	return err ? err : median(r, r->times[COMPUTE], n, &usec[COMPUTE]);
}

static int measure(struct run *r, double usec[WHATS])
{
	int err;

	if (r->job.coll != PERF_BARRIER) {
		memset(r->job.send->data, 0, r->job.bytes);
		memset(r->job.recv->data, 0, r->job.bytes);
	}
	err = measure_pure(r, &usec[PURE]);
	return err ? err : measure_overlapped(r, usec);
}

/* The speed of the computation beside the collective, in percent of that alone: the least rank's.
 */
static int work(struct run *r, double *percent)
{
	double alone = r->alone.passes / r->alone.usec;

	*percent = 100 * (r->beside.passes / r->beside.usec) / alone;
	return perf_agree(r->perf, percent, TUTTI_MIN);
}

/* -c: the right sums come out of it, too. */
static int check(struct run *r, double *wrong)
{
	double bounds = 0, overall, computed;
	uint64_t i;
	int err;

	*wrong = 0;
	if (r->job.coll == PERF_BARRIER)
		return 0;
	for (i = 0; i < (uint64_t)r->perf->opt.check; i++) {
		perf_coll_fill(&r->job, i);
		err = overlapped(r, 0, &overall, &computed);
		if (err)
			return err;
		*wrong += (double)perf_coll_wrong(&r->job, i);
		bounds += (double)perf_coll_violations(&r->job, i);
	}
	return perf_agree_found(r->perf, wrong, bounds);
}

static int one_row(void *arg)
{
	struct run *r = arg;
	struct perf *perf = r->perf;
	bool barrier = r->job.coll == PERF_BARRIER;
	double usec[WHATS], wrong, exposed, done;
	int err;

	err = measure(r, usec);
	if (!err)
		err = work(r, &done);
	if (!err)
		err = check(r, &wrong);
	if (err || perf->rank)
		return err;
	exposed = usec[OVERALL] - usec[COMPUTE];
	return perf_table_row(
		&perf->table,
		(struct perf_cell[]){
			{.text = r->job.kind->name},
			{.number = (int64_t)r->job.bytes},
			{.text = r->progress},
			{.real = usec[PURE]},
			{.real = usec[COMPUTE]},
			{.real = usec[OVERALL]},
			{.real = exposed > 0 ? exposed : 0},
			{.real = perf_overlap(usec[PURE], usec[COMPUTE], usec[OVERALL])},
			{.real = done},
			{.number = (int64_t)wrong, .absent = !perf->opt.check || barrier}});
}

static int gather(const void *send, void *recv, size_t len, void *perf)
{
	return tutti_allgather(send, recv, len, TUTTI_UINT8, ((struct perf *)perf)->world);
}

/* In a separate job, because a job either has the thread or not. */
static int with(struct perf *outer, struct run *r, bool thread)
{
	struct tutti_config config = {.size = sizeof(config),
				      .nranks = outer->nranks,
				      .rank = outer->rank,
				      .allgather = gather,
				      .allgather_arg = outer,
				      .progress_thread = thread ? 1 : -1};
	struct perf perf = *outer;
	int err, end;

	err = tutti_init(&config, &perf.ctx);
	if (err)
		return perf_call_failed(outer, "init", err);
	perf.world = tutti_world(perf.ctx);
	r->perf = &perf;
	r->progress = thread ? "thread" : "caller";
	r->job = (struct perf_coll_job){.perf = &perf};
	err = perf_coll_each(&r->job, one_row, r);
	end = tutti_finalize(perf.ctx);
	if (end && !err)
		err = perf_call_failed(&perf, "finalize", end);
	outer->table = perf.table;
	outer->totals = perf.totals;
	return err;
}

int perf_run_overlap(struct perf *perf)
{
	double *times = calloc((size_t)perf->opt.iters * WHATS, sizeof(*times));
	struct run r = {0};
	int i, err;

	if (!times)
		return perf_call_failed(perf, "making room for times", -ENOMEM);
	for (i = 0; i < WHATS; i++)
		r.times[i] = times + i * perf->opt.iters;
	perf_table_begin(&perf->table, columns, sizeof(columns) / sizeof(*columns));
	if (!perf->rank)
		perf_table_heading(&perf->table);
	err = with(perf, &r, false);
	if (!err)
		err = with(perf, &r, true);
	free(times);
	return err;
}
