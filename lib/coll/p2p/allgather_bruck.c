/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather(v) in ceil(log2 n) steps for any number of ranks (Bruck): right for short blocks.
 *
 *	5 ranks, what rank 0 has        0
 *	step 0   sends it to 4, gets 1 from 1         0 1
 *	step 1   sends 0 1 to 3, gets 2 3 from 2      0 1 2 3
 *	step 2   sends 0 to 1, gets 4 from 4          0 1 2 3 4
 *
 * After step k rank r has the blocks r, r + 1, ..., r + 2^(k+1) - 1 (mod n), each in its place.
 * Unlike in the paper there is no rotation at the end, at the price of one more message where a
 * run goes past block n - 1 (the v form sends every block by itself). The last step sends the
 * missing blocks.
 *
 * Cost, n ranks, N bytes the whole result: (n-1)/n N sent and received; ceil(log2 n) steps a
 * slice; fan-in 1.
 *
 * Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in
 * multiport message-passing systems. IEEE Trans. Parallel Distrib. Syst. 8(11), 1997.
 */
#include "lib/coll/blocks.h"

static void slice(struct tt_builder *b, const struct tt_blocks *s)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int n = a->nranks, r = a->rank, have, more;
	struct tt_ref in = tt_input(a), to;
	size_t len;

	to = tt_block_ref(a, s, r, &len);
	in.off += to.off - tt_recv_block(a, r).off;
	tt_round(b);
	if (!a->in_place)
		tt_copy(b, to, in, len);
	tt_send_long(b, (r + n - 1) % n, in, len);
	tt_recv_blocks(b, s, (r + 1) % n, r + 1, 1);
	for (have = 2; have < n; have *= 2) {
		more = have < n - have ? have : n - have;
		tt_round(b);
		tt_send_blocks(b, s, (r - have + n) % n, r, more);
		tt_recv_blocks(b, s, (r + have) % n, r + have, more);
	}
}

void tt_allgather_bruck(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_blocks s = {.of = tt_recv_block, .buf = TT_BUF_RECV, .packed_first = -1};

	s.slices = tt_num_slices(a, tt_longest(a, tt_recv_block));
	for (s.slice = 0; s.slice < s.slices; s.slice++) {
		tt_lane(b, (int)(s.slice % (size_t)a->lanes));
		slice(b, &s);
	}
}
