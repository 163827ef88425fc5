/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter (block and v) by recursive halving: few steps, for short vectors.
 *
 *	v           0       1       2       3
 *	            0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 3      blocks that a rank has sums of
 *	v ^ 2       0 1     0 1     . . 2 3 . . 2 3
 *	v ^ 1       0         1         2         3
 *
 * Two ranks that meet have the same blocks; the lower rank keeps the lower half, the upper rank
 * the upper half, and each sends its other half. Other numbers of ranks than 2^k: rank 2i + 1
 * gives its vector to rank 2i first (tt_fold), which works for the blocks of both and sends rank
 * 2i + 1 its block in the end. The farthest ranks meet first, so the operator must commute.
 *
 * Sums are in scratch, the last one in the result's place. Slices are so short that the slices of
 * all blocks together fit in SLICE_CHUNKS chunks (or have one element each); with more than one
 * slice, the input is copied to scratch, so that a message is contiguous.
 *
 * Cost, n = 2^k ranks, N bytes the whole input: (n-1)/n N sent, received and reduced; k steps a
 * slice, fan-in 1. Otherwise two steps more: N and a block of bytes between the two of a pair.
 *
 * Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH.
 * Int. J. High Perform. Comput. Appl. 19(1), 2005.
 */
#include "lib/coll/p2p/reduce_scatter.h"

#define SLICE_CHUNKS 8

struct work {
	struct tt_builder *b;
	const struct tt_plan_args *a;
	struct tt_fold f;
	size_t slices, slice, base; /* base: of scratch for this lane */
	struct tt_ref from;	    /* the slice's blocks in one piece */
};

static struct tt_span block(const struct work *w, int i)
{
	return tt_slice(w->a, tt_send_block(w->a, i), w->slices, w->slice);
}

/* Blocks first up to end - 1 in one piece. */
static struct tt_span run(const struct work *w, int first, int end)
{
	struct tt_span s = {0, 0};
	int i;

	for (i = 0; i < end; i++) {
		size_t len = block(w, i).len;

		s.off += i < first ? len : 0;
		s.len += i < first ? 0 : len;
	}
	return s;
}

static struct tt_ref at(struct tt_ref ref, size_t off)
{
	return (struct tt_ref){ref.buf, ref.off + off};
}

/* The first block that number v of the core works for. */
static int first_block(const struct work *w, int v)
{
	return v < w->f.extra ? 2 * v : v + w->f.extra;
}

static void send_run(const struct work *w, int peer, int first, int end)
{
	struct tt_span s = run(w, first, end);

	tt_send_long(w->b, peer, at(w->from, s.off), s.len);
}

static void add_run(const struct work *w, int peer, int first, int end, struct tt_ref to,
		    unsigned flags)
{
	struct tt_span s = run(w, first, end);

	tt_recv_reduce_long(w->b, peer, to, TT_NET, at(w->from, s.off), s.len, flags);
}

/* The remaining blocks, one by one, because their sums go to different places. */
static void last_step(const struct work *w, int peer, int mine, int mine_end, int theirs,
		      int theirs_end)
{
	unsigned divide = w->a->divide ? TT_OPF_DIVIDE : 0;
	int i;

	for (i = theirs; i < theirs_end; i++)
		send_run(w, peer, i, i + 1);
	for (i = mine; i < mine_end; i++)
		add_run(w, peer, i, i + 1,
			i == w->a->rank ? tt_rs_sum(w->a, block(w, i))
					: TT_SCRATCH(w->base + run(w, i, i + 1).off),
			divide);
}

static void halve(struct work *w)
{
	int lo = 0, hi = w->f.core, v = w->f.v, n = w->a->nranks;

	if (w->f.other >= 0) {
		tt_round(w->b);
		add_run(w, w->f.other, 0, n, TT_SCRATCH(w->base), 0);
		w->from = TT_SCRATCH(w->base);
	}
	while (hi - lo > 1) {
		int half = (hi - lo) / 2, mid = lo + half;
		bool lower = v < mid;
		int peer = tt_fold_rank(&w->f, lower ? v + half : v - half);
		int mine = first_block(w, lower ? lo : mid),
		    mine_end = first_block(w, lower ? mid : hi);
		int theirs = first_block(w, lower ? mid : lo),
		    theirs_end = first_block(w, lower ? hi : mid);

		tt_round(w->b);
		if (half == 1) {
			last_step(w, peer, mine, mine_end, theirs, theirs_end);
			return;
		}
		send_run(w, peer, theirs, theirs_end);
		add_run(w, peer, mine, mine_end, TT_SCRATCH(w->base + run(w, mine, mine_end).off),
			0);
		w->from = TT_SCRATCH(w->base);
		lo = lower ? lo : mid;
		hi = lower ? mid : hi;
	}
}

/* Makes the input contiguous; it is unless it is cut. */
static void begin(struct work *w)
{
	int i;

	w->from = TT_SENDBUF(0);
	if (w->slices == 1)
		return;
	w->from = TT_SCRATCH(w->base);
	for (i = 0; i < w->a->nranks; i++)
		tt_copy(w->b, TT_SCRATCH(w->base + run(w, i, i + 1).off),
			TT_SENDBUF(block(w, i).off), block(w, i).len);
}

static void slice(struct work *w)
{
	int r = w->a->rank, other = w->f.other;
	struct tt_ref sum = tt_rs_sum(w->a, block(w, r));

	tt_round(w->b);
	begin(w);
	tt_round(w->b);
	if (w->f.v < 0) {
		send_run(w, other, 0, w->a->nranks);
		tt_round(w->b);
		tt_recv_long(w->b, other, sum, block(w, r).len);
	} else {
		halve(w);
		tt_round(w->b);
		if (other >= 0)
			tt_send_long(w->b, other,
				     TT_SCRATCH(w->base + run(w, other, other + 1).off),
				     block(w, other).len);
	}
	tt_round(w->b);
	tt_rs_slice_end(w->b, block(w, r));
}

void tt_reduce_scatter_halving(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t n = (size_t)a->nranks, longest = tt_longest(a, tt_send_block), base, slot, i, all;
	struct work w = {.b = b, .a = a, .f = tt_fold(a, tt_fold_pow2(a->nranks))};
	int lanes, lane;

	w.slices = tt_num_pieces(longest, a->elem, SLICE_CHUNKS * a->chunk / n);
	if (!w.slices)
		return;
	lanes = tt_rs_lanes(a, w.slices);
	all = run(&w, 0, a->nranks).len; /* of slice 0, a longest */
	base = tt_scratch(b, 0);
	slot = tt_slots(b, (size_t)lanes, all);
	for (i = 0; i < w.slices; i++) {
		lane = (int)(i % (size_t)lanes);
		w.slice = i;
		w.base = base + (size_t)lane * slot;
		tt_lane(b, lane);
		slice(&w);
	}
	tt_rs_end(b);
}
