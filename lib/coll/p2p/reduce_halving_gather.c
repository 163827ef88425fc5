/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce by recursive halving and a gather (Rabenseifner): the bytes of a chain in a logarithmic
 * number of steps, for vectors of medium length.
 *
 * With 2^k ranks: in step i rank v meets v ^ 2^i. Both hold the same range of blocks; the lower
 * rank keeps the lower half, the upper rank the upper half, and each sends its other half. In the
 * end each has the sum of one block. The gather runs the same way back, but only towards the root:
 * in a pair, the rank that shares the root's bit 2^i receives.
 *
 *	v           0       1       2       3
 *	            0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 3
 *	v ^ 1       0 1     . . 2 3 0 1     . . 2 3
 *	v ^ 2       0       . . 2   . 1     . . . 3     then back: root 0 gets 1 from 2, 3 goes
 *	                                                to 1, and 2 3 come from 1
 *
 * The nearest ranks meet first, and the lower rank's sum is always on the left, so operands are in
 * rank order. Other numbers of ranks: rank 2i + 1 gives its vector to rank 2i first (tt_fold); a
 * folded root gets the result from its partner. Slices are up to SLICE_CHUNKS chunks long; each
 * lane keeps partial sums in scratch of that size.
 *
 * Cost, n = 2^k ranks, N bytes: 2(n-1)/n N sent and received at most (the root sends half of
 * that, (n-1)/n N), (n-1)/n N reduced, 2k steps a slice; fan-in 1. Otherwise one step and N bytes
 * more for folded ranks and their partners, and again for a folded root.
 *
 * Rabenseifner: Optimization of collective reduction operations. ICCS 2004, LNCS 3036.
 */
#include "lib/coll/coll.h"

#define SLICE_CHUNKS 8

struct work {
	struct tt_builder *b;
	const struct tt_plan_args *a;
	struct tt_fold f;
	struct tt_span s;
	struct tt_ref sum; /* where the slice's sum is kept */
};

/* n blocks of the slice, as an offset in it. */
static struct tt_span blocks(const struct work *w, int first, int n)
{
	struct tt_span s = {0, w->s.len};

	return tt_pieces(s, w->a->elem, (size_t)w->f.core, (size_t)first, (size_t)n);
}

static struct tt_ref at(struct tt_ref ref, size_t off)
{
	return (struct tt_ref){ref.buf, ref.off + off};
}

/* The first of the n blocks that v has before it meets v ^ mask; *n is core on entry. */
static int range(int v, int mask, int *n)
{
	int first = 0, m;

	for (m = 1; m < mask; m *= 2) {
		*n /= 2;
		if (v & m)
			first += *n;
	}
	return first;
}

static void halve(const struct work *w)
{
	struct tt_ref cur = TT_SENDBUF(w->s.off);
	int mask, n, first, v = w->f.v, peer;
	struct tt_span keep, give;

	if (w->f.other >= 0) {
		tt_round(w->b);
		tt_recv_reduce_long(w->b, w->f.other, w->sum, cur, TT_NET, w->s.len, 0);
		cur = w->sum;
	}
	for (mask = 1; mask < w->f.core; mask *= 2) {
		bool upper = v & mask;

		n = w->f.core;
		first = range(v, mask, &n);
		peer = tt_fold_rank(&w->f, v ^ mask);
		keep = blocks(w, first + upper * n / 2, n / 2);
		give = blocks(w, first + !upper * n / 2, n / 2);
		tt_round(w->b);
		tt_send_long(w->b, peer, at(cur, give.off), give.len);
		tt_recv_reduce_long(w->b, peer, at(w->sum, keep.off),
				    upper ? TT_NET : at(cur, keep.off),
				    upper ? at(cur, keep.off) : TT_NET, keep.len,
				    w->a->divide && n == 2 ? TT_OPF_DIVIDE : 0);
		cur = w->sum;
	}
}

/* top: the number of the root, or of its partner. */
static void gather(const struct work *w, int top)
{
	int mask, n, first, v = w->f.v, peer;
	struct tt_span s;

	for (mask = w->f.core / 2; mask; mask /= 2) {
		bool receive = !((v ^ top) & mask), upper = v & mask;

		n = w->f.core;
		first = range(v, mask, &n);
		peer = tt_fold_rank(&w->f, v ^ mask);
		s = blocks(w, first + (upper != receive) * n / 2, n / 2);
		tt_round(w->b);
		if (receive) {
			tt_recv_long(w->b, peer, at(w->sum, s.off), s.len);
			continue;
		}
		tt_send_long(w->b, peer, at(w->sum, s.off), s.len);
		return;
	}
}

static void slice(const struct work *w)
{
	int root = w->a->root, r = w->a->rank;
	bool folded = root < 2 * w->f.extra && root % 2;
	int top = root < 2 * w->f.extra ? root / 2 : root - w->f.extra;

	tt_round(w->b);
	if (w->f.v < 0) {
		tt_send_long(w->b, w->f.other, TT_SENDBUF(w->s.off), w->s.len);
	} else {
		halve(w);
		gather(w, top);
	}
	tt_round(w->b);
	if (folded && r == root)
		tt_recv_long(w->b, w->f.other, TT_RECVBUF(w->s.off), w->s.len);
	else if (folded && w->f.v == top)
		tt_send_long(w->b, root, w->sum, w->s.len);
}

void tt_reduce_halving_gather(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span all = tt_vector(a);
	size_t slices = tt_num_pieces(all.len, a->elem, SLICE_CHUNKS * a->chunk), i, base, slot;
	int lanes = tt_num_lanes(a, slices), lane;
	struct work w = {.b = b, .a = a, .f = tt_fold(a, tt_fold_pow2(a->nranks))};

	if (!slices)
		return;
	base = tt_scratch(b, 0);
	slot = a->rank == a->root || w.f.v < 0
		       ? 0
		       : tt_slots(b, (size_t)lanes, tt_slice(a, all, slices, 0).len);
	for (i = 0; i < slices; i++) {
		lane = (int)(i % (size_t)lanes);
		w.s = tt_slice(a, all, slices, i);
		w.sum = a->rank == a->root ? TT_RECVBUF(w.s.off)
					   : TT_SCRATCH(base + (size_t)lane * slot);
		tt_lane(b, lane);
		slice(&w);
	}
}
