/* SPDX-License-Identifier: BSD-3-Clause */
/* The public side of plans: making one by an algorithm, walking and freeing it; names. */
#include "lib/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "lib/base/error.h"
#include "lib/plan/stored.h"

#define CHUNKS_MOST (1 << 24) /* of a vector: each message is an op of a plan */

static const char *const coll_names[TT_ALL_COLLS] = {
	[TT_COLL_ALLREDUCE] = "allreduce",
	[TT_COLL_BCAST] = "bcast",
	[TT_COLL_BARRIER] = "barrier",
	[TT_COLL_REDUCE] = "reduce",
	[TT_COLL_REDUCE_SCATTER_BLOCK] = "reduce_scatter_block",
	[TT_COLL_REDUCE_SCATTER] = "reduce_scatter",
	[TT_COLL_ALLGATHER] = "allgather",
	[TT_COLL_ALLGATHERV] = "allgatherv",
	[TT_COLL_GATHER] = "gather",
	[TT_COLL_GATHERV] = "gatherv",
	[TT_COLL_SCATTER] = "scatter",
	[TT_COLL_SCATTERV] = "scatterv",
	[TT_COLL_ALLTOALL] = "alltoall",
	[TT_COLL_ALLTOALLV] = "alltoallv",
	[TT_COLL_SCAN] = "scan",
	[TT_COLL_EXSCAN] = "exscan",
	[TT_COLL_ALLTOALLW] = "alltoallw",
	[TT_COLL_NEIGHBOR_ALLREDUCE] = "neighbor_allreduce",
	[TT_COLL_NEIGHBOR_ALLGATHER] = "neighbor_allgather",
	[TT_COLL_NEIGHBOR_ALLTOALL] = "neighbor_alltoall",
	[TT_COLL_NEIGHBOR_HIER_ALLREDUCE] = "neighbor_hier_allreduce",
};

const char *tt_coll_name(enum tt_coll coll)
{
	return (unsigned)coll < TT_ALL_COLLS ? coll_names[coll] : "?";
}

int tt_coll_find(const char *name, enum tt_coll *coll, const char **near)
{
	int i;

	for (i = 0; i < TT_NUM_COLLS; i++)
		if (!strcmp(coll_names[i], name)) {
			*coll = (enum tt_coll)i;
			return 0;
		}
	if (near)
		*near = tt_nearest(name, coll_names, TT_NUM_COLLS);
	return -ENOENT;
}

const struct tt_alg *tt_alg_find(enum tt_coll coll, const char *name)
{
	const struct tt_alg *alg;

	for (alg = tt_algs; alg->name; alg++)
		if (alg->coll == coll && !strcmp(alg->name, name))
			return alg;
	return NULL;
}

/* By their names: lib/coll/algs.def. */
bool tt_alg_codes(const struct tt_alg *alg)
{
	return strstr(alg->name, "codec") != NULL;
}

bool tt_alg_measures(const struct tt_alg *alg)
{
	return !strcmp(alg->name, "codec_lists");
}

bool tt_alg_can(const struct tt_alg *alg, const struct tt_plan_args *args)
{
	return tt_alg_codes(alg) == (args->codec != NULL) && (!alg->can || alg->can(args));
}

int tt_plan_branch_rounds(const struct tt_plan *plan, enum tt_branch way, int lane)
{
	if (plan->nways)
		return plan->fork + plan->first[way + 1] - plan->first[way];
	return plan->generated ? plan->gen_rounds : plan->lane[lane].nrounds;
}

int tt_plan_rounds(const struct tt_plan *plan, int lane)
{
	return tt_plan_branch_rounds(plan, plan->way, lane);
}

int tt_plan_branch_ops(const struct tt_plan *plan, enum tt_branch way, int lane, int round,
		       struct tt_op *tmp, const struct tt_op **ops)
{
	const struct tt_lane *l;

	if (plan->generated) {
		*ops = tmp;
		return tt_sliced_ops(plan, lane, round, tmp);
	}
	if (plan->nways && round >= plan->fork)
		round += plan->first[way] - plan->fork;
	l = &plan->lane[lane];
	*ops = l->ops + l->begin[round];
	return (int)(l->begin[round + 1] - l->begin[round]);
}

int tt_plan_ops(const struct tt_plan *plan, int lane, int round, struct tt_op *tmp,
		const struct tt_op **ops)
{
	return tt_plan_branch_ops(plan, plan->way, lane, round, tmp, ops);
}

void tt_plan_free(struct tt_plan *plan)
{
	free(plan); /* one block, see builder.c */
}

static bool too_long(size_t count, size_t elem)
{
	size_t bytes;

	return __builtin_mul_overflow(count, elem, &bytes);
}

static bool too_many(const struct tt_plan_args *a, size_t count)
{
	return count / (a->chunk / a->elem) > CHUNKS_MOST;
}

/* counts and displs (or one after the other) of all ranks. */
static int check_blocks(const struct tt_plan_args *a, const size_t *counts, const size_t *displs,
			bool has_displs)
{
	size_t end, off = 0;
	int i;

	if (!counts || (has_displs && !displs))
		return tt_fail(-EINVAL, "%s needs the %s of all ranks", tt_coll_name(a->coll),
			       counts ? "displacements" : "counts");
	for (i = 0; i < a->nranks; i++) {
		if (!counts[i])
			continue;
		if (__builtin_add_overflow(has_displs ? displs[i] : off, counts[i], &end) ||
		    too_long(end, a->elem))
			return tt_fail(-EINVAL, "the block of rank %d is too large: %zu elements",
				       i, counts[i]);
		if (too_many(a, counts[i]))
			return tt_fail(-EINVAL,
				       "the block of rank %d is too large: %zu elements of %zu "
				       "bytes are more than %d messages of %zu bytes",
				       i, counts[i], a->elem, CHUNKS_MOST, a->chunk);
		off = end;
	}
	return 0;
}

