/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the all-reduces of neighbours. */
#ifndef TT_COLL_NEIGHBORS_H
#define TT_COLL_NEIGHBORS_H

#include "lib/coll/coll.h"

#define TT_NEIGHBOR_SLOTS_MOST ((size_t)8 << 20) /* bytes of the slots of a rank */
#define TT_NEIGHBOR_SLICE_LEAST ((size_t)16 << 10)

/*
 * The longest slice, in bytes, of a rank with slots for all in-neighbours, or for that many, of so
 * many parts: the same on all ranks.
 */
static inline size_t tt_neighbor_slice(const struct tt_plan_args *a, int slots, size_t parts)
{
	size_t most;
	int r;

	slots = slots < 1 ? 1 : slots;
	for (r = 0; r < a->edges->n; r++)
		if (tt_edges_in(a->edges, r) > slots)
			slots = tt_edges_in(a->edges, r);
	most = TT_NEIGHBOR_SLOTS_MOST / (size_t)slots / parts / (size_t)a->lanes;
	most = most < TT_NEIGHBOR_SLICE_LEAST ? TT_NEIGHBOR_SLICE_LEAST : most;
	return most < a->chunk ? most : a->chunk;
}

void tt_neighbor_hier_allreduce(struct tt_builder *b);

#endif
