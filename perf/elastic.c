/* SPDX-License-Identifier: BSD-3-Clause */
/* Elastic averages in turns with all-reduces of the same vector: the times of the slowest rank. */
#include "perf/averages.h"

#include <math.h>
#include <string.h>

enum { ELASTIC, ALLREDUCE, CALLS };
enum { X, CENTER, WORK, BUFFERS };

static const struct perf_column columns[] = {
	{"size", "size", "(B)", 13, 0, PERF_INT},
	{"count", "count", "(elements)", 13, 0, PERF_INT},
	{"type", "type", "", 9, 0, PERF_TEXT},
	{"elastic_us", "elastic", "(us)", 11, 0, PERF_USEC},
	{"allreduce_us", "allreduce", "(us)", 11, 0, PERF_USEC},
	{"ratio", "ratio", "", 7, 3, PERF_FIXED},
	{"algbw_gbs", "algbw", "(GB/s)", 7, 2, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

double perf_elastic_alpha(const struct perf *perf)
{
	return perf->opt.alpha < 0 ? 0.9 / perf->nranks : perf->opt.alpha;
}

static int one(struct averages *r, int call)
{
	void *x = r->buf[X].data, *center = r->buf[CENTER].data, *work = r->buf[WORK].data;
	enum tutti_datatype type = (enum tutti_datatype)r->datatype;
	struct tutti_comm *world = r->perf->world;
	double alpha = perf_elastic_alpha(r->perf);
	int err = call == ELASTIC
			  ? tutti_elastic_average(x, center, work, r->count, type, alpha, world)
			  : tutti_allreduce(TUTTI_IN_PLACE, work, r->count, type, TUTTI_SUM, world);

	return averages_failed(r, call == ELASTIC ? "elastic_average" : "allreduce", err);
}

/* Both all-reduces, this one and the average's, begin with a vector that its rank has written. */
static int elastic_times(struct averages *r)
{
	const struct perf_options *opt = &r->perf->opt;
	int i, call, err = 0;
	uint64_t from;

	for (i = -opt->warmup; i < opt->iters; i++)
		for (call = 0; call < CALLS && !err; call++) {
			memcpy(r->buf[WORK].data, r->buf[X].data, averages_bytes(r));
			err = averages_failed(r, "barrier", tutti_barrier(r->perf->world));
			from = perf_now_ns();
			if (!err)
				err = one(r, call);
			r->times[call * opt->iters + (i < 0 ? 0 : i)] = averages_usec_since(&from);
		}
	return err;
}

/* The own model and the center after an average, by the formula in gossip.h. */
static void expect(const struct averages *r, int first, double want[WORK][AVERAGES_PERIOD])
{
	double alpha = perf_elastic_alpha(r->perf), x, center;
	size_t i;
	int k;

	for (i = 0; i < AVERAGES_PERIOD; i++) {
		x = averages_given(r->perf->rank, i);
		want[CENTER][i] = center = averages_given(first, i);
		want[X][i] = x - alpha * (x - center);
		for (k = 0; k < r->perf->nranks; k++)
			want[CENTER][i] += alpha * (averages_given(k, i) - center);
	}
}

/* first: as which rank's values the center begins; it keeps the same bits on all ranks. */
static int elastic_check(struct averages *r, int first, double *wrong)
{
	struct perf *perf = r->perf;
	size_t bytes = averages_bytes(r), bounds = 0, i;
	double want[WORK][AVERAGES_PERIOD], grows = 1 + perf->nranks * perf_elastic_alpha(perf);
	double room = averages_room(r, perf->nranks + 1) * grows;
	void *work = r->buf[WORK].data;
	int k, err;

	averages_fill(r, r->buf[X].data, perf->rank);
	averages_fill(r, r->buf[CENTER].data, first);
	for (k = 0; k < BUFFERS; k++)
		perf_guard_set(&r->buf[k], bytes);
	err = one(r, ELASTIC);
	expect(r, first, want);
	for (*wrong = 0, k = 0; k < WORK; k++)
		for (i = 0; i < r->count; i++)
			*wrong += !(fabs(averages_load(r->buf[k].data, i, r->datatype) -
					 want[k][i % AVERAGES_PERIOD]) <= room);
	memcpy(work, r->buf[CENTER].data, bytes);
	if (!err)
		err = averages_failed(r, "bcast",
				      tutti_bcast(work, bytes, TUTTI_UINT8, 0, perf->world));
	*wrong += (double)perf_count_wrong(work, r->buf[CENTER].data, r->count, r->count,
					   bytes / r->count);
	for (k = 0; k < BUFFERS; k++)
		bounds += perf_guard_violations(&r->buf[k], bytes);
	return err ? err : perf_agree_found(perf, wrong, (double)bounds);
}

static int elastic_row(struct averages *r)
{
	struct perf *perf = r->perf;
	double t[CALLS], wrong = 0, all = 0;
	int k, err;

	averages_fill(r, r->buf[X].data, perf->rank);
	averages_fill(r, r->buf[CENTER].data, perf->nranks);
	err = elastic_times(r);
	for (k = 0; k < CALLS && !err; k++)
		err = averages_slowest(r, r->times + k * perf->opt.iters, &t[k]);
	for (k = 0; k < perf->opt.check && !err; k++, all += wrong)
		err = elastic_check(r, perf->nranks + k, &wrong);
	if (err || perf->rank)
		return err;
	return perf_table_row(
		&perf->table,
		(struct perf_cell[]){{.number = (int64_t)averages_bytes(r)},
				     {.number = (int64_t)r->count},
				     {.text = perf_type_name(r->datatype)},
				     {.real = t[ELASTIC]},
				     {.real = t[ALLREDUCE]},
				     {.real = t[ELASTIC] / t[ALLREDUCE]},
				     {.real = (double)averages_bytes(r) / t[ELASTIC] / 1e3},
				     {.number = (int64_t)all, .absent = !perf->opt.check}});
}

int perf_run_elastic(struct perf *perf)
{
	static const int types[] = {TUTTI_FLOAT32, TUTTI_FLOAT64};
	struct averages r = {.perf = perf};
	size_t most = perf->opt.maxbytes, n = sizeof(columns) / sizeof(*columns);
	int err = averages_begin(&r, AVERAGES_NO_GRAPH, columns, n);

	if (!err)
		err = perf_buffers_get(perf, r.buf, BUFFERS, most > 8 ? most : 8);
	if (!err) {
		err = averages_each(&r, elastic_row, types, 2);
		perf_buffers_put(r.buf, BUFFERS);
	}
	averages_end(&r);
	return err;
}
