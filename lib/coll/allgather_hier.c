/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather in two levels, H hosts with m ranks each: the ranks at the same place of all hosts gather their blocks, on a ring,
 * and each stores what it gets, and its own block, in the recvbufs of the other ranks of its host. Slices of blocks in lanes, as in
 * allreduce_hier.c. On a ring of a place that is no rank's own on some host that host has no block; it passes the others'.
 *
 *	Cost, blocks of B bytes: (H-1)B sent and received, H (m-1) B stored by each rank. A host sends m (H-1) B, where a flat ring
 *	sends (n-1)B; but each of its ranks only a part of it.
 */
#include "lib/coll/hier.h"

static void add_slice(struct tt_hier *h, int place, size_t slice)
{
	const struct tt_plan_args *a = h->a;
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_ALLGATHERV, 0);
	struct tt_span at = tt_hier_piece(h, tt_recv_block(a, 0), slice);
	struct tt_across where = {.place = place, .send = TT_SENDBUF(at.off), .recv = TT_RECVBUF(0)};
	int i, rank;

	for (i = 0; i < a->hosts->hosts; i++) {
		rank = tt_hier_own(a, i, place);
		h->counts[i] = rank < 0 ? 0 : at.len / a->elem;
		h->displs[i] = rank < 0 ? 0 : (size_t)rank * a->count + at.off / a->elem;
	}
	across.rcounts = h->counts;
	across.rdispls = h->displs;
	across.in_place = a->in_place;
	if (!tt_hier_slice(h, &across, &where, 0, NULL))
		return;
	tt_hier_add(h->b, &where, h->plan);
	for (i = 0; i < a->hosts->hosts; i++)
		tt_hier_push(h, h->displs[i] * a->elem, h->counts[i] * a->elem);
}

void tt_allgather_hier_ring(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a, .name = "ring"};

	if (a->count)
		tt_hier_lanes(&h, a->count * a->elem, 1, TT_NONE, TT_RECVBUF(0), add_slice);
}
