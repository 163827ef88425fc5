/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by several algorithms: reduction to a suitable number of ranks, and sums of many
 * operands.
 *
 * The two ranks of a folded pair are neighbours, and the core is numbered in order of rank. So the
 * combined input of ranks 2i and 2i + 1 still lies between the inputs of the ranks before and after
 * them, and an algorithm that combines in order of core numbers combines in order of rank.
 */
#include "lib/plan/plan.h"

struct tt_fold tt_fold(const struct tt_plan_args *args, int core)
{
	struct tt_fold f = {.core = core, .extra = args->nranks - core, .v = -1, .other = -1};
	int r = args->rank;

	if (r < 2 * f.extra)
		f.other = r ^ 1;
	if (r >= 2 * f.extra)
		f.v = r - f.extra;
	else if (r % 2 == 0)
		f.v = r / 2;
	return f;
}

int tt_fold_rank(const struct tt_fold *f, int v)
{
	return v < f->extra ? 2 * v : v + f->extra;
}

int tt_fold_pow2(int n)
{
	int core = 1;

	while (core <= n / 2)
		core *= 2;
	return core;
}

struct tt_op tt_fold_op(const struct tt_fold *f, struct tt_span s, bool un, uint32_t index)
{
	struct tt_op op = {.peer = f->other, .index = index, .len = s.len};
	bool folded = f->v < 0;

	op.kind = folded == un ? TT_OP_RECV : TT_OP_SEND;
	if (folded == un)
		op.dst = TT_RECVBUF(s.off);
	else
		op.a = un ? TT_RECVBUF(s.off) : TT_SENDBUF(s.off);
	if (!folded && !un) {
		op.kind = TT_OP_RECV_REDUCE;
		op.a = TT_SENDBUF(s.off);
		op.b = TT_NET;
	}
	return op;
}

struct tt_ref tt_row_slot(const struct tt_row *row, int i)
{
	return TT_SCRATCH(row->slot + (size_t)(i - (i > row->own)) * row->stride);
}

struct tt_op tt_row_op(const struct tt_row *row, int m, struct tt_ref result, unsigned flags)
{
	struct tt_op op = {.kind = TT_OP_REDUCE, .peer = -1, .len = row->len};
	bool last = m == row->n - 1;

	op.a = m == 1 && row->own == 0 ? row->mine : TT_SCRATCH(row->slot);
	op.b = m == row->own ? row->mine : tt_row_slot(row, m);
	op.dst = last ? result : TT_SCRATCH(row->slot);
	op.flags = last ? flags : 0;
	return op;
}

size_t tt_slots(struct tt_builder *b, size_t n, size_t len)
{
	size_t elem = tt_builder_args(b)->elem;
	size_t grain = 64 % elem ? elem : 64; /* a cache line, if it can be */
	size_t stride = (len + grain - 1) / grain * grain;

	tt_scratch(b, n * stride);
	return stride;
}
