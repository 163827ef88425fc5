/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring collectives, with the columns of nccl-tests. */
#include "perf/coll.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct outcome {
	double time, min, p99; /* microseconds; with --stat time is the median */
	double sent;	       /* --stat: bytes of a call, of the rank that sent most */
	uint64_t wrong;
};

static int barrier(struct perf *perf)
{
	int err = tutti_barrier(perf->world);

	return err ? perf_call_failed(perf, "barrier", err) : 0;
}

static int buffers_each(const struct perf_coll_job *job)
{
	return job->kind->places == PERF_IN_PLACE ? 1 : 2;
}

/* The buffers of iteration i, and its step along a graph. */
static void turn(struct perf_coll_job *job, int i)
{
	if (job->coll == PERF_BARRIER)
		return;
	job->step = (uint64_t)i;
	job->recv = job->bufs + i % job->perf->opt.rotate * buffers_each(job);
	job->send = job->in_place ? job->recv : job->recv + 1;
}

static void fill(struct perf_coll_job *job)
{
	memset(job->recv->data, 0, job->bytes);
	if (job->perf->opt.fill == PERF_RANDOM)
		perf_fill_random((void *)job->send->data, job->bytes / sizeof(float),
				 job->perf->rank);
	else
		memset(job->send->data, 0, job->bytes);
}

/* Zeros summed in place, over and over, stay finite; others are filled in again. */
static uint64_t refill(struct perf_coll_job *job)
{
	uint64_t start = perf_now_ns();

	if (!job->in_place || job->perf->opt.fill != PERF_RANDOM)
		return 0;
	fill(job);
	return perf_now_ns() - start;
}

/* As nccl-tests: iterations back to back, the mean of each rank, then over ranks as -a says. */
static int time_batch(struct perf_coll_job *job, struct outcome *out)
{
	static const enum tutti_op across[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_MIN, TUTTI_MAX};
	const struct perf_options *opt = &job->perf->opt;
	uint64_t start;
	int i, err;

	err = barrier(job->perf);
	start = perf_now_ns();
	for (i = 0; i < opt->iters && !err; i++) {
		turn(job, opt->warmup + i);
		start += refill(job);
		err = perf_coll_call(job);
	}
	out->time = (double)(perf_now_ns() - start) / 1e3 / opt->iters;
	if (err || !opt->average)
		return err;
	return perf_agree(job->perf, &out->time, across[opt->average]);
}

/* Bytes that this rank has moved to and from the memory of others. */
static double moved(const struct perf *perf)
{
	struct tutti_stats stats = {.size = sizeof(stats)};

	tutti_stats_get(perf->ctx, &stats);
	return (double)(stats.put_bytes + stats.got_bytes);
}

/* --stat: each iteration starts with a barrier and takes as long as its slowest rank. */
static int time_each(struct perf_coll_job *job, struct outcome *out)
{
	struct perf *perf = job->perf;
	struct perf_summary sum;
	double before;
	uint64_t start;
	int i, err = 0;

	for (i = 0; i < perf->opt.iters && !err; i++) {
		turn(job, perf->opt.warmup + i);
		refill(job);
		err = barrier(perf);
		if (err)
			return err;
		before = moved(perf);
		start = perf_now_ns();
		err = perf_coll_call(job);
		job->times[i] = (double)(perf_now_ns() - start) / 1e3;
		out->sent += (moved(perf) - before) / perf->opt.iters;
		perf_progress(perf, "measuring");
	}
	if (err)
		return err;
	err = tutti_allreduce(TUTTI_IN_PLACE, job->times, (size_t)perf->opt.iters, TUTTI_FLOAT64,
			      TUTTI_MAX, perf->world);
	if (err)
		return perf_call_failed(perf, "allreduce", err);
	perf_summarize(job->times, (size_t)perf->opt.iters, &sum);
	out->time = sum.median;
	out->min = sum.min;
	out->p99 = sum.p99;
	return perf_agree(perf, &out->sent, TUTTI_MAX);
}

/*
 * -c: wrong elements go to the column, bytes changed where nothing may be written to the footer. A
 * round has all steps of a graph.
 */
