/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather and scatter in the memory of one host.
 *
 * Gather, node_slots: the others copy their blocks into their slots; the root reads them there.
 *
 *	Cost: one signal; the root waits for all and reads n-1 blocks.
 *
 * Gather, node_pull: when the root has come, the others store their blocks in its recvbuf, all at
 * the same time. Where they cannot reach ordinary memory there, the root reads their blocks; so it
 * does with a block that fits a slot of one other rank, which then costs no call to the kernel.
 *
 * The other one of two ranks may instead stream its block to the root, as the root of a bcast does.
 *
 *	Cost: two signals; each stores its block, and the root copies its own and waits for all.
 *
 * Scatter, node_slots: the root copies the others' blocks into its slot; they read them there.
 *
 *	Cost: one signal; n-1 blocks copied by the root, one read by each other rank.
 *
 * Scatter, node_pull: the others copy their blocks straight out of the root's sendbuf.
 *
 *	Cost: two signals; each reads its block, the root copies its own and waits for all.
 */
#include "lib/coll/node/coll_node.h"

bool tt_can_gather_node_slots(const struct tt_plan_args *a)
{
	return tt_can_node_ranks(a) && a->count * a->elem <= tt_slot_bytes(a);
}

/* Its own last: a short call that cannot pull at once begins again, as a request. */
static void pull_blocks(struct tt_builder *b, struct tt_ref from)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;
	int i;

	for (i = 0; i < a->nranks; i++)
		if (i != a->root)
			tt_pull_copy(b, i, TT_RECVBUF(tt_recv_block(a, i).off), from, len);
	if (!a->in_place)
		tt_copy(b, TT_RECVBUF(tt_recv_block(a, a->root).off), TT_SENDBUF(0), len);
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

bool tt_gather_by_root(const struct tt_plan_args *a)
{
	return !a->direct || (a->nranks == 2 && a->count * a->elem <= tt_slot_bytes(a));
}

static void gather_by_root(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	if (a->rank != a->root) {
		tt_signal(b, 1, tt_input(a), TT_NONE);
		tt_wait_release(b, a->root, 2);
		return;
	}
	tt_meet(b, 1, TT_NONE, TT_NONE);
	pull_blocks(b, TT_SENDBUF(0));
	tt_signal(b, 2, TT_NONE, TT_NONE);
}

/* All at the same time, while the root copies its own. */
static void gather_by_all(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_ref place = TT_RECVBUF(tt_recv_block(a, a->rank).off);
	size_t len = a->count * a->elem;
	bool two = a->nranks == 2; /* the other one may stream its block */

	if (a->rank != a->root) {
		if (two)
			tt_signal(b, 1, tt_input(a), TT_NONE);
		tt_wait(b, a->root, 1);
		if (two)
			tt_push_else(b, a->root, place, tt_input(a), len);
		else
			tt_push(b, a->root, place, tt_input(a), len);
		tt_signal(b, 2, TT_NONE, TT_NONE);
		if (two)
			tt_wait_release(b, a->root, 2);
		return;
	}
	tt_signal(b, 1, TT_NONE, TT_RECVBUF(0));
	if (!a->in_place)
		tt_copy(b, place, tt_input(a), len);
	if (two) {
		tt_wait(b, !a->root, 1);
		tt_pull_copy_if(b, TT_OPF_STREAMED, !a->root,
				TT_RECVBUF(tt_recv_block(a, !a->root).off), TT_SENDBUF(0), len);
	}
	tt_signal(b, 2, TT_NONE, TT_NONE);
	tt_wait(b, TT_ALL_RANKS, 2);
}

void tt_gather_node_pull(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	if (!a->count)
		return;
	if (tt_gather_by_root(a))
		gather_by_root(b);
	else
		gather_by_all(b);
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
