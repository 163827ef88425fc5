/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather, with equal or unequal blocks, in the memory of one host.
 *
 * node_slots: all copy their blocks into their slots and signal; each copies the others' out.
 *
 *	Cost: one wait for all; a block copied in, all other blocks read and written.
 *
 * node_pull: each copies the others' blocks straight out of their inputs.
 *
 *	Cost: two waits for all; all other blocks read and written.
 */
#include "lib/coll/node/coll_node.h"

bool tt_can_allgather_node_slots(const struct tt_plan_args *a)
{
	int i;

	for (i = 0; i < a->nranks; i++)
		if (tt_recv_block(a, i).len > tt_slot_bytes(a))
			return false;
	return tt_can_node_ranks(a);
}

static bool is_empty(const struct tt_plan_args *a)
{
	int i;

	for (i = 0; i < a->nranks; i++)
		if (tt_recv_block(a, i).len)
			return false;
	return true;
}

/*
 * The others' blocks, each rank beginning with the next one's, so that they do not all read from
 * one.
 */
static void pull_blocks(struct tt_builder *b, struct tt_ref from)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span own = tt_recv_block(a, a->rank), s;
	int i, j;

	if (!a->in_place)
		tt_copy(b, TT_RECVBUF(own.off), TT_SENDBUF(0), own.len);
	for (i = 1; i < a->nranks; i++) {
		j = (a->rank + i) % a->nranks;
		s = tt_recv_block(a, j);
		tt_pull_copy(b, j, TT_RECVBUF(s.off), from, s.len);
	}
}

void tt_allgather_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	if (is_empty(a))
		return;
	tt_copy(b, TT_SLOT(0), tt_input(a), tt_recv_block(a, a->rank).len);
	tt_meet(b, 1, TT_NONE, TT_NONE);
	pull_blocks(b, TT_SLOT(0));
}

void tt_allgather_node_pull(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len;

	if (is_empty(a))
		return;
	len = tt_recv_block(a, a->rank).len;
	tt_signal_block(b, 1, tt_input(a), len);
	tt_wait(b, TT_ALL_RANKS, 1);
	pull_blocks(b, TT_SENDBUF(0));
	tt_signal(b, 2, TT_NONE, TT_NONE);
	if (len)
		tt_wait_release(b, TT_ALL_RANKS, 2);
}
