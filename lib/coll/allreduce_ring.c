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
 * Zero copy: the first hop is sent straight from the caller's sendbuf; what arrives is combined
 * with the rank's own part in sendbuf and the sum goes to recvbuf, where later hops start and
 * finished blocks land. In place the two buffers are one and dst is exactly one operand. In one
 * step the block sent and the block received differ, so nothing in a round touches the same bytes.
 *
 * Pipelining: every block is cut into the same number of slices of at most chunk bytes; lane l
 * runs slices l, l + lanes, ... of all blocks, one slice after the other. While one lane reduces,
 * another one's slice is on the wire.
 *
 * Cost per rank, n ranks, N bytes: 2(n-1)/n N bytes sent and received, (n-1)/n N reduced,
 * 2(n-1) steps a slice, fan-in 1. Fewer elements than ranks: some blocks are empty, their ops vanish.
 *
 * Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations.
 * J. Parallel Distrib. Comput. 69(2), 2009.
 */
#include "lib/plan/plan.h"

struct range {
	size_t off, len; /* bytes */
};

static size_t num_slices(const struct tt_plan_args *a)
{
	size_t n = (size_t)a->nranks;
	size_t longest = a->count / n + (a->count % n > 0), fit = a->chunk / a->elem;

	return longest / fit + (longest % fit > 0);
}

static struct range slice_range(const struct tt_plan_args *a, int block, size_t slices,
				size_t slice)
{
	size_t begin = tt_part_begin(a->count, a->nranks, block);
	size_t len = tt_part_begin(a->count, a->nranks, block + 1) - begin;
	size_t q = len / slices, r = len % slices;
	size_t first = q * slice + (slice < r ? slice : r);

	return (struct range){(begin + first) * a->elem, (q + (slice < r)) * a->elem};
}

/* Step k of a slice: what this rank sends and what it receives. */
static void step(const struct tt_plan_args *a, size_t slices, size_t slice, int k,
		 struct tt_op op[2])
{
	int n = a->nranks, r = a->rank, sent = (r - 1 - k + 2 * n) % n, got = (sent - 1 + n) % n;
	struct range out = slice_range(a, sent, slices, slice);
	struct range in = slice_range(a, got, slices, slice);

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
}

/* Generated form: no slice is empty, so a lane's message in a round has the round's number. */
static int generate(const struct tt_plan *plan, int lane, int round, struct tt_op *ops)
{
	size_t slices = plan->gen_state[0];
	int steps = 2 * (plan->args.nranks - 1);
	size_t slice = (size_t)lane + (size_t)(round / steps) * (size_t)plan->nlanes;

	if (slice >= slices)
		return 0;
	step(&plan->args, slices, slice, round % steps, ops);
	ops[0].index = ops[1].index = (uint32_t)round;
	return 2;
}

/* With fewer elements than ranks most blocks are empty: from step k on to the next that moves one. */
static int skip_empty(const struct tt_plan_args *a, int k)
{
	int sent = (a->rank - 1 - k + 2 * a->nranks) % a->nranks;

	return (size_t)sent > a->count ? k + sent - (int)a->count : k;
}

static void store(struct tt_builder *b, size_t slices, int lanes)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_op op[2];
	size_t slice;
	int k;

	for (slice = 0; slice < slices; slice++) {
		tt_lane(b, (int)(slice % (size_t)lanes));
		for (k = skip_empty(a, 0); k < 2 * (a->nranks - 1); k = skip_empty(a, k + 1)) {
			tt_round(b);
			step(a, slices, slice, k, op);
			tt_add(b, &op[0]);
			tt_add(b, &op[1]);
		}
	}
}

void tt_allreduce_ring(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = num_slices(a), steps = 2 * ((size_t)a->nranks - 1);
	int lanes = slices < (size_t)a->lanes ? (int)slices : a->lanes;
	bool none_empty = slices && a->count / (size_t)a->nranks >= slices;

	if (none_empty && slices * steps * 2 > tt_plan_store_max)
		tt_generate(b, generate, lanes,
			    (int)((slices + (size_t)lanes - 1) / (size_t)lanes * steps), 2,
			    (size_t[8]){slices});
	else
		store(b, slices, lanes);
}
