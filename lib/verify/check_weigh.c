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

/* Which rank of the graph a rank is. */
static int node_of(const struct tt_checker *c, int rank)
{
	return tt_edges_rank(&c->plans[rank]->args);
}

size_t tt_ck_weigh_len(const struct tt_checker *c, const struct tt_op *op)
{
	return ((size_t)op->peer - 1) * op->index * c->args.elem + op->len;
}

int tt_ck_check_weigh(const struct tt_checker *c, const struct ck_op *op)
{
	const struct tt_op *o = &op->op;
	bool host = o->flags & TT_OPF_HOST;
	int rank = ck_lane_of(c, op)->rank, in;

	if (!c->args.edges)
		return tt_fail(-EINVAL, "%s: the call has no graph", tt_ck_where(c, op));
	if (host && c->args.coll != TT_COLL_NEIGHBOR_HIER_ALLREDUCE)
		return tt_fail(-EINVAL, "%s: the graph is not one of hosts", tt_ck_where(c, op));
	in = host ? c->args.hosts->size[node_of(c, rank)] - 1
		  : tt_edges_in(c->args.edges, node_of(c, rank));
	if (o->peer != in || (in > 0) != (o->b.buf != TT_BUF_NONE))
		return tt_fail(-EINVAL, "%s: adds up %d %s, not %d", tt_ck_where(c, op), o->peer,
			       host ? "other ranks" : "neighbours", in);
	if (in > 1 && (size_t)o->index * c->args.elem < o->len)
		return tt_fail(-EINVAL, "%s: its operands overlap", tt_ck_where(c, op));
	return 0;
}

static const struct ck_val *at(const struct tt_checker *c, int rank, struct tt_ref ref)
{
	return tt_ck_buf(c, rank, ref.buf)->val + ref.off / c->args.elem;
}

static void add(struct ck_val *sum, const struct ck_val *v, uint64_t by)
{
	sum->set &= v->set && !v->coded;
	sum->sum += v->sum * by;
	sum->tree = tt_hash_add(tt_hash_add(sum->tree, v->tree), by);
}

/* Of operand i, -1: the own one, for a rank, or host, of the graph. A mean is taken for the sum. */
static uint64_t weight_of(const struct tt_edges *edges, const struct tt_op *op, int node, int i)
{
	if (op->flags & TT_OPF_HOST)
		return 1;
	return weight(node, i < 0 ? node : edges->in[edges->in_at[node] + (size_t)i]);
}

int tt_ck_weigh(struct tt_checker *c, const struct ck_op *op)
{
	int rank = ck_lane_of(c, op)->rank, node = node_of(c, rank), i;
	struct ck_val *dst =
		tt_ck_buf(c, rank, op->op.dst.buf)->val + op->op.dst.off / c->args.elem;
	const struct ck_val *own = at(c, rank, op->op.a);
	const struct tt_edges *edges = c->args.edges;
	size_t e;

	for (e = 0; e < op->op.len / c->args.elem; e++) {
		struct ck_val sum = {.set = true};

		add(&sum, &own[e], weight_of(edges, &op->op, node, -1));
		for (i = 0; i < op->op.peer; i++)
			add(&sum, at(c, rank, op->op.b) + (size_t)i * op->op.index + e,
			    weight_of(edges, &op->op, node, i));
		if (!sum.set)
			return tt_fail(-EINVAL,
				       "%s: element %zu of an operand is not written before",
				       tt_ck_where(c, op), e);
		dst[e] = sum;
	}
	return 0;
}

/* Of one rank, or the sum of a host's. */
static uint64_t input_of(const struct tt_checker *c, int node, size_t e)
{
	uint64_t sum = 0;
	int r;

	for (r = 0; r < c->n; r++)
		if (node_of(c, r) == node)
			sum += tt_ck_input(r, e).sum;
	return sum;
}

uint64_t tt_ck_weighed_sum(const struct tt_checker *c, int rank, size_t e)
{
	const struct tt_edges *edges = c->args.edges;
	int node = node_of(c, rank);
	uint64_t sum = input_of(c, node, e) * weight(node, node);
	size_t i;

	for (i = edges->in_at[node]; i < edges->in_at[node + 1]; i++)
		sum += input_of(c, edges->in[i], e) * weight(node, edges->in[i]);
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
