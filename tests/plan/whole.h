/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions of whole calls for tt_plan_check: v forms get counts and displacements here. */
#ifndef TT_TESTS_WHOLE_H
#define TT_TESTS_WHOLE_H

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "lib/base/error.h"
#include "lib/verify/check.h"

#define TT_WHOLE_RANKS 33

struct tt_whole {
	struct tt_plan_args args;
	size_t scounts[TT_WHOLE_RANKS * TT_WHOLE_RANKS], sdispls[TT_WHOLE_RANKS * TT_WHOLE_RANKS];
	size_t rcounts[TT_WHOLE_RANKS * TT_WHOLE_RANKS], rdispls[TT_WHOLE_RANKS * TT_WHOLE_RANKS];
};

static inline bool tt_whole_is_v(enum tt_coll coll)
{
	return coll == TT_COLL_REDUCE_SCATTER || coll == TT_COLL_ALLGATHERV ||
	       coll == TT_COLL_GATHERV || coll == TT_COLL_SCATTERV || coll == TT_COLL_ALLTOALLV;
}

/* In how many ways tt_whole_init chooses counts. */
static inline int tt_whole_shapes(enum tt_coll coll)
{
	return tt_whole_is_v(coll) ? 4 : 1;
}

/*
 * The count from a to b (or of b). 0: all equal; 1: unequal, some 0; 2: one rank has all; 3:
 * growing.
 */
static inline size_t tt_whole_count(size_t count, int n, int shape, int a, int b)
{
	switch (shape) {
	case 0:
		return count;
	case 1:
		return (a + b) % 3 ? count / (size_t)(1 + (a + b) % 3) + (size_t)(a + b) % 2 : 0;
	case 2:
		return (a + b) % n == n / 2 ? 2 * count : 0;
	default:
		return count / 4 + (size_t)(a + b) / 2;
	}
}

/*
 * The blocks of n ranks one after the other, or from the last to the first with gaps between
 * them.
 */
static inline void tt_whole_place(const size_t *counts, size_t *displs, int n, bool backwards)
{
	size_t off = 0;
	int i, k;

	for (i = 0; i < n; i++) {
		k = backwards ? n - 1 - i : i;
		displs[k] = off;
		off += counts[k] + backwards;
	}
}

/* call with counts of a shape; the result points into w. */
static inline void tt_whole_init(struct tt_whole *w, const struct tt_plan_args *call, int shape)
{
	int n = call->nranks, r, i, rows;
	bool all = call->coll == TT_COLL_ALLTOALLV;

	rows = all ? n : 1;
	w->args = *call;
	w->args.node = true; /* for the algorithms that want it */
	w->args.direct = (shape + call->lanes) % 3;
	if (!tt_whole_is_v(call->coll))
		return;
	w->args.count = 0;
	for (r = 0; r < rows; r++) {
		for (i = 0; i < n; i++) { /* equal in both directions, so it may be in place */
			w->rcounts[r * n + i] = w->scounts[r * n + i] =
				tt_whole_count(call->count, n, shape, r, i);
		}
		tt_whole_place(w->scounts + r * n, w->sdispls + r * n, n, shape % 2);
		tt_whole_place(w->rcounts + r * n, w->rdispls + r * n, n, shape / 2);
	}
	/* displacements are each rank's own business */
	for (r = 0; call->coll == TT_COLL_ALLGATHERV && r < n; r++)
		tt_whole_place(w->rcounts, w->rdispls + r * n, n,
			       shape == 2 || (shape == 3 && r % 2));
	/* out of place one direction may differ from the other */
	for (r = 0; all && shape == 1 && !call->in_place && r < n; r++) {
		for (i = 0; i < n; i++) {
			w->scounts[r * n + i] = (size_t)(2 * r + i) % 5;
			w->rcounts[r * n + i] = (size_t)(2 * i + r) % 5;
		}
		tt_whole_place(w->scounts + r * n, w->sdispls + r * n, n, true);
		tt_whole_place(w->rcounts + r * n, w->rdispls + r * n, n, false);
	}
	w->args.scounts =
		call->coll == TT_COLL_SCATTERV || (all && !call->in_place) ? w->scounts : NULL;
	w->args.sdispls = w->args.scounts ? w->sdispls : NULL;
	w->args.rcounts = call->coll != TT_COLL_SCATTERV ? w->rcounts : NULL;
	w->args.rdispls = call->coll != TT_COLL_SCATTERV && call->coll != TT_COLL_REDUCE_SCATTER
				  ? w->rdispls
				  : NULL;
}

/* All ways in which a channel can be limited and scheduled: number i of them. */
#define TT_WHOLE_OPTS 81
static inline struct tt_check_opts tt_whole_opts(unsigned i, size_t elem)
{
	static const int limits[] = {1, 2, 0};
	const size_t eager[] = {0, 2 * elem, SIZE_MAX};

	return (struct tt_check_opts){.credits = limits[i % 3],
				      .offers = limits[i / 3 % 3],
				      .eager = eager[i / 9 % 3],
				      .seed = i / 27 + 3 * i};
}

/* The case that failed, and the reason. */
static inline void tt_whole_describe(const struct tt_alg *alg, const struct tt_plan_args *a,
				     const struct tt_check_opts *o)
{
	printf("  %s %s n=%d root=%d count=%zu chunk=%zu lanes=%d in_place=%d divide=%d ordered=%d "
	       "credits=%d offers=%d eager=%zd seed=%llu\n  %s\n",
	       tt_coll_name(alg->coll), alg->name, a->nranks, a->root, a->count, a->chunk, a->lanes,
	       a->in_place, a->divide, a->ordered, o->credits, o->offers, (ssize_t)o->eager,
	       (unsigned long long)o->seed, tt_fail_text(-EINVAL));
}

#endif
