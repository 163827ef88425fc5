/* SPDX-License-Identifier: BSD-3-Clause */
/* The place of the sum of a reduce-scatter, see reduce_scatter.h. */
#include "lib/coll/p2p/reduce_scatter.h"

static bool moves_late(const struct tt_plan_args *a)
{
	return a->in_place && a->coll == TT_COLL_REDUCE_SCATTER;
}

int tt_rs_lanes(const struct tt_plan_args *a, size_t slices)
{
	return moves_late(a) && slices ? 1 : tt_num_lanes(a, slices);
}

void tt_rs_slice_end(struct tt_builder *b, struct tt_span s)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	if (a->in_place && a->rank && !moves_late(a))
		tt_copy(b, TT_RECVBUF(s.off - tt_send_block(a, a->rank).off), TT_RECVBUF(s.off),
			s.len);
}

/* Through scratch if the block overlaps its new place. */
void tt_rs_end(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block = tt_send_block(a, a->rank);
	size_t base, off, len;

	if (!moves_late(a) || !block.off || !block.len)
		return;
	tt_round(b);
	if (block.off >= block.len) {
		tt_copy(b, TT_RECVBUF(0), TT_RECVBUF(block.off), block.len);
		return;
	}
	base = tt_slice_slots(b, 1, block.len, &len);
	for (off = 0; off < block.len; off += len) {
		len = block.len - off < a->chunk ? block.len - off : a->chunk;
		tt_copy(b, TT_SCRATCH(base), TT_RECVBUF(block.off + off), len);
		tt_round(b);
		tt_copy(b, TT_RECVBUF(off), TT_SCRATCH(base), len);
		tt_round(b);
	}
}
