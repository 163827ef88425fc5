/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather(v), linear: every rank sends its block straight to the root, which receives from WIDTH
 * ranks at a time, starting with the rank after it. Only the root needs the counts.
 *
 *	1 ──> ┐
 *	2 ──> 0     slices of at most chunk bytes, slice i of a block in lane i % lanes
 *	3 ──> ┘
 *
 * Cost: every rank but the root sends its block once; the root has (n-1)/WIDTH steps a slice of
 * the longest block; fan-in WIDTH.
 */
#include "lib/coll/coll.h"

#define WIDTH 8

static void give(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_slices(a, a->count * a->elem), i;
	struct tt_ref in = tt_input(a);
	struct tt_span s;

	for (i = 0; i < slices; i++) {
		s = tt_slice(a, tt_vector(a), slices, i);
		tt_lane(b, (int)(i % (size_t)a->lanes));
		tt_round(b);
		tt_send(b, a->root, (struct tt_ref){in.buf, in.off + s.off}, s.len);
	}
}

/* Slice i of all blocks that have one. */
static void take_slice(struct tt_builder *b, size_t i)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block, s;
	int k, n = a->nranks, peer, taken = 0;
	size_t slices;

	for (k = 1; k < n; k++) {
		peer = (a->root + k) % n;
		block = tt_recv_block(a, peer);
		slices = tt_num_slices(a, block.len);
		if (i >= slices)
			continue;
		if (taken++ % WIDTH == 0)
			tt_round(b);
		s = tt_slice(a, block, slices, i);
		tt_recv(b, peer, TT_RECVBUF(s.off), s.len);
	}
}

void tt_gather_linear(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t i, slices;

	if (a->rank != a->root) {
		give(b);
		return;
	}
	slices = tt_num_slices(a, tt_longest(a, tt_recv_block));
	for (i = 0; i < slices; i++) {
		tt_lane(b, (int)(i % (size_t)a->lanes));
		take_slice(b, i);
		if (!i && !a->in_place)
			tt_copy(b, TT_RECVBUF(tt_recv_block(a, a->root).off), TT_SENDBUF(0),
				a->count * a->elem);
	}
}
