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
#include <stdint.h>
#include <stdio.h>
#include <tutti/train.h>

#include "perf/pass.h"

#define ETHERNET 14 /* bytes before a packet; the rate of a shaped link counts them, too */
#define HEADERS 52  /* of IPv4 and TCP with timestamps */

enum way { REDUCER, EACH, ONE, WAYS };
static const char *const names[WAYS] = {"reducer", "call per tensor", "one call at the end"};

static int by_reducer(const struct pass *p, struct tutti_reducer *r, double start)
{
	size_t i;
	int err = 0;

	for (i = TENSORS; !err && i-- > 0;) {
		pass_compute(p, start, i);
		err = tutti_reducer_ready(r, i);
	}
	return err ? err : tutti_reducer_finish(r);
}

static int by_calls(const struct pass *p, struct tutti_comm *world, enum way way, double start)
{
	struct tutti_request *request[TENSORS] = {NULL};
	size_t i;
	int err = 0;

	for (i = TENSORS; !err && i-- > 0;) {
		pass_compute(p, start, i);
		if (way == EACH)
			err = tutti_iallreduce(TUTTI_IN_PLACE, p->tensor[i], p->counts[i],
					       TUTTI_FLOAT32, TUTTI_AVG, world, &request[i]);
	}
	if (!err && way == ONE)
		err = tutti_allreduce(TUTTI_IN_PLACE, p->gradients, p->total, TUTTI_FLOAT32,
				      TUTTI_AVG, world);
	return err ? err : tutti_waitall(TENSORS, request);
}

/* Seconds beyond the backward pass, of the slowest rank. */
static int step(const struct pass *p, struct tutti_comm *world, struct tutti_reducer *r,
		enum way way, double *exposed)
{
	double start;
	int err = tutti_barrier(world);

	if (err)
		return err;
	start = now();
	err = way == REDUCER ? by_reducer(p, r, start) : by_calls(p, world, way, start);
	*exposed = now() - start - p->backward_ms / 1e3;
	return err ? err
		   : tutti_allreduce(TUTTI_IN_PLACE, exposed, 1, TUTTI_FLOAT64, TUTTI_MAX, world);
}

static void report(const struct pass *p, double times[WAYS][REPEATS_MAX], int n, uint64_t buckets)
{
	double bytes = 2.0 * (n - 1) / n * (double)p->total * 4, least, median;
	double sent = bytes * (p->mtu + ETHERNET) / (p->mtu - HEADERS);
	int w;

	printf("# %d ranks, %zu elements in %d tensors, backward %d ms, %llu buckets\n", n,
	       p->total, TENSORS, p->backward_ms, (unsigned long long)buckets);
	for (w = 0; w < WAYS; w++) {
		median = pass_median(times[w], p->repeats) * 1e3;
		printf("%-20s %9.1f ms exposed\n", names[w], median);
	}
	if (!p->mbit)
		return;
	least = sent * 8 / (p->mbit * 1e6) * 1e3 - p->backward_ms;
	printf("%-20s %9.1f ms: %.2f MB, %.2f with headers, at %d Mbit/s, less the backward pass\n",
	       "least", least > 0 ? least : 0, bytes / 1e6, sent / 1e6, p->mbit);
}

static int run(struct tutti_context *ctx, struct pass *p)
{
	static double times[WAYS][REPEATS_MAX];
	struct tutti_reducer_config config = {.size = sizeof(config),
					      .n = TENSORS,
					      .counts = p->counts,
					      .gradients = p->tensor,
					      .datatype = TUTTI_FLOAT32,
					      .first_bytes = FIRST_KIB * KIB / (size_t)p->divisor,
					      .bucket_bytes = (size_t)p->bucket_kib * KIB /
							      (size_t)p->divisor};
	struct tutti_reducer_stats stats = {.size = sizeof(stats)};
	struct tutti_comm *world = tutti_world(ctx);
	struct tutti_reducer *r;
	int err = tutti_reducer_create(world, &config, &r), i, w;

	if (err)
		return fail("tutti_reducer_create", err);
	for (i = -1; !err && i < p->repeats; i++) /* the first round is not counted */
		for (w = 0; !err && w < WAYS; w++)
			err = step(p, world, r, (enum way)w, &times[w][i < 0 ? 0 : i]);
	if (err)
		return fail("a step", err);
	tutti_reducer_stats(r, &stats);
	if (!tutti_comm_rank(world))
		report(p, times, tutti_comm_size(world), stats.buckets);
	return tutti_reducer_free(r);
}

int main(int argc, char **argv)
{
	return pass_main(argc, argv, run);
}
