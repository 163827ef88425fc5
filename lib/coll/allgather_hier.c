/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather in two levels, H hosts with m ranks each: the ranks at the same place of all hosts gather their blocks, on a ring,
 * and each stores what it gets, and its own block, in the recvbufs of the other ranks of its host. Slices of blocks in lanes, as in
 * allreduce_hier.c.
 *
 *	Cost, blocks of B bytes: (H-1)B sent and received, H (m-1) B stored by each rank. A host sends m (H-1) B, where a flat ring
 *	sends (n-1)B; but each of its ranks only a part of it.
 */
#include "lib/coll/hier.h"

static void add_slice(struct tt_hier *h, struct tt_span at, int lane)
{
	const struct tt_plan_args *a = h->a;
	const struct tt_hosts *hosts = a->hosts;
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_ALLGATHER, at.len / a->elem);
	struct tt_across where = {.local = tt_hier_local(a),
				  .send = TT_SENDBUF(at.off),
				  .recv = TT_RECVBUF(at.off),
				  .block = at.len,
				  .apart = a->count * a->elem};
	size_t off;
	int i;

	across.in_place = a->in_place;
	if (!tt_hier_slice(h, &across, 0))
		return;
	where.scratch = h->base + (size_t)lane * h->slot;
	tt_hier_add(h->b, &where, h->plan);
	for (i = 0; i < hosts->hosts; i++) {
		off = (size_t)hosts->rank[i * hosts->each + where.local] * where.apart + at.off;
		tt_push(h->b, TT_ALL_RANKS, TT_RECVBUF(off), TT_RECVBUF(off), at.len);
	}
}

void tt_allgather_hier_ring(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a, .name = "ring", .part = {0, a->count * a->elem}};

	if (a->count)
		tt_hier_lanes(&h, h.part.len, 1, TT_NONE, TT_RECVBUF(0), add_slice);
}
