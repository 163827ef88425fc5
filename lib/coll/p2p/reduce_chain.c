/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce along a chain, pipelined: the bandwidth-optimal algorithm for long vectors.
 *
 *	root + n - 1 ── x ──> root + n - 2 ── x+x ──> ... ──> root        (mod n), slice by slice
 *
 * Every rank combines its own part on the left of the received slice and passes the sum on, from
 * one of two slots of scratch, while the next slice arrives; the root combines into recvbuf.
 *
 * If the operator does not commute there are two chains, one from each end:
 *
 *	0 ──> 1 ──> ... ──> root <── ... <── n - 2 <── n - 1      ((x0 + x1) + own) + (x3 + x4)
 *
 * and the root receives slice i from below in the round in which it receives slice i - 1 from
 * above.
 *
 * Cost, n ranks, N bytes in S slices over one lane: N sent by all but the root, N received by all
 * but the ends; S + n - 2 steps until the root has all; fan-in 1 (2 at the root of two chains).
 *
 * van de Geijn, Watts: SUMMA: scalable universal matrix multiplication algorithm. Concurrency:
 * Practice and Experience 9(4), 1997 (the chain of bcast_chain.c, backwards).
 */
#include "lib/coll/coll.h"

/* The neighbours of a rank; -1: there is none. */
struct place {
	int below, above; /* senders: the left operand comes from below, the right from above */
	int to;
};

static struct place place_of(const struct tt_plan_args *a)
{
	int n = a->nranks, r = a->rank, v = (r - a->root + n) % n;
	struct place p = {-1, -1, -1};

	if (!a->ordered) {
		p.above = v < n - 1 ? (r + 1) % n : -1;
		p.to = v ? (r + n - 1) % n : -1;
		return p;
	}
	if (r <= a->root)
		p.below = r - 1;
	if (r >= a->root && r < n - 1)
		p.above = r + 1;
	if (r != a->root)
		p.to = r < a->root ? r + 1 : r - 1;
	return p;
}

/* This rank's steps for a slice: one for each sender, and one to send. */
static int num_steps(const struct place *p)
{
	return (p->below >= 0) + (p->above >= 0) + (p->to >= 0);
}

static int slice(const struct tt_plan_args *a, const struct tt_pipe *p, size_t i, int step,
		 struct tt_op *op)
{
	struct tt_span s = tt_slice(a, tt_vector(a), p->slices, i);
	struct tt_ref own = TT_SENDBUF(s.off), sum = TT_RECVBUF(s.off);
	struct place at = place_of(a);

	if (at.to >= 0 && p->steps > 1)
		sum = tt_pipe_slot(p, i, 0);
	if (at.to >= 0 && step == p->steps - 1)
		*op = tt_op_send(at.to, step ? sum : own, s.len);
	else if (at.below >= 0 && !step)
		*op = tt_op_recv_reduce(at.below, sum, TT_NET, own, s.len);
	else
		*op = tt_op_recv_reduce(at.above, sum, step ? sum : own, TT_NET, s.len);
	if (a->divide && at.to < 0 && step == p->steps - 1)
		op->flags = TT_OPF_DIVIDE;
	return 1;
}

void tt_reduce_chain(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_slices(a, a->count * a->elem);
	struct place at = place_of(a);
	struct tt_pipe p = {
		.slices = slices, .lanes = tt_num_lanes(a, slices), .steps = num_steps(&at)};

	tt_pipe(b, slice, &p, 1, true, at.to >= 0 && p.steps > 1);
}
