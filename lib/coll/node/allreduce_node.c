/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce in the memory of one host.
 *
 * node_slots, for short vectors: every rank copies its vector into its slot and signals, then
 * combines all ranks' slots into its own recvbuf. No rank waits at the end: slots exist twice, see
 * lib/node/node.h.
 *
 *	Cost: one copy of N bytes, one wait for all, n N bytes read, of which (n-1) N are other
 *	ranks'.
 *
 * node_pull, for long ones: every rank signals where its buffers are, combines its part of the
 * vector straight out of all ranks' inputs and stores it in all ranks' recvbufs; a second signal
 * says that it is done. This is right in place, too: no other rank touches the part, and of an
 * element all inputs are read before any result is written.
 *
 *	Cost: two waits for all; N bytes read and N written by each rank, and nothing copied: every
 *	input is read once and every result written once, which no algorithm can do without.
 *
 * Both combine all elements in order of rank, so they serve any operator, and give the same bits.
 */
#include "lib/coll/node/coll_node.h"

bool tt_can_node_slots(const struct tt_plan_args *a)
{
	return tt_can_node_ranks(a) && a->count * a->elem <= tt_slot_bytes(a);
}

void tt_allreduce_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;

	if (!len)
		return;
	tt_copy(b, TT_SLOT(0), tt_input(a), len);
	tt_meet(b, 1, TT_NONE, TT_NONE);
	tt_pull_reduce(b, a->rank, TT_RECVBUF(0), TT_SLOT(0), len, tt_node_flags(a));
}

void tt_allreduce_node_pull(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span part = tt_node_part(a, a->rank);

	if (!a->count)
		return;
	tt_meet(b, 1, tt_input(a), TT_RECVBUF(0));
	tt_pull_reduce(b, TT_ALL_RANKS, TT_RECVBUF(part.off), TT_SENDBUF(part.off), part.len,
		       tt_node_flags(a));
	tt_meet(b, 2, TT_NONE, TT_NONE);
}
