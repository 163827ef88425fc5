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

struct work {
	struct tt_builder *b;
	const struct tt_plan_args *a;
};

static bool gathers(const struct tt_plan_args *a)
{
	return a->coll == TT_COLL_GATHER || a->coll == TT_COLL_GATHERV;
}

/* This rank's own block, which is not the root's. */
static void own_block(const struct work *w)
{
	const struct tt_plan_args *a = w->a;
	size_t slices = tt_num_slices(a, tt_vector(a).len), i;
	struct tt_ref in = tt_input(a);
	struct tt_span s;

	for (i = 0; i < slices; i++) {
		s = tt_slice(a, tt_vector(a), slices, i);
		tt_lane(w->b, (int)(i % (size_t)a->lanes));
		tt_round(w->b);
		if (gathers(a))
			tt_send(w->b, a->root, (struct tt_ref){in.buf, in.off + s.off}, s.len);
		else
			tt_recv(w->b, a->root, TT_RECVBUF(s.off), s.len);
	}
}

static struct tt_span block_of(const struct tt_plan_args *a, int rank)
{
	return gathers(a) ? tt_recv_block(a, rank) : tt_send_block(a, rank);
}

/* At the root: slice i of all blocks that have one. */
static void all_blocks(const struct work *w, size_t i)
{
	const struct tt_plan_args *a = w->a;
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
			tt_round(w->b);
		s = tt_slice(a, block, slices, i);
		if (gathers(a))
			tt_recv(w->b, peer, TT_RECVBUF(s.off), s.len);
		else
			tt_send(w->b, peer, TT_SENDBUF(s.off), s.len);
	}
}

/* The most slices of another rank's block. */
static size_t most_slices(const struct work *w)
{
	size_t most = 0, slices;
	int i;

	for (i = 0; i < w->a->nranks; i++) {
		slices = i != w->a->root ? tt_num_slices(w->a, block_of(w->a, i).len) : 0;
		most = slices > most ? slices : most;
	}
	return most;
}

/* At the root, whose own block moves beside the first slices of the others. */
static void move_all(const struct work *w)
{
	const struct tt_plan_args *a = w->a;
	size_t slices = most_slices(w), at = block_of(a, a->root).off, i;
	bool own = !a->in_place;

	for (i = 0; i < slices || (own && !i); i++) {
		tt_lane(w->b, (int)(i % (size_t)a->lanes));
		all_blocks(w, i);
		if (own && !i)
			tt_copy(w->b, TT_RECVBUF(gathers(a) ? at : 0),
				TT_SENDBUF(gathers(a) ? 0 : at), a->count * a->elem);
	}
}

void tt_gather_scatter_linear(struct tt_builder *b)
{
	struct work w = {b, tt_builder_args(b)};

	if (w.a->rank == w.a->root)
		move_all(&w);
	else
		own_block(&w);
}
