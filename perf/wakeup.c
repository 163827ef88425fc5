/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the cost of waking a sleeping rank: rank 0 computes until the other ranks sleep, then
 * times their answer, and again at once while they are awake. The difference is the cost of the
 * wake-up. Clocks of different hosts are never compared.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdlib.h>

#define PAUSE_NS 5000000u /* longer than the library spins by itself */
#define BYTES 8

enum call { NOTIFY, BARRIER, CALLS };
static const char *const names[] = {"put_notify", "barrier"};

struct run {
	struct perf *perf;
	struct perf_buffer bufs[2]; /* exposed, sent */
	struct tutti_win *win;
	enum call call;
	double *asleep, *awake; /* microseconds, one an iteration */
	int slept;		/* of this rank's waits */
};

static const struct perf_column columns[] = {
	{"call", "call", "", 11, 0, PERF_TEXT},
	{"iterations", "#iterations", "", 12, 0, PERF_INT},
	{"slept", "#slept", "", 8, 0, PERF_INT},
	{"awake_us", "awake", "[usec]", 10, 2, PERF_FIXED},
	{"asleep_us", "asleep", "[usec]", 10, 2, PERF_FIXED},
	{"wakeup_us", "wake-up", "[usec]", 10, 2, PERF_FIXED},
	{"p99_us", "99%", "[usec]", 10, 2, PERF_FIXED},
	{"max_us", "max", "[usec]", 10, 2, PERF_FIXED},
};

static int notify(const struct run *r, int other)
{
	int err = tutti_put_notify(r->win, other, r->bufs[1].data, BYTES, 0);

	return err ? perf_call_failed(r->perf, "put_notify", err) : 0;
}

static int wait(const struct run *r, int other)
{
	int err = tutti_wait_notify(r->win, other, 1);

	return err ? perf_call_failed(r->perf, "wait_notify", err) : 0;
}

static int meet(const struct run *r)
{
	int err = tutti_barrier(r->perf->world);

	return err ? perf_call_failed(r->perf, "barrier", err) : 0;
}

/* There and back. The others wait for rank 0 first, which waits for them then. */
static int exchange(const struct run *r)
{
	int me = r->perf->rank, err;

	if (r->call == BARRIER) {
		err = meet(r);
		return err ? err : meet(r);
	}
	if (me > 1)
		return 0;
	err = me ? wait(r, 0) : notify(r, 1);
	if (err)
		return err;
	return me ? notify(r, 0) : wait(r, 1);
}

/* Not asleep itself: what its own processor takes to come back is no part of this. */
static void stay_busy(void)
{
	uint64_t until = perf_now_ns() + PAUSE_NS;

	while (perf_now_ns() < until)
		;
}

static int sleeps(const struct run *r, uint64_t *n)
{
	struct tutti_stats stats = {.size = sizeof(stats)};
	int err = tutti_stats_get(r->perf->ctx, &stats);

	*n = stats.sleeps;
	return err ? perf_call_failed(r->perf, "stats_get", err) : 0;
}

static int once(struct run *r, double *asleep, double *awake)
{
	uint64_t before, after, start, between;
	int err = sleeps(r, &before);

	if (err)
		return err;
	if (!r->perf->rank)
		stay_busy();
	start = perf_now_ns();
	err = exchange(r);
	between = perf_now_ns();
	if (!err)
		err = exchange(r);
	*awake = (double)(perf_now_ns() - between) / 1e3;
	*asleep = (double)(between - start) / 1e3;
	if (!err)
		err = sleeps(r, &after);
	r->slept += !err && after > before;
	return err;
}

/* The least number of sleeps among the ranks that rank 0 wakes. */
static int agree_slept(const struct run *r, int64_t *slept)
{
	int me = r->perf->rank, err;
	double least = me == 1 || (me && r->call == BARRIER) ? r->slept : r->perf->opt.iters;

	err = perf_agree(r->perf, &least, TUTTI_MIN);
	*slept = (int64_t)least;
	return err;
}

static int one_row(struct run *r)
{
	const struct perf_options *opt = &r->perf->opt;
	struct perf_summary asleep, awake;
	double unused;
	int64_t slept;
	int i, err;

	perf_progress_row(r->perf, BYTES);
	err = meet(r);
	for (i = -opt->warmup; i < opt->iters && !err; i++) {
		if (!i)
			r->slept = 0;
		err = once(r, i < 0 ? &unused : &r->asleep[i], i < 0 ? &unused : &r->awake[i]);
		perf_progress(r->perf, "measuring");
	}
	if (!err)
		err = agree_slept(r, &slept);
	if (err || r->perf->rank)
		return err;
	perf_summarize(r->asleep, (size_t)opt->iters, &asleep);
	perf_summarize(r->awake, (size_t)opt->iters, &awake);
	return perf_table_row(&r->perf->table,
			      (struct perf_cell[]){{.text = names[r->call]},
						   {.number = opt->iters},
						   {.number = slept},
						   {.real = awake.median},
						   {.real = asleep.median},
						   {.real = asleep.median - awake.median},
						   {.real = asleep.p99 - awake.median},
						   {.real = asleep.max - awake.median}});
}

static int all_calls(struct run *r)
{
	struct perf *perf = r->perf;
	int call, err;

	err = tutti_win_create(perf->world, r->bufs[0].data, r->bufs[0].size, 0, &r->win);
	if (err)
		return perf_call_failed(perf, "win_create", err);
	for (call = 0; call < CALLS && !err; call++) {
		r->call = (enum call)call;
		err = one_row(r);
	}
	if (err)
		return err;
	err = tutti_win_free(r->win);
	return err ? perf_call_failed(perf, "win_free", err) : 0;
}

int perf_run_wakeup(struct perf *perf)
{
	double *times = calloc((size_t)perf->opt.iters * 2, sizeof(*times));
	struct run r = {.perf = perf, .asleep = times, .awake = times + perf->opt.iters};
	int err;

	if (!times)
		return perf_call_failed(perf, "making room for times", -ENOMEM);
	err = perf_buffers_get(perf, r.bufs, 2, BYTES);
	if (err)
		goto free_times;
	perf_table_begin(&perf->table, columns, sizeof(columns) / sizeof(*columns));
	if (!perf->rank)
		perf_table_heading(&perf->table);
	err = all_calls(&r);
	perf_buffers_put(r.bufs, 2);
free_times:
	free(times);
	return err;
}
