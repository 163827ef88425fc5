/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce up a binomial tree: few steps, so right for short vectors.
 *
 *	step 0   0 <── 1   2 <── 3   4 <── 5   6 <── 7
 *	step 1   0 <─────── 2         4 <─────── 6           v = rank - root (mod n)
 *	step 2   0 <─────────────────── 4
 *
 * v receives from v + 1, v + 2, v + 4, ... as long as that bit of v is clear (and the sum is below
 * n), and combines each on the right; then it sends to v without that bit. So v combines v up to v
 * + 2^k - 1 in order. For an operator that does not commute the numbers are the ranks themselves,
 * and if the root is not rank 0 that rank sends it the result.
 *
 * The vector is cut into even pieces of at most chunk bytes, distributed over the lanes; a lane
 * processes its pieces one after the other. Each lane keeps partial sums in a slot of scratch.
 *
 * Cost: ceil(log2 n) steps a piece, one more for an operator that does not commute and another
 * root; N bytes sent by every rank but the root, up to ceil(log2 n) N received and reduced;
 * fan-in 1.
 *
 * Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH.
 * Int. J. High Perform. Comput. Appl. 19(1), 2005.
 */
#include "lib/coll/coll.h"

static void piece(struct tt_builder *b, struct tt_span s, struct tt_ref slot)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int n = a->nranks, top = a->ordered ? 0 : a->root, v = (a->rank - top + n) % n, bit;
	struct tt_ref sum = a->rank == top && top == a->root ? TT_RECVBUF(s.off) : slot;
	struct tt_ref cur = TT_SENDBUF(s.off);

	for (bit = 1; bit < n && !(v & bit); bit *= 2) {
		if (v + bit >= n)
			continue;
		tt_round(b);
		tt_recv_reduce(b, (v + bit + top) % n, sum, cur, TT_NET, s.len,
			       !v && bit * 2 >= n && a->divide ? TT_OPF_DIVIDE : 0);
		cur = sum;
	}
	tt_round(b);
	if (v)
		tt_send(b, (v - bit + top) % n, cur, s.len);
	else if (top != a->root)
		tt_send(b, a->root, cur, s.len);
	tt_round(b);
	if (a->rank == a->root && top != a->root)
		tt_recv(b, top, TT_RECVBUF(s.off), s.len);
}

void tt_reduce_binomial(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_slices(a, a->count * a->elem), base, slot, i;
	int lanes = tt_num_lanes(a, slices), lane;

	base = tt_slice_slots(b, (size_t)lanes, tt_vector(a).len, &slot);
	for (i = 0; i < slices; i++) {
		lane = (int)(i % (size_t)lanes);
		tt_lane(b, lane);
		piece(b, tt_slice(a, tt_vector(a), slices, i),
		      TT_SCRATCH(base + (size_t)lane * slot));
	}
}
