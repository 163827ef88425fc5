/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of a nonblocking collective hides behind a computation that takes as long, when only
 * calls advance it and when the progress thread does. As osu_iallreduce: the collective alone, the
 * computation alone, both together, and 100 (1 - (together - computation) / alone). The three take
 * turns, so that what disturbs one disturbs all, and the computation is a fixed amount of work: a
 * core that the thread takes away shows.
 */
#include "perf/coll.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum what { ALONE, COMPUTE, TOGETHER, WHATS };

#define CELLS 4096  /* floats: in the cache of a core */
#define FIRST 3	    /* samples that say how long either takes */
#define CLOSE 0.03  /* it need not be equal to the last bit */
#define ATTEMPTS 10 /* to come that close */
#define GROW 100    /* limit for one attempt; short ones are measured badly */

struct run {
	struct perf *perf; /* with a context of its own */
	struct perf_coll_job job;
	const char *progress;
	size_t passes;
	double *times[WHATS];
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
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

static void compute(size_t passes)
{
	static float cells[CELLS];
	size_t i;

	for (; passes; passes--) {
		for (i = 0; i < CELLS; i++)
			cells[i] = cells[i] * 0.999f + 1;
		__asm__ volatile("" : : "r"(cells) : "memory"); /* treat the cells as read */
	}
}

static int one(const struct run *r, enum what what)
{
	struct tutti_request *req;
	int err = 0;

	if (what != COMPUTE)
		err = perf_coll_start(&r->job, &req);
	if (err)
		return err;
	if (what != ALONE)
		compute(r->passes);
	return what == COMPUTE ? 0 : perf_coll_wait(&r->job, &req);
}

/* Microseconds of one, at this rank; all begin together. */
static int sample(const struct run *r, enum what what, double *usec)
{
	uint64_t start;
	int err = tutti_barrier(r->perf->world);

	if (err)
		return perf_call_failed(r->perf, "barrier", err);
	start = perf_now_ns();
	err = one(r, what);
	*usec = (double)(perf_now_ns() - start) / 1e3;
	perf_progress(r->perf, "measuring");
	return err;
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

/* Time of the computation: disturbances only lengthen it, so take the least of a few. */
static int least(const struct run *r, double *usec)
{
	double took;
	int i, err = 0;

	*usec = 0;
	for (i = 0; i < FIRST && !err; i++) {
		err = sample(r, COMPUTE, &took);
		if (!err)
			err = perf_agree(r->perf, &took, TUTTI_MAX);
		if (!i || took < *usec)
			*usec = took;
	}
	return err;
}

/* The number of passes that takes usec at the slowest rank while all ranks compute. */
static int calibrate(struct run *r, double usec)
{
	double took, more;
	int i, err = 0;

	r->passes = 1;
	for (i = 0; i < ATTEMPTS; i++) {
		err = least(r, &took);
		if (err)
			break;
		more = took > 0 ? usec / took : GROW;
		if (more > 1 - CLOSE && more < 1 + CLOSE)
			break;
		r->passes = (size_t)((double)r->passes * (more < GROW ? more : GROW) + 1);
	}
	return err;
}

static int measure(struct run *r, double usec[WHATS])
{
	const struct perf_options *opt = &r->perf->opt;
	double first[FIRST], alone;
	int i, what, err = 0;

	if (r->job.coll != PERF_BARRIER) {
		memset(r->job.send->data, 0, r->job.bytes);
		memset(r->job.recv->data, 0, r->job.bytes);
	}
	for (i = -opt->warmup; i < FIRST && !err; i++)
		err = sample(r, ALONE, i < 0 ? &alone : &first[i]);
	if (!err)
		err = median(r, first, FIRST, &alone);
	if (!err)
		err = calibrate(r, alone);
	for (i = 0; i < opt->iters; i++)
		for (what = 0; what < WHATS && !err; what++)
			err = sample(r, (enum what)what, &r->times[what][i]);
	for (what = 0; what < WHATS && !err; what++)
		err = median(r, r->times[what], opt->iters, &usec[what]);
	return err;
}

/* -c: the right sums come out of it, too. */
static int check(struct run *r, double *wrong)
{
	double bounds = 0;
	uint64_t i;
	int err;

	*wrong = 0;
	if (r->job.coll == PERF_BARRIER)
		return 0;
	for (i = 0; i < (uint64_t)r->perf->opt.check; i++) {
		perf_coll_fill(&r->job, i);
		err = one(r, TOGETHER);
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
	double usec[WHATS], wrong, exposed;
	int err;

	err = measure(r, usec);
	if (!err)
		err = check(r, &wrong);
	if (err || perf->rank)
		return err;
	exposed = usec[TOGETHER] - usec[COMPUTE];
	return perf_table_row(
		&perf->table,
		(struct perf_cell[]){
			{.text = r->job.kind->name},
			{.number = (int64_t)r->job.bytes},
			{.text = r->progress},
			{.real = usec[ALONE]},
			{.real = usec[COMPUTE]},
			{.real = usec[TOGETHER]},
			{.real = exposed > 0 ? exposed : 0},
			{.real = perf_overlap(usec[ALONE], usec[COMPUTE], usec[TOGETHER])},
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