static int check(struct perf_coll_job *job, struct outcome *out)
{
	int steps = job->graph ? tutti_graph_period(job->graph) : 1, i, err;
	double wrong = 0, bounds = 0;

	for (i = 0; i < job->perf->opt.check * steps; i++) {
		perf_progress(job->perf, "checking");
		turn(job, i);
		err = job->graph ? perf_neighbors_find(job) : 0;
		if (err)
			return err;
		perf_coll_fill(job, (uint64_t)i);
		err = perf_coll_call(job);
		if (err)
			return err;
		wrong += (double)perf_coll_wrong(job, (uint64_t)i);
		bounds += (double)perf_coll_violations(job, (uint64_t)i);
	}
	err = perf_agree_found(job->perf, &wrong, bounds);
	if (!err)
		out->wrong = (uint64_t)wrong;
	return err;
}

static int measure(struct perf_coll_job *job, struct outcome *out)
{
	const struct perf_options *opt = &job->perf->opt;
	int i, err = 0;

	memset(out, 0, sizeof(*out));
	perf_progress(job->perf, "warming up");
	for (i = 0; i < opt->rotate && job->coll != PERF_BARRIER; i++) {
		turn(job, i);
		fill(job);
	}
	for (i = 0; (i < opt->warmup || i < opt->rotate) && !err; i++) {
		turn(job, i);
		refill(job);
		err = perf_coll_call(job);
	}
	perf_progress(job->perf, "measuring");
	if (!err)
		err = opt->stat ? time_each(job, out) : time_batch(job, out);
	if (!err && job->coll != PERF_BARRIER && opt->check)
		err = check(job, out);
	return err;
}

/* The columns of one side, with and without --stat. */
/* clang-format off */
#define SIDE(prefix) \
	{prefix "time_us", "time", "(us)", 8, 0, PERF_USEC}, \
	{prefix "algbw_gbs", "algbw", "(GB/s)", 7, 2, PERF_FIXED}, \
	{prefix "busbw_gbs", "busbw", "(GB/s)", 7, 2, PERF_FIXED}, \
	{prefix "wrong", "#wrong", "", 6, 0, PERF_INT}
#define SIDE_STAT(prefix) \
	{prefix "p50_us", "time", "(us)", 8, 0, PERF_USEC}, \
	{prefix "min_us", "min", "(us)", 8, 0, PERF_USEC}, \
	{prefix "p99_us", "p99", "(us)", 8, 0, PERF_USEC}, \
	{prefix "sent_bytes", "sent", "(B)", 10, 0, PERF_INT}, \
	{prefix "algbw_gbs", "algbw", "(GB/s)", 7, 2, PERF_FIXED}, \
	{prefix "busbw_gbs", "busbw", "(GB/s)", 7, 2, PERF_FIXED}, \
	{prefix "wrong", "#wrong", "", 6, 0, PERF_INT}
#define WHAT \
	{"size", "size", "(B)", 13, 0, PERF_INT}, \
	{"count", "count", "(elements)", 13, 0, PERF_INT}, \
	{"type", "type", "", 9, 0, PERF_TEXT}, \
	{"redop", "redop", "", 7, 0, PERF_TEXT}, \
	{"root", "root", "", 7, 0, PERF_INT}
/* clang-format on */

enum { WHAT_COLUMNS = 5, SIDE_COLUMNS = 4, SIDE_STAT_COLUMNS = 7 };
static const struct perf_column plain_columns[] = {WHAT, SIDE("oop_"), SIDE("ip_")};
static const struct perf_column stat_columns[] = {WHAT, SIDE_STAT("oop_"), SIDE_STAT("ip_")};
static const struct perf_column barrier_columns[] = {
	{"iterations", "iterations", "", 13, 0, PERF_INT},
	{"time_us", "time", "(us)", 9, 0, PERF_USEC},
};
static const struct perf_column barrier_stat_columns[] = {
	{"iterations", "iterations", "", 13, 0, PERF_INT},
	{"p50_us", "time", "(us)", 9, 0, PERF_USEC},
	{"min_us", "min", "(us)", 9, 0, PERF_USEC},
	{"p99_us", "p99", "(us)", 9, 0, PERF_USEC},
};

