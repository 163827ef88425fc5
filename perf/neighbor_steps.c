/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps along the one-peer exponential graph beside all-reduces of the same vector, which take
 * turns. With -k two ranks are killed half way through steps along a ring of a tolerant
 * communicator. perf/decentralized runs it.
 *
 *	neighbor_steps [-b BYTES] [-s STEPS] [-k]
 *
 * The times are those of the slowest rank in each step; with -k, each survivor's own.
 */
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "perf/program.h"

#define STEPS_MOST 1000

static double times[2][STEPS_MOST];

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *t, int n)
{
	qsort(t, (size_t)n, sizeof(*t), by_value);
	return t[n / 2] * 1e3;
}

/* Steps of both kinds in turn. */
static int compare(struct tutti_comm *world, float *v, size_t n, int steps)
{
	struct tutti_graph *graph;
	double start;
	int err = tutti_graph_one_peer(tutti_comm_size(world), &graph), i;

	if (err)
		return fail("tutti_graph_one_peer", err);
	for (i = 0; !err && i < 2 * steps + 2; i++) { /* the first of each warms up */
		err = tutti_barrier(world);
		start = now();
		if (!err && i % 2)
			err = tutti_allreduce(TUTTI_IN_PLACE, v, n, TUTTI_FLOAT32, TUTTI_AVG,
					      world);
		else if (!err)
			err = tutti_neighbor_allreduce(TUTTI_IN_PLACE, v, n, TUTTI_FLOAT32, graph,
						       (uint64_t)i / 2, world);
		if (i > 1)
			times[i % 2][i / 2 - 1] = now() - start;
	}
	tutti_graph_free(graph);
	for (i = 0; !err && i < 2; i++)
		err = tutti_allreduce(TUTTI_IN_PLACE, times[i], (size_t)steps, TUTTI_FLOAT64,
				      TUTTI_MAX, world);
	if (err)
		return fail("a step", err);
	if (tutti_comm_rank(world) == 0) {
		double one = median(times[0], steps), all = median(times[1], steps);

		printf("one-peer %8.2f ms  all-reduce %8.2f ms  ratio %.2f  (%zu bytes, medians of "
		       "%d)\n",
		       one, all, one / all, n * sizeof(*v), steps);
	}
	return 0;
}

/* Two of the ranks are killed half way: how long the steps of this one take. */
static int deaths(struct tutti_comm *world, float *v, size_t n, int steps)
{
	const struct tutti_comm_config config = {.size = sizeof(config),
						 .flags = TUTTI_COMM_TOLERANT};
	int size = tutti_comm_size(world), rank = tutti_comm_rank(world), err, i, longest = 0;
	struct tutti_graph *graph = NULL;
	struct tutti_comm *comm;
	double start, most;

	err = tutti_comm_create(world, &config, &comm);
	if (!err)
		err = tutti_graph_ring(size, &graph);
	for (i = 0; !err && i < steps; i++) {
		if (i == steps / 2 && (rank == size / 2 || rank == size - 1))
			kill(getpid(), SIGKILL);
		start = now();
		err = tutti_neighbor_allreduce(TUTTI_IN_PLACE, v, n, TUTTI_FLOAT32, graph,
					       (uint64_t)i, comm);
		times[0][i] = now() - start;
		longest = times[0][i] > times[0][longest] ? i : longest;
	}
	tutti_graph_free(graph);
	if (err)
		return fail("a step", err);
	most = times[0][longest] * 1e3;
	printf("rank %d: median %.2f ms, longest %.2f ms in step %d of %d, deaths in step %d\n",
	       rank, median(times[0], steps), most, longest, steps, steps / 2);
	return tutti_comm_free(comm);
}

int main(int argc, char **argv)
{
	int bytes = 4 << 20, steps = 10, c, err;
	struct tutti_context *ctx;
	size_t i, n;
	bool kills = false;
	void *v;

	while ((c = getopt(argc, argv, "b:s:k")) != -1) {
		if (c == 'b')
			bytes = whole_number(optarg);
		else if (c == 's')
			steps = whole_number(optarg);
		else if (c == 'k')
			kills = true;
		else
			return 2;
	}
	if (steps < 1 || steps > STEPS_MOST || bytes < (int)sizeof(float))
		return fprintf(stderr, "neighbor_steps: -s: 1 to %d; -b: 4 or more\n", STEPS_MOST),
		       2;
	err = tutti_init(NULL, &ctx);
	if (err)
		return fail("tutti_init", err), 1;
	n = (size_t)bytes / sizeof(float);
	err = tutti_alloc(ctx, (size_t)bytes, &v);
	for (i = 0; !err && i < n; i++)
		((float *)v)[i] = (float)(i % 7);
	if (!err)
		err = kills ? deaths(tutti_world(ctx), v, n, steps)
			    : compare(tutti_world(ctx), v, n, steps);
	tutti_free(v);
	c = tutti_finalize(ctx); /* fails, as ranks have died */
	return err || (c && !kills);
}
