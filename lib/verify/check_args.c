/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's view of a call's arguments: each rank's arguments from one description, and whether
 * they agree.
 */
#include <errno.h>

#include "lib/base/error.h"
#include "lib/verify/check_int.h"

void tt_plan_args_of(const struct tt_plan_args *whole, int rank, struct tt_plan_args *a)
{
	size_t row = (size_t)rank * (size_t)whole->nranks;
	bool root = rank == whole->root;

	*a = *whole;
	a->rank = rank;
	if (tt_coll_rooted(a->coll))
		a->in_place = whole->in_place && root && a->coll != TT_COLL_BCAST;
	switch (a->coll) {
	case TT_COLL_GATHERV:
		a->count = whole->rcounts[rank];
		a->rcounts = root ? whole->rcounts : NULL;
		a->rdispls = root ? whole->rdispls : NULL;
		break;
	case TT_COLL_SCATTERV:
		a->count = whole->scounts[rank];
		a->scounts = root ? whole->scounts : NULL;
		a->sdispls = root ? whole->sdispls : NULL;
		break;
	case TT_COLL_ALLGATHERV:
		a->rdispls = whole->rdispls ? whole->rdispls + row : NULL;
		break;
	case TT_COLL_ALLTOALLV:
		a->rcounts = whole->rcounts + row;
		a->rdispls = whole->rdispls + row;
		a->scounts = whole->scounts ? whole->scounts + row : NULL;
		a->sdispls = whole->sdispls ? whole->sdispls + row : NULL;
		break;
	default:
		break;
	}
}

/* Whether each rank passes its own count. */
static bool own_count(enum tt_coll coll)
{
	return coll == TT_COLL_GATHERV || coll == TT_COLL_SCATTERV;
}

static bool same_call(const struct tt_plan_args *a, const struct tt_plan_args *b)
{
	return a->coll == b->coll && a->nranks == b->nranks && a->root == b->root &&
	       (a->count == b->count || own_count(a->coll)) && a->elem == b->elem &&
	       (a->in_place == b->in_place || tt_coll_rooted(a->coll) ||
		a->coll == TT_COLL_ALLREDUCE) &&
	       a->divide == b->divide && a->ordered == b->ordered && a->chunk == b->chunk &&
	       a->lanes == b->lanes && a->codec == b->codec && a->edges == b->edges;
}

/* Bytes that rank from passes to rank to, as each of them sees it. */
static bool same_counts(const struct tt_checker *c, int from, int to)
{
	const struct tt_plan_args *f = &c->plans[from]->args, *t = &c->plans[to]->args;

	switch (f->coll) {
	case TT_COLL_REDUCE_SCATTER:
	case TT_COLL_ALLGATHERV:
		return f->rcounts[to] == t->rcounts[to];
	case TT_COLL_GATHERV:
		return to != t->root || f->count == t->rcounts[from];
	case TT_COLL_SCATTERV:
		return from != f->root || t->count == f->scounts[to];
	case TT_COLL_ALLTOALLV:
		return tt_send_block(f, to).len == tt_recv_block(t, from).len;
	default:
		return true;
	}
}

int tt_ck_check_args(const struct tt_checker *c)
{
	const struct tt_plan *p;
	int r, k;

	for (r = 0; r < c->n; r++) {
		p = c->plans[r];
		if (!same_call(&p->args, &c->args) || p->args.nranks != c->n || p->args.rank != r)
			return tt_fail(-EINVAL, "the plan at place %d was made for other arguments",
				       r);
		if (p->nlanes > p->args.lanes)
			return tt_fail(-EINVAL, "rank %d uses %d lanes, allowed are %d", r,
				       p->nlanes, p->args.lanes);
	}
	for (r = 0; r < c->n; r++)
		for (k = 0; k < c->n; k++)
			if (!same_counts(c, r, k))
				return tt_fail(-EINVAL,
					       "ranks %d and %d disagree on a count between them",
					       r, k);
	return 0;
}
