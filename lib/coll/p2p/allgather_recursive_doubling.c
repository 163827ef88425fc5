/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather(v) by recursive doubling: short blocks, ranks that meet in pairs.
 *
 *	v           0       1       2       3
 *	v ^ 1       0 1     0 1     2 3     2 3
 *	v ^ 2       0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 3
 *
 * Two ranks that meet exchange all they have. Other numbers of ranks than 2^k: rank 2i + 1 gives
 * its block to rank 2i first (tt_fold) and gets all the others from it last; Bruck's algorithm
 * does without.
 *
 * Cost, n = 2^k ranks, N bytes the whole result: (n-1)/n N sent and received, k steps a slice,
 * fan-in 1. Otherwise two steps more, a block and N - a block between the two of a pair.
 *
 * Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH.
 * Int. J. High Perform. Comput. Appl. 19(1), 2005.
 */
#include "lib/coll/blocks.h"

static void send_own(struct tt_builder *b, const struct tt_blocks *s, int peer)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_ref in = tt_input(a), to;
	size_t len;

	to = tt_block_ref(a, s, a->rank, &len);
	in.off += to.off - tt_recv_block(a, a->rank).off;
	if (!a->in_place)
		tt_copy(b, to, in, len);
	if (peer >= 0)
		tt_send_long(b, peer, in, len);
}

static int first_block(const struct tt_fold *f, int v)
{
	return v < f->extra ? 2 * v : v + f->extra;
}

static void slice(struct tt_builder *b, const struct tt_blocks *s, const struct tt_fold *f)
{
	int n = tt_builder_args(b)->nranks, r = tt_builder_args(b)->rank, v = f->v, m, lo, theirs;

	tt_round(b);
	send_own(b, s, v < 0 ? f->other : -1);
	if (v < 0) {
		tt_round(b);
		tt_recv_blocks(b, s, f->other, r + 1, n - 1);
		return;
	}
	if (f->other >= 0)
		tt_recv_blocks(b, s, f->other, f->other, 1);
	for (m = 1; m < f->core; m *= 2) {
		lo = v & ~(m - 1);
		theirs = lo ^ m;
		tt_round(b);
		tt_send_blocks(b, s, tt_fold_rank(f, v ^ m), first_block(f, lo),
			       first_block(f, lo + m) - first_block(f, lo));
		tt_recv_blocks(b, s, tt_fold_rank(f, v ^ m), first_block(f, theirs),
			       first_block(f, theirs + m) - first_block(f, theirs));
	}
	tt_round(b);
	if (f->other >= 0)
		tt_send_blocks(b, s, f->other, f->other + 1, n - 1);
}

void tt_allgather_recursive_doubling(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_blocks s = {.of = tt_recv_block, .buf = TT_BUF_RECV, .packed_first = -1};
	struct tt_fold f = tt_fold(a, tt_fold_pow2(a->nranks));

	s.slices = tt_num_slices(a, tt_longest(a, tt_recv_block));
	for (s.slice = 0; s.slice < s.slices; s.slice++) {
		tt_lane(b, (int)(s.slice % (size_t)a->lanes));
		slice(b, &s, &f);
	}
}
