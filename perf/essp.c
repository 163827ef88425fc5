/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP, for perf/relay: rank 0 serves a table of argv[1] KiB. All other ranks pull it in each of
 * argv[2] clocks, between which one of them changes every block, with staleness argv[3] (0).
 * Prints the number of workers, the time of a clock, and the bytes that the server wrote and a
 * worker read for it, in tables.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "perf/program.h"

#define WARM 3
#define STEP 65536 /* elements of a block */

static int one_clock(struct tutti_ps *ps, struct tutti_ps_table *t, float *v, size_t n, bool push)
{
	float one = 1;
	size_t i;
	int err = 0;

	for (i = 0; i < n && push && !err; i += STEP)
		err = tutti_ps_push(t, &one, i, 1, TUTTI_FLOAT32);
	if (!err)
		err = tutti_ps_clock(ps);
	return err ? err : tutti_ps_pull(t, v, 0, n, TUTTI_FLOAT32);
}

static int work(struct tutti_comm *world, struct tutti_ps *ps, struct tutti_ps_table *t, size_t n,
		int from, int to)
{
	int me = tutti_comm_rank(world) - 1, workers = tutti_comm_size(world) - 1, c, err = 0;
	float *v = malloc(n * sizeof(*v));

	for (c = from; c < to && v && !err; c++)
		err = one_clock(ps, t, v, n, c % workers == me);
	if (!err && v && v[0] > (float)to)
		err = fprintf(stderr, "essp: %g is more than %d\n", (double)v[0], to);
	free(v);
	return v ? err : -1;
}

static int measure(struct tutti_context *ctx, struct tutti_ps *ps, struct tutti_ps_table *t,
		   size_t n, int clocks)
{
	struct tutti_stats before = {.size = sizeof(before)}, after = before;
	struct tutti_comm *world = tutti_world(ctx);
	int serves = !tutti_comm_rank(world), err = serves ? 0 : work(world, ps, t, n, 0, WARM);
	double told[3], start, table = (double)(n * sizeof(float)) * clocks;

	err = tutti_barrier(world) || err;
	tutti_stats_get(ctx, &before);
	start = now();
	if (!serves && !err)
		err = work(world, ps, t, n, WARM, WARM + clocks);
	told[0] = serves ? 0 : (now() - start) / clocks * 1e3;
	tutti_stats_get(ctx, &after);
	told[2] = serves ? 0 : (double)(after.got_bytes - before.got_bytes) / table;
	err = tutti_barrier(world) || err; /* the workers have all that is sent to them */
	tutti_stats_get(ctx, &after);
	told[1] = serves ? (double)(after.put_bytes - before.put_bytes) / table : 0;
	err = tutti_allreduce(TUTTI_IN_PLACE, told, 3, TUTTI_FLOAT64, TUTTI_MAX, world) || err;
	if (serves && !err)
		printf("%d,%.2f,%.3f,%.3f\n", tutti_comm_size(world) - 1, told[0], told[1],
		       told[2]);
	return err;
}

int main(int argc, char **argv)
{
	int kib = argc > 1 ? whole_number(argv[1]) : 0;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = argc > 3 ? whole_number(argv[3]) : 0};
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .essp = 1};
	int clocks = argc > 2 ? whole_number(argv[2]) : 0, err;
	size_t n = (size_t)kib * 256;
	struct tutti_ps_table *t;
	struct tutti_context *ctx;
	struct tutti_ps *ps;

	if (kib < 1 || clocks < 1 || config.staleness < 0)
		return fprintf(stderr, "essp: give KiB and clocks\n"), 2;
	err = tutti_init(NULL, &ctx);
	if (err)
		return fprintf(stderr, "essp: %s\n", tutti_strerror(err)), 1;
	config.role = tutti_comm_rank(tutti_world(ctx)) ? TUTTI_PS_WORKER : TUTTI_PS_SERVER;
	err = tutti_ps_open(tutti_world(ctx), &config, &ps);
	if (err)
		return fprintf(stderr, "essp: %s\n", tutti_strerror(err)), 1;
	err = tutti_ps_dense(ps, "t", n, TUTTI_FLOAT32, &opt, &t);
	if (!err)
		err = measure(ctx, ps, t, n, clocks);
	if (err)
		fprintf(stderr, "essp: failed\n");
	return tutti_ps_close(ps) || tutti_finalize(ctx) || err;
}
