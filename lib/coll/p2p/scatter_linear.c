/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scatter(v), linear: the root sends each rank its block, WIDTH of them at a time, starting with
 * the rank after it. Only the root needs the counts.
 *
 *	    ┌ ──> 1
 *	    0 ──> 2     slices of at most chunk bytes, slice i of a block in lane i % lanes
 *	    └ ──> 3
 *
 * Cost: every block but the root's is sent once, all by the root, in (n-1)/WIDTH steps a slice of
 * the longest block; fan-in 1.
 */
#include "lib/coll/coll.h"

#define WIDTH 8

static void take(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_slices(a, a->count * a->elem), i;
	struct tt_span s;

	for (i = 0; i < slices; i++) {
		s = tt_slice(a, tt_vector(a), slices, i);
		tt_lane(b, (int)(i % (size_t)a->lanes));
		tt_round(b);
		tt_recv(b, a->root, TT_RECVBUF(s.off), s.len);
	}
}

/* Slice i of all blocks that have one. */
static void give_slice(struct tt_builder *b, size_t i)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block, s;
	int k, n = a->nranks, peer, given = 0;
	size_t slices;

	for (k = 1; k < n; k++) {
		peer = (a->root + k) % n;
		block = tt_send_block(a, peer);
		slices = tt_num_slices(a, block.len);
		if (i >= slices)
			continue;
		if (given++ % WIDTH == 0)
			tt_round(b);
		s = tt_slice(a, block, slices, i);
		tt_send(b, peer, TT_SENDBUF(s.off), s.len);
	}
}

void tt_scatter_linear(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t i, slices;

	if (a->rank != a->root) {
		take(b);
		return;
	}
	slices = tt_num_slices(a, tt_longest(a, tt_send_block));
	for (i = 0; i < slices; i++) {
		tt_lane(b, (int)(i % (size_t)a->lanes));
		give_slice(b, i);
		if (!i && !a->in_place)
			tt_copy(b, TT_RECVBUF(0), TT_SENDBUF(tt_send_block(a, a->root).off),
				a->count * a->elem);
	}
}
