/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce by recursive halving and doubling: bandwidth-optimal in a logarithmic number of steps.
 *
 *	halving (the reduce-scatter)            doubling (the all-gather)
 *	step 0   0 <-> 1   2 <-> 3   half        step 2   0 <---> 2   1 <---> 3   a quarter
 *	step 1   0 <---> 2  1 <---> 3  quarter    step 3   0 <-> 1    2 <-> 3     half
 *
 *	v has, p = 4:   [0 1 2 3]  ->  v even [0 1], odd [2 3]  ->  v = 0 [0], 2 [1], 1 [2], 3 [3]
 *
 * In step k of the first half, v and v xor 2^k have the same part: each sends one half to the
 * other rank and combines the half that it keeps. The second half of the steps goes the same way
 * back with finished parts. The nearest ranks exchange first, so a sum always is of neighbouring
 * ranks, lower + upper: the operator need not commute. One rank computes an element, so all have
 * the same bits.
 *
 * n ranks that are no power of two are folded first and unfolded last (fold.c): with p the power of
 * two below and e = n - p, ranks 2i + 1, i < e, hand their vector to rank 2i, which speaks for
 * both.
 *
 * The first hop leaves from sendbuf; sums are in recvbuf; there are no copies and no scratch.
 * Slices are up to SLICE_CHUNKS chunks long, so that the messages of the last steps are not too
 * short; longer messages travel as pieces of at most chunk bytes in one round.
 *
 * Cost, N bytes, per rank: 2(p-1)/p N sent and received, (p-1)/p N reduced, 2 log2 p steps a slice,
 * fan-in 1; where p does not divide N, parts differ by an element. With a fold: rank 2i, i < e: N
 * more sent, received and reduced, 2 steps more; rank 2i + 1: N sent and received, nothing reduced,
 * 2 steps.
 *
 * Rabenseifner: Optimization of collective reduction operations. ICCS 2004, LNCS 3036.
 */
#include "lib/plan/plan.h"

#define SLICE_CHUNKS 16

struct place {
	const struct tt_plan_args *a;
	const struct tt_sliced *sl;
	struct tt_fold f;
	struct tt_span s;
	uint32_t turn;
};

static struct tt_span slice_of(const struct tt_plan_args *a, size_t slices, size_t slice)
{
	return tt_pieces((struct tt_span){0, a->count * a->elem}, a->elem, slices, slice, 1);
}

/* Pieces of a message of step k, equal in all slices and on all ranks; k = -1: of the fold. */
static size_t pieces_of(const struct tt_plan_args *a, size_t slices, int core, int k)
{
	struct tt_span s = slice_of(a, slices, 0);
	size_t parts = (size_t)core >> (k + 1);

	return tt_num_pieces(tt_pieces(s, a->elem, (size_t)core, 0, parts).len, a->elem, a->chunk);
}

/* The parts of the slice that v keeps in step k, or with other those that it sends. */
static struct tt_span part(const struct place *p, int k, bool other)
{
	size_t base = 0, parts = (size_t)p->f.core >> (k + 1);
	int i;

	for (i = 0; i <= k; i++)
		if ((p->f.v >> i & 1) != (other && i == k))
			base += (size_t)p->f.core >> (i + 1);
	return tt_pieces(p->s, p->a->elem, (size_t)p->f.core, base, parts);
}

