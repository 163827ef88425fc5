/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the sum of a reduce-scatter is kept, and how it gets to the front of recvbuf in place.
 *
 * Out of place: in recvbuf. In place: where the rank's own block is, as the front of recvbuf is
 * block 0, which may not have been sent yet. All blocks of the block form have slices alike, so
 * the sum of a slice moves to the front as soon as the slice is through (tt_rs_slice_end); in the
 * v form it moves when all are (tt_rs_end), which takes one lane.
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
