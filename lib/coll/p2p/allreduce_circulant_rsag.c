/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce on a circulant graph by reduce-scatter and all-gather: the bytes of a ring in a
 * logarithmic number of steps, for any number of ranks, without a fold.
 *
 * The distances ("skips") s0 = 1, ..., sq = n, each half of the next one, rounded up. In the
 * reduce-scatter, rank r holds partial sums of blocks r, r + 1, ... (mod n), all of them to begin
 * with. It sends the second half to the rank whose first blocks these are, keeps the first half,
 * and continues with the next smaller distance until one block is left. The all-gather runs the
 * same way back with finished blocks.
 *
 *	5 ranks, distances 3 2 1: what rank 0 has	0 1 2 3 4
 *	step 0	sends 3 4 to rank 3, adds 0 1 of rank 2	0 1 2
 *	step 1	sends 2   to rank 2, adds 0 of rank 3	0 1
 *	step 2	sends   1 to rank 1, adds 0 of rank 4	0
 *	then rank 0 receives 1 of rank 1, 2 of rank 2, 3 4 of rank 3, and sends 0, 0, 0 1 to 4, 3, 2
 *
 * Blocks are as even as whole elements allow. The first hop leaves from sendbuf; sums are in
 * recvbuf; there are no copies and no scratch. If n is odd, the last block kept in the first step
 * has not been combined yet, and is sent from sendbuf in the second. Blocks go round from n - 1 to
 * 0, so a step has one to three messages, cut into pieces of at most chunk bytes; slices are up to
 * SLICE_CHUNKS chunks long. One rank computes an element: the same bits everywhere. The order of
 * operands is not that of ranks.
 *
 * Cost per rank, n ranks, N bytes, b_i in block i: 2(n-1)/n N sent and received, (n-1)/n N reduced;
 * 2 ceil(log2 n) steps a slice; fan-in 1. Exactly: rank r sends N - b_r in the reduce-scatter, and
 * receives that in the all-gather.
 *
 * Träff: Optimal, non-pipelined reduce-scatter and allreduce algorithms. arXiv 2410.14234, 2024.
 */
#include "lib/plan/plan.h"

#define SLICE_CHUNKS 16
#define MAX_SPANS 3

/* s(k): n halved q - k times, rounding up; q such that s(0) = 1. */
static int skip(int n, int q, int k)
{
	for (; q > k; q--)
		n = (n + 1) / 2;
	return n;
}

static int log2_up(int n)
{
	int q = 0;

	while ((long)1 << q < n)
		q++;
	return q;
}

/* Blocks that travel together: contiguous in memory. */
struct run {
	int first, count;
	bool raw; /* of the sender's sendbuf */
};

/*
 * A transfer of the blocks from first on at distance number k, taken apart; returns into how many.
 */
static int runs_of(int n, int q, int k, int first, bool scatter, struct run run[MAX_SPANS])
{
	int left = skip(n, q, k + 1) - skip(n, q, k), nruns = 0;
	bool lone = scatter && k == q - 2 && n % 2; /* the last one is as it was */

	left -= lone;
	if (left) {
		int fit = left < n - first ? left : n - first;

		run[nruns++] = (struct run){first, fit, scatter && k == q - 1};
		if (left > fit)
			run[nruns++] = (struct run){0, left - fit, scatter && k == q - 1};
	}
	if (lone)
		run[nruns++] = (struct run){(first + left) % n, 1, true};
	return nruns;
}

static struct tt_span slice_of(const struct tt_plan_args *a, size_t slices, size_t slice)
{
	return tt_pieces((struct tt_span){0, a->count * a->elem}, a->elem, slices, slice, 1);
}

static struct tt_span span_of(const struct tt_plan_args *a, struct tt_span slice,
			      const struct run *run)
{
	return tt_pieces(slice, a->elem, (size_t)a->nranks, (size_t)run->first, (size_t)run->count);
}

/* Pieces of a run, equal in all slices. */
static size_t pieces_of(const struct tt_plan_args *a, size_t slices, const struct run *run)
{
	return tt_num_pieces(span_of(a, slice_of(a, slices, 0), run).len, a->elem, a->chunk);
}

