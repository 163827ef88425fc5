/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter (block and v) in two levels, H hosts with m ranks each: each rank combines, from
 * the inputs of its host, the blocks of the H ranks at its place on all hosts, which then
 * reduce-scatter them on a ring. Slices of blocks in lanes, as in allreduce_hier.c; the combined
 * slices are in scratch. In place the result stays in the place of the rank's own block, which no
 * other rank of its host reads, until all ranks have read the rest. The work of a rank at a place
 * that is not its own ends on other hosts.
 *
 *	Cost, blocks of B bytes: H B read from each of m inputs, (H-1)B sent, received and reduced.
 */
#include "lib/coll/coll.h"
#include "lib/coll/hier/hier.h"

/* The blocks of a place, combined, one after the other. */
static void combine(struct tt_hier *h, int place, size_t slice, size_t to)
{
	const struct tt_plan_args *a = h->a;
	struct tt_span at;
	int i;

	for (i = 0; i < a->hosts->hosts; i++) {
		if (!h->counts[i])
			continue;
		at = tt_hier_piece(h, tt_send_block(a, tt_hier_own(a, i, place)), slice);
		tt_hier_combine(h->b, TT_SCRATCH(to), TT_SENDBUF(at.off), at.len);
		to += at.len;
	}
}

static void add_slice(struct tt_hier *h, int place, size_t slice)
{
	const struct tt_plan_args *a = h->a;
	struct tt_span own = tt_send_block(a, a->rank), at = tt_hier_piece(h, own, slice);
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_REDUCE_SCATTER, 0);
	struct tt_across where = {.place = place,
				  .recv = TT_RECVBUF(at.off - (a->in_place ? 0 : own.off))};
	size_t blocks, len = 0;
	int i, rank;

	for (i = 0; i < a->hosts->hosts; i++) {
		rank = tt_hier_own(a, i, place);
		h->counts[i] =
			rank < 0 ? 0
				 : tt_hier_piece(h, tt_send_block(a, rank), slice).len / a->elem;
		len += h->counts[i] * a->elem;
	}
	across.rcounts = h->counts;
	if (!len || !tt_hier_slice(h, &across, &where, len, &blocks))
		return;
	where.send = TT_SCRATCH(blocks);
	combine(h, place, slice, blocks);
	tt_hier_add(h->b, &where, h->plan);
}

void tt_reduce_scatter_hier_ring(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a, .name = "ring"};
	struct tt_span own = tt_send_block(a, a->rank);
	size_t longest = tt_longest(a, tt_send_block);

	if (!longest)
		return;
	tt_hier_lanes(&h, longest, 1, tt_input(a), TT_NONE, add_slice);
	if (a->in_place && own.off)
		tt_copy(b, TT_RECVBUF(0), TT_RECVBUF(own.off), own.len);
}
