/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backward pass over the 161 gradients of ResNet-50, as sleeps, with the reducer, with one
 * nonblocking all-reduce for each tensor, and with one all-reduce of all of them at its end. The
 * ways take turns. perf/buckets and perf/shares run it.
 *
 *	backward [-t BACKWARD_MS] [-d DIVISOR] [-l MBIT] [-m MTU] [-b BUCKET_KIB] [-r REPEATS]
 *
 * Exposed is the time by which communication makes a step longer than the backward pass alone, of
 * the slowest rank. -d: gradients and buckets have as many times fewer bytes. -l: the rate of a
 * host's link, for the least that is possible: the bytes of an all-reduce at that rate, with their
 * headers in packets of MTU bytes (default 1500), less the backward pass.
 */
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/train.h>

#include "perf/program.h"

#define TENSORS 161
#define REPEATS_MAX 50
#define FIRST_KIB 1024 /* the reducer's defaults */
#define BUCKET_KIB (25 * 1024)
#define KIB ((size_t)1024)
#define MTU 1500
#define ETHERNET 14 /* bytes before a packet; the rate of a shaped link counts them, too */
#define HEADERS 52  /* of IPv4 and TCP with timestamps */

static struct options {
	int backward_ms, divisor, mbit, mtu, bucket_kib, repeats;
} opt = {.backward_ms = 1000, .divisor = 1, .mtu = MTU, .bucket_kib = BUCKET_KIB, .repeats = 3};

static size_t counts[TENSORS], total;
static float *gradients;
static void *tensor[TENSORS];

enum way { REDUCER, EACH, ONE, WAYS };
static const char *const names[WAYS] = {"reducer", "call per tensor", "one call at the end"};

/* ---- the model ---- */

static size_t *convolution(size_t *at, size_t in, size_t out, size_t side)
{
	*at++ = in * out * side * side;
	*at++ = out; /* batch norm */
	*at++ = out;
	return at;
}

static void resnet50(void)
{
	static const size_t blocks[] = {3, 4, 6, 3};
	size_t *at = convolution(counts, 3, 64, 7), in = 64, plane, s, b, i;

	for (s = 0; s < 4; s++) {
		plane = (size_t)64 << s;
		for (b = 0; b < blocks[s]; b++) {
			at = convolution(at, in, plane, 1);
			at = convolution(at, plane, plane, 3);
			at = convolution(at, plane, 4 * plane, 1);
			if (!b)
				at = convolution(at, in, 4 * plane, 1);
			in = 4 * plane;
		}
	}
	*at++ = in * 1000;
	*at++ = 1000;
	for (i = 0; i < TENSORS; i++) {
		counts[i] = (counts[i] + (size_t)opt.divisor - 1) / (size_t)opt.divisor;
		total += counts[i];
	}
}

/* ---- a step ---- */

/* Sleeps until tensor i of the backward pass that began at start is ready. */
static void compute(double start, size_t i)
{
	double until = start + opt.backward_ms / 1e3 * (double)(TENSORS - i) / TENSORS;
	double left = until - now();

	if (left > 0)
		nanosleep(
			&(struct timespec){.tv_sec = (time_t)left,
					   .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)},
			NULL);
}

static int by_reducer(struct tutti_reducer *r, double start)
{
	size_t i;
	int err = 0;

	for (i = TENSORS; !err && i-- > 0;) {
		compute(start, i);
		err = tutti_reducer_ready(r, i);
	}
	return err ? err : tutti_reducer_finish(r);
}

static int by_calls(struct tutti_comm *world, enum way way, double start)
{
	struct tutti_request *request[TENSORS] = {NULL};
	size_t i;
	int err = 0;

	for (i = TENSORS; !err && i-- > 0;) {
		compute(start, i);
		if (way == EACH)
			err = tutti_iallreduce(TUTTI_IN_PLACE, tensor[i], counts[i], TUTTI_FLOAT32,
					       TUTTI_AVG, world, &request[i]);
	}
	if (!err && way == ONE)
		err = tutti_allreduce(TUTTI_IN_PLACE, gradients, total, TUTTI_FLOAT32, TUTTI_AVG,
				      world);
	return err ? err : tutti_waitall(TENSORS, request);
}

