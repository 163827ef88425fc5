/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all in the memory of one host.
 *
 * node_slots, for short blocks: all ranks copy their inputs into their slots and signal; each
 * copies its blocks out of the others' slots.
 *
 *	Cost: n blocks copied by each rank; one wait for all; n-1 blocks read and written by each.
 *
 * node_pull: each rank copies its blocks straight out of the others' inputs.
 * In place the input is copied aside first, as its blocks are overwritten while others still want
 * them.
 *
 *	Cost: two waits for all; n-1 blocks read and written by each rank, n more copied in place.
 */
#include "lib/coll/node/coll_node.h"

bool tt_can_alltoall_node_slots(const struct tt_plan_args *a)
{
	return tt_can_node_ranks(a) && a->count * a->elem <= tt_slot_bytes(a) / (size_t)a->nranks;
}

/* Each rank begins with the next one's, so that they do not all read from one. */
static void pull_blocks(struct tt_builder *b, struct tt_ref from)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;
	int i, j;

	for (i = 1; i < a->nranks; i++) {
		j = (a->rank + i) % a->nranks;
		tt_pull_copy(b, j, TT_RECVBUF((size_t)j * len), from, len);
	}
}

void tt_alltoall_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, own = (size_t)a->rank * len;

	if (!len)
		return;
	tt_copy(b, TT_SLOT(0), tt_input(a), (size_t)a->nranks * len);
	tt_meet(b, 1, TT_NONE, TT_NONE);
	if (!a->in_place)
		tt_copy(b, TT_RECVBUF(own), TT_SENDBUF(own), len);
	pull_blocks(b, TT_SLOT(own));
}

void tt_alltoall_node(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, own = (size_t)a->rank * len;
	struct tt_ref input = TT_SENDBUF(0);

	if (!len)
		return;
	if (a->in_place) {
		input = TT_SCRATCH(tt_scratch(b, (size_t)a->nranks * len));
		tt_copy(b, input, TT_RECVBUF(0), (size_t)a->nranks * len);
	} else {
		tt_copy(b, TT_RECVBUF(own), TT_SENDBUF(own), len);
	}
	if (a->nranks == 2) { /* the block that goes away, alone */
		input.off += len - own;
		tt_signal_block(b, 1, input, len);
		tt_wait(b, TT_ALL_RANKS, 1);
	} else {
		tt_meet(b, 1, input, TT_NONE);
	}
	pull_blocks(b, TT_SENDBUF(a->nranks == 2 ? 0 : own));
	tt_signal(b, 2, TT_NONE, TT_NONE);
	tt_wait_release(b, TT_ALL_RANKS, 2);
}
