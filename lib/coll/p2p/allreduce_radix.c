/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce by direct exchange, radix k: for short vectors and few ranks.
 *
 *	up to 8 ranks: one step             9 ranks, 3 x 3
 *	                                                      step 0      step 1
 *	0 <-> 1   every rank sends its       0 1 2            0 - 1 - 2   0   1   2
 *	|  x  |   vector to every other     3 4 5   groups:  3 - 4 - 5   |   |   |
 *	2 <-> 3   one                       6 7 8            6 - 7 - 8   3   4   5 ...
 *
 * The number of ranks is a product k0 k1 k2 ... of factors of at most RADIX, the largest first; a
 * rank's number has a digit for each. In step i the ki ranks that differ only in digit i exchange
 * their sums, and each combines the ki operands in rank order, with the same bits on all ranks.
 * Groups of step 0 are neighbours, those of step 1 groups of neighbours ..., so the operator need
 * not commute. This is recursive doubling with other bases than 2: fewer steps, more bytes.
 *
 * If a factor is larger than RADIX, ranks are folded (fold.c) down to the next number p without
 * such a factor: with e = n - p, ranks 2i + 1, i < e, hand their vector to rank 2i, which speaks
 * for both.
 *
 * Cost, N bytes, per rank: sum(ki - 1) N sent, received and reduced, as many steps a slice as there
 * are factors, fan-in the largest ki - 1. With a fold: rank 2i, i < e: one N more of each, 2 steps
 * more; rank 2i + 1: N sent and received, 2 steps. Slices of at most chunk bytes, scratch for RADIX
 * - 1 of them a lane.
 *
 * Ruefenacht, Bull, Booth: Generalisation of recursive doubling for AllReduce. Parallel Computing
 * 69, 2017.
 */
#include "lib/coll/coll.h"

#define RADIX 8

int tt_radix_factor(int n)
{
	int k = RADIX;

	while (n % k)
		k--;
	return k;
}

int tt_radix_core(int n)
{
	int left, k;

	for (;; n--) {
		for (left = n; left > 1 && (k = tt_radix_factor(left)) > 1;)
			left /= k;
		if (left == 1)
			return n;
	}
}

/* A digit's exchange (m = 0) or the m-th of its reductions. */
static int digit(const struct tt_plan_args *a, const struct tt_fold *f, struct tt_row *row,
		 int below, int m, uint32_t index, struct tt_op *ops)
{
	size_t off = row->mine.off;
	int i, k, n = 0, peer;

	if (below > 1 || f->other >= 0)
		row->mine = TT_RECVBUF(off);
	row->own = f->v / below % row->n;
	if (m) {
		ops[0] = tt_row_op(row, m, TT_RECVBUF(off),
				   a->divide && below * row->n == f->core ? TT_OPF_DIVIDE : 0);
		return 1;
	}
	for (k = 1; k < row->n; k++) { /* not all of them to the same one first */
		i = (row->own + k) % row->n;
		peer = tt_fold_rank(f, f->v + (i - row->own) * below);
		ops[n++] = (struct tt_op){.kind = TT_OP_SEND,
					  .peer = peer,
					  .index = index,
					  .a = row->mine,
					  .len = row->len};
		ops[n++] = (struct tt_op){.kind = TT_OP_RECV,
					  .peer = peer,
					  .index = index,
					  .dst = tt_row_slot(row, i),
					  .len = row->len};
	}
	return n;
}

/* Step 0: fold; then for every digit its exchange and its reductions; last: unfold. */
static int step(const struct tt_plan_args *a, const struct tt_sliced *sl, const struct tt_step *at,
		struct tt_op *ops)
{
	struct tt_span all = {0, a->count * a->elem};
	struct tt_span s = tt_pieces(all, a->elem, sl->slices, at->slice, 1);
	struct tt_fold f = tt_fold(a, (int)sl->state[1]);
	struct tt_row row = {.mine = TT_SENDBUF(s.off),
			     .slot = (size_t)at->lane * (RADIX - 1) * sl->state[0],
			     .stride = sl->state[0],
			     .len = s.len};
	int below = 1, m = at->step - 1;

	if (at->step == 0 || at->step == sl->steps - 1) {
		ops[0] = tt_fold_op(&f, s, at->step > 0, at->turn);
		return f.other >= 0;
	}
	if (f.v < 0)
		return 0;
	for (row.n = tt_radix_factor(f.core); m >= row.n; row.n = tt_radix_factor(f.core / below)) {
		m -= row.n;
		below *= row.n;
	}
	return digit(a, &f, &row, below, m, at->turn, ops);
}

void tt_allreduce_radix(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t bytes = a->count * a->elem;
	struct tt_sliced s = {.fn = step, .steps = 2, .full = true, .slice_ops = 2};
	int left, k;

	s.state[1] = (size_t)tt_radix_core(a->nranks);
	for (left = (int)s.state[1]; left > 1; left /= k) {
		k = tt_radix_factor(left);
		s.steps += k;
		s.slice_ops += 3 * (size_t)(k - 1);
	}
	s.max_ops = 2 * (RADIX - 1);
	s.slices = tt_num_pieces(bytes, a->elem, a->chunk);
	if (s.slices && tt_fold(a, (int)s.state[1]).v >= 0)
		s.state[0] = tt_slots(
			b, (size_t)a->lanes * (RADIX - 1),
			tt_pieces((struct tt_span){0, bytes}, a->elem, s.slices, 0, 1).len);
	tt_sliced(b, &s);
}
