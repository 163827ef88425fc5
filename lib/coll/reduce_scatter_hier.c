/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter (block) in two levels, H hosts with m ranks each: each rank combines, out of the inputs of its host, the blocks of
 * the H ranks at its place of all hosts, and they reduce-scatter those, on a ring. Slices of blocks in lanes, as in
 * allreduce_hier.c; the combined slices are in scratch. In place the result is kept where the rank's own block is, which on its
 * host only itself reads, until all have read the rest.
 *
 *	Cost, blocks of B bytes: H B read from each of m inputs, (H-1)B sent, received and reduced.
 */
#include "lib/coll/hier.h"

static void add_slice(struct tt_hier *h, struct tt_span at, int lane)
{
	const struct tt_plan_args *a = h->a;
	const struct tt_hosts *hosts = a->hosts;
	size_t block = a->count * a->elem, own = a->in_place ? (size_t)a->rank * block : 0, blocks;
	struct tt_plan_args across =
		tt_hier_args(a, TT_COLL_REDUCE_SCATTER_BLOCK, at.len / a->elem);
	struct tt_across where = {.local = tt_hier_local(a), .recv = TT_RECVBUF(own + at.off)};
	int i, rank;

	if (!tt_hier_slice(h, &across, (size_t)hosts->hosts * at.len))
		return;
	where.scratch = h->base + (size_t)lane * h->slot;
	blocks = where.scratch + (h->plan->scratch + 63) / 64 * 64;
	where.send = TT_SCRATCH(blocks);
	for (i = 0; i < hosts->hosts; i++) {
		rank = hosts->rank[i * hosts->each + where.local];
		tt_pull_reduce(h->b, a->rank, TT_SCRATCH(blocks + (size_t)i * at.len),
			       TT_SENDBUF((size_t)rank * block + at.off), at.len, 0);
	}
	tt_hier_add(h->b, &where, h->plan);
}

void tt_reduce_scatter_hier_ring(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a, .name = "ring", .part = {0, a->count * a->elem}};

	if (!a->count)
		return;
	tt_hier_lanes(&h, h.part.len, 1, tt_input(a), TT_NONE, add_slice);
	if (a->in_place && a->rank)
		tt_copy(b, TT_RECVBUF(0), TT_RECVBUF((size_t)a->rank * h.part.len), h.part.len);
}
