/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by algorithms for the ranks of one host. */
#ifndef TT_COLL_NODE_H
#define TT_COLL_NODE_H

#include "lib/plan/plan.h"

/* tt_node_by_one: the combining rank reads its peer's input and stores into its own recvbuf. */
void tt_node_combine(struct tt_builder *b);
/* The last ops of that peer, which has published its input. */
void tt_node_lent(struct tt_builder *b);
/* Whether the root of a bcast by node_pull stores a half of the vector. */
bool tt_bcast_in_halves(const struct tt_plan_args *a);
/* Whether the root of a gather copies the blocks, not the others. */
bool tt_gather_by_root(const struct tt_plan_args *a);
/* The root's vector to the recvbuf of all other ranks, as by a bcast. */
void tt_node_bcast(struct tt_builder *b, int root, struct tt_ref vector);

static inline unsigned tt_node_flags(const struct tt_plan_args *a)
{
	return a->divide ? TT_OPF_DIVIDE : 0;
}

/*
 * node_shares.c. A slot of blocks whose lengths only two ranks know: n lengths, then n equal shares
 * of the rest, in whole elements. A block that is longer than its share is read in the sender's
 * input, and the share tells where; of a gatherv it is stored at the root, whose slot tells where.
 *
 *	| length 0 .. length n-1 | share 0 | share 1 | .. | share n-1 |
 */
struct tt_shares {
	size_t begin, each; /* bytes */
};

struct tt_shares tt_node_shares_of(const struct tt_plan_args *a, int n);
/*
 * Tells the length of a block as number i, and copies the block to share i if it fits; else tells
 * its place in the input.
 */
void tt_node_offer(struct tt_builder *b, const struct tt_shares *s, int i, struct tt_ref block,
		   size_t len, size_t place);
/* Offers all blocks that this rank sends, by rank. Returns the input to be published. */
struct tt_ref tt_node_offer_all(struct tt_builder *b, const struct tt_shares *s);
/*
 * Tells the lengths of the blocks of all ranks that this rank receives, and where those longer than
 * so many bytes belong. Returns the result to be published.
 */
struct tt_ref tt_node_offer_places(struct tt_builder *b, size_t least);
/*
 * Stores a block of this rank where the peer has told that it belongs, in a round after
 * tt_node_expect. The rank owes the peer step 2.
 */
void tt_node_store(struct tt_builder *b, int peer, struct tt_ref block, size_t len);
/* Waits until the ranks with longer ones have made step 2. */
void tt_node_await_longer(struct tt_builder *b, const struct tt_shares *s);
/* The length that this rank expects of the block that a peer offers as number i. */
void tt_node_expect(struct tt_builder *b, int peer, int i, size_t len);
/*
 * Copies the block that a peer offers as number i, in a round after tt_node_expect, so that nothing
 * is written if the lengths differ. Returns whether it is longer than a share: the rank owes the
 * peer step 2.
 */
bool tt_node_take(struct tt_builder *b, const struct tt_shares *s, int peer, int i,
		  struct tt_ref dst, size_t len);

#endif
