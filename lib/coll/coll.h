/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What algorithms share: cutting blocks into slices, messages longer than a chunk, and schedules of
 * slices in both forms of a plan.
 */
#ifndef TT_COLL_H
#define TT_COLL_H

#include "lib/plan/plan.h"

/* The elements of a message. */
static inline size_t tt_fit(const struct tt_plan_args *a)
{
	return a->chunk / a->elem;
}

/* Even pieces of at most fit elements that count elements are cut into. */
static inline size_t tt_num_slices(size_t count, size_t fit)
{
	return count / fit + (count % fit > 0);
}

/* Slice i of a block; the first ones are an element longer. */
static inline struct tt_span tt_slice(const struct tt_plan_args *a, struct tt_span block,
				      size_t slices, size_t i)
{
	size_t count = block.len / a->elem, q = count / slices, r = count % slices;

	return (struct tt_span){block.off + (q * i + (i < r ? i : r)) * a->elem,
				(q + (i < r)) * a->elem};
}

/* Slice i of the whole vector. */
static inline struct tt_span tt_vector_slice(const struct tt_plan_args *a, size_t slices, size_t i)
{
	return tt_slice(a, (struct tt_span){0, a->count * a->elem}, slices, i);
}

/* Lanes worth having for so many slices. */
static inline int tt_num_lanes(const struct tt_plan_args *a, size_t slices)
{
	return slices < (size_t)a->lanes ? (int)slices : a->lanes;
}

/* The elements of the longest block. */
size_t tt_longest(const struct tt_plan_args *a,
		  struct tt_span (*block)(const struct tt_plan_args *, int));

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

/*
 * A schedule: every slice takes the same steps, slice i in lane i % lanes. The lane's next slice begins
 * stride rounds after this one: steps runs them one after the other, 1 makes a pipeline in which step k of
 * a slice and step k - 1 of the next share a round.
 */
struct tt_sched {
	size_t slices;
	int lanes, steps, stride;
	int max_ops;	   /* of a step */
	uint32_t per_peer; /* messages of a slice to a peer, or from one; all slices have as many,
			    * and none is empty. 0: it isn't so, the plan is always stored */
	size_t state[2];   /* for the algorithm */
};

/*
 * The ops of a step; returns how many. op->index: the
 * how-manieth message of the slice to or from this peer, 0 if there is but one.
 */
typedef int tt_sched_step_fn(const struct tt_plan_args *a, const struct tt_sched *s, size_t slice,
		       int step, struct tt_op *ops);

#define TT_SCHED_MAX_OPS 32 /* most ops of a round: max_ops * steps / stride */

/* Emit the plan; gen calls tt_sched_generate with the same step. */
void tt_schedule(struct tt_builder *b, const struct tt_sched *s, tt_sched_step_fn *step, tt_gen_fn *gen);
int tt_sched_generate(const struct tt_plan *plan, int lane, int round, struct tt_op *ops,
		      tt_sched_step_fn *step);

/* A schedule's scratch: one of n slots of a chunk, for slices of one lane that are under way together. */
static inline struct tt_ref tt_slot(const struct tt_plan_args *a, const struct tt_sched *s,
				    size_t base, size_t slice, size_t n)
{
	size_t lane = slice % (size_t)s->lanes, nth = slice / (size_t)s->lanes;

	return TT_SCRATCH(base + (lane * n + nth % n) * a->chunk);
}

#endif
