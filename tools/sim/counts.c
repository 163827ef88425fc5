/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts per rank for the collectives that have them: from the smallest to `skew` times that. */
#include <stdlib.h>

#include "tools/sim/sim.h"
#include "tools/values.h"

/* off[0 .. n]: where the blocks of a vector begin, and its end. */
static void cut(size_t *off, int n, size_t elems, double skew)
{
	double sum = n * (1 + skew) / 2, before = 0;
	int i;

	for (i = 0; i <= n; i++) {
		off[i] = i == n ? elems : (size_t)((double)elems * before / sum);
		before += n > 1 ? 1 + (skew - 1) * i / (n - 1) : 1;
	}
}

/* A row of counts and displacements; the block of rank i is that of rank (i + turn) in the cut. */
static void fill(const size_t *off, int n, int turn, size_t *counts, size_t *displs)
{
	size_t at = 0;
	int i;

	for (i = 0; i < n; i++) {
		int k = (i + turn) % n;

		counts[i] = off[k + 1] - off[k];
		displs[i] = at;
		at += counts[i];
	}
}

int sim_counts(const struct options *opt, int nranks, size_t elems, struct tt_plan_args *args)
{
	bool pairs = opt->coll == TT_COLL_ALLTOALLV;
	size_t n = (size_t)nranks, rows = pairs ? n : 1, r;
	size_t *counts, *off;

	if (!tt_coll_counts(opt->coll))
		return 0;
	counts = malloc(2 * rows * n * sizeof(*counts));
	off = malloc((n + 1) * sizeof(*off));
	if (!counts || !off) {
		free(counts);
		free(off);
		return cli_fail("no memory for the counts of %d ranks", nranks);
	}
	cut(off, nranks, elems, opt->skew);
	/* r sends as much to p as p sends to r, so one table serves both. */
	for (r = 0; r < rows; r++)
		fill(off, nranks, (int)r, counts + r * n, counts + (rows + r) * n);
	free(off);
	args->count = 0;
	args->rcounts = args->scounts = counts;
	if (opt->coll !=
	    TT_COLL_ALLGATHERV) /* there they are each rank's own: one block after the other */
		args->rdispls = args->sdispls = counts + rows * n;
	return 0;
}

void sim_counts_free(struct tt_plan_args *args)
{
	free((size_t *)args->rcounts);
	args->rcounts = NULL;
}
