/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partial all-reduces, with one rank late if asked: the time of a call of the slowest other rank,
 * and how many ranks take part. Two checks: when each rank has contributed once, a round is the sum
 * of the ranks in its bitmap; and all rounds together are the sum of all contributions.
 */
#include "perf/averages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PERIOD AVERAGES_PERIOD

const char *const perf_quorum_names[] = {"all", "majority", NULL};

static const struct perf_column columns[] = {
	{"size", "size", "(B)", 13, 0, PERF_INT},
	{"count", "count", "(elements)", 13, 0, PERF_INT},
	{"type", "type", "", 9, 0, PERF_TEXT},
	{"time_us", "time", "(us)", 11, 0, PERF_USEC},
	{"p99_us", "99%", "(us)", 11, 0, PERF_USEC},
	{"participants", "took part", "(ranks)", 11, 2, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

int perf_partial_quorum(const struct perf *perf)
{
	int quorum = perf->opt.quorum;

	return quorum == TUTTI_PARTIAL_MAJORITY ? perf->nranks / 2 + 1
	       : quorum				? quorum
						: perf->nranks;
}

void perf_partial_settings(const struct perf *perf, char *text, size_t size)
{
	const struct perf_options *opt = &perf->opt;
	size_t n = (size_t)snprintf(text, size, "quorum %d", perf_partial_quorum(perf));

	if (opt->cutoff_us && n < size)
		n += (size_t)snprintf(text + n, size - n, ", cutoff %d us", opt->cutoff_us);
	if (opt->late_us && n < size)
		n += (size_t)snprintf(text + n, size - n, ", rank %d late by %d us", opt->late_rank,
				      opt->late_us);
	if (opt->drop && n < size)
		snprintf(text + n, size - n, ", drop");
}

static bool is_late(const struct averages *r)
{
	return r->perf->opt.late_us && r->perf->rank == r->perf->opt.late_rank;
}

static void *result(const struct averages *r)
{
	return r->buf[1].data;
}

/* A call. A rank that is too far behind has contributed, and gets no result. */
static int contribute(struct averages *r, bool *got)
{
	const struct perf_options *opt = &r->perf->opt;
	uint64_t from;
	int err;

	if (is_late(r))
		nanosleep(&(struct timespec){.tv_sec = opt->late_us / 1000000,
					     .tv_nsec = opt->late_us % 1000000 * 1000L},
			  NULL);
	from = perf_now_ns();
	err = tutti_partial_allreduce(r->partial, r->buf[0].data, result(r), r->took, NULL,
				      &r->round);
	r->usec = averages_usec_since(&from);
	*got = !err;
	if (err == -ESTALE)
		err = tutti_partial_resync(r->partial, &r->round);
	return averages_failed(r, "partial_allreduce", err);
}

static int drain(struct averages *r, bool *got)
{
	uint64_t first;
	int err;

	do
		err = tutti_partial_drain(r->partial, result(r), r->took, &first, &r->round);
	while (err == -ESTALE && !tutti_partial_resync(r->partial, &r->round));
	*got = !err && first <= r->round;
	return averages_failed(r, "partial_drain", err);
}

static int ranks_in(const struct averages *r)
{
	int k, n = 0;

	for (k = 0; k < r->perf->nranks; k++)
		n += r->took[k / 8] >> k % 8 & 1;
	return n;
}

/* Takes messages of ranks that have made their steps: those that are there, or of all others. */
static int hear(struct averages *r, bool all, int *heard)
{
	struct tutti_comm *world = r->perf->world;
	int found = 1, err = 0;

	while (*heard < r->perf->nranks - 1 && found && !err) {
		if (!all)
			err = tutti_iprobe(TUTTI_ANY_SOURCE, 0, world, &found, NULL);
		if (!err && found)
			err = tutti_recv(NULL, 0, TUTTI_UINT8, TUTTI_ANY_SOURCE, 0, world, NULL);
		*heard += found;
	}
	return averages_failed(r, "recv", err);
}

/* The late rank stops when all others have made their steps. */
static int partial_times(struct averages *r, double *taken)
{
	const struct perf_options *opt = &r->perf->opt;
	struct tutti_comm *world = r->perf->world;
	int i, heard = 0, err = averages_failed(r, "barrier", tutti_barrier(world));
	bool got;

	for (i = -opt->warmup; i < opt->iters && !err && heard < r->perf->nranks - 1; i++) {
		err = contribute(r, &got);
		if (i >= 0) {
			r->times[i] = r->usec;
			*taken += ranks_in(r);
		}
		if (!err && is_late(r))
			err = hear(r, false, &heard);
	}
	if (!err && opt->late_us && !is_late(r))
		err = averages_failed(r, "send",
				      tutti_send(NULL, 0, TUTTI_UINT8, opt->late_rank, 0, world));
	if (!err)
		err = drain(r, &got);
	return err || !is_late(r) ? err : hear(r, true, &heard);
}

/* Of the slowest rank but the late one; taken: of one step, the mean. */
static int summarize(struct averages *r, struct perf_summary *sum, double *taken)
{
	struct perf *perf = r->perf;
	int counted = perf->nranks - (perf->opt.late_us > 0), err;

	perf_summarize(r->times, (size_t)perf->opt.iters, sum);
	*taken /= (double)perf->opt.iters * counted;
	if (is_late(r))
		sum->median = sum->p99 = *taken = 0;
	err = perf_agree(perf, &sum->median, TUTTI_MAX);
	if (!err)
		err = perf_agree(perf, &sum->p99, TUTTI_MAX);
	return err ? err : perf_agree(perf, taken, TUTTI_SUM);
}

/* ---- checks ---- */

/* Elements of the result, or of the sum of all, that are not as many times what each rank gives. */
static double count_wrong(const struct averages *r, const double *sums, const double *shares)
{
	double want[PERIOD] = {0}, wrong = 0;
	size_t i;
	int k;

	for (k = 0; k < r->perf->nranks; k++)
		for (i = 0; i < PERIOD; i++)
			want[i] += shares[k] * averages_given(k, i);
	for (i = 0; i < r->count; i++)
		wrong += (sums ? sums[i] : averages_load(result(r), i, r->datatype)) !=
			 want[i % PERIOD];
	return wrong;
}

/* Rounds after `before` of one contribution of each rank, as far as they are kept. */
static int rounds_wrong(struct averages *r, uint64_t before, double *wrong)
{
	double *shares = calloc((size_t)r->perf->nranks, sizeof(*shares));
	uint64_t t = before + 1;
	int k, err = shares ? 0 : -ENOMEM;

	if (r->round >= t + TUTTI_PARTIAL_WINDOW)
		t = r->round + 1 - TUTTI_PARTIAL_WINDOW;
	for (; t <= r->round && !err; t++) {
		err = tutti_partial_result(r->partial, t, result(r), r->took);
		for (k = 0; k < r->perf->nranks && !err; k++)
			shares[k] = r->took[k / 8] >> k % 8 & 1;
		if (!err)
			*wrong += count_wrong(r, NULL, shares);
	}
	free(shares);
	return averages_failed(r, "partial_result", err);
}

static int count_dropped(struct averages *r, double *dropped)
{
	struct tutti_partial_stats s = {.size = sizeof(s)};
	int err = averages_failed(r, "partial_stats_get", tutti_partial_stats_get(r->partial, &s));

	*dropped = (double)s.dropped;
	return err;
}

static void add_result(struct averages *r, double *sums, bool got)
{
	size_t i;

	for (i = 0; i < r->count && got; i++)
		sums[i] += averages_load(result(r), i, r->datatype);
}

/* Contributes so many times and drains; a rank for which results were not kept compares nothing. */
static int sums_wrong(struct averages *r, int steps, double *sums, double *wrong)
{
	struct perf *perf = r->perf;
	double *shares = calloc((size_t)perf->nranks, sizeof(*shares)), before, after = 0;
	bool got, all = true;
	int i, err = shares ? count_dropped(r, &before) : -ENOMEM;

	for (i = 0; i < steps && !err; i++, all = all && got) {
		err = contribute(r, &got);
		add_result(r, sums, got && !err);
	}
	if (!err)
		err = drain(r, &got);
	add_result(r, sums, got && !err);
	if (!err)
		err = count_dropped(r, &after);
	after = steps - (after - before);
	if (!err)
		err = averages_failed(
			r, "allgather",
			tutti_allgather(&after, shares, 1, TUTTI_FLOAT64, perf->world));
	if (!err && (all || steps * perf->nranks <= TUTTI_PARTIAL_WINDOW))
		*wrong += count_wrong(r, sums, shares);
	free(shares);
	return err;
}

static int partial_check(struct averages *r, int steps, double *wrong)
{
	double *sums = calloc(r->count, sizeof(*sums));
	size_t bytes = averages_bytes(r);
	uint64_t before = r->round;
	int err;

	if (!sums)
		return averages_failed(r, "making room for sums", -ENOMEM);
	*wrong = 0;
	averages_fill(r, r->buf[0].data, r->perf->rank);
	perf_guard_set(&r->buf[1], bytes);
	err = sums_wrong(r, steps, sums, wrong);
	if (!err && steps == 1)
		err = rounds_wrong(r, before, wrong);
	free(sums);
	return err ? err
		   : perf_agree_found(r->perf, wrong,
				      (double)perf_guard_violations(&r->buf[1], bytes));
}

/* Once each; then so often that a rank which is late has more than one contribution to carry. */
static int partial_checks(struct averages *r, double *wrong)
{
	int more = TUTTI_PARTIAL_WINDOW / r->perf->nranks, err;
	double found;

	err = partial_check(r, 1, wrong);
	if (err)
		return err;
	err = partial_check(r, more > 2 ? more : 2, &found);
	*wrong += found;
	return err;
}

static int partial_row(struct averages *r)
{
	struct perf *perf = r->perf;
	struct perf_summary sum = {0};
	double taken = 0, wrong = 0, all = 0;
	int k, err;

	averages_fill(r, r->buf[0].data, r->perf->rank);
	err = partial_times(r, &taken);
	if (!err)
		err = summarize(r, &sum, &taken);
	for (k = 0; k < perf->opt.check && !err; k++, all += wrong)
		err = partial_checks(r, &wrong);
	if (err || perf->rank)
		return err;
	return perf_table_row(
		&perf->table,
		(struct perf_cell[]){{.number = (int64_t)averages_bytes(r)},
				     {.number = (int64_t)r->count},
				     {.text = perf_type_name(r->datatype)},
				     {.real = sum.median},
				     {.real = sum.p99},
				     {.real = taken},
				     {.number = (int64_t)all, .absent = !perf->opt.check}});
}

static int partial_one(struct averages *r)
{
	const struct perf_options *opt = &r->perf->opt;
	struct tutti_partial_config config = {.size = sizeof(config),
					      .quorum = opt->quorum,
					      .cutoff_us = opt->cutoff_us,
					      .late = opt->drop ? TUTTI_PARTIAL_DROP
								: TUTTI_PARTIAL_CARRY};
	int err, end;

	r->round = 0;
	err = averages_failed(r, "partial_create",
			      tutti_partial_create(r->perf->world, r->count,
						   (enum tutti_datatype)r->datatype, TUTTI_SUM,
						   &config, &r->partial));
	if (err)
		return err;
	err = partial_row(r);
	end = tutti_partial_free(r->partial);
	return err ? err : averages_failed(r, "partial_free", end);
}

int perf_run_partial(struct perf *perf)
{
	static const int types[] = {TUTTI_INT32, TUTTI_INT64, TUTTI_FLOAT32, TUTTI_FLOAT64};
	struct averages r = {.perf = perf};
	size_t most = perf->opt.maxbytes;
	int err;

	err = averages_begin(&r, AVERAGES_NO_GRAPH, columns, sizeof(columns) / sizeof(*columns));
	r.took = calloc((size_t)perf->nranks / 8 + 1, 1);
	if (!err && !r.took)
		err = averages_failed(&r, "making room for participants", -ENOMEM);
	if (!err)
		err = perf_buffers_get(perf, r.buf, 2, most > 8 ? most : 8);
	if (!err) {
		err = averages_each(&r, partial_one, types, 4);
		perf_buffers_put(r.buf, 2);
	}
	free(r.took);
	averages_end(&r);
	return err;
}
