/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather and scatter in the memory of one host: the receiver copies straight out of the sender.
 *
 *	Cost of the gather: two signals; the root waits for all and reads n-1 blocks, the others
 *	wait for the root. By node_slots the others have copied their blocks into their slots, and
 *	do not wait. Cost of the scatter: two signals; each reads its block, the root waits for
 *	all. By node_slots the root has copied the others' blocks into its slot, and does not wait.
 */
#include "lib/coll/node/coll_node.h"

bool tt_can_gather_node_slots(const struct tt_plan_args *a)
{
	return tt_can_node_ranks(a) && a->count * a->elem <= tt_slot_bytes(a);
}

static void pull_blocks(struct tt_builder *b, struct tt_ref from)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;
	int i;

	for (i = 0; i < a->nranks; i++) {
		struct tt_ref dst = TT_RECVBUF(tt_recv_block(a, i).off);

		if (i != a->root)
			tt_pull_copy(b, i, dst, from, len);
		else if (!a->in_place)
			tt_copy(b, dst, TT_SENDBUF(0), len);
	}
}

void tt_gather_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	if (!a->count)
		return;
	if (a->rank != a->root)
		tt_copy(b, TT_SLOT(0), tt_input(a), a->count * a->elem);
	tt_signal(b, 1, TT_NONE, TT_NONE);
	if (a->rank != a->root)
		return;
	tt_wait(b, TT_ALL_RANKS, 1);
	pull_blocks(b, TT_SLOT(0));
}

void tt_gather_node_pull(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	if (!a->count)
		return;
	if (a->rank != a->root) {
		tt_signal(b, 1, tt_input(a), TT_NONE);
		tt_wait_release(b, a->root, 2);
		return;
	}
	tt_meet(b, 1, TT_NONE, TT_NONE);
	pull_blocks(b, TT_SENDBUF(0));
	tt_signal(b, 2, TT_NONE, TT_NONE);
}

bool tt_can_scatter_node_slots(const struct tt_plan_args *a)
{
	return tt_can_node_ranks(a) &&
	       a->count * a->elem <= tt_slot_bytes(a) / ((size_t)a->nranks - 1);
}

void tt_scatter_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, off = (size_t)a->rank * len;
	size_t root = (size_t)a->root, n = (size_t)a->nranks;

	if (!len)
		return;
	if (a->rank != a->root) {
		tt_wait(b, a->root, 1);
		tt_pull_copy(b, a->root, TT_RECVBUF(0),
			     TT_SLOT(a->rank < a->root ? off : off - len), len);
		return;
	}
	/* without its own block */
	tt_copy(b, TT_SLOT(0), TT_SENDBUF(0), root * len);
	tt_copy(b, TT_SLOT(root * len), TT_SENDBUF((root + 1) * len), (n - 1 - root) * len);
	tt_signal(b, 1, TT_NONE, TT_NONE);
	if (!a->in_place)
		tt_copy(b, TT_RECVBUF(0), TT_SENDBUF(off), len);
}

void tt_scatter_node_pull(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, off = (size_t)a->rank * len;
	size_t first = a->root ? 0 : len; /* of those that others read */

	if (!len)
		return;
	if (a->rank != a->root) {
		tt_wait(b, a->root, 1);
		tt_pull_copy(b, a->root, TT_RECVBUF(0), TT_SENDBUF(off - first), len);
		tt_signal(b, 2, TT_NONE, TT_NONE);
		return;
	}
	tt_signal(b, 1, TT_SENDBUF(first), TT_NONE);
	if (!a->in_place)
		tt_copy(b, TT_RECVBUF(0), TT_SENDBUF(off), len);
	tt_signal(b, 2, TT_NONE, TT_NONE);
	tt_wait_release(b, TT_ALL_RANKS, 2);
}