/* Step k, either way. */
static int exchange(const struct place *p, int k, bool doubling, struct tt_op *ops)
{
	size_t n = pieces_of(p->a, p->sl->slices, p->f.core, k), elem = p->a->elem, i;
	struct tt_span kept = part(p, k, false), given = part(p, k, true), in, out;
	int peer = tt_fold_rank(&p->f, p->f.v ^ 1 << k);
	bool upper = p->f.v >> k & 1, last = p->f.core >> (k + 1) == 1;

	for (i = 0; i < n; i++) {
		uint32_t index = (2 * p->turn + doubling) * (uint32_t)n + (uint32_t)i;
		bool raw = !doubling && k == 0 && p->f.other < 0; /* nothing is summed up yet */

		in = tt_pieces(doubling ? given : kept, elem, n, i, 1);
		out = tt_pieces(doubling ? kept : given, elem, n, i, 1);
		*ops++ = (struct tt_op){.kind = TT_OP_SEND,
					.peer = peer,
					.index = index,
					.a = raw ? TT_SENDBUF(out.off) : TT_RECVBUF(out.off),
					.len = out.len};
		*ops = (struct tt_op){.kind = TT_OP_RECV,
				      .peer = peer,
				      .index = index,
				      .dst = TT_RECVBUF(in.off),
				      .len = in.len};
		if (!doubling) {
			struct tt_ref own = raw ? TT_SENDBUF(in.off) : TT_RECVBUF(in.off);

			ops->kind = TT_OP_RECV_REDUCE;
			ops->a = upper ? TT_NET : own;
			ops->b = upper ? own : TT_NET;
			ops->flags = last && p->a->divide ? TT_OPF_DIVIDE : 0;
		}
		ops++;
	}
	return (int)(2 * n);
}

/* Of a pair: fold before the first step, unfold after the last. */
static int fold(const struct place *p, bool un, struct tt_op *ops)
{
	size_t n = pieces_of(p->a, p->sl->slices, p->f.core, -1), i;

	for (i = 0; i < n; i++)
		ops[i] = tt_fold_op(&p->f, tt_pieces(p->s, p->a->elem, n, i, 1), un,
				    p->turn * (uint32_t)n + (uint32_t)i);
	return (int)n;
}

/* Step 0: fold; then halving, doubling; last: unfold. */
static int step(const struct tt_plan_args *a, const struct tt_sliced *sl, const struct tt_step *at,
		struct tt_op *ops)
{
	struct place p = {.a = a,
			  .sl = sl,
			  .f = tt_fold(a, tt_fold_pow2(a->nranks)),
			  .s = slice_of(a, sl->slices, at->slice),
			  .turn = at->turn};
	int bits = sl->steps / 2 - 1, k = at->step - 1;

	if (at->step == 0 || at->step == sl->steps - 1)
		return p.f.other < 0 ? 0 : fold(&p, at->step > 0, ops);
	if (p.f.v < 0)
		return 0;
	return exchange(&p, k < bits ? k : 2 * bits - 1 - k, k >= bits, ops);
}

/* No message of any slice has an empty piece. */
static bool full(const struct tt_plan_args *a, size_t slices, int core)
{
	struct tt_span s = slice_of(a, slices, slices - 1); /* the shortest */
	size_t parts = (size_t)core;
	int k;

	for (k = -1; parts; k++, parts /= 2)
		if (tt_pieces(s, a->elem, (size_t)core, (size_t)core - parts, parts).len / a->elem <
		    pieces_of(a, slices, core, k))
			return false;
	return true;
}

void tt_allreduce_halving_doubling(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int core = tt_fold_pow2(a->nranks), k;
	size_t chunks = core < SLICE_CHUNKS ? (size_t)core : SLICE_CHUNKS, n;
	struct tt_sliced s = {.fn = step, .steps = 2, .slice_ops = 0};

	s.slices = tt_num_pieces(a->count * a->elem, a->elem, a->chunk * chunks);
	if (s.slices < (size_t)a->lanes) /* a slice for every lane */
		s.slices = a->count < (size_t)a->lanes ? a->count : (size_t)a->lanes;
	if (!s.slices)
		return;
	n = pieces_of(a, s.slices, core, -1);
	s.max_ops = (int)n;
	s.slice_ops = 2 * n;
	for (k = 0; core >> (k + 1); k++) {
		n = 2 * pieces_of(a, s.slices, core, k);
		s.max_ops = (int)n > s.max_ops ? (int)n : s.max_ops;
		s.slice_ops += 2 * n;
		s.steps += 2;
	}
	s.full = full(a, s.slices, core);
	tt_sliced(b, &s);
}
