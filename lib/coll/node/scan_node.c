/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scan and exscan in the memory of one host, for short vectors: all ranks copy their vectors into
 * their slots and signal; each combines the slots of the ranks up to itself (exscan: before
 * itself), from the left to the right.
 *
 *	Cost: N bytes copied by each rank; one wait for all, except at rank 0; rank r reads r N.
 */
#include "lib/coll/node/coll_node.h"

bool tt_can_scan_node_slots(const struct tt_plan_args *a)
{
	return tt_can_node_ranks(a) && a->count * a->elem <= tt_slot_bytes(a);
}

void tt_scan_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int operands = a->coll == TT_COLL_SCAN ? a->rank + 1 : a->rank;
	size_t len = a->count * a->elem;

	if (!len)
		return;
	tt_copy(b, TT_SLOT(0), tt_input(a), len);
	tt_signal(b, 1, TT_NONE, TT_NONE);
	if (!a->rank) { /* no rank comes before it; an exscan leaves its result alone */
		if (operands && !a->in_place)
			tt_copy(b, TT_RECVBUF(0), TT_SENDBUF(0), len);
		return;
	}
	tt_wait(b, TT_ALL_RANKS, 1);
	if (operands == 1)
		tt_pull_copy(b, 0, TT_RECVBUF(0), TT_SLOT(0), len);
	else
		tt_pull_reduce_first(b, operands, TT_RECVBUF(0), TT_SLOT(0), len);
}
