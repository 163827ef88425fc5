/* SPDX-License-Identifier: BSD-3-Clause */
/* What algorithms for the ranks of one host share. */
#ifndef TT_COLL_NODE_H
#define TT_COLL_NODE_H

#include "lib/plan/plan.h"

#define TT_NODE_LINE ((size_t)64) /* parts of a vector begin at whole cache lines of it, where they can */

/*
 * Part i of n of a vector that all have. Two ranks that write into the same cache line would take it from each
 * other, so parts are cut at lines (of an aligned buffer); the last one takes what is left over.
 */
static inline struct tt_span tt_node_part_of(const struct tt_plan_args *a, int n, int i)
{
	size_t len = a->count * a->elem, line = TT_NODE_LINE % a->elem ? a->elem : TT_NODE_LINE;
	size_t from = tt_part_begin(len / line, n, i) * line;
	size_t to = i == n - 1 ? len : tt_part_begin(len / line, n, i + 1) * line;

	return (struct tt_span){from, to - from};
}

/* Rank i's, where all ranks share a host. */
static inline struct tt_span tt_node_part(const struct tt_plan_args *a, int i)
{
	return tt_node_part_of(a, a->nranks, i);
}

static inline unsigned tt_node_flags(const struct tt_plan_args *a)
{
	return a->divide ? TT_OPF_DIVIDE : 0;
}

#endif
