/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast along a chain, pipelined: the bandwidth-optimal algorithm for long messages.
 *
 * The chain is root, root + 1, ..., root + n - 1 (mod n). The message is cut into even slices of
 * at most chunk bytes; lane l passes on slices l, l + lanes, ... In a round of a lane a rank
 * inside the chain receives one slice while it passes on the one before, so a link is never idle:
 *
 *	round      0     1     2     3
 *	rank 1   recv0 recv1 recv2
 *	               send0 send1 send2
 *
 * Cost, n ranks, N bytes in S slices: N received by all but the root, N sent by all but the last;
 * S + n - 2 steps until the last rank has all; fan-in 1.
 *
 * van de Geijn, Watts: SUMMA: scalable universal matrix multiplication algorithm. Concurrency:
 * Practice and Experience 9(4), 1997 (where rows and columns are broadcast this way).
 */
#include "lib/coll/coll.h"

static int slice(const struct tt_plan_args *a, const struct tt_pipe *p, size_t i, int step,
		 struct tt_op *op)
{
	struct tt_span s = tt_slice(a, tt_vector(a), p->slices, i);
	int n = a->nranks, r = a->rank;

	if (r != a->root && !step)
		*op = tt_op_recv((r + n - 1) % n, TT_RECVBUF(s.off), s.len);
	else
		*op = tt_op_send((r + 1) % n, TT_RECVBUF(s.off), s.len);
	return 1;
}

void tt_bcast_chain(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_slices(a, tt_vector(a).len);
	bool last = (a->rank + 1) % a->nranks == a->root;
	struct tt_pipe p = {.slices = slices, .lanes = tt_num_lanes(a, slices)};

	p.steps = (a->rank != a->root) + !last;
	if (a->nranks > 1)
		tt_pipe(b, slice, &p, 1, true, 0);
}
