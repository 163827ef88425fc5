/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce by recursive doubling: the latency-optimal algorithm, for short vectors.
 *
 *	step 0    0 <-> 1    2 <-> 3    4 <-> 5    6 <-> 7	each now has the sum of 2
 *	step 1    0 <-----> 2    1 <-----> 3    ...		of 4
 *	step 2    0 <-----------> 4    ...			of 8
 *
 * In step k, v exchanges its sum with v xor 2^k. Both compute lower + upper: the same operands in
 * the same order give the same bits. A sum is always of neighbouring ranks, so the operator need
 * not commute.
 *
 * n ranks that are no power of two are folded first and unfolded last (fold.c): with p the power of
 * two below and e = n - p, ranks 2i + 1, i < e, hand their vector to rank 2i, which speaks for
 * both.
 *
 * A step must not overwrite the sum that it sends, so partial sums alternate between recvbuf and
 * scratch and end in recvbuf. Only in place with log2 p odd the first arrival is stored and
 * combined separately.
 *
 * Cost, N bytes, per rank: log2(p) N sent, received and reduced, log2(p) steps a slice, fan-in 1.
 * With a fold: rank 2i, i < e: one N more sent, received and reduced, 2 steps more; rank 2i + 1: N
 * sent and received, nothing reduced, 2 steps. Slices of at most chunk bytes.
 *
 * Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH.
 * Int. J. High Perform. Comput. Appl. 19(1), 2005.
 */
#include "lib/plan/plan.h"

struct place {
	const struct tt_plan_args *a;
	struct tt_fold f;
	struct tt_span s;
	size_t scratch;
	uint32_t index;
	int bits;
	bool apart; /* store and combine the first arrival separately */
};

/* The place of the sum after exchange k; -1: after the fold. */
static struct tt_ref sum_ref(const struct place *p, int k)
{
	if (k < 0 && p->f.other < 0)
		return TT_SENDBUF(p->s.off);
	return (p->bits - 1 - k) % 2 ? TT_SCRATCH(p->scratch) : TT_RECVBUF(p->s.off);
}

static unsigned flags(const struct place *p, int k)
{
	return p->a->divide && k == p->bits - 1 ? TT_OPF_DIVIDE : 0;
}

static struct tt_op message(const struct place *p, enum tt_op_kind kind, int peer)
{
	return (struct tt_op){.kind = kind, .peer = peer, .index = p->index, .len = p->s.len};
}

static int exchange(const struct place *p, int k, struct tt_op *ops)
{
	int peer = tt_fold_rank(&p->f, p->f.v ^ 1 << k);
	bool upper = p->f.v >> k & 1;

	ops[0] = message(p, TT_OP_RECV_REDUCE, peer);
	ops[0].dst = sum_ref(p, k);
	ops[0].a = upper ? TT_NET : sum_ref(p, k - 1);
	ops[0].b = upper ? sum_ref(p, k - 1) : TT_NET;
	ops[0].flags = flags(p, k);
	ops[1] = message(p, TT_OP_SEND, peer);
	ops[1].a = sum_ref(p, k - 1);
	if (k == 0 && p->apart) {
		ops[0].kind = TT_OP_RECV;
		ops[0].dst = TT_SCRATCH(p->scratch);
		ops[0].a = ops[0].b = TT_NONE;
		ops[0].flags = 0;
	}
	return 2;
}

static int combine_apart(const struct place *p, struct tt_op *ops)
{
	struct tt_ref net = TT_SCRATCH(p->scratch), own = TT_RECVBUF(p->s.off);

	ops[0] = (struct tt_op){.kind = TT_OP_REDUCE, .peer = -1, .len = p->s.len};
	ops[0].flags = flags(p, 0);
	ops[0].dst = own;
	ops[0].a = p->f.v & 1 ? net : own;
	ops[0].b = p->f.v & 1 ? own : net;
	return 1;
}

/*
 * Step 0: fold; 1: first exchange; 2: combine what it stored; 3 ...: further exchanges; last:
 * unfold.
 */
static int step(const struct tt_plan_args *a, const struct tt_sliced *sl, const struct tt_step *at,
		struct tt_op *ops)
{
	struct place p = {.a = a, .f = tt_fold(a, tt_fold_pow2(a->nranks)), .index = at->turn};
	int k = at->step > 2 ? at->step - 2 : 0;

	p.s = tt_pieces((struct tt_span){0, a->count * a->elem}, a->elem, sl->slices, at->slice, 1);
	p.scratch = (size_t)at->lane * sl->state[0];
	p.bits = sl->steps - 3;
	p.apart = a->in_place && p.f.other < 0 && p.bits % 2;
	if (at->step == 0 || at->step == sl->steps - 1) {
		ops[0] = tt_fold_op(&p.f, p.s, at->step > 0, at->turn);
		if (ops[0].kind == TT_OP_RECV_REDUCE)
			ops[0].dst = sum_ref(&p, -1);
		return p.f.other >= 0;
	}
	if (p.f.v < 0)
		return 0;
	if (at->step == 2)
		return p.apart ? combine_apart(&p, ops) : 0;
	return exchange(&p, k, ops);
}

void tt_allreduce_recursive_doubling(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t bytes = a->count * a->elem;
	struct tt_sliced s = {.fn = step, .steps = 3, .max_ops = 2, .full = true};
	int core = tt_fold_pow2(a->nranks);

	for (; core > 1; core /= 2)
		s.steps++;
	s.slices = tt_num_pieces(bytes, a->elem, a->chunk);
	s.slice_ops = 2 * (size_t)s.steps;
	if (s.slices && tt_fold(a, tt_fold_pow2(a->nranks)).v >= 0)
		s.state[0] = tt_slots(
			b, (size_t)a->lanes,
			tt_pieces((struct tt_span){0, bytes}, a->elem, s.slices, 0, 1).len);
	tt_sliced(b, &s);
}
