/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heat in a rod: every rank has a part of the rod and sends the edges to its neighbours in each
 * step. A group starts the sends and receives together, so their order does not matter. Run it
 * with: tutti_run -n 4 halo
 */
#include <stdio.h>
#include <tutti/tutti.h>

enum { N = 1000, STEPS = 500 }; /* points of a rank; the two beyond are the neighbours' */

static int edges(float *t, int rank, int size, struct tutti_comm *comm)
{
	int err = 0;

	tutti_group_start(); /* calls of a group whose arguments are wrong would say so themselves
			      */
	if (rank > 0) {
		err |= tutti_send(&t[1], 1, TUTTI_FLOAT32, rank - 1, 0, comm);
		err |= tutti_recv(&t[0], 1, TUTTI_FLOAT32, rank - 1, 0, comm, NULL);
	}
	if (rank < size - 1) {
		err |= tutti_send(&t[N], 1, TUTTI_FLOAT32, rank + 1, 0, comm);
		err |= tutti_recv(&t[N + 1], 1, TUTTI_FLOAT32, rank + 1, 0, comm, NULL);
	}
	return tutti_group_end() || err;
}

int main(void)
{
	static float t[N + 2], next[N + 2];
	double heat = 0, first;
	struct tutti_context *ctx;
	struct tutti_comm *world;
	int rank, size, i, step, err;

	err = tutti_init(NULL, &ctx);
	if (err)
		return fprintf(stderr, "tutti: %s\n", tutti_strerror(err)), 1;
	world = tutti_world(ctx);
	rank = tutti_comm_rank(world);
	size = tutti_comm_size(world);
	t[N] = rank < size - 1 ? 100
			       : 0; /* hot at the borders of parts, so that it has to cross them */
	first = 100.0 * (size - 1);
	for (step = 0; step < STEPS && !err; step++) {
		t[0] = t[1]; /* the ends of the rod lose nothing */
		t[N + 1] = t[N];
		err = edges(t, rank, size, world);
		for (i = 1; i <= N; i++)
			next[i] = t[i] + 0.25f * (t[i - 1] - 2 * t[i] + t[i + 1]);
		for (i = 1; i <= N; i++)
			t[i] = next[i];
	}
	for (i = 1; i <= N; i++)
		heat += t[i];
	if (!err)
		err = tutti_allreduce(TUTTI_IN_PLACE, &heat, 1, TUTTI_FLOAT64, TUTTI_SUM, world);
	if (err)
		tutti_comm_perror(world, "exchanging edges");
	else if (!rank)
		printf("after %d steps on %d ranks: heat %.3f of %.3f\n", STEPS, size, heat, first);
	return tutti_finalize(ctx) != 0 || err || heat < 0.999 * first || heat > 1.001 * first;
}
