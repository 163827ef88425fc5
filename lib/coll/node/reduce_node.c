/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce in the memory of one host; see allreduce_node.c, of which these are the parts that the
 * root needs.
 *
 * node_slots: all copy their vectors into their slots and signal; the root combines them, the
 * others are done.
 *
 *	Cost: N bytes copied by each rank; one wait at the root, and n N bytes read by it.
 *
 * node_pull: every rank combines its part out of all inputs and stores it in the root's recvbuf.
 *
 *	Cost: two waits for all; N bytes read and N/n written by each rank, nothing copied.
 *
 * A short vector of two ranks that may read each other's memory is combined by the root alone.
 *
 *	Cost: one wait for both; 2 N bytes read and N written by the root.
 */
#include "lib/coll/node/coll_node.h"

void tt_reduce_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;

	if (!len)
		return;
	tt_copy(b, TT_SLOT(0), tt_input(a), len);
	tt_signal(b, 1, TT_NONE, TT_NONE);
	if (a->rank != a->root)
		return;
	tt_wait(b, TT_ALL_RANKS, 1);
	tt_pull_reduce(b, a->rank, TT_RECVBUF(0), TT_SLOT(0), len, tt_node_flags(a));
}

void tt_node_combine(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	tt_wait(b, !a->rank, 1);
	tt_pull_combine(b, TT_RECVBUF(0), TT_SENDBUF(0), tt_input(a), a->count * a->elem,
			tt_node_flags(a));
	tt_signal(b, 2, TT_NONE, TT_NONE);
}

void tt_node_lent(struct tt_builder *b)
{
	tt_signal(b, 2, TT_NONE, TT_NONE);
	tt_wait_release(b, TT_ALL_RANKS, 2);
}

void tt_reduce_node_pull(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span part = tt_node_part(a, a->rank);

	if (!a->count)
		return;
	if (tt_node_by_one(a)) {
		if (a->rank == a->root) {
			tt_node_combine(b);
		} else {
			tt_signal(b, 1, tt_input(a), TT_NONE);
			tt_node_lent(b);
		}
		return;
	}
	tt_meet(b, 1, tt_input(a), a->rank == a->root ? TT_RECVBUF(0) : TT_NONE);
	tt_pull_reduce(b, a->root, TT_RECVBUF(part.off), TT_SENDBUF(part.off), part.len,
		       tt_node_flags(a));
	tt_meet(b, 2, TT_NONE, TT_NONE);
}
