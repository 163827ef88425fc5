/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-allv in the memory of one host, node_slots: as all-to-all by node_slots, but only the two
 * ranks of a pair know how long a block is. So every rank has an equal share of each other's slot,
 * and takes short blocks from there. Longer ones it reads straight out of the sender's input; the
 * share tells where:
 *
 *	slot of rank r:   | length of the block for 0, 1 .. n-1 | for 0 | for 1 | .. | for n-1 |
 *
 * A rank compares the length that its peer tells with the one that it expects, also of blocks that
 * are empty, before anything is taken. In place longer blocks are copied aside first, as they are
 * overwritten while others still want them.
 *
 *	Cost: n lengths and short blocks copied by each rank; one wait for all; n-1 blocks read and
 *	written by each. A rank with longer blocks waits for the ranks that read them.
 */
#include "lib/coll/node/coll_node.h"

/*
 * Each rank begins with the next one's, so that they do not all read from one. Returns whether any
 * block was longer than a share.
 */
static bool take_blocks(struct tt_builder *b, const struct tt_shares *s)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block;
	bool longer = false;
	int i, j;

	for (j = 0; j < a->nranks; j++)
		if (j != a->rank)
			tt_node_expect(b, j, a->rank, tt_recv_block(a, j).len);
	tt_round(b);
	for (i = 1; i < a->nranks; i++) {
		j = (a->rank + i) % a->nranks;
		block = tt_recv_block(a, j);
		longer |= tt_node_take(b, s, j, a->rank, TT_RECVBUF(block.off), block.len);
	}
	return longer;
}

void tt_alltoallv_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_shares s = tt_node_shares_of(a, a->nranks);
	struct tt_span own = tt_recv_block(a, a->rank);

	tt_meet(b, 1, tt_node_offer_all(b, &s), TT_NONE);
	if (!a->in_place)
		tt_copy(b, TT_RECVBUF(own.off), TT_SENDBUF(tt_send_block(a, a->rank).off), own.len);
	if (take_blocks(b, &s))
		tt_signal(b, 2, TT_NONE, TT_NONE);
	tt_node_await_longer(b, &s);
}