static void put_side(const struct perf_coll_job *job, const struct outcome *out,
		     struct perf_cell *cell)
{
	struct perf *perf = job->perf;
	double n = perf->nranks, algbw = 0, busbw;

	if (out->time > 0)
		algbw = (double)job->bytes / out->time / 1e3; /* bytes a microsecond, to GB/s */
	busbw = algbw * job->kind->busbw * (job->kind->scales ? (n - 1) / n : 1);
	if (job->coll == PERF_NEIGHBOR_ALLREDUCE)
		busbw *= job->degree;
	perf->totals.busbw_sum += busbw;
	perf->totals.busbw_count++;
	(cell++)->real = out->time;
	if (perf->opt.stat) {
		(cell++)->real = out->min;
		(cell++)->real = out->p99;
		(cell++)->number = (int64_t)out->sent;
	}
	(cell++)->real = algbw;
	(cell++)->real = busbw;
	cell->number = (int64_t)out->wrong;
	cell->absent = !perf->opt.check;
}

static void heading(const struct perf *perf)
{
	const struct perf_column *column = perf->table.columns;
	int side = perf->opt.stat ? SIDE_STAT_COLUMNS : SIDE_COLUMNS, left = 0, width = 0, i;

	for (i = 0; i < WHAT_COLUMNS; i++)
		left += column[i].width + 1;
	for (; i < WHAT_COLUMNS + side; i++)
		width += column[i].width + 1;
	printf("#%*s%*s%*s\n", left - 1, "", (width + 12) / 2, "out-of-place",
	       width - (width + 12) / 2 + (width + 8) / 2, "in-place");
	perf_table_heading(&perf->table);
}

/* Broadcast has one buffer, so its out-of-place columns stay empty; sendrecv needs two. */
static int one_row(struct perf_coll_job *job)
{
	struct perf_cell cells[sizeof(stat_columns) / sizeof(stat_columns[0])] = {{0}};
	int side = job->perf->opt.stat ? SIDE_STAT_COLUMNS : SIDE_COLUMNS, i, in_place, err;
	struct perf_cell *cell = cells + WHAT_COLUMNS;
	struct outcome out;

	cells[0].number = (int64_t)job->bytes;
	cells[1].number = (int64_t)job->count;
	cells[2].text = perf_type_name(job->datatype);
	cells[3].text = job->kind->reduces ? perf_op_name(job->op) : "none";
	cells[4].number = job->root;
	for (in_place = 0; in_place < 2; in_place++, cell += side) {
		if (job->kind->places == (in_place ? PERF_OUT_OF_PLACE : PERF_IN_PLACE)) {
			for (i = 0; i < side; i++)
				cell[i].absent = true;
			continue;
		}
		job->in_place = in_place;
		err = measure(job, &out);
		if (err)
			return err;
		put_side(job, &out, cell);
	}
	return job->perf->rank ? 0 : perf_table_row(&job->perf->table, cells);
}

static int with_feedback(struct perf_coll_job *job)
{
	int err = tutti_feedback_create(job->perf->world, job->codec, job->count, &job->feedback);

	if (err)
		return perf_call_failed(job->perf, "making a feedback state", err);
	err = one_row(job);
	tutti_feedback_free(job->feedback);
	return err;
}

static int all_sizes(struct perf_coll_job *job)
{
	const struct perf_options *opt = &job->perf->opt;
	size_t size = opt->minbytes;
	int err;

	do {
		perf_coll_resize(job, size, false);
		perf_progress_row(job->perf, job->bytes);
		err = job->codec ? with_feedback(job) : one_row(job);
		size = perf_next_size(opt, size, job->bytes + perf_coll_width(job));
	} while (!err && size);
	return err;
}

static int from(int option)
{
	return option == PERF_ALL ? 0 : option;
}

static int to(int option, int number)
{
	return option == PERF_ALL ? number - 1 : option;
}

static int all_roots(struct perf_coll_job *job)
{
	int root = job->kind->rooted ? from(job->perf->opt.root) : -1, err = 0;
	int last = job->kind->rooted ? to(job->perf->opt.root, job->perf->nranks) : -1;

	for (; root <= last && !err; root++) {
		job->root = root;
		err = all_sizes(job);
	}
	return err;
}

