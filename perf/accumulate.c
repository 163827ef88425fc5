/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * acc_lat and get_acc_lat: an accumulate, or a get-accumulate, by rank 0 into the window of rank 1
 * and its flush, as osu_acc_latency and osu_get_acc_latency measure them. Other ranks wait in
 * barriers. The window is of memory that the library allocates, or of memory of malloc.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct accumulates {
	struct perf *perf;
	struct tutti_win *win;
	struct perf_buffer exposed; /* this rank's part of it, guards included */
	struct perf_buffer local, old;
	struct perf_oracle oracle;
	int datatype, op;
	bool get;
	size_t count, size;
	double *times;
};

static int flushed(const struct accumulates *a)
{
	enum tutti_datatype type = (enum tutti_datatype)a->datatype;
	enum tutti_op op = (enum tutti_op)a->op;
	int err;

	if (a->get)
		err = tutti_get_accumulate(a->win, 1, a->local.data, a->old.data, a->count, type,
					   op, PERF_GUARD);
	else
		err = tutti_accumulate(a->win, 1, a->local.data, a->count, type, op, PERF_GUARD);
	if (err)
		return perf_call_failed(a->perf, "accumulate", err);
	err = tutti_win_flush(a->win, 1);
	return err ? perf_call_failed(a->perf, "win_flush", err) : 0;
}

static int several(const struct accumulates *a, int n, double *times)
{
	uint64_t start;
	int i, err = 0;

	for (i = 0; a->perf->rank == 0 && i < n && !err; i++) {
		start = perf_now_ns();
		err = flushed(a);
		if (times)
			times[i] = (double)(perf_now_ns() - start) / 1e3;
	}
	return err;
}

static int meet(const struct accumulates *a)
{
	int err = tutti_barrier(a->perf->world);

	return err ? perf_call_failed(a->perf, "barrier", err) : 0;
}

static size_t wrong_in(const struct accumulates *a, const void *buf, const void *block)
{
	return perf_count_wrong(buf, block, a->oracle.period, a->count,
				tutti_datatype_size((enum tutti_datatype)a->datatype));
}

/* Each rank has its own input in its part and in the local buffer. */
static void fill(struct accumulates *a, int seed)
{
	size_t elem = tutti_datatype_size((enum tutti_datatype)a->datatype);

	a->oracle.seed = (uint64_t)seed;
	perf_oracle_given(&a->oracle, a->count, a->perf->rank);
	perf_repeat(a->exposed.data, a->oracle.input, a->oracle.period, a->count, elem);
	perf_repeat(a->local.data, a->oracle.input, a->oracle.period, a->count, elem);
	memset(a->old.data, 0, a->size);
	perf_guard_set(&a->exposed, a->size);
	perf_guard_set(&a->local, a->size);
	perf_guard_set(&a->old, a->size);
}

/* -c: one more each, of rank 0's input with rank 1's. */
static int check(struct accumulates *a, uint64_t *wrong_total)
{
	double wrong = 0, bounds = 0;
	int i, err = 0;

	for (i = 0; i < a->perf->opt.check && !err; i++) {
		fill(a, i + 1);
		err = meet(a);
		if (!err)
			err = several(a, 1, NULL);
		if (!err)
			err = meet(a);
		if (!err && a->perf->rank == 1) {
			perf_oracle_reduce(&a->oracle, a->count, 1);
			wrong += (double)wrong_in(a, a->exposed.data, a->oracle.expected);
		} else if (!err && a->perf->rank == 0 && a->get) {
			perf_oracle_given(&a->oracle, a->count, 1);
			wrong += (double)wrong_in(a, a->old.data, a->oracle.input);
		}
		bounds += (double)(perf_guard_violations(&a->exposed, a->size) +
				   perf_guard_violations(&a->local, a->size) +
				   perf_guard_violations(&a->old, a->size));
	}
	if (!err)
		err = perf_agree_found(a->perf, &wrong, bounds);
	*wrong_total = (uint64_t)wrong;
	return err;
}

static int one_row(struct accumulates *a)
{
	const struct perf_options *opt = &a->perf->opt;
	struct perf_cell cells[PERF_LATENCY_COLUMNS + 2] = {{0}}, *cell;
	uint64_t wrong = 0;
	int err;

	perf_progress(a->perf, "measuring");
	fill(a, 0);
	err = meet(a);
	if (!err)
		err = several(a, opt->warmup, NULL);
	if (!err)
		err = several(a, opt->iters, a->times);
	if (!err)
		err = meet(a);
	if (!err && opt->check)
		err = check(a, &wrong);
	if (err || a->perf->rank)
		return err;
	cells[0].number = (int64_t)a->size;
	cells[1].number = opt->iters;
	cell = perf_latency_cells(a->perf, a->times, cells + 2);
	cell->number = (int64_t)wrong;
	(cell++)->absent = !opt->check;
	(cell++)->text = perf_type_name(a->datatype);
	cell->text = perf_op_name(a->op);
	return perf_table_row(&a->perf->table, cells);
}

