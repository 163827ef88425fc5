/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce on a ring, chunked and pipelined: the bandwidth-optimal algorithm for long vectors.
 *
 * The vector is split into n blocks, as even as whole elements allow. Every rank sends to the rank
 * after it and receives from the rank before it, 2(n-1) times. In the first n-1 steps (the
 * reduce-scatter) a block collects every rank's part on its way round; in the other n-1 (the
 * all-gather) the finished block goes round once more. In step k, rank r sends block r-1-k and
 * receives block r-2-k (mod n), in both halves. Block b thus starts at rank b+1 and is finished at
 * rank b:
 *
 *	block b of the result = (((x[b+1] + x[b+2]) + x[b+3]) + ...) + x[b]
 *
 * with what arrives always on the left. Only rank b computes it, so all ranks have the same bits.
 *
 * Zero copy: the first hop is sent directly from the caller's sendbuf. An arriving block is
 * combined with the rank's own part in sendbuf, and the sum goes to recvbuf, from which later hops
 * leave and where finished blocks arrive. In place the two buffers are one and dst is exactly one
 * operand. The block sent and the block received in one step differ, so no two ops of a round
 * access the same bytes.
 *
 * Pipelining: every block is cut into the same number of slices of at most chunk bytes; lane l
 * runs slices l, l + lanes, ... of all blocks, one slice after the other. While one lane reduces,
 * another lane's slice is on the wire.
 *
 * Cost per rank, n ranks, N bytes: 2(n-1)/n N bytes sent and received, (n-1)/n N reduced, 2(n-1)
 * steps a slice, fan-in 1. With fewer elements than ranks some blocks are empty and have no ops.
 *
 * Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations.
 * J. Parallel Distrib. Comput. 69(2), 2009.
 */
#include "lib/plan/plan.h"

static struct tt_span slice_of(const struct tt_plan_args *a, size_t slices, int block, size_t slice)
{
	struct tt_span all = {0, a->count * a->elem};

	all = tt_pieces(all, a->elem, (size_t)a->nranks, (size_t)block, 1);
	return tt_pieces(all, a->elem, slices, slice, 1);
}

/* Step k of a slice: what this rank sends and what it receives. */
static int step(const struct tt_plan_args *a, const struct tt_sliced *sl, const struct tt_step *at,
		struct tt_op *op)
{
	int n = a->nranks, r = a->rank, k = at->step;
	int sent = (r - 1 - k + 2 * n) % n, got = (sent - 1 + n) % n;
	struct tt_span out = slice_of(a, sl->slices, sent, at->slice);
	struct tt_span in = slice_of(a, sl->slices, got, at->slice);

	op[0] = (struct tt_op){.kind = TT_OP_SEND, .peer = (r + 1) % n, .len = out.len};
	op[0].a = k ? TT_RECVBUF(out.off) : TT_SENDBUF(out.off);
	op[1] = (struct tt_op){.kind = TT_OP_RECV, .peer = (r + n - 1) % n, .len = in.len};
	op[1].dst = TT_RECVBUF(in.off);
	if (k < n - 1) {
		op[1].kind = TT_OP_RECV_REDUCE;
		op[1].a = TT_NET;
		op[1].b = TT_SENDBUF(in.off);
	}
	if (k == n - 2 && a->divide)
		op[1].flags = TT_OPF_DIVIDE;
	op[0].index = op[1].index = at->turn * (uint32_t)sl->steps + (uint32_t)k;
	return 2;
}

/* With fewer elements than ranks most blocks are empty. */
static int skip_empty(const struct tt_plan_args *a, int k)
{
	int sent = (a->rank - 1 - k + 2 * a->nranks) % a->nranks;

	return (size_t)sent > a->count ? k + sent - (int)a->count : k;
}

void tt_allreduce_ring(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_sliced s = {
		.fn = step, .skip = skip_empty, .steps = 2 * (a->nranks - 1), .max_ops = 2};

	s.slices = tt_num_pieces(slice_of(a, 1, 0, 0).len, a->elem,
				 a->chunk); /* of block 0, a longest */
	s.slice_ops = 2 * (size_t)s.steps;
	s.full = a->count / (size_t)a->nranks >= s.slices;
	tt_sliced(b, &s);
}
