/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring one-sided access between ranks 0 and 1, with the columns of perftest: put and get as
 * ib_write_bw and ib_read_bw print them, put_lat (a ping-pong of puts with notification, half the
 * round trip) as ib_write_lat, and amo_lat (an atomic from call to return) as ib_atomic_lat;
 * put_flush and get_lat (one put or get, and a flush) measure what osu_put_latency and
 * osu_get_latency do. Other ranks wait in barriers.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum kind { PUT, GET, LATENCY, ATOMIC, PUT_FLUSH, GET_FLUSH };

#define ADDED 3 /* by each fetch_add */

struct pair {
	struct perf *perf;
	enum kind kind;
	struct perf_buffer exposed; /* the window of this rank */
	struct perf_buffer local;   /* the data */
	struct tutti_win *win;
	size_t size;
	int atomic;
	uint64_t word; /* atomic: what rank 0 expects in the window of rank 1 */
	double *times; /* latency, atomic: one an iteration, microseconds */
};

static const struct perf_column rate_columns[] = {
	{"bytes", "#bytes", "", 14, 0, PERF_INT},
	{"iterations", "#iterations", "", 12, 0, PERF_INT},
	{"bw_peak_mib_s", "BW peak", "[MiB/sec]", 12, 2, PERF_FIXED},
	{"bw_average_mib_s", "BW average", "[MiB/sec]", 12, 2, PERF_FIXED},
	{"msg_rate_mpps", "MsgRate", "[Mpps]", 12, 6, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};
/* amo_lat has the last one, too */
static const struct perf_column latency_columns[] = {
	{"bytes", "#bytes", "", 14, 0, PERF_INT},
	{"iterations", "#iterations", "", 12, 0, PERF_INT},
	{"t_min_us", "t_min", "[usec]", 9, 2, PERF_FIXED},
	{"t_max_us", "t_max", "[usec]", 9, 2, PERF_FIXED},
	{"t_typical_us", "t_typical", "[usec]", 10, 2, PERF_FIXED},
	{"t_avg_us", "t_avg", "[usec]", 9, 2, PERF_FIXED},
	{"t_stdev_us", "t_stdev", "[usec]", 9, 2, PERF_FIXED},
	{"p99_us", "99%", "[usec]", 9, 2, PERF_FIXED},
	{"p999_us", "99.9%", "[usec]", 9, 2, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
	{"atomic", "atomic", "", 13, 0, PERF_TEXT},
};
_Static_assert(sizeof(latency_columns) / sizeof(*latency_columns) == PERF_LATENCY_COLUMNS + 1,
	       "perf.h");

void perf_latency_table(struct perf_table *table, bool atomic)
{
	perf_table_begin(table, latency_columns, PERF_LATENCY_COLUMNS + atomic);
}

void perf_latency_columns(struct perf_column columns[PERF_LATENCY_COLUMNS])
{
	memcpy(columns, latency_columns, PERF_LATENCY_COLUMNS * sizeof(*columns));
}

struct perf_cell *perf_latency_cells(const struct perf *perf, double *times, struct perf_cell *cell)
{
	struct perf_summary sum;

	perf_summarize(times, (size_t)perf->opt.iters, &sum);
	(cell++)->real = sum.min;
	(cell++)->real = sum.max;
	(cell++)->real = sum.median;
	(cell++)->real = sum.mean;
	(cell++)->real = sum.stdev;
	(cell++)->real = sum.p99;
	(cell++)->real = sum.p999;
	return cell;
}

/* The data of rank in round `round`; every rank and round has a different byte at each place. */
static unsigned char pattern(int rank, unsigned int round, size_t i)
{
	return (unsigned char)(i * 167 + (i >> 8) * 13 + (size_t)rank * 59 + round * 101 + 1);
}

void perf_bytes_fill(unsigned char *dst, size_t len, int rank, unsigned int round)
{
	size_t i;

	for (i = 0; i < len; i++)
		dst[i] = pattern(rank, round, i);
}

size_t perf_bytes_wrong(const unsigned char *buf, size_t len, int rank, unsigned int round)
{
	size_t i, wrong = 0;

	for (i = 0; i < len; i++)
		wrong += buf[i] != pattern(rank, round, i);
	return wrong;
}

static int transfer(const struct pair *p)
{
	int err;

	if (p->kind == PUT || p->kind == PUT_FLUSH) {
		err = tutti_put(p->win, 1, p->local.data, p->size, 0);
		return err ? perf_call_failed(p->perf, "put", err) : 0;
	}
	err = tutti_get(p->win, 1, p->local.data, p->size, 0);
	return err ? perf_call_failed(p->perf, "get", err) : 0;
}

static int flush(const struct pair *p)
{
	int err = tutti_win_flush(p->win, 1);

	return err ? perf_call_failed(p->perf, "win_flush", err) : 0;
}

/* n transfers with up to depth of them under way; *peak is the best rate of a window of depth. */
static int stream(const struct pair *p, int n, double *peak)
{
	uint64_t start, took;
	int i, batch, err;

	while (n > 0) {
		batch = n < p->perf->opt.depth ? n : p->perf->opt.depth;
		start = perf_now_ns();
		for (i = 0; i < batch; i++) {
			err = transfer(p);
			if (err)
				return err;
		}
		err = flush(p);
		if (err)
			return err;
		took = perf_now_ns() - start;
		if (took && batch * 1e9 / (double)took > *peak)
			*peak = batch * 1e9 / (double)took;
		n -= batch;
	}
	return 0;
}

static int ping(const struct pair *p, int other)
{
	int err = tutti_put_notify(p->win, other, p->local.data, p->size, 0);

	return err ? perf_call_failed(p->perf, "put_notify", err) : 0;
}

static int pong(const struct pair *p, int other)
{
	int err = tutti_wait_notify(p->win, other, 1);

	return err ? perf_call_failed(p->perf, "wait_notify", err) : 0;
}

/*
 * n round trips, one after the other without a pause. The clock is read while a ping is on its
 * way: from there to the same moment of the next round trip is one round trip, so there is one
 * more of them.
 */
static int ping_pong(const struct pair *p, int n, double *times)
{
	int me = p->perf->rank, i, err = 0;
	uint64_t start = 0, now;

	for (i = 0; i <= n && !err; i++) {
		err = me ? pong(p, 0) : ping(p, 1);
		if (!me && times) {
			now = perf_now_ns();
			if (i)
				times[i - 1] = (double)(now - start) / 2e3; /* half of it */
			start = now;
		}
		if (!err)
			err = me ? ping(p, 0) : pong(p, 1);
	}
	if (err)
		return err;
	err = tutti_win_flush(p->win, !me);
	return err ? perf_call_failed(p->perf, "win_flush", err) : 0;
}

/* One atomic on rank 1's word; p->word is its value before, and is updated. */
static int one_atomic(struct pair *p, uint64_t *old)
{
	uint64_t next = p->word + ADDED;
	int err;

	if (p->atomic == PERF_FETCH_ADD) {
		err = tutti_fetch_add(p->win, 1, ADDED, 0, old);
		if (err)
			return perf_call_failed(p->perf, "fetch_add", err);
	} else {
		err = tutti_compare_swap(p->win, 1, p->word, next, 0, old);
		if (err)
			return perf_call_failed(p->perf, "compare_swap", err);
	}
	p->word = next;
	return 0;
}

static int atomics(struct pair *p, int n, double *times)
{
	uint64_t start, old;
	int i, err;

	for (i = 0; i < n; i++) {
		start = perf_now_ns();
		err = one_atomic(p, &old);
		if (err)
			return err;
		if (times)
			times[i] = (double)(perf_now_ns() - start) / 1e3;
	}
	return 0;
}

/* n transfers, one after the other, each until it is over at rank 1 or here. */
static int one_by_one(const struct pair *p, int n, double *times)
{
	uint64_t start;
	int i, err = 0;

	for (i = 0; i < n && !err; i++) {
		start = perf_now_ns();
		err = transfer(p);
		if (!err)
			err = flush(p);
		if (times)
			times[i] = (double)(perf_now_ns() - start) / 1e3;
	}
	return err;
}

static int move(struct pair *p, int n, double *times, double *peak)
{
	if (p->kind == PUT_FLUSH || p->kind == GET_FLUSH)
		return p->perf->rank == 0 ? one_by_one(p, n, times) : 0;
	if (p->kind == ATOMIC)
		return p->perf->rank == 0 ? atomics(p, n, times) : 0;
	if (p->kind == LATENCY)
		return p->perf->rank < 2 ? ping_pong(p, n, times) : 0;
	return p->perf->rank == 0 ? stream(p, n, peak) : 0;
}

static int meet(const struct pair *p)
{
	int err = tutti_barrier(p->perf->world);

	return err ? perf_call_failed(p->perf, "barrier", err) : 0;
}

/* The destination of a transfer on this rank, and its sender; NULL: not on this rank. */
static const struct perf_buffer *landing(const struct pair *p, int *sender)
{
	int me = p->perf->rank;

	*sender = !me;
	if (p->kind == GET || p->kind == GET_FLUSH)
		return me == 0 ? &p->local : NULL;
	if (p->kind == PUT || p->kind == PUT_FLUSH)
		return me == 1 ? &p->exposed : NULL;
	return me < 2 ? &p->exposed : NULL;
}

/* The word as rank 1 has it, which no one accesses now. */
static uint64_t *word_of(const struct pair *p)
{
	return (uint64_t *)(void *)p->exposed.data;
}

/* -c for atomics: a word that was not there before, its old values here, its last one there. */
static int check_atomics(struct pair *p, uint64_t *wrong_total)
{
	int i, err = 0, rounds = p->perf->opt.check;
	double wrong = 0;
	uint64_t old, first = ~0ull - ADDED;

	perf_guard_set(&p->exposed, p->size);
	*word_of(p) = p->word = first;
	err = meet(p);
	for (i = 0; i < rounds && !err && p->perf->rank == 0; i++) {
		err = one_atomic(p, &old);
		wrong += old != p->word - ADDED;
	}
	if (!err)
		err = meet(p);
	if (err)
		return err;
	if (p->perf->rank == 1)
		wrong += *word_of(p) != first + (uint64_t)rounds * ADDED;
	err = perf_agree_found(p->perf, &wrong,
			       (double)perf_guard_violations(&p->exposed, p->size));
	*wrong_total = (uint64_t)wrong;
	return err;
}

/* -c: one more transfer each, of data that was not there before. */
static int check(struct pair *p, uint64_t *wrong_total)
{
	const struct perf_buffer *dst;
	double wrong = 0, bounds = 0, unused = 0;
	int i, sender, err;

	for (i = 0; i < p->perf->opt.check; i++) {
		perf_guard_set(&p->exposed, p->size);
		perf_guard_set(&p->local, p->size);
		perf_bytes_fill(p->exposed.data, p->size, p->perf->rank, (unsigned int)i);
		perf_bytes_fill(p->local.data, p->size, p->perf->rank, (unsigned int)i);
		err = meet(p);
		if (!err)
			err = move(p, 1, NULL, &unused);
		if (!err)
			err = meet(p);
		if (err)
			return err;
		dst = landing(p, &sender);
		if (dst)
			wrong += (double)perf_bytes_wrong(dst->data, p->size, sender,
							  (unsigned int)i);
		bounds += (double)perf_guard_violations(&p->exposed, p->size);
		bounds += (double)perf_guard_violations(&p->local, p->size);
	}
	err = perf_agree_found(p->perf, &wrong, bounds);
	*wrong_total = (uint64_t)wrong;
	return err;
}

/* Returns the cell after these. */
static struct perf_cell *rate_cells(const struct pair *p, double seconds, double peak,
				    struct perf_cell *cell)
{
	double mib = (double)p->size / (1 << 20), rate = p->perf->opt.iters / seconds;

	(cell++)->real = peak * mib;
	(cell++)->real = rate * mib;
	(cell++)->real = rate / 1e6;
	return cell;
}

static int one_row(struct pair *p)
{
	const struct perf_options *opt = &p->perf->opt;
	struct perf_table *table = &p->perf->table;
	struct perf_cell cells[PERF_LATENCY_COLUMNS + 1] = {{0}}, *wrong_cell;
	double peak = 0, unused = 0, seconds;
	uint64_t wrong = 0, start;
	int err;

	perf_progress(p->perf, "measuring");
	perf_bytes_fill(p->local.data, p->size, p->perf->rank, 0);
	if (p->kind == ATOMIC)
		*word_of(p) = p->word = 0;
	err = meet(p);
	if (!err)
		err = move(p, opt->warmup, NULL, &unused);
	if (!err)
		err = meet(p);
	start = perf_now_ns();
	if (!err)
		err = move(p, opt->iters, p->times, &peak);
	seconds = (double)(perf_now_ns() - start) / 1e9;
	if (!err)
		err = meet(p);
	if (!err && opt->check)
		err = p->kind == ATOMIC ? check_atomics(p, &wrong) : check(p, &wrong);
	if (err || p->perf->rank)
		return err;
	cells[0].number = (int64_t)p->size;
	cells[1].number = opt->iters;
	if (p->kind == PUT || p->kind == GET)
		wrong_cell = rate_cells(p, seconds, peak, cells + 2);
	else
		wrong_cell = perf_latency_cells(p->perf, p->times, cells + 2);
	wrong_cell->number = (int64_t)wrong;
	wrong_cell->absent = !opt->check;
	if (p->kind == ATOMIC)
		wrong_cell[1].text = perf_atomic_names[p->atomic];
	return perf_table_row(table, cells);
}

static int all_sizes(struct pair *p)
{
	const struct perf_options *opt = &p->perf->opt;
	int err;

	p->size = opt->minbytes;
	do {
		perf_progress_row(p->perf, p->size);
		err = one_row(p);
		p->size = perf_next_size(opt, p->size, p->size + 1);
	} while (!err && p->size);
	return err;
}

static int all_atomics(struct pair *p)
{
	int chosen = p->perf->opt.atomic, err = 0;

	p->size = sizeof(p->word);
	for (p->atomic = 0; p->atomic < PERF_ATOMICS && !err; p->atomic++) {
		if (chosen != PERF_ALL && chosen != p->atomic)
			continue;
		perf_progress_row(p->perf, p->size);
		err = one_row(p);
	}
	return err;
}

static void begin_table(struct perf_table *table, enum kind kind)
{
	if (kind == PUT || kind == GET)
		perf_table_begin(table, rate_columns, 6);
	else
		perf_latency_table(table, kind == ATOMIC);
}

static int run_windows(struct pair *p)
{
	struct perf *perf = p->perf;
	int err;

	err = tutti_win_create(perf->world, p->exposed.data, p->exposed.size, 0, &p->win);
	if (err)
		return perf_call_failed(perf, "win_create", err);
	begin_table(&perf->table, p->kind);
	if (!perf->rank)
		perf_table_heading(&perf->table);
	err = p->kind == ATOMIC ? all_atomics(p) : all_sizes(p);
	if (!err) {
		err = tutti_win_free(p->win);
		if (err)
			perf_call_failed(perf, "win_free", err);
	}
	return err;
}

static int run(struct perf *perf, enum kind kind)
{
	struct pair p = {.perf = perf, .kind = kind};
	size_t size = kind == ATOMIC ? sizeof(p.word) : perf->opt.maxbytes;
	struct perf_buffer bufs[2];
	int err;

	p.times = calloc((size_t)perf->opt.iters, sizeof(*p.times));
	if (!p.times)
		return perf_call_failed(perf, "making room for times", -ENOMEM);
	err = perf_buffers_get(perf, bufs, 2, size);
	if (err)
		goto free_times;
	p.exposed = bufs[0];
	p.local = bufs[1];
	err = run_windows(&p);
	perf_buffers_put(bufs, 2);
free_times:
	free(p.times);
	return err;
}

int perf_run_put(struct perf *perf)
{
	return run(perf, PUT);
}

int perf_run_get(struct perf *perf)
{
	return run(perf, GET);
}

int perf_run_put_flush(struct perf *perf)
{
	return run(perf, PUT_FLUSH);
}

int perf_run_get_lat(struct perf *perf)
{
	return run(perf, GET_FLUSH);
}

int perf_run_latency(struct perf *perf)
{
	return run(perf, LATENCY);
}

int perf_run_atomic(struct perf *perf)
{
	return run(perf, ATOMIC);
}
