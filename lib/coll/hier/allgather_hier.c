/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather (block and v) in two levels, H hosts with m ranks each: the ranks at the same place
 * of all hosts gather their blocks on a ring, and each stores the gathered blocks and its own
 * block in the results of the other ranks of its host. Slices of blocks in lanes, as in
 * allreduce_hier.c. If a host has no rank of its own at a place, it contributes no block to that
 * ring and only passes blocks on.
 *
 *	Cost, blocks of B bytes: (H-1)B sent and received, H (m-1) B stored by each rank. A host
 *	sends m (H-1) B, where a flat ring sends (n-1)B; but each of its ranks only a part of it.
 *
 * In the v form all ranks know the counts, but displacements only their own. So the blocks arrive
 * one after the other: in recvbuf if this rank's displacements allow it, else in scratch, from
 * which the rank copies each block to its place at the end. Peers do the same in both cases.
 */
#include "lib/coll/coll.h"
#include "lib/coll/hier/hier.h"

static bool is_packed(const struct tt_plan_args *a)
{
	size_t off = 0;
	struct tt_span at;
	int i;

	for (i = 0; i < a->nranks && a->rcounts; i++, off += at.len) {
		at = tt_recv_block(a, i);
		if (at.len && at.off != off)
			return false;
	}
	return true;
}

/*
 * The block at this place of each host: its slice, in elements, and the slice's place in the
 * result.
 */
static size_t cut(struct tt_hier *h, int place, size_t slice)
{
	const struct tt_plan_args *a = h->a;
	struct tt_span at;
	size_t all = 0;
	int i, rank;

	for (i = 0; i < a->hosts->hosts; i++) {
		rank = tt_hier_own(a, i, place);
		at = rank < 0 ? (struct tt_span){0, 0}
			      : tt_hier_piece(h, tt_packed_block(a, rank), slice);
		all += h->counts[i] = at.len / a->elem;
		h->displs[i] = at.off / a->elem;
	}
	return all;
}

/* The input: this rank's slice of its block. */
static struct tt_ref input(const struct tt_hier *h, size_t slice)
{
	struct tt_span own = tt_packed_block(h->a, h->a->rank);
	struct tt_ref in = tt_input(h->a);

	in.off += tt_hier_piece(h, own, slice).off - own.off;
	return in;
}

static void add_slice(struct tt_hier *h, int place, size_t slice)
{
	const struct tt_plan_args *a = h->a;
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_ALLGATHERV, 0);
	struct tt_across where = {.place = place, .send = input(h, slice), .recv = h->result};
	struct tt_ref from = h->result;
	size_t off;
	int i;

	across.rcounts = h->counts;
	across.rdispls = h->displs;
	across.in_place = a->in_place && h->result.buf == TT_BUF_RECV;
	if (!cut(h, place, slice) || !tt_hier_slice(h, &across, &where, 0, NULL))
		return;
	tt_hier_add(h->b, &where, h->plan);
	for (i = 0; i < a->hosts->hosts; i++) {
		off = h->displs[i] * a->elem;
		from.off = h->result.off + off;
		tt_hier_store(h, from, off, h->counts[i] * a->elem);
	}
}

/* To where they belong. */
static void take_out(const struct tt_hier *h)
{
	struct tt_ref from = h->result;
	struct tt_span block;
	int i;

	for (i = 0; i < h->a->nranks; i++, from.off += block.len) {
		block = tt_recv_block(h->a, i);
		if (i != h->a->rank || !h->a->in_place)
			tt_copy(h->b, TT_RECVBUF(block.off), from, block.len);
	}
}

void tt_allgather_hier_ring(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a, .name = "ring", .result = TT_RECVBUF(0)};
	size_t longest = tt_longest(a, tt_recv_block);
	struct tt_span last = tt_packed_block(a, a->nranks - 1);

	if (!longest)
		return;
	if (!is_packed(a))
		h.result = TT_SCRATCH(tt_scratch(b, last.off + last.len));
	tt_hier_lanes(&h, longest, 1, TT_NONE, h.result, add_slice);
	if (h.result.buf == TT_BUF_SCRATCH)
		take_out(&h);
}
