/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast along a chain, pipelined: the bandwidth-optimal algorithm for long messages.
 *
 * The chain is root, root + 1, ..., root + n - 1 (mod n). The message is cut into even slices of at
 * most chunk bytes; lane l passes on slices l, l + lanes, ... In a round of a lane a rank inside the
 * chain receives one slice while it passes on the one before, so a link is never idle:
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
#include "lib/plan/plan.h"

struct range {
	size_t off, len; /* bytes */
};

static size_t num_slices(const struct tt_plan_args *a)
{
	size_t fit = a->chunk / a->elem;

	return a->count / fit + (a->count % fit > 0);
}

static struct range slice_range(const struct tt_plan_args *a, size_t slices, size_t slice)
{
	size_t q = a->count / slices, r = a->count % slices;

	return (struct range){(q * slice + (slice < r ? slice : r)) * a->elem,
			      (q + (slice < r)) * a->elem};
}

/* The ops of a round: receive the lane's slice number round, pass on the one before. */
static int round_ops(const struct tt_plan_args *a, int lanes, int lane, int round, struct tt_op *op)
{
	size_t slices = num_slices(a), slice = (size_t)lane + (size_t)round * (size_t)lanes;
	int n = a->nranks, v = (a->rank - a->root + n) % n, nops = 0;
	struct range s;

	if (v && slice < slices) {
		s = slice_range(a, slices, slice);
		op[nops++] = (struct tt_op){.kind = TT_OP_RECV,
					    .peer = (a->rank + n - 1) % n,
					    .index = (uint32_t)round,
					    .dst = TT_RECVBUF(s.off),
					    .len = s.len};
	}
	if (v) { /* the root has every slice from the start, the others one round after */
		if (!round--)
			return nops;
		slice -= (size_t)lanes;
	}
	if (v < n - 1 && slice < slices) {
		s = slice_range(a, slices, slice);
		op[nops++] = (struct tt_op){.kind = TT_OP_SEND,
					    .peer = (a->rank + 1) % n,
					    .index = (uint32_t)round,
					    .a = TT_RECVBUF(s.off),
					    .len = s.len};
	}
	return nops;
}

static int generate(const struct tt_plan *plan, int lane, int round, struct tt_op *ops)
{
	return round_ops(&plan->args, plan->nlanes, lane, round, ops);
}

static void store(struct tt_builder *b, int lanes, int rounds)
{
	int lane, round, i, n;
	struct tt_op op[2];

	for (lane = 0; lane < lanes; lane++) {
		tt_lane(b, lane);
		for (round = 0; round < rounds; round++) {
			tt_round(b);
			n = round_ops(tt_builder_args(b), lanes, lane, round, op);
			for (i = 0; i < n; i++)
				tt_add(b, &op[i]);
		}
	}
}

void tt_bcast_chain(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = num_slices(a);
	int lanes = slices < (size_t)a->lanes ? (int)slices : a->lanes, rounds;

	if (!slices || a->nranks == 1)
		return;
	rounds = (int)((slices + (size_t)lanes - 1) / (size_t)lanes) + (a->rank != a->root);
	if (slices * 2 > tt_plan_store_max)
		tt_generate(b, generate, lanes, rounds, 2, (size_t[8]){0});
	else
		store(b, lanes, rounds);
}