/* Sizes are rounded to whole elements, at least one. */
static int all_sizes(struct accumulates *a)
{
	size_t elem = tutti_datatype_size((enum tutti_datatype)a->datatype);
	size_t size = a->perf->opt.minbytes;
	int err;

	a->oracle.datatype = a->datatype;
	a->oracle.op = a->op;
	a->oracle.nranks = 2;
	do {
		a->count = size / elem ? size / elem : 1;
		a->size = a->count * elem;
		perf_progress_row(a->perf, a->size);
		err = one_row(a);
	} while (!err && (size = perf_next_size(&a->perf->opt, size, a->size + elem)));
	return err;
}

static int all_types(struct accumulates *a)
{
	const struct perf_options *opt = &a->perf->opt;
	int err = 0;

	for (a->datatype = 0; a->datatype < TUTTI_NUM_DATATYPES && !err; a->datatype++)
		for (a->op = 0; a->op < TUTTI_NUM_OPS && !err; a->op++)
			if ((opt->datatype == PERF_ALL || opt->datatype == a->datatype) &&
			    (opt->op == PERF_ALL || opt->op == a->op) && a->op != TUTTI_AVG &&
			    perf_op_fits(a->datatype, a->op))
				err = all_sizes(a);
	return err;
}

/* plain: memory of malloc, for the guards, too. */
static int open_window(struct accumulates *a, const struct perf_buffer *plain)
{
	struct perf *perf = a->perf;
	size_t all = a->local.size + 2 * PERF_GUARD;
	void *base = plain->base;
	int err;

	if (plain->plain)
		err = tutti_win_create(perf->world, base, all, TUTTI_WIN_ACCUMULATE, &a->win);
	else
		err = tutti_win_allocate(perf->world, all, TUTTI_WIN_ACCUMULATE, &base, &a->win);
	if (err)
		return perf_call_failed(perf, "win_create", err);
	a->exposed = (struct perf_buffer){
		.base = base, .data = (unsigned char *)base + PERF_GUARD, .size = a->local.size};
	return 0;
}

static int run_window(struct accumulates *a, const struct perf_buffer *plain)
{
	static struct perf_column columns[PERF_LATENCY_COLUMNS + 2];
	struct perf *perf = a->perf;
	int err = open_window(a, plain);

	if (err)
		return err;
	perf_latency_columns(columns);
	columns[PERF_LATENCY_COLUMNS] = (struct perf_column){"type", "type", "", 14, 0, PERF_TEXT};
	columns[PERF_LATENCY_COLUMNS + 1] =
		(struct perf_column){"operation", "operation", "", 10, 0, PERF_TEXT};
	perf_table_begin(&perf->table, columns, PERF_LATENCY_COLUMNS + 2);
	if (!perf->rank)
		perf_table_heading(&perf->table);
	err = all_types(a);
	if (err)
		return err;
	err = tutti_win_free(a->win);
	return err ? perf_call_failed(perf, "win_free", err) : 0;
}

static int run(struct perf *perf, bool get)
{
	struct accumulates a = {.perf = perf, .get = get};
	size_t most = perf->opt.maxbytes > 16 ? perf->opt.maxbytes : 16; /* the longest element */
	struct perf_buffer bufs[3];
	int err;

	a.times = calloc((size_t)perf->opt.iters, sizeof(*a.times));
	err = a.times ? perf_oracle_init(&a.oracle) : -ENOMEM;
	if (err) {
		perf_call_failed(perf, "making room for times and results", err);
		goto free_times;
	}
	err = perf_buffers_get(perf, bufs, 3, most);
	if (err)
		goto free_oracle;
	a.local = bufs[0];
	a.old = bufs[1];
	err = run_window(&a, &bufs[2]);
	perf_buffers_put(bufs, 3);
free_oracle:
	perf_oracle_free(&a.oracle);
free_times:
	free(a.times);
	return err;
}

int perf_run_acc_lat(struct perf *perf)
{
	return run(perf, false);
}

int perf_run_get_acc_lat(struct perf *perf)
{
	return run(perf, true);
}
