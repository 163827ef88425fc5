/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter (block and v) on a ring: the bandwidth-optimal algorithm for long vectors, and
 * the first half of the all-reduce on a ring.
 *
 *	block 0 of 4:   x1 ──> 2   x1+x2 ──> 3   (x1+x2)+x3 ──> 0   + x0
 *
 * In step k rank r sends its sum of block r - 1 - k to rank r + 1, and combines the sum of block r
 * - 2 - k that arrives with its own part; the last block is its own. Each lane has two slots of
 * scratch for partial sums: one is sent while the other is written. Operands are in the order of
 * the ring, so the operator must commute.
 *
 * Every block is cut into the same number of slices of at most chunk bytes; lane l does slices l,
 * l + lanes, ... In place the sum stays in the place of the rank's own block and is copied to the
 * front at the end; in the v form this requires one lane (reduce_scatter.h).
 *
 * Cost, n ranks, N bytes the whole input: (n-1)/n N sent, received and reduced; n - 1 steps a
 * slice; fan-in 1.
 *
 * Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations.
 * J. Parallel Distrib. Comput. 69(2), 2009.
 */
#include "lib/coll/p2p/reduce_scatter.h"

enum { SLICES, TURN, BASE, SLOT }; /* state; TURN: steps of a slice */

static struct tt_span slice_of(const struct tt_plan_args *a, const struct tt_sliced *s, int block,
			       size_t slice)
{
	return tt_slice(a, tt_send_block(a, block), s->state[SLICES], slice);
}

/* A lane takes one slice a turn of steps; a single lane that is asked for all of them several. */
static int step(const struct tt_plan_args *a, const struct tt_sliced *s, const struct tt_step *at,
		struct tt_op *op)
{
	int n = a->nranks, r = a->rank, turn = (int)s->state[TURN], k = at->step % turn;
	int sent = (r - 1 - k + 2 * n) % n, got = (sent - 1 + n) % n;
	size_t slice = at->slice + (size_t)(at->step / turn);
	struct tt_span out = slice_of(a, s, sent, slice), in = slice_of(a, s, got, slice), own;
	size_t slots = s->state[BASE] + (size_t)at->lane * 2 * s->state[SLOT];
	struct tt_ref to = TT_SCRATCH(slots + (size_t)(k % 2) * s->state[SLOT]);
	struct tt_ref from = TT_SCRATCH(slots + (size_t)((k + 1) % 2) * s->state[SLOT]);

	if (k == n - 1) { /* in place, block form */
		own = slice_of(a, s, r, slice);
		op[0] = tt_op_copy(TT_RECVBUF(own.off - tt_send_block(a, r).off),
				   TT_RECVBUF(own.off), own.len);
		return r > 0;
	}
	op[0] = tt_op_send((r + 1) % n, k ? from : TT_SENDBUF(out.off), out.len);
	op[1] = tt_op_recv_reduce((r + n - 1) % n, k < n - 2 ? to : tt_rs_sum(a, in), TT_NET,
				  TT_SENDBUF(in.off), in.len);
	if (k == n - 2 && a->divide)
		op[1].flags = TT_OPF_DIVIDE;
	op[0].index = op[1].index = at->turn * (uint32_t)(n - 1) + (uint32_t)k;
	return 2;
}

void tt_reduce_scatter_ring(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	bool block = a->coll == TT_COLL_REDUCE_SCATTER_BLOCK;
	size_t longest = tt_longest(a, tt_send_block), slices = tt_num_slices(a, longest);
	int turn = a->nranks - 1 + (a->in_place && block);
	struct tt_sliced s = {.fn = step, .slices = slices, .steps = turn, .max_ops = 2};

	if (!slices)
		return;
	if (a->in_place && !block) {
		s.slices = 1;
		s.steps *= (int)slices;
	}
	s.full = block;
	s.slice_ops = 2 * (size_t)s.steps;
	s.state[SLICES] = slices;
	s.state[TURN] = (size_t)turn;
	s.state[BASE] =
		tt_slice_slots(b, 2 * (size_t)tt_num_lanes(a, s.slices), longest, &s.state[SLOT]);
	tt_sliced(b, &s);
	tt_rs_end(b);
}
