/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A short push or pull of high priority while a long one is under way: its time, alone and beside
 * the long one, with and without priority. Rank 0 is the server, rank 1 the worker. The ways take
 * turns. perf/buckets runs it.
 *
 *	urgent_ps [-l LONG_KIB] [-s SHORT_KIB] [-r REPEATS]
 *
 * The short call begins when a tenth of the long one has moved.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "perf/urgent.h"

struct run {
	struct tutti_context *ctx;
	struct tutti_ps *ps;
	struct tutti_ps_table *slow, *equal, *urgent;
	float *slow_values, *values;
};

static uint64_t moved(struct tutti_context *ctx)
{
	struct tutti_stats s = {.size = sizeof(s)};

	tutti_stats_get(ctx, &s);
	return s.put_bytes + s.got_bytes;
}

static int start(struct tutti_ps_table *t, bool push, float *v, int kib, struct tutti_request **req)
{
	size_t n = (size_t)kib * 256;

	return push ? tutti_ps_ipush(t, v, 0, n, TUTTI_FLOAT32, req)
		    : tutti_ps_ipull(t, v, 0, n, TUTTI_FLOAT32, req);
}

static int measure(struct run *r, bool push, enum way way, double *time)
{
	struct tutti_request *slow = NULL, *req = NULL;
	uint64_t enough = moved(r->ctx) + (uint64_t)opt.long_kib * 1024 / 10;
	double begin;
	int over = 0, err = 0;

	if (way != ALONE)
		err = start(r->slow, push, r->slow_values, opt.long_kib, &slow);
	while (slow && !err && !over && moved(r->ctx) < enough)
		err = tutti_request_get_status(slow, &over);
	begin = now();
	if (!err)
		err = start(way == URGENT ? r->urgent : r->equal, push, r->values, opt.short_kib,
			    &req);
	if (!err)
		err = tutti_wait(&req);
	*time = now() - begin;
	return err || !slow ? err : tutti_wait(&slow);
}

static int measure_all(struct run *r, bool push)
{
	static double times[WAYS][REPEATS_MAX];
	double median, alone = 0;
	int i, w, err = 0;

	for (i = -1; !err && i < opt.repeats; i++) /* the first round is not counted */
		for (w = 0; !err && w < WAYS; w++)
			err = measure(r, push, (enum way)w, &times[w][i < 0 ? 0 : i]);
	if (err)
		return fail(push ? "tutti_ps_ipush" : "tutti_ps_ipull", err);
	printf("# %s of %d KiB while one of %d KiB is under way\n", push ? "push" : "pull",
	       opt.short_kib, opt.long_kib);
	for (w = 0; w < WAYS; w++) {
		median = median_of(times[w]);
		alone = w ? alone : median;
		printf("%-20s %9.1f ms %6.2f\n", names[w], median * 1e3, median / alone);
	}
	return 0;
}

static int make(struct run *r, const char *name, int kib, int priority, struct tutti_ps_table **t)
{
	struct tutti_ps_options o = {
		.size = sizeof(o), .init = TUTTI_PS_ZERO, .priority = priority};

	return tutti_ps_dense(r->ps, name, (uint64_t)kib * 256, TUTTI_FLOAT32, &o, t);
}

static int run(struct run *r)
{
	int rank = tutti_comm_rank(tutti_world(r->ctx)), err;
	struct tutti_ps_config c = {.size = sizeof(c),
				    .role = rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER,
				    .staleness = TUTTI_PS_ASYNC};

	err = tutti_ps_open(tutti_world(r->ctx), &c, &r->ps);
	if (!err)
		err = make(r, "slow", opt.long_kib, 0, &r->slow);
	if (!err)
		err = make(r, "equal", opt.short_kib, 0, &r->equal);
	if (!err)
		err = make(r, "urgent", opt.short_kib, 1, &r->urgent);
	if (err)
		return fail("making the tables", err);
	if (rank == 1)
		err = measure_all(r, true) || measure_all(r, false);
	return tutti_ps_close(r->ps) || err;
}

int main(int argc, char **argv)
{
	struct run r = {.slow_values = NULL};
	int err;

	if (read_options(argc, argv)) {
		fprintf(stderr, "usage: urgent_ps [-l LONG_KIB] [-s SHORT_KIB] [-r 1 to 50]\n");
		return 2;
	}
	err = tutti_init(NULL, &r.ctx);
	if (err)
		return fail("tutti_init", err) != 0;
	r.slow_values = calloc((size_t)opt.long_kib, 1024);
	r.values = calloc((size_t)opt.short_kib, 1024);
	err = r.slow_values && r.values ? run(&r) : -ENOMEM;
	free(r.slow_values);
	free(r.values);
	return tutti_finalize(r.ctx) != 0 || err != 0;
}
