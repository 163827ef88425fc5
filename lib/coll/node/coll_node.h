/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by algorithms for the ranks of one host. */
#ifndef TT_COLL_NODE_H
#define TT_COLL_NODE_H

#include "lib/plan/plan.h"

/* Whether the root of a bcast by node_pull stores a half of the vector. */
bool tt_bcast_in_halves(const struct tt_plan_args *a);

static inline unsigned tt_node_flags(const struct tt_plan_args *a)
{
	return a->divide ? TT_OPF_DIVIDE : 0;
}

/*
 * A slot of blocks whose lengths only two ranks know: n lengths, then n equal shares of the rest,
 * in whole elements. A block that is longer than a share comes as messages.
 *
 *	| length 0 .. length n-1 | share 0 | share 1 | .. | share n-1 |
 */
struct tt_shares {
	size_t begin, each; /* bytes */
};

static inline struct tt_shares tt_node_shares_of(const struct tt_plan_args *a, int n)
{
	size_t lengths = (size_t)n * TT_LENGTH_BYTES, slot = tt_slot_bytes(a);
	size_t begin = (lengths + a->elem - 1) / a->elem * a->elem;
	size_t room = begin < slot ? (slot - begin) / (size_t)n : 0;

	return (struct tt_shares){begin, room - room % a->elem};
}

static inline struct tt_ref tt_node_share(const struct tt_shares *s, int i)
{
	return TT_SLOT(s->begin + (size_t)i * s->each);
}

static inline struct tt_ref tt_node_length(int i)
{
	return TT_SLOT((size_t)i * TT_LENGTH_BYTES);
}

/* Tells the length of a block, and copies the block to share i if it fits. */
static inline void tt_node_offer(struct tt_builder *b, const struct tt_shares *s, int i,
				 struct tt_ref block, size_t len)
{
	tt_tell_length(b, tt_node_length(i), len);
	if (len <= s->each)
		tt_copy(b, tt_node_share(s, i), block, len);
}

/* The block that a peer offers in share i of its slot, of the length that this rank expects. */
static inline void tt_node_take(struct tt_builder *b, const struct tt_shares *s, int peer, int i,
				struct tt_ref dst, size_t len)
{
	tt_expect_length(b, peer, tt_node_length(i), len);
	if (len <= s->each)
		tt_pull_copy(b, peer, dst, tt_node_share(s, i), len);
}

#endif
