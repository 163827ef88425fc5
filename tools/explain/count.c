/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the work of the busiest rank of a call in the plans of all ranks. */
#include <stdlib.h>

#include "tools/explain/explain.h"

#define MOST_OPS 20e6 /* a second or so */

static void add_rank(struct tt_plan_cost *most, const struct tt_plan_cost *rank)
{
	if (rank->bytes_sent > most->bytes_sent)
		most->bytes_sent = rank->bytes_sent;
	if (rank->bytes_received > most->bytes_received)
		most->bytes_received = rank->bytes_received;
	if (rank->messages_sent > most->messages_sent)
		most->messages_sent = rank->messages_sent;
	if (rank->bytes_reduced > most->bytes_reduced)
		most->bytes_reduced = rank->bytes_reduced;
	if (rank->steps > most->steps)
		most->steps = rank->steps;
}

/* Guessed: all ranks have as many ops as this one. */
static bool too_long(const struct tt_plan *plan)
{
	struct tt_op *tmp = calloc((size_t)plan->max_ops + 1, sizeof(*tmp));
	double ops = 0, most = MOST_OPS / plan->args.nranks;
	const struct tt_op *round_ops;
	int l, r;

	for (l = 0; tmp && l < plan->nlanes; l++)
		for (r = 0; ops <= most && r < tt_plan_rounds(plan, l); r++)
			ops += 1 + tt_plan_ops(plan, l, r, tmp, &round_ops);
	free(tmp);
	return !tmp || ops > most;
}

static bool count_rank(const struct tt_alg *alg, const struct tt_plan_args *whole, int rank,
		       struct tt_plan_cost *most)
{
	struct tt_plan_args a = *whole;
	struct tt_plan_cost cost;
	struct tt_plan *plan;
	bool ok;

	tt_plan_args_of(whole, rank, &a);
	if (tt_plan_build(alg, &a, &plan))
		return false;
	ok = rank != whole->root || !too_long(plan);
	if (ok)
		tt_plan_count(plan, &cost);
	tt_plan_free(plan);
	if (ok)
		add_rank(most, &cost);
	return ok;
}

/* The counts and displacements of each rank: blocks of args->count elements, one after another. */
static size_t *blocks_of(const struct tt_plan_args *args)
{
	size_t n = (size_t)args->nranks, rows = args->coll == TT_COLL_ALLTOALLV ? n : 1, i;
	size_t *counts = calloc(2 * rows * n, sizeof(*counts));

	for (i = 0; counts && i < rows * n; i++) {
		counts[i] = args->count;
		counts[rows * n + i] = i % n * args->count;
	}
	return counts;
}

bool explain_count(const struct tt_alg *alg, const struct tt_plan_args *args,
		   struct tt_plan_cost *most)
{
	size_t n = (size_t)args->nranks, pairs = args->coll == TT_COLL_ALLTOALLV ? n * n : n,
	       *counts = NULL;
	struct tt_plan_args a = *args;
	bool ok = (double)pairs <= MOST_OPS;
	int r;

	*most = (struct tt_plan_cost){0};
	if (ok && tt_coll_counts(a.coll)) {
		counts = blocks_of(args);
		ok = counts != NULL;
		a.rcounts = a.scounts = counts;
		if (ok && tt_coll_own_counts(a.coll))
			a.rdispls = a.sdispls = counts + pairs;
		a.count = 0;
	}
	ok = ok && count_rank(alg, &a, a.root, most);
	for (r = 0; ok && r < a.nranks; r++)
		ok = count_rank(alg, &a, r, most);
	free(counts);
	return ok;
}
