/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather(v) on a ring: the bandwidth-optimal algorithm for long blocks.
 *
 *	step 0          step 1          step 2
 *	r ── r ──> r+1  r ── r-1 ──> r+1   r ── r-2 ──> r+1          (mod n): block r-k in step k
 *
 * Every block goes round once, from neighbour to neighbour, and straight to its place. Blocks are
 * cut into the same number of slices of at most chunk bytes; lane l does slices l, l + lanes, ...
 * of all blocks.
 *
 * Cost, n ranks, N bytes the whole result: (n-1)/n N sent and received; n - 1 steps a slice;
 * fan-in 1.
 *
 * Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and
 * experience. Concurrency and Computation: Practice and Experience 19(13), 2007.
 */
#include "lib/coll/coll.h"

static int step(const struct tt_plan_args *a, const struct tt_sliced *s, const struct tt_step *at,
		struct tt_op *op)
{
	int n = a->nranks, r = a->rank, k = at->step, sent = (r - k + n) % n;
	struct tt_span own = tt_recv_block(a, sent);
	struct tt_span out = tt_slice(a, own, s->slices, at->slice);
	struct tt_span in = tt_slice(a, tt_recv_block(a, (sent - 1 + n) % n), s->slices, at->slice);
	struct tt_ref from = TT_RECVBUF(out.off);

	if (!k) {
		from = tt_input(a);
		from.off += out.off - own.off;
	}
	op[0] = tt_op_send((r + 1) % n, from, out.len);
	op[1] = tt_op_recv((r + n - 1) % n, TT_RECVBUF(in.off), in.len);
	op[0].index = op[1].index = at->turn * (uint32_t)s->steps + (uint32_t)k;
	if (k || a->in_place)
		return 2;
	op[2] = tt_op_copy(TT_RECVBUF(out.off), from, out.len);
	return 3;
}

void tt_allgather_ring(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_sliced s = {.fn = step, .steps = a->nranks - 1, .max_ops = 3};

	s.slices = tt_num_slices(a, tt_longest(a, tt_recv_block));
	s.slice_ops = 2 * (size_t)s.steps;
	s.full = a->coll == TT_COLL_ALLGATHER;
	tt_sliced(b, &s);
}
