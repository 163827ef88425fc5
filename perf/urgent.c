/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A short all-reduce of high priority while a long one is under way: its time, alone and beside the
 * long one, with and without priority. The ways take turns. perf/buckets runs it.
 *
 *	urgent [-l LONG_KIB] [-s SHORT_KIB] [-r REPEATS]
 *
 * The time is that of the slowest rank from a barrier of its own; the short call begins when the
 * long one has been under way for as long as the short one takes alone. Reported too: the bytes of
 * the long call that a rank sent meanwhile.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

#include "perf/urgent.h"

struct run {
	struct tutti_context *ctx;
	struct tutti_comm *world, *timing;
	float *slow, *fast;
	double alone; /* seconds */
};

static uint64_t put_bytes(struct tutti_context *ctx)
{
	struct tutti_stats s = {.size = sizeof(s)};

	tutti_stats_get(ctx, &s);
	return s.put_bytes;
}

static int start(struct run *r, float *v, int kib, int priority, struct tutti_request **req)
{
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_ALLREDUCE,
				  .sendbuf = TUTTI_IN_PLACE,
				  .recvbuf = v,
				  .count = (size_t)kib * 256,
				  .datatype = TUTTI_FLOAT32,
				  .op = TUTTI_SUM,
				  .priority = priority};

	return tutti_call(r->world, &call, req);
}

/* Advances the long call for a while. */
static int go_on(struct tutti_request *req, double seconds)
{
	double begin = now();
	int done, err = 0;

	while (req && !err && now() - begin < seconds)
		err = tutti_request_get_status(req, &done);
	return err;
}

/* *time: of the slowest rank; *bytes: put meanwhile and not for the short call. */
static int measure(struct run *r, enum way way, double *time, double *bytes)
{
	double own = 2.0 * (tutti_comm_size(r->world) - 1) / tutti_comm_size(r->world) *
		     opt.short_kib * 1024;
	struct tutti_request *slow = NULL, *fast = NULL;
	double begin, value[2];
	uint64_t put;
	int err = tutti_barrier(r->world);

	if (!err && way != ALONE)
		err = start(r, r->slow, opt.long_kib, 0, &slow);
	if (!err)
		err = go_on(slow, r->alone);
	if (!err)
		err = tutti_barrier(r->timing);
	put = put_bytes(r->ctx);
	begin = now();
	if (!err)
		err = start(r, r->fast, opt.short_kib, way == URGENT, &fast);
	if (!err)
		err = tutti_wait(&fast);
	value[0] = now() - begin;
	value[1] = (double)(put_bytes(r->ctx) - put) - own;
	if (!err && slow)
		err = tutti_wait(&slow);
	if (!err)
		err = tutti_allreduce(TUTTI_IN_PLACE, value, 2, TUTTI_FLOAT64, TUTTI_MAX,
				      r->timing);
	*time = value[0];
	*bytes = value[1];
	return err;
}

static void report(struct run *r, double times[WAYS][REPEATS_MAX], double bytes[WAYS][REPEATS_MAX])
{
	struct tutti_stats s = {.size = sizeof(s)};
	double alone = 0, median;
	int w;

	tutti_stats_get(r->ctx, &s);
	printf("# all-reduce of %d KiB while one of %d KiB is under way, %d ranks\n", opt.short_kib,
	       opt.long_kib, tutti_comm_size(r->world));
	for (w = 0; w < WAYS; w++) {
		median = median_of(times[w]);
		alone = w ? alone : median;
		printf("%-20s %9.1f ms %6.2f %9.0f KiB of the other call sent meanwhile\n",
		       names[w], median * 1e3, median / alone,
		       w ? median_of(bytes[w]) / 1024 : 0.0);
	}
	printf("# pieces of rank 0: %llu, at most %llu KiB under way to a peer\n",
	       (unsigned long long)s.pieces, (unsigned long long)s.window_most / 1024);
}

static int run(struct run *r)
{
	static double times[WAYS][REPEATS_MAX], bytes[WAYS][REPEATS_MAX];
	struct tutti_request *req = NULL;
	float x = 0;
	int err = tutti_comm_dup(r->world, &r->timing), i, w;
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_BCAST,
				  .recvbuf = &x,
				  .count = 1,
				  .datatype = TUTTI_FLOAT32,
				  .priority = 1};

	if (!err) /* in use for all ways, so that they differ in nothing else */
		err = tutti_call(r->world, &call, &req);
	if (!err)
		err = tutti_wait(&req);
	for (i = -1; !err && i < opt.repeats; i++) /* the first round is not counted */
		for (w = 0; !err && w < WAYS; w++) {
			int k = i < 0 ? 0 : i;

			err = measure(r, (enum way)w, &times[w][k], &bytes[w][k]);
			if (w == ALONE)
				r->alone = times[w][k];
		}
	if (err)
		return fail("an all-reduce", err);
	if (!tutti_comm_rank(r->world))
		report(r, times, bytes);
	return tutti_comm_free(r->timing);
}

static int alloc(struct run *r, int kib, float **v)
{
	int err = tutti_alloc(r->ctx, (size_t)kib * 1024, (void **)v);

	if (!err)
		memset(*v, 0, (size_t)kib * 1024);
	return err;
}

int main(int argc, char **argv)
{
	struct run r = {.alone = 0};
	int err;

	if (read_options(argc, argv)) {
		fprintf(stderr, "usage: urgent [-l LONG_KIB] [-s SHORT_KIB] [-r 1 to 50]\n");
		return 2;
	}
	err = tutti_init(NULL, &r.ctx);
	if (err)
		return fail("tutti_init", err) != 0;
	r.world = tutti_world(r.ctx);
	err = alloc(&r, opt.long_kib, &r.slow);
	if (!err)
		err = alloc(&r, opt.short_kib, &r.fast);
	if (err)
		return fail("tutti_alloc", err) != 0;
	err = run(&r);
	tutti_free(r.slow);
	tutti_free(r.fast);
	return err != 0 || tutti_finalize(r.ctx) != 0;
}
