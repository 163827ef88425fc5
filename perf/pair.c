/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Averages of two ranks, by all ranks at once: the time of the slowest rank. Two checks: averages
 * at once keep the sum over the ranks; averages in turn have known results.
 */
#include "perf/averages.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tools/graphs.h"

#define PERIOD AVERAGES_PERIOD

enum { RANDOM, ONE_PEER };
const char *const perf_partner_names[] = {"random", "one_peer", NULL};

static const struct perf_column columns[] = {
	{"size", "size", "(B)", 13, 0, PERF_INT},
	{"count", "count", "(elements)", 13, 0, PERF_INT},
	{"type", "type", "", 9, 0, PERF_TEXT},
	{"partner", "partner", "", 9, 0, PERF_TEXT},
	{"time_us", "time", "(us)", 11, 0, PERF_USEC},
	{"waits", "waits", "(each)", 8, 3, PERF_FIXED},
	{"moved_bytes", "moved", "(B)", 13, 0, PERF_INT},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

static int average(struct averages *r, int step, int *partner)
{
	int to, n;

	*partner = TUTTI_PAIR_ANY;
	if (r->perf->opt.partner == ONE_PEER) {
		tutti_graph_out(r->graph, (uint64_t)step, r->perf->rank, &to, 1, &n);
		*partner = to;
	}
	return averages_failed(r, "pair_average", tutti_pair_average(r->pair, *partner, partner));
}

static int set(struct averages *r)
{
	int err = averages_failed(r, "pair_lock", tutti_pair_lock(r->pair, r->perf->rank));

	if (err)
		return err;
	averages_fill(r, r->x, r->perf->rank);
	err = averages_failed(r, "pair_unlock", tutti_pair_unlock(r->pair));
	return err ? err : averages_failed(r, "barrier", tutti_barrier(r->perf->world));
}

/* All ranks at once. */
static int pair_times(struct averages *r)
{
	const struct perf_options *opt = &r->perf->opt;
	uint64_t from;
	int i, partner, err = set(r);

	for (i = -opt->warmup; i < opt->iters && !err; i++) {
		from = perf_now_ns();
		err = average(r, i + opt->warmup, &partner);
		if (i >= 0)
			r->times[i] = averages_usec_since(&from);
	}
	return err ? err : averages_failed(r, "barrier", tutti_barrier(r->perf->world));
}

/* After the averages of all ranks at once: the sum over the ranks is what it was. */
static int sums_wrong(struct averages *r, double *wrong)
{
	struct perf *perf = r->perf;
	void *sum = malloc(r->count * sizeof(double));
	double want;
	size_t i;
	int k, err = sum ? 0 : -ENOMEM;

	*wrong = 0;
	if (!err)
		err = tutti_allreduce(r->x, sum, r->count, (enum tutti_datatype)r->datatype,
				      TUTTI_SUM, perf->world);
	for (i = 0; i < r->count && !err && !perf->rank; i++) {
		for (want = 0, k = 0; k < perf->nranks; k++)
			want += averages_given(k, i);
		*wrong += !(fabs(averages_load(sum, i, r->datatype) - want) <=
			    averages_room(r, perf->nranks * (perf->opt.iters + perf->opt.warmup)));
	}
	free(sum);
	err = averages_failed(r, "allreduce", err);
	return err ? err : perf_agree_found(perf, wrong, 0);
}

/* values: of all ranks, a period each. */
static void expect_average(const struct averages *r, double *values, int a, int b)
{
	int low = a < b ? a : b, high = a < b ? b : a, i;

	for (i = 0; i < PERIOD; i++) {
		double *x = &values[low * PERIOD + i], *y = &values[high * PERIOD + i];
		double sum = *x + *y, half = sum / 2;

		*x = averages_integers(r->datatype) ? floor(half) : half;
		*y = sum - *x;
	}
}

/* Each rank in turn: all values are known. */
static int pair_turns(struct averages *r, double *values)
{
	struct perf *perf = r->perf;
	int turn, i, partner = 0, err = set(r);

	for (i = 0; i < perf->nranks * PERIOD; i++)
		values[i] = averages_given(i / PERIOD, (size_t)(i % PERIOD));
	for (turn = 0; turn < perf->nranks && !err; turn++) {
		if (perf->rank == turn)
			err = average(r, turn, &partner);
		if (!err)
			err = averages_failed(
				r, "bcast",
				tutti_bcast(&partner, 1, TUTTI_INT32, turn, perf->world));
		if (!err)
			expect_average(r, values, turn, partner);
	}
	return err ? err : averages_failed(r, "barrier", tutti_barrier(perf->world));
}

static int pair_check(struct averages *r, double *wrong)
{
	double *values = calloc((size_t)r->perf->nranks * PERIOD, sizeof(*values));
	const double *own;
	size_t i;
	int err;

	if (!values)
		return averages_failed(r, "making room for values", -ENOMEM);
	*wrong = 0;
	own = values + r->perf->rank * PERIOD;
	err = pair_turns(r, values);
	for (i = 0; i < r->count && !err; i++)
		*wrong += !(fabs(averages_load(r->x, i, r->datatype) - own[i % PERIOD]) <=
			    averages_room(r, r->perf->nranks));
	free(values);
	return err ? err : perf_agree_found(r->perf, wrong, 0);
}

static int pair_row(struct averages *r)
{
	struct tutti_pair_state s = {.size = sizeof(s)};
	struct perf *perf = r->perf;
	double time = 0, wrong = 0, all = 0, moved, waits;
	int k, err = pair_times(r);

	if (!err)
		err = averages_slowest(r, r->times, &time);
	if (!err)
		err = averages_failed(r, "pair_state", tutti_pair_state(r->pair, &s));
	moved = (double)s.bytes / (double)(s.averages ? s.averages : 1);
	waits = (double)s.waits / (double)(s.averages ? s.averages : 1);
	if (!err)
		err = perf_agree(perf, &moved, TUTTI_MAX);
	if (!err)
		err = perf_agree(perf, &waits, TUTTI_MAX);
	if (!err && perf->opt.check)
		err = sums_wrong(r, &all);
	for (k = 0; k < perf->opt.check && !err; k++, all += wrong)
		err = pair_check(r, &wrong);
	if (err || perf->rank)
		return err;
	return perf_table_row(
		&perf->table,
		(struct perf_cell[]){{.number = (int64_t)averages_bytes(r)},
				     {.number = (int64_t)r->count},
				     {.text = perf_type_name(r->datatype)},
				     {.text = perf_partner_names[perf->opt.partner]},
				     {.real = time},
				     {.real = waits},
				     {.number = (int64_t)moved},
				     {.number = (int64_t)all, .absent = !perf->opt.check}});
}

static int pair_one(struct averages *r)
{
	int err, end;

	err = averages_failed(r, "pair_create",
			      tutti_pair_create(r->perf->world, r->count,
						(enum tutti_datatype)r->datatype, &r->x, &r->pair));
	if (err)
		return err;
	err = pair_row(r);
	end = tutti_pair_free(r->pair);
	return err ? err : averages_failed(r, "pair_free", end);
}

int perf_run_pair(struct perf *perf)
{
	static const int types[] = {TUTTI_INT32, TUTTI_INT64, TUTTI_FLOAT32, TUTTI_FLOAT64};
	struct averages r = {.perf = perf};
	int err;

	err = averages_begin(&r, perf_name_find("one_peer", cli_graph_names), columns,
			     sizeof(columns) / sizeof(*columns));
	if (!err)
		err = averages_each(&r, pair_one, types, 4);
	averages_end(&r);
	return err;
}