static bool fits(const struct perf_coll_job *job)
{
	bool scan = job->coll == PERF_SCAN || job->coll == PERF_EXSCAN;

	if (job->coll == PERF_NEIGHBOR_ALLREDUCE)
		return perf_type_averages(job->datatype);
	if (!job->kind->reduces)
		return true;
	return perf_op_fits(job->datatype, job->op) && !(scan && job->op == TUTTI_AVG);
}

static int all_combinations(struct perf_coll_job *job)
{
	const struct perf_options *opt = &job->perf->opt;
	bool reduces = job->kind->reduces;
	int type, op, last = reduces ? to(opt->op, TUTTI_NUM_OPS) : 0, err = 0;

	for (type = from(opt->datatype); type <= to(opt->datatype, TUTTI_NUM_DATATYPES); type++)
		for (op = reduces ? from(opt->op) : 0; op <= last && !err; op++) {
			job->datatype = type;
			job->op = op;
			if (fits(job))
				err = all_roots(job);
		}
	return err;
}

static int run_data(struct perf_coll_job *job)
{
	struct perf_buffer bufs[2 * PERF_ROTATE];
	struct perf_oracle oracle = {.nranks = job->perf->nranks};
	struct perf *perf = job->perf;
	int nbufs = perf->opt.rotate * buffers_each(job), err;
	bool stat = perf->opt.stat;

	err = perf_oracle_init(&oracle);
	if (err)
		return perf_call_failed(perf, "making test data", err);
	job->oracle = &oracle;
	job->bufs = bufs;
	err = perf_buffers_get(perf, bufs, nbufs, perf->opt.maxbytes);
	if (err)
		goto free_oracle;
	perf_table_begin(&perf->table, stat ? stat_columns : plain_columns,
			 WHAT_COLUMNS + 2 * (stat ? SIDE_STAT_COLUMNS : SIDE_COLUMNS));
	if (!perf->rank)
		heading(perf);
	err = all_combinations(job);
	perf_buffers_put(bufs, nbufs);
free_oracle:
	perf_oracle_free(&oracle);
	return err;
}

static int run_barrier(struct perf_coll_job *job)
{
	struct perf_cell cells[4] = {{.number = job->perf->opt.iters}};
	struct perf *perf = job->perf;
	bool stat = perf->opt.stat;
	struct outcome out;
	int err;

	perf_table_begin(&perf->table, stat ? barrier_stat_columns : barrier_columns, stat ? 4 : 2);
	if (!perf->rank)
		perf_table_heading(&perf->table);
	perf_progress_row(perf, 0);
	err = measure(job, &out);
	if (err || perf->rank)
		return err;
	cells[1].real = out.time;
	cells[2].real = out.min;
	cells[3].real = out.p99;
	return perf_table_row(&perf->table, cells);
}

static int make_codec(struct perf_coll_job *job)
{
	const char *name = job->perf->opt.codec;
	int err = name ? tutti_codec_create(name, &job->codec) : 0;

	return err ? perf_call_failed(job->perf, "making a codec", err) : 0;
}

int perf_run_coll(struct perf *perf)
{
	struct perf_coll_job job = {.perf = perf};
	int err;

	while (strcmp(perf_coll_kinds[job.coll].name, perf->opt.cmd->name))
		job.coll++;
	job.kind = &perf_coll_kinds[job.coll];
	err = make_codec(&job);
	if (err)
		return err;
	if (perf->opt.stat) {
		job.times = calloc((size_t)perf->opt.iters, sizeof(*job.times));
		if (!job.times)
			return perf_call_failed(perf, "making room for times", -ENOMEM);
	}
	job.counts = calloc((size_t)perf->nranks, sizeof(*job.counts));
	if (!job.counts) {
		free(job.times);
		return perf_call_failed(perf, "making room for counts", -ENOMEM);
	}
	if (job.kind->neighbors)
		err = perf_neighbors_begin(&job);
	if (!err)
		err = job.coll == PERF_BARRIER ? run_barrier(&job) : run_data(&job);
	perf_neighbors_end(&job);
	free(job.counts);
	free(job.times);
	tutti_codec_free(job.codec);
	return err;
}