/* Seconds beyond the backward pass, of the slowest rank. */
static int step(struct tutti_comm *world, struct tutti_reducer *r, enum way way, double *exposed)
{
	double start;
	int err = tutti_barrier(world);

	if (err)
		return err;
	start = now();
	err = way == REDUCER ? by_reducer(r, start) : by_calls(world, way, start);
	*exposed = now() - start - opt.backward_ms / 1e3;
	return err ? err
		   : tutti_allreduce(TUTTI_IN_PLACE, exposed, 1, TUTTI_FLOAT64, TUTTI_MAX, world);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(double times[WAYS][REPEATS_MAX], int n, uint64_t buckets)
{
	double bytes = 2.0 * (n - 1) / n * (double)total * 4, least, median;
	double sent = bytes * (opt.mtu + ETHERNET) / (opt.mtu - HEADERS);
	int w;

	printf("# %d ranks, %zu elements in %d tensors, backward %d ms, %llu buckets\n", n, total,
	       TENSORS, opt.backward_ms, (unsigned long long)buckets);
	for (w = 0; w < WAYS; w++) {
		qsort(times[w], (size_t)opt.repeats, sizeof(double), compare);
		median = times[w][opt.repeats / 2] * 1e3;
		printf("%-20s %9.1f ms exposed\n", names[w], median);
	}
	if (!opt.mbit)
		return;
	least = sent * 8 / (opt.mbit * 1e6) * 1e3 - opt.backward_ms;
	printf("%-20s %9.1f ms: %.2f MB, %.2f with headers, at %d Mbit/s, less the backward pass\n",
	       "least", least > 0 ? least : 0, bytes / 1e6, sent / 1e6, opt.mbit);
}

static int run(struct tutti_context *ctx)
{
	static double times[WAYS][REPEATS_MAX];
	struct tutti_reducer_config config = {.size = sizeof(config),
					      .n = TENSORS,
					      .counts = counts,
					      .gradients = tensor,
					      .datatype = TUTTI_FLOAT32,
					      .first_bytes = FIRST_KIB * KIB / (size_t)opt.divisor,
					      .bucket_bytes = (size_t)opt.bucket_kib * KIB /
							      (size_t)opt.divisor};
	struct tutti_reducer_stats stats = {.size = sizeof(stats)};
	struct tutti_comm *world = tutti_world(ctx);
	struct tutti_reducer *r;
	int err = tutti_reducer_create(world, &config, &r), i, w;

	if (err)
		return fail("tutti_reducer_create", err);
	for (i = -1; !err && i < opt.repeats; i++) /* the first round is not counted */
		for (w = 0; !err && w < WAYS; w++)
			err = step(world, r, (enum way)w, &times[w][i < 0 ? 0 : i]);
	if (err)
		return fail("a step", err);
	tutti_reducer_stats(r, &stats);
	if (!tutti_comm_rank(world))
		report(times, tutti_comm_size(world), stats.buckets);
	return tutti_reducer_free(r);
}

static int read_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "t:d:l:m:b:r:")) != -1) {
		if (c == 't')
			opt.backward_ms = atoi(optarg);
		else if (c == 'd')
			opt.divisor = atoi(optarg);
		else if (c == 'l')
			opt.mbit = atoi(optarg);
		else if (c == 'm')
			opt.mtu = atoi(optarg);
		else if (c == 'b')
			opt.bucket_kib = atoi(optarg);
		else if (c == 'r')
			opt.repeats = atoi(optarg);
		else
			return 1;
	}
	return opt.backward_ms < 1 || opt.divisor < 1 || opt.divisor > FIRST_KIB || opt.mbit < 0 ||
	       opt.mtu < 576 || opt.bucket_kib < 1 || opt.repeats < 1 ||
	       opt.repeats > REPEATS_MAX || optind < argc;
}

int main(int argc, char **argv)
{
	struct tutti_context *ctx;
	size_t i, at = 0;
	void *pool;
	int err;

	if (read_options(argc, argv)) {
		fprintf(stderr, "usage: backward [-t BACKWARD_MS] [-d DIVISOR] [-l MBIT] "
				"[-m MTU] [-b BUCKET_KIB] [-r 1 to 50]\n");
		return 2;
	}
	resnet50();
	err = tutti_init(NULL, &ctx);
	if (err)
		return fail("tutti_init", err) != 0;
	err = tutti_alloc(ctx, total * sizeof(float), &pool);
	if (err)
		return fail("tutti_alloc", err) != 0;
	gradients = pool;
	memset(gradients, 0, total * sizeof(float));
	for (i = 0; i < TENSORS; at += counts[i++])
		tensor[i] = gradients + at;
	err = run(ctx);
	tutti_free(pool);
	return err != 0 || tutti_finalize(ctx) != 0;
}
