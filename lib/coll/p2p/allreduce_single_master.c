/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce by a single master: all ranks send to rank 0, which combines and sends the result to
 * all.
 *
 *	step 0    1 ──┐              step 1        ┌──> 1
 *	          2 ──┼──> 0: x0+x1+x2+x3     0 ───┼──> 2
 *	          3 ──┘                            └──> 3
 *
 * The master receives all vectors at once, each into scratch of its own, and combines them in order
 * of rank: x0 + x1 + x2 + ..., so the operator need not commute. Slices of at most chunk bytes, and
 * so short that a lane's scratch stays below SCRATCH_MAX.
 *
 * Cost, n ranks, N bytes: the master sends and receives (n-1) N and reduces (n-1) N, every other
 * rank sends and receives N; 2 steps a slice; fan-in n-1. Other algorithms are compared with it.
 *
 * Li et al.: Scaling distributed machine learning with the parameter server. OSDI 2014 (what more
 * than one master is good for).
 */
#include "lib/plan/plan.h"

#define SCRATCH_MAX (8u << 20) /* bytes a lane */

static int worker(const struct tt_plan_args *a, const struct tt_step *at, struct tt_span s,
		  struct tt_op *ops)
{
	if (at->step == 0)
		ops[0] = (struct tt_op){.kind = TT_OP_SEND, .a = TT_SENDBUF(s.off)};
	else if (at->step == a->nranks)
		ops[0] = (struct tt_op){.kind = TT_OP_RECV, .dst = TT_RECVBUF(s.off)};
	else
		return 0;
	ops[0].peer = 0;
	ops[0].index = at->turn;
	ops[0].len = s.len;
	return 1;
}

/* Step 0: receive; 1 to n - 1: combine; n: send. */
static int step(const struct tt_plan_args *a, const struct tt_sliced *sl, const struct tt_step *at,
		struct tt_op *ops)
{
	struct tt_span s = tt_pieces((struct tt_span){0, a->count * a->elem}, a->elem, sl->slices,
				     at->slice, 1);
	size_t stride = sl->state[0], others = (size_t)a->nranks - 1;
	struct tt_row row = {.n = a->nranks,
			     .mine = TT_SENDBUF(s.off),
			     .slot = (size_t)at->lane * others * stride,
			     .stride = stride,
			     .len = s.len};
	int peer;

	if (a->rank)
		return worker(a, at, s, ops);
	if (at->step > 0 && at->step < a->nranks) {
		ops[0] =
			tt_row_op(&row, at->step, TT_RECVBUF(s.off), a->divide ? TT_OPF_DIVIDE : 0);
		return 1;
	}
	for (peer = 1; peer < a->nranks; peer++)
		ops[peer - 1] = (struct tt_op){.kind = at->step ? TT_OP_SEND : TT_OP_RECV,
					       .peer = peer,
					       .index = at->turn,
					       .a = at->step ? TT_RECVBUF(s.off) : TT_NONE,
					       .dst = at->step ? TT_NONE : tt_row_slot(&row, peer),
					       .len = s.len};
	return a->nranks - 1;
}

void tt_allreduce_single_master(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t bytes = a->count * a->elem, others = (size_t)a->nranks - 1;
	size_t most = SCRATCH_MAX / others < a->chunk ? SCRATCH_MAX / others : a->chunk;
	struct tt_sliced s = {.fn = step, .steps = a->nranks + 1, .full = true};

	s.slices = tt_num_pieces(bytes, a->elem, most);
	s.max_ops = a->rank ? 1 : a->nranks - 1;
	s.slice_ops = a->rank ? 2 : 3 * others;
	if (!a->rank && s.slices)
		s.state[0] = tt_slots(
			b, others * (size_t)a->lanes,
			tt_pieces((struct tt_span){0, bytes}, a->elem, s.slices, 0, 1).len);
	tt_sliced(b, &s);
}