/* Messages of a slice from one rank to another, in the reduce-scatter or in the all-gather. */
static size_t messages(const struct tt_plan_args *a, size_t slices, int from, int to, bool scatter)
{
	int n = a->nranks, q = log2_up(n), k, i, nruns;
	int distance = scatter ? (to - from + n) % n : (from - to + n) % n;
	struct run run[MAX_SPANS];
	size_t sum = 0;

	for (k = 0; k < q && skip(n, q, k) != distance; k++)
		;
	if (k == q)
		return 0;
	nruns = runs_of(n, q, k, scatter ? to : from, scatter, run);
	for (i = 0; i < nruns; i++)
		sum += pieces_of(a, slices, &run[i]);
	return sum;
}

/* One side of a transfer. */
static int transfer(const struct tt_plan_args *a, const struct tt_sliced *sl,
		    const struct tt_step *at, int from, int to, int k, bool scatter,
		    struct tt_op *ops)
{
	int n = a->nranks, q = sl->steps / 2, i, nruns, nops = 0;
	size_t rs = messages(a, sl->slices, from, to, true), p, pieces;
	size_t index = at->turn * (rs + messages(a, sl->slices, from, to, false));
	struct tt_span s = slice_of(a, sl->slices, at->slice), part;
	struct run run[MAX_SPANS];

	index += scatter ? 0 : rs;
	nruns = runs_of(n, q, k, scatter ? to : from, scatter, run);
	for (i = 0; i < nruns; i++) {
		pieces = pieces_of(a, sl->slices, &run[i]);
		for (p = 0; p < pieces; p++) {
			struct tt_op *op = &ops[nops++];

			part = tt_pieces(span_of(a, s, &run[i]), a->elem, pieces, p, 1);
			*op = (struct tt_op){.kind = TT_OP_SEND, .peer = to, .len = part.len};
			op->index = (uint32_t)index++;
			op->a = run[i].raw ? TT_SENDBUF(part.off) : TT_RECVBUF(part.off);
			if (a->rank == from)
				continue;
			op->kind = scatter ? TT_OP_RECV_REDUCE : TT_OP_RECV;
			op->peer = from;
			op->dst = TT_RECVBUF(part.off);
			op->a = scatter ? TT_NET : TT_NONE;
			if (scatter)
				op->b = k == q - 1 ? TT_SENDBUF(part.off) : TT_RECVBUF(part.off);
			op->flags = scatter && k == 0 && a->divide ? TT_OPF_DIVIDE : 0;
		}
	}
	return nops;
}

static int step(const struct tt_plan_args *a, const struct tt_sliced *sl, const struct tt_step *at,
		struct tt_op *ops)
{
	int n = a->nranks, q = sl->steps / 2, nops;
	bool scatter = at->step < q;
	int k = scatter ? q - 1 - at->step : at->step - q;
	int up = (a->rank + skip(n, q, k)) % n, down = (a->rank + n - skip(n, q, k)) % n;

	nops = transfer(a, sl, at, a->rank, scatter ? up : down, k, scatter, ops);
	return nops + transfer(a, sl, at, scatter ? down : up, a->rank, k, scatter, ops + nops);
}

void tt_allreduce_circulant_rsag(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_sliced s = {.fn = step, .steps = 2 * log2_up(a->nranks)};
	size_t chunks = a->nranks < SLICE_CHUNKS ? (size_t)a->nranks : SLICE_CHUNKS, pieces;

	s.slices = tt_num_pieces(a->count * a->elem, a->elem, a->chunk * chunks);
	if (s.slices < (size_t)a->lanes) /* a slice for every lane */
		s.slices = a->count < (size_t)a->lanes ? a->count : (size_t)a->lanes;
	if (!s.slices)
		return;
	pieces = tt_num_pieces(slice_of(a, s.slices, 0).len, a->elem, a->chunk);
	s.max_ops = (int)(2 * (pieces + MAX_SPANS));
	s.slice_ops = 4 * (pieces + (size_t)s.steps);
	/*
	 * no block is more than twice as long as in another slice: pieces of two elements are not
	 * empty
	 */
	s.full = a->count / s.slices / (size_t)a->nranks >= 1 && a->chunk / a->elem >= 2;
	tt_sliced(b, &s);
}
