/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-allv in the memory of one host, node_slots: as all-to-all by node_slots, but only the two
 * ranks of a pair know how long a block is. So every rank has an equal share of each other's slot,
 * takes short blocks from there, and gets longer ones as messages:
 *
 *	slot of rank r:   | length of the block for 0, 1 .. n-1 | for 0 | for 1 | .. | for n-1 |
 *
 * A rank compares the length that its peer tells with the one that it expects, also of blocks that
 * are empty or come as messages, before anything is taken.
 *
 *	Cost: n lengths and short blocks copied by each rank; one wait for all; n-1 read and
 *	written by each; longer blocks as linear.
 */
#include "lib/coll/coll.h"
#include "lib/coll/node/coll_node.h"

static void fill_slot(struct tt_builder *b, const struct tt_shares *s)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block;
	int j;

	for (j = 0; j < a->nranks; j++) {
		if (j == a->rank)
			continue;
		block = tt_send_block(a, j);
		tt_node_offer(b, s, j, TT_SENDBUF(block.off), block.len);
	}
}

/* Each rank begins with the next one's, so that they do not all read from one. */
static void empty_slots(struct tt_builder *b, const struct tt_shares *s)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block;
	int i, j;

	for (i = 1; i < a->nranks; i++) {
		j = (a->rank + i) % a->nranks;
		block = tt_recv_block(a, j);
		tt_node_take(b, s, j, a->rank, TT_RECVBUF(block.off), block.len);
	}
}

void tt_alltoallv_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_shares s = tt_node_shares_of(a, a->nranks);
	struct tt_span own = tt_recv_block(a, a->rank);

	fill_slot(b, &s);
	tt_signal(b, 1, TT_NONE, TT_NONE);
	tt_wait(b, TT_ALL_RANKS, 1);
	if (!a->in_place)
		tt_copy(b, TT_RECVBUF(own.off), TT_SENDBUF(tt_send_block(a, a->rank).off), own.len);
	empty_slots(b, &s);
	tt_round(b);
	tt_alltoall_longer(b, s.each);
}