static int check_own(const struct tt_plan_args *a, size_t count, size_t listed)
{
	if (count == listed)
		return 0;
	return tt_fail(-EINVAL, "%s: rank %d's own count is %zu, but its entry in the list is %zu",
		       tt_coll_name(a->coll), a->rank, count, listed);
}

static int check_v(const struct tt_plan_args *a)
{
	bool root = a->rank == a->root;
	int err = 0;

	switch (a->coll) {
	case TT_COLL_REDUCE_SCATTER:
		return check_blocks(a, a->rcounts, NULL, false);
	case TT_COLL_ALLGATHERV:
		return check_blocks(a, a->rcounts, a->rdispls, a->rdispls != NULL);
	case TT_COLL_GATHERV:
		err = root ? check_blocks(a, a->rcounts, a->rdispls, true) : 0;
		return err || !root ? err : check_own(a, a->count, a->rcounts[a->rank]);
	case TT_COLL_SCATTERV:
		err = root ? check_blocks(a, a->scounts, a->sdispls, true) : 0;
		return err || !root ? err : check_own(a, a->count, a->scounts[a->rank]);
	case TT_COLL_ALLTOALLV:
		err = check_blocks(a, a->rcounts, a->rdispls, true);
		if (err || a->in_place)
			return err;
		err = check_blocks(a, a->scounts, a->sdispls, true);
		return err ? err : check_own(a, a->scounts[a->rank], a->rcounts[a->rank]);
	default:
		return 0;
	}
}

/* Has a block of count elements for each rank. */
static bool has_blocks(enum tt_coll coll)
{
	return coll == TT_COLL_REDUCE_SCATTER_BLOCK || coll == TT_COLL_ALLGATHER ||
	       coll == TT_COLL_GATHER || coll == TT_COLL_SCATTER || coll == TT_COLL_ALLTOALL ||
	       tt_coll_neighbors(coll);
}

static int check_graph(const struct tt_plan_args *a)
{
	bool hier = a->coll == TT_COLL_NEIGHBOR_HIER_ALLREDUCE;
	int n = !hier ? a->nranks : a->hosts ? a->hosts->hosts : 0;

	if (a->edges && n && a->edges->n == n)
		return 0;
	return tt_fail(-EINVAL, "%s needs a graph of %d %s", tt_coll_name(a->coll), n,
		       hier ? "hosts" : "ranks");
}

static int check_args(const struct tt_plan_args *a)
{
	int err;

	if (a->nranks < 1 || a->rank < 0 || a->rank >= a->nranks)
		return tt_fail(-EINVAL, "rank %d is not in 0..%d", a->rank, a->nranks - 1);
	if (tt_coll_rooted(a->coll) && (a->root < 0 || a->root >= a->nranks))
		return tt_fail(-EINVAL, "root %d is not in 0..%d", a->root, a->nranks - 1);
	if (!a->elem || too_long(a->count, a->elem) ||
	    (has_blocks(a->coll) && too_long((size_t)a->nranks, a->count * a->elem)))
		return tt_fail(-EINVAL, "the buffer is too large: %zu elements of %zu bytes",
			       a->count, a->elem);
	if (a->chunk < a->elem || a->chunk % a->elem)
		return tt_fail(-EINVAL, "a chunk of %zu bytes is not made of whole elements of %zu",
			       a->chunk, a->elem);
	if (too_many(a, a->count))
		return tt_fail(-EINVAL,
			       "%s: the buffer is too large: %zu elements of %zu bytes are more "
			       "than %d messages of %zu bytes",
			       tt_coll_name(a->coll), a->count, a->elem, CHUNKS_MOST, a->chunk);
	if (a->lanes < 1)
		return tt_fail(-EINVAL, "a plan needs at least one lane, not %d", a->lanes);
	if (a->divide && (a->coll == TT_COLL_SCAN || a->coll == TT_COLL_EXSCAN))
		return tt_fail(-EINVAL, "%s has no average", tt_coll_name(a->coll));
	err = tt_coll_neighbors(a->coll) ? check_graph(a) : 0;
	return err ? err : check_v(a);
}

/* Fields that are optional or redundant. */
static void complete_args(struct tt_plan_args *a)
{
	bool root = a->rank == a->root && a->in_place;

	if (a->coll == TT_COLL_BARRIER) { /* has no data */
		a->count = 0;
		a->elem = a->chunk = 1;
		a->lanes = a->lanes < 1 ? 1 : a->lanes;
	}
	if (a->coll == TT_COLL_GATHERV && root && a->rcounts)
		a->count = a->rcounts[a->rank];
	if (a->coll == TT_COLL_SCATTERV && root && a->scounts)
		a->count = a->scounts[a->rank];
}

int tt_plan_build(const struct tt_alg *alg, const struct tt_plan_args *args, struct tt_plan **plan)
{
	struct tt_plan_args a = *args;
	struct tt_builder *b;
	int err;

	if (a.rank >= 0 && a.rank < a.nranks)
		complete_args(&a);
	err = check_args(&a);
	if (err)
		return err;
	if (alg->coll != a.coll || !tt_alg_can(alg, &a))
		return tt_fail(-EINVAL, "algorithm %s of %s cannot do this %s of %d ranks",
			       alg->name, tt_coll_name(alg->coll), tt_coll_name(a.coll), a.nranks);
	b = tt_builder_new(&a, alg->name);
	if (!b)
		return tt_fail(-ENOMEM, "no memory for the plan of a collective");
	alg->emit(b);
	return tt_plan_finish(b, plan);
}
