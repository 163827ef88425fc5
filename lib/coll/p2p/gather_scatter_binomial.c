/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather and scatter on a binomial tree: short blocks, few steps.
 *
 *	gather   0 <── 1   2 <── 3   4 <── 5   6 <── 7        v = rank - root (mod n)
 *	         0 <──── 2 3         4 <──── 6 7              a scatter is the same backwards
 *	         0 <──────────── 4 5 6 7
 *
 * The subtree of v has the blocks v up to v + 2^k - 1 (those below n), 2^k being the lowest set
 * bit of v. Inner ranks keep them in scratch; the root receives blocks directly at their places.
 * Slices are so short that those of all blocks fit in SLICE_CHUNKS chunks (or have an element
 * each).
 *
 * Cost, n ranks, blocks of N bytes: (n-1)N received (sent) by the root, half of that by its
 * neighbour; ceil(log2 n) steps a slice; fan-in 1. Inner ranks copy their own block.
 *
 * Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH.
 * Int. J. High Perform. Comput. Appl. 19(1), 2005.
 */
#include "lib/coll/blocks.h"

#define SLICE_CHUNKS 8

/* A rank's place in the tree. */
struct place {
	int v, bit; /* bit: the lowest one set, or the first power of two not below n */
	int size;   /* of its subtree */
};

static struct place place_of(const struct tt_plan_args *a)
{
	int n = a->nranks;
	struct place p = {.v = (a->rank - a->root + n) % n, .bit = 1};

	while (p.bit < n && !(p.v & p.bit))
		p.bit *= 2;
	p.size = p.v + p.bit < n ? p.bit : n - p.v;
	return p;
}

static int rank_of(const struct tt_plan_args *a, int v)
{
	return (v + a->root) % a->nranks;
}

static int subtree(const struct tt_plan_args *a, int v, int bit)
{
	return v + bit < a->nranks ? bit : a->nranks - v;
}

/* The place of this rank's subtree's blocks. */
static struct tt_blocks blocks_of(struct tt_builder *b, size_t slices)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	bool root = a->rank == a->root, gather = a->coll == TT_COLL_GATHER;
	struct tt_blocks s = {.slices = slices,
			      .of = gather ? tt_recv_block : tt_send_block,
			      .buf = gather ? TT_BUF_RECV : TT_BUF_SEND,
			      .packed_first = root ? -1 : a->rank};
	return s;
}

static void gather_slice(struct tt_builder *b, const struct tt_blocks *s, const struct place *p)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span own = tt_slice(a, tt_vector(a), s->slices, s->slice);
	struct tt_ref in = tt_input(a), to;
	bool root = a->rank == a->root;
	size_t len;
	int bit;

	in.off += own.off;
	to = tt_block_ref(a, s, a->rank, &len);
	tt_round(b);
	if (p->size == 1) {
		tt_send_long(b, rank_of(a, p->v - p->bit), in, len);
		return;
	}
	if (!root || !a->in_place)
		tt_copy(b, to, in, len);
	for (bit = 1; bit < p->bit && p->v + bit < a->nranks; bit *= 2) {
		tt_recv_blocks(b, s, rank_of(a, p->v + bit), rank_of(a, p->v + bit),
			       subtree(a, p->v + bit, bit));
		tt_round(b);
	}
	if (!root)
		tt_send_blocks(b, s, rank_of(a, p->v - p->bit), a->rank, p->size);
}

static void scatter_slice(struct tt_builder *b, const struct tt_blocks *s, const struct place *p)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span own = tt_slice(a, tt_vector(a), s->slices, s->slice);
	bool root = a->rank == a->root;
	struct tt_ref mine;
	size_t len;
	int bit;

	mine = tt_block_ref(a, s, a->rank, &len);
	tt_round(b);
	if (p->size == 1) {
		tt_recv_long(b, rank_of(a, p->v - p->bit), TT_RECVBUF(own.off), len);
		return;
	}
	if (!root)
		tt_recv_blocks(b, s, rank_of(a, p->v - p->bit), a->rank, p->size);
	tt_round(b);
	if (!root || !a->in_place)
		tt_copy(b, TT_RECVBUF(own.off), mine, len);
	for (bit = p->bit / 2; bit; bit /= 2) {
		if (p->v + bit >= a->nranks)
			continue;
		tt_send_blocks(b, s, rank_of(a, p->v + bit), rank_of(a, p->v + bit),
			       subtree(a, p->v + bit, bit));
		tt_round(b);
	}
}

static void emit(struct tt_builder *b,
		 void (*slice)(struct tt_builder *, const struct tt_blocks *, const struct place *))
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span all = tt_vector(a);
	size_t n = (size_t)a->nranks, i, base, slot = 0;
	size_t slices = tt_num_pieces(all.len, a->elem, SLICE_CHUNKS * a->chunk / n);
	int lanes = tt_num_lanes(a, slices), lane;
	struct tt_blocks s = blocks_of(b, slices);
	struct place p = place_of(a);

	if (!slices)
		return;
	base = tt_scratch(b, 0);
	if (s.packed_first >= 0 && p.size > 1)
		slot = tt_slots(b, (size_t)lanes, (size_t)p.size * tt_slice(a, all, slices, 0).len);
	for (i = 0; i < slices; i++) {
		lane = (int)(i % (size_t)lanes);
		s.slice = i;
		s.packed = base + (size_t)lane * slot;
		tt_lane(b, lane);
		slice(b, &s, &p);
	}
}

void tt_gather_binomial(struct tt_builder *b)
{
	emit(b, gather_slice);
}

void tt_scatter_binomial(struct tt_builder *b)
{
	emit(b, scatter_slice);
}
