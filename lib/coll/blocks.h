/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of several blocks of an all-gather, gather or scatter.
 *
 * Blocks of the block form that are not cut into slices and follow one another in memory go
 * together, in as few messages as chunks allow; otherwise each block has a message of its own.
 * Both ends of a message decide alike, from the form, the number of slices, and whether the run
 * goes past block n - 1 to block 0.
 */
#ifndef TT_BLOCKS_H
#define TT_BLOCKS_H

#include "lib/coll/coll.h"

struct tt_blocks {
	size_t slices, slice;
	struct tt_span (*of)(const struct tt_plan_args *, int); /* of the user's buffer */
	enum tt_buf buf;
	/* or packed in scratch, block packed_first being the first one there; -1: not packed */
	int packed_first;
	size_t packed;
};

/* A slice of block i (mod n). */
struct tt_ref tt_block_ref(const struct tt_plan_args *a, const struct tt_blocks *s, int i,
			   size_t *len);
/* Blocks first up to first + n - 1 (mod nranks), to or from peer. */
void tt_send_blocks(struct tt_builder *b, const struct tt_blocks *s, int peer, int first, int n);
void tt_recv_blocks(struct tt_builder *b, const struct tt_blocks *s, int peer, int first, int n);

#endif
