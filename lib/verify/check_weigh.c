/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's weighted sums of neighbours. A weight is a random number for each pair of ranks, so
 * a sum is right only if each neighbour's value is in it once, with the weight of its edge.
 */
#include <errno.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/verify/check_int.h"

static uint64_t weight(int to, int from)
{
	return tt_hash_add(tt_hash_add(0x3e16, (uint64_t)to), (uint64_t)from) | 1;
}

size_t tt_ck_weigh_len(const struct tt_checker *c, const struct tt_op *op)
{
	return ((size_t)op->peer - 1) * op->index * c->args.elem + op->len;
}

int tt_ck_check_weigh(const struct tt_checker *c, const struct ck_op *op)
{
	const struct tt_op *o = &op->op;
	int in;

	if (c->args.coll != TT_COLL_NEIGHBOR_ALLREDUCE)
		return tt_fail(-EINVAL, "%s: the call has no graph", tt_ck_where(c, op));
	in = tt_edges_in(c->args.edges, ck_lane_of(c, op)->rank);
	if (o->peer != in || (in > 0) != (o->b.buf != TT_BUF_NONE))
		return tt_fail(-EINVAL, "%s: adds up %d neighbours, not %d", tt_ck_where(c, op),
			       o->peer, in);
	if (in > 1 && (size_t)o->index * c->args.elem < o->len)
		return tt_fail(-EINVAL, "%s: its operands overlap", tt_ck_where(c, op));
	return 0;
}

static const struct ck_val *at(const struct tt_checker *c, int rank, struct tt_ref ref)
{
	return tt_ck_buf(c, rank, ref.buf)->val + ref.off / c->args.elem;
}

static void add(struct ck_val *sum, const struct ck_val *v, int to, int from)
{
	sum->set &= v->set && !v->coded;
	sum->sum += v->sum * weight(to, from);
	sum->tree = tt_hash_add(tt_hash_add(sum->tree, v->tree), (uint64_t)from);
}

int tt_ck_weigh(struct tt_checker *c, const struct ck_op *op)
{
	int rank = ck_lane_of(c, op)->rank, i;
	struct ck_val *dst =
		tt_ck_buf(c, rank, op->op.dst.buf)->val + op->op.dst.off / c->args.elem;
	const struct ck_val *own = at(c, rank, op->op.a);
	const struct tt_edges *edges = c->args.edges;
	size_t e;

	for (e = 0; e < op->op.len / c->args.elem; e++) {
		struct ck_val sum = {.set = true};

		add(&sum, &own[e], rank, rank);
		for (i = 0; i < op->op.peer; i++)
			add(&sum, at(c, rank, op->op.b) + (size_t)i * op->op.index + e, rank,
			    edges->in[edges->in_at[rank] + (size_t)i]);
		if (!sum.set)
			return tt_fail(-EINVAL,
				       "%s: element %zu of an operand is not written before",
				       tt_ck_where(c, op), e);
		dst[e] = sum;
	}
	return 0;
}

uint64_t tt_ck_weighed_sum(const struct tt_checker *c, int rank, size_t e)
{
	const struct tt_edges *edges = c->args.edges;
	uint64_t sum = tt_ck_input(rank, e).sum * weight(rank, rank);
	size_t i;

	for (i = edges->in_at[rank]; i < edges->in_at[rank + 1]; i++)
		sum += tt_ck_input(edges->in[i], e).sum * weight(rank, edges->in[i]);
	return sum;
}

int tt_ck_out_index(const struct tt_checker *c, int from, int to)
{
	const struct tt_edges *edges = c->args.edges;
	int i = 0;

	while (edges->out[edges->out_at[from] + (size_t)i] != to)
		i++;
	return i;
}
