/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shape of the control tree: complete, of arity TT_CTL_ARITY, in rank order. Parents, children
 * and the way to any rank are computed, not transmitted.
 *
 *	0 -- 1..8;   1 -- 9..16;   2 -- 17..24;   r -- 8r+1 .. 8r+8
 */
#ifndef TT_CONTROL_TREE_H
#define TT_CONTROL_TREE_H

#include "lib/boot/boot.h"

static inline int tt_tree_parent(int rank)
{
	return rank ? (rank - 1) / TT_CTL_ARITY : -1;
}

static inline int tt_tree_first_child(int rank)
{
	return TT_CTL_ARITY * rank + 1;
}

static inline int tt_tree_children(int rank, int nranks)
{
	long left = (long)nranks - ((long)TT_CTL_ARITY * rank + 1);

	return left < 0 ? 0 : left > TT_CTL_ARITY ? TT_CTL_ARITY : (int)left;
}

/* The neighbour of me on the way to rank `to` (not me). */
static inline int tt_tree_hop(int me, int to)
{
	while (to > me) { /* parents have smaller ranks than their children */
		if (tt_tree_parent(to) == me)
			return to;
		to = tt_tree_parent(to);
	}
	return tt_tree_parent(me);
}

#endif
