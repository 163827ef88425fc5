/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocking form of each collective beside its nonblocking form and a wait. The two take turns,
 * each sample after a barrier, so that what changes the speed of the machine changes both. A sample
 * of short calls is of many, back to back: the clock and the barrier must not show.
 */
#include "perf/coll.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum form { BLOCKING, NONBLOCKING, FORMS };

#define SAMPLE_USEC 50 /* a sample takes so long, */
#define MOST_CALLS 256 /* or has so many calls */

struct run {
	struct perf_coll_job job;
	int calls; /* of a sample */
	double *times[FORMS], *ratios;
};

static const struct perf_column columns[] = {
	{"collective", "collective", "", 15, 0, PERF_TEXT},
	{"size", "size", "(B)", 13, 0, PERF_INT},
	{"buffers", "buffers", "", 8, 0, PERF_TEXT},
	{"blocking_us", "blocking", "(us)", 10, 0, PERF_USEC},
	{"nonblocking_us", "i + wait", "(us)", 10, 0, PERF_USEC},
	{"ratio", "ratio", "", 7, 3, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

static int one(const struct run *r, enum form form)
{
	struct tutti_request *req;
	int err;

	if (form == BLOCKING)
		return perf_coll_call(&r->job);
	err = perf_coll_start(&r->job, &req);
	return err ? err : perf_coll_wait(&r->job, &req);
}

/* Microseconds of a call at this rank. */
static int sample(const struct run *r, enum form form, double *usec)
{
	uint64_t start;
	int i, err = tutti_barrier(r->job.perf->world);

	if (err)
		return perf_call_failed(r->job.perf, "barrier", err);
	start = perf_now_ns();
	for (i = 0; i < r->calls && !err; i++)
		err = one(r, form);
	*usec = (double)(perf_now_ns() - start) / 1e3 / r->calls;
	perf_progress(r->job.perf, "measuring");
	return err;
}

/* How many calls fill a sample: by the slower form at the slowest rank, so the same everywhere. */
static int find_calls(struct run *r)
{
	double usec, slower = 0;
	int i, warmup = FORMS * r->job.perf->opt.warmup, err = 0;

	r->calls = 1;
	for (i = 0; i < warmup + FORMS && !err; i++) {
		err = sample(r, i % FORMS, &usec);
		if (i >= warmup && usec > slower)
			slower = usec;
	}
	if (!err)
		err = perf_agree(r->job.perf, &slower, TUTTI_MAX);
	if (slower > 0 && slower < SAMPLE_USEC)
		r->calls = SAMPLE_USEC / slower < MOST_CALLS ? (int)(SAMPLE_USEC / slower) + 1
							     : MOST_CALLS;
	return err;
}

/* Every other turn begins with the second form. */
static int all_samples(struct run *r)
{
	int i, k, n = r->job.perf->opt.iters, err = 0;

	for (i = 0; i < n; i++)
		for (k = 0; k < FORMS && !err; k++)
			err = sample(r, (i + k) % FORMS, &r->times[(i + k) % FORMS][i]);
	if (err)
		return err;
	err = tutti_allreduce(TUTTI_IN_PLACE, r->times[0], (size_t)n * FORMS, TUTTI_FLOAT64,
			      TUTTI_MAX, r->job.perf->world);
	return err ? perf_call_failed(r->job.perf, "allreduce", err) : 0;
}

static double median(double *values, int n)
{
	struct perf_summary sum;

	perf_summarize(values, (size_t)n, &sum);
	return sum.median;
}

/* -c: both forms have the right result, and hence the same. */
static int check(struct run *r, double *wrong)
{
	double bounds = 0;
	int i, err = 0;

	*wrong = 0;
	if (r->job.coll == PERF_BARRIER)
		return 0;
	for (i = 0; i < FORMS * r->job.perf->opt.check && !err; i++) {
		perf_coll_fill(&r->job, (uint64_t)i);
		err = one(r, i % FORMS);
		if (err)
			return err;
		*wrong += (double)perf_coll_wrong(&r->job, (uint64_t)i);
		bounds += (double)perf_coll_violations(&r->job, (uint64_t)i);
	}
	return perf_agree_found(r->job.perf, wrong, bounds);
}

static int one_row(void *arg)
{
	struct run *r = arg;
	struct perf_coll_job *job = &r->job;
	struct perf *perf = job->perf;
	bool barrier = job->coll == PERF_BARRIER;
	double wrong, usec[FORMS];
	int i, n = perf->opt.iters, err;

	if (!barrier) { /* sums of zeros, over and over */
		memset(job->send->data, 0, job->bytes);
		memset(job->recv->data, 0, job->bytes);
	}
	err = find_calls(r);
	if (!err)
		err = all_samples(r);
	if (!err)
		err = check(r, &wrong);
	if (err || perf->rank)
		return err;
	for (i = 0; i < n; i++)
		r->ratios[i] = r->times[BLOCKING][i] / r->times[NONBLOCKING][i];
	for (i = 0; i < FORMS; i++)
		usec[i] = median(r->times[i], n);
	return perf_table_row(
		&perf->table,
		(struct perf_cell[]){
			{.text = job->kind->name},
			{.number = (int64_t)job->bytes},
			{.text = perf->opt.plain_buffers ? "malloc" : "pool", .absent = barrier},
			{.real = usec[BLOCKING]},
			{.real = usec[NONBLOCKING]},
			{.real = median(r->ratios, n)},
			{.number = (int64_t)wrong, .absent = !perf->opt.check || barrier}});
}

int perf_run_forms(struct perf *perf)
{
	size_t n = (size_t)perf->opt.iters;
	double *times = calloc(n, (FORMS + 1) * sizeof(*times));
	struct run r = {.job = {.perf = perf}};
	int err;

	if (!times)
		return perf_call_failed(perf, "making room for times", -ENOMEM);
	r.times[BLOCKING] = times;
	r.times[NONBLOCKING] = times + n;
	r.ratios = times + FORMS * n;
	perf_table_begin(&perf->table, columns, sizeof(columns) / sizeof(*columns));
	if (!perf->rank)
		perf_table_heading(&perf->table);
	err = perf_coll_each(&r.job, one_row, &r);
	free(times);
	return err;
}
