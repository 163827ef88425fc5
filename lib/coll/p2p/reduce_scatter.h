/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The place of the sum of a reduce-scatter, and how in place it moves to the front of recvbuf.
 *
 * Out of place: in recvbuf. In place: in the place of the rank's own block, because the front of
 * recvbuf is block 0, which may not have been sent yet. All blocks of the block form have equal
 * slices, so the sum of a slice moves to the front when the slice is complete (tt_rs_slice_end);
 * in the v form all slices move at the end (tt_rs_end), which requires one lane.
 */
#ifndef TT_REDUCE_SCATTER_H
#define TT_REDUCE_SCATTER_H

#include "lib/coll/coll.h"

/* The sum of slice s of this rank's block. */
static inline struct tt_ref tt_rs_sum(const struct tt_plan_args *a, struct tt_span s)
{
	return TT_RECVBUF(a->in_place ? s.off : s.off - tt_send_block(a, a->rank).off);
}

int tt_rs_lanes(const struct tt_plan_args *a, size_t slices);
void tt_rs_slice_end(struct tt_builder *b, struct tt_span s);
void tt_rs_end(struct tt_builder *b);

#endif
