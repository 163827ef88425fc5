/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scan and exscan in the memory of one host.
 *
 * node_slots, for short vectors: all ranks copy their vectors into their slots and signal; each
 * combines the slots of the ranks up to itself (exscan: before itself), from the left to the right.
 *
 *	Cost: N bytes copied by each rank; one wait for all, except at rank 0; rank r reads r N.
 *
 * node_pull: every rank combines one part of the vector for all ranks, out of all inputs, and
 * stores it in their recvbufs: the last rank's result first, as in place it replaces an input that
 * only this result needs. Rank 0's result is its input, or none. An exscan of two ranks is a bcast.
 * In a scan of a short vector by two ranks that may read each other's memory, rank 1 reads all of
 * rank 0's input.
 *
 *	Cost: two waits for all. Rank r's result has r + 1 inputs (exscan: r), and each rank
 *	combines a part of it, so about (n + 1)/2 N bytes (exscan: (n - 1)/2 N) are read and N
 *	written by each rank; rank 0 copies its own vector. An exscan of two ranks: that of the
 *	bcast; a short scan: 2 N bytes read and N written by rank 1.
 */
#include "lib/coll/node/coll_node.h"

/* Up to here slots are faster where results are in ordinary memory. */
#define PULL_MORE_THAN 4096

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
		tt_pull_reduce_first(b, operands, a->rank, TT_RECVBUF(0), TT_SLOT(0), len);
}

bool tt_can_scan_node_pull(const struct tt_plan_args *a)
{
	return tt_can_node_ranks(a) &&
	       (a->count * a->elem > PULL_MORE_THAN || !tt_can_scan_node_slots(a));
}

/* Rank 0 has its result. */
static void by_one(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	if (a->coll == TT_COLL_EXSCAN) {
		tt_node_bcast(b, 0, tt_input(a));
	} else if (a->rank) {
		tt_node_combine(b);
	} else {
		tt_signal(b, 1, tt_input(a), TT_NONE);
		if (!a->in_place)
			tt_copy(b, TT_RECVBUF(0), TT_SENDBUF(0), a->count * a->elem);
		tt_node_lent(b);
	}
}

void tt_scan_node_pull(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span part = tt_node_part(a, a->rank);
	int inclusive = a->coll == TT_COLL_SCAN, r;

	if (!a->count)
		return;
	if (tt_node_by_one(a)) {
		by_one(b);
		return;
	}
	tt_signal(b, 1, tt_input(a), a->rank ? TT_RECVBUF(0) : TT_NONE);
	if (inclusive && !a->rank && !a->in_place)
		tt_copy(b, TT_RECVBUF(0), TT_SENDBUF(0), a->count * a->elem);
	tt_wait(b, TT_ALL_RANKS, 1);
	for (r = a->nranks - 1; r > 0; r--) {
		tt_round(b);
		tt_pull_reduce_first(b, r + inclusive, r, TT_RECVBUF(part.off),
				     TT_SENDBUF(part.off), part.len);
	}
	tt_meet(b, 2, TT_NONE, TT_NONE);
}
