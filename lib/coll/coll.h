/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for algorithms: cutting blocks into slices, messages longer than a chunk, pipelines.
 */
#ifndef TT_COLL_H
#define TT_COLL_H

#include "lib/plan/plan.h"

/* Number of slices of a block of len bytes. */
static inline size_t tt_num_slices(const struct tt_plan_args *a, size_t len)
{
	return tt_num_pieces(len, a->elem, a->chunk);
}

/* Slice i of a block. */
static inline struct tt_span tt_slice(const struct tt_plan_args *a, struct tt_span block,
				      size_t slices, size_t i)
{
	return tt_pieces(block, a->elem, slices, i, 1);
}

static inline struct tt_span tt_vector(const struct tt_plan_args *a)
{
	return (struct tt_span){0, a->count * a->elem};
}

/* Number of lanes that are useful for this number of slices. */
static inline int tt_num_lanes(const struct tt_plan_args *a, size_t slices)
{
	return slices < (size_t)a->lanes ? (int)slices : a->lanes;
}

/* The length of the longest block. */
size_t tt_longest(const struct tt_plan_args *a,
		  struct tt_span (*block)(const struct tt_plan_args *, int));

/*
 * Scratch for n slices of a block of len bytes; returns its offset, *slot becomes the bytes of one
 * slice.
 */
size_t tt_slice_slots(struct tt_builder *b, size_t n, size_t len, size_t *slot);

/* Messages of at most a chunk each, in the current round. */
void tt_send_long(struct tt_builder *b, int peer, struct tt_ref a, size_t len);
void tt_recv_long(struct tt_builder *b, int peer, struct tt_ref dst, size_t len);
void tt_recv_reduce_long(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a,
			 struct tt_ref bb, size_t len, unsigned flags);

static inline struct tt_op tt_op_send(int peer, struct tt_ref a, size_t len)
{
	return (struct tt_op){.kind = TT_OP_SEND, .peer = peer, .a = a, .len = len};
}

static inline struct tt_op tt_op_recv(int peer, struct tt_ref dst, size_t len)
{
	return (struct tt_op){.kind = TT_OP_RECV, .peer = peer, .dst = dst, .len = len};
}

/* dst = a (+) b, one of them TT_NET. */
static inline struct tt_op tt_op_recv_reduce(int peer, struct tt_ref dst, struct tt_ref a,
					     struct tt_ref b, size_t len)
{
	return (struct tt_op){
		.kind = TT_OP_RECV_REDUCE, .peer = peer, .dst = dst, .a = a, .b = b, .len = len};
}

static inline struct tt_op tt_op_reduce(struct tt_ref dst, struct tt_ref a, struct tt_ref b,
					size_t len)
{
	return (struct tt_op){
		.kind = TT_OP_REDUCE, .peer = -1, .dst = dst, .a = a, .b = b, .len = len};
}

static inline struct tt_op tt_op_copy(struct tt_ref dst, struct tt_ref a, size_t len)
{
	return (struct tt_op){.kind = TT_OP_COPY, .peer = -1, .dst = dst, .a = a, .len = len};
}

/*
 * allreduce_codec_direct.c: the vector in units that a codec encodes together, and how many of
 * them a slice has at most.
 */
static inline size_t tt_codec_units(const struct tt_plan_args *a)
{
	return tt_num_pieces(a->count, 1, a->codec->align);
}
size_t tt_codec_slice_units(const struct tt_plan_args *a);

/* allreduce_radix.c: the largest factor of n that is not more than its radix. */
int tt_radix_factor(int n);
/* The largest number up to n that is a product of such factors. */
int tt_radix_core(int n);

/*
 * A pipeline: step k of a slice shares a round with step k - 1 of the lane's next slice. Emitted
 * as a sliced algorithm whose "slices" are the lanes, each with its own pipeline. Its fn emits a
 * step of a slice (indexes are set if a slice has at most one message to and one from a peer).
 * tt_pipe_slot returns the scratch of a slice under way.
 */
struct tt_pipe {
	size_t slices; /* in all */
	int steps, lanes;
	size_t base, slot; /* of scratch, by tt_pipe: where it begins, bytes of a slot */
};

/*
 * max_ops: of a step. full: no slice is empty, and all slices of a lane have the same neighbours.
 * slots: of scratch, for each slice under way.
 */
void tt_pipe(struct tt_builder *b, tt_pipe_fn *fn, const struct tt_pipe *p, int max_ops, bool full,
	     size_t slots);
struct tt_ref tt_pipe_slot(const struct tt_pipe *p, size_t slice, size_t which);

#endif
