/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of neighbours in a graph: every vector, or block, goes straight along its edge.
 *
 *	all-reduce	j1 ──x_j1──> slot 0 ┐
 *			j2 ──x_j2──> slot 1 ├─> w_ii x_i + w_ij1 x_j1 + w_ij2 x_j2
 *			 i ────────> x_i    ┘
 *
 * A slice takes two rounds: all messages of the slice, then the weighted sum. Slice i is in lane
 * i % lanes, so the messages of a slice overlap with the sum of another. The slots of a lane are
 * in scratch. All ranks cut alike: so that the slots of the rank with the most in-neighbours fit.
 *
 * The sum is written after the slice has been sent, so the result may replace the input. A dead
 * neighbour's slot gets x_i: its weight goes to the own value.
 *
 * Cost, N bytes: out-degree x N sent, in-degree x N received; 1 step a slice, fan-in the in-degree.
 */
#include "lib/coll/p2p/neighbors.h"

static const int *in_of(const struct tt_plan_args *a)
{
	return a->edges->in + a->edges->in_at[a->rank];
}

static const int *out_of(const struct tt_plan_args *a)
{
	return a->edges->out + a->edges->out_at[a->rank];
}

static void exchange_and_weigh(struct tt_builder *b, struct tt_span s, size_t slots, size_t stride)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int in = tt_edges_in(a->edges, a->rank), out = tt_edges_out(a->edges, a->rank), i;

	tt_round(b);
	for (i = 0; i < out; i++)
		tt_send(b, out_of(a)[i], TT_SENDBUF(s.off), s.len);
	for (i = 0; i < in; i++)
		tt_add(b, &(struct tt_op){.kind = TT_OP_RECV,
					  .peer = in_of(a)[i],
					  .dst = TT_SCRATCH(slots + (size_t)i * stride),
					  .a = TT_SENDBUF(s.off),
					  .len = s.len});
	tt_round(b);
	tt_add(b, &(struct tt_op){.kind = TT_OP_WEIGH,
				  .peer = in,
				  .index = (uint32_t)(stride / a->elem),
				  .dst = TT_RECVBUF(s.off),
				  .a = TT_SENDBUF(s.off),
				  .b = in ? TT_SCRATCH(slots) : TT_NONE,
				  .len = s.len});
}

static void neighbor_allreduce(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_pieces(tt_vector(a).len, a->elem, tt_neighbor_slice(a, 1, 1)), i;
	size_t in = (size_t)tt_edges_in(a->edges, a->rank), lanes, stride = 0, base = 0;

	lanes = (size_t)tt_num_lanes(a, slices);
	if (in && slices) {
		stride = tt_slice(a, tt_vector(a), slices, 0).len;
		base = tt_scratch(b, lanes * in * stride);
	}
	for (i = 0; i < slices; i++) {
		tt_lane(b, (int)(i % lanes));
		exchange_and_weigh(b, tt_slice(a, tt_vector(a), slices, i),
				   base + i % lanes * in * stride, stride);
	}
}

/* Of N bytes to each out-neighbour, out apart in sendbuf, 0: the same to all; one from each. */
static void neighbor_blocks(struct tt_builder *b, size_t apart)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int in = tt_edges_in(a->edges, a->rank), out = tt_edges_out(a->edges, a->rank), k;
	size_t len = tt_vector(a).len, slices = tt_num_slices(a, len), i;

	for (i = 0; i < slices; i++) {
		struct tt_span s = tt_slice(a, tt_vector(a), slices, i);

		tt_lane(b, (int)(i % (size_t)a->lanes));
		tt_round(b);
		for (k = 0; k < out; k++)
			tt_send(b, out_of(a)[k], TT_SENDBUF((size_t)k * apart + s.off), s.len);
		for (k = 0; k < in; k++)
			tt_recv(b, in_of(a)[k], TT_RECVBUF((size_t)k * len + s.off), s.len);
	}
}

static void neighbor_allgather(struct tt_builder *b)
{
	neighbor_blocks(b, 0);
}

static void neighbor_alltoall(struct tt_builder *b)
{
	neighbor_blocks(b, tt_vector(tt_builder_args(b)).len);
}

const struct tt_alg *tt_alg_neighbors(enum tt_coll coll)
{
	static const struct tt_alg algs[] = {
		{TT_COLL_NEIGHBOR_ALLREDUCE, "direct", neighbor_allreduce, NULL, NULL},
		{TT_COLL_NEIGHBOR_ALLGATHER, "direct", neighbor_allgather, NULL, NULL},
		{TT_COLL_NEIGHBOR_ALLTOALL, "direct", neighbor_alltoall, NULL, NULL},
		{TT_COLL_NEIGHBOR_HIER_ALLREDUCE, "direct", tt_neighbor_hier_allreduce, NULL, NULL},
	};

	return &algs[coll - TT_COLL_NEIGHBOR_ALLREDUCE];
}
