/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter (block and v), direct: every rank sends each block directly to its owner, which
 * combines the blocks. Also known as pairwise exchange.
 *
 *	step k = 1 .. n-1:   block r+k of r ──> r+k      block r of r-k ──> r      (mod n)
 *
 * Rank r receives from r-1, r-2, ..., 0 and then from n-1, ..., r+1, and combines each on the
 * left. This is rank order if the second half is combined apart and added on the right of the
 * first at the end. So operators that do not commute work too, with one more slot of scratch:
 *
 *	(x0 + (x1 + ... + (x[r-1] + x[r])))  +  (x[r+1] + (... + x[n-1]))
 *
 * In place the input is in recvbuf, and so is rank r's sum until block 0, whose place it gets, has
 * been sent. In the v form blocks differ in length, so that place overlaps slices of other lanes,
 * and the plan has one lane.
 *
 * Cost, N bytes the whole input: (n-1)/n N bytes sent, received and reduced; n - 1 steps a slice;
 * fan-in 1.
 *
 * Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH.
 * Int. J. High Perform. Comput. Appl. 19(1), 2005.
 */
#include "lib/coll/p2p/reduce_scatter.h"

static void slice(struct tt_builder *b, size_t slices, size_t i, struct tt_ref right)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int n = a->nranks, r = a->rank, k, to, from;
	struct tt_span s = tt_slice(a, tt_send_block(a, r), slices, i), t;
	struct tt_ref own = TT_SENDBUF(s.off), out = tt_rs_sum(a, s), acc = own;
	unsigned divide;

	for (k = 1; k < n; k++) {
		to = (r + k) % n;
		from = (r - k + n) % n;
		divide = a->divide && k == n - 1 ? TT_OPF_DIVIDE : 0;
		t = tt_slice(a, tt_send_block(a, to), slices, i);
		tt_round(b);
		tt_send(b, to, TT_SENDBUF(t.off), t.len);
		if (!a->ordered || k <= r) {
			tt_recv_reduce(b, from, out, TT_NET, acc, s.len, divide);
			acc = out;
		} else if (k == r + 1) {
			tt_recv(b, from, right, s.len);
		} else {
			tt_recv_reduce(b, from, right, TT_NET, right, s.len, 0);
		}
	}
	tt_round(b);
	if (a->ordered && r < n - 1)
		tt_reduce(b, out, acc, right, s.len, a->divide ? TT_OPF_DIVIDE : 0);
	tt_round(b);
	tt_rs_slice_end(b, s);
}

void tt_reduce_scatter_direct(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t longest = tt_longest(a, tt_send_block), slices = tt_num_slices(a, longest);
	size_t base = 0, slot = 0, i;
	int lanes = tt_rs_lanes(a, slices), lane;

	if (a->ordered)
		base = tt_slice_slots(b, (size_t)lanes, longest, &slot);
	for (i = 0; i < slices; i++) {
		lane = (int)(i % (size_t)lanes);
		tt_lane(b, lane);
		slice(b, slices, i, TT_SCRATCH(base + (size_t)lane * slot));
	}
	tt_rs_end(b);
}
