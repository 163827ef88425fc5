/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gather(v) and scatter(v), linear: blocks go straight between their ranks and the root, which
 * receives or sends WIDTH of them at a time, starting with that of the rank after it. Only the root
 * needs the counts.
 *
 *	gather   1 ──> ┐       scatter   ┌ ──> 1
 *	         2 ──> 0                 0 ──> 2     slices of at most chunk bytes,
 *	         3 ──> ┘                 └ ──> 3     slice i of a block in lane i % lanes
 *
 * Cost: every block but the root's is sent once; the root has (n-1)/WIDTH steps a slice of the
 * longest block; fan-in WIDTH for a gather, 1 for a scatter.
 */
#include "lib/coll/coll.h"

#define WIDTH 8

static bool gathers(const struct tt_plan_args *a)
{
	return a->coll == TT_COLL_GATHER || a->coll == TT_COLL_GATHERV;
}

/* This rank's own block, which is not the root's. */
static void own_block(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_slices(a, a->count * a->elem), i;
	struct tt_ref in = tt_input(a);
	struct tt_span s;

	for (i = 0; i < slices; i++) {
		s = tt_slice(a, tt_vector(a), slices, i);
		tt_lane(b, (int)(i % (size_t)a->lanes));
		tt_round(b);
		if (gathers(a))
			tt_send(b, a->root, (struct tt_ref){in.buf, in.off + s.off}, s.len);
		else
			tt_recv(b, a->root, TT_RECVBUF(s.off), s.len);
	}
}

static struct tt_span block_of(const struct tt_plan_args *a, int rank)
{
	return gathers(a) ? tt_recv_block(a, rank) : tt_send_block(a, rank);
}

/* At the root: slice i of all blocks that have one. */
static void all_blocks(struct tt_builder *b, size_t i)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block, s;
	int k, n = a->nranks, peer, ops = 0;
	size_t slices;

	for (k = 1; k < n; k++) {
		peer = (a->root + k) % n;
		block = block_of(a, peer);
		slices = tt_num_slices(a, block.len);
		if (i >= slices)
			continue;
		if (ops++ % WIDTH == 0)
			tt_round(b);
		s = tt_slice(a, block, slices, i);
		if (gathers(a))
			tt_recv(b, peer, TT_RECVBUF(s.off), s.len);
		else
			tt_send(b, peer, TT_SENDBUF(s.off), s.len);
	}
}

void tt_gather_scatter_linear(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t i, slices, own;

	if (a->rank != a->root) {
		own_block(b);
		return;
	}
	own = block_of(a, a->root).off;
	slices = tt_num_slices(a, tt_longest(a, gathers(a) ? tt_recv_block : tt_send_block));
	for (i = 0; i < slices; i++) {
		tt_lane(b, (int)(i % (size_t)a->lanes));
		all_blocks(b, i);
		if (!i && !a->in_place)
			tt_copy(b, TT_RECVBUF(gathers(a) ? own : 0),
				TT_SENDBUF(gathers(a) ? 0 : own), a->count * a->elem);
	}
}
