/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter in the memory of one host.
 *
 * node_slots, for short vectors: all ranks copy their inputs into their slots and signal; each
 * combines its block of all slots.
 *
 *	Cost: n blocks copied by each rank; one wait for all; each reads n blocks and writes one.
 *
 * node_pull: every rank combines its block straight out of all inputs. In place the block's own
 * place, which no other rank reads, takes the result until all have read the rest, where its place
 * is; where those would overlap, as blocks differ, scratch does.
 *
 *	Cost: two waits for all; each rank reads n blocks and writes one, and in place copies that.
 */
#include "lib/coll/node/coll_node.h"

static size_t input_bytes(const struct tt_plan_args *a)
{
	size_t bytes = 0;
	int i;

	for (i = 0; i < a->nranks; i++)
		bytes += tt_send_block(a, i).len;
	return bytes;
}

bool tt_can_reduce_scatter_node_slots(const struct tt_plan_args *a)
{
	return tt_can_node_ranks(a) && input_bytes(a) <= tt_slot_bytes(a);
}

void tt_reduce_scatter_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block = tt_send_block(a, a->rank);
	size_t len = input_bytes(a);

	if (!len)
		return;
	tt_copy(b, TT_SLOT(0), tt_input(a), len);
	tt_meet(b, 1, TT_NONE, TT_NONE);
	tt_pull_reduce(b, a->rank, TT_RECVBUF(0), TT_SLOT(block.off), block.len, tt_node_flags(a));
}

void tt_reduce_scatter_node(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block = tt_send_block(a, a->rank);
	struct tt_ref result = TT_RECVBUF(0);

	if (!tt_send_bytes(a))
		return;
	if (a->in_place && block.off)
		result = block.off >= block.len ? TT_RECVBUF(block.off)
						: TT_SCRATCH(tt_scratch(b, block.len));
	tt_meet(b, 1, tt_input(a), TT_NONE);
	tt_pull_reduce(b, a->rank, result, TT_SENDBUF(block.off), block.len, tt_node_flags(a));
	tt_meet(b, 2, TT_NONE, TT_NONE);
	if (a->in_place && block.off)
		tt_copy(b, TT_RECVBUF(0), result, block.len);
}
