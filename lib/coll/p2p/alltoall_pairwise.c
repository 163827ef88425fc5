/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all(v), pairwise and linear: every block goes straight from its sender to its receiver.
 *
 *	step k = 1 .. n-1:   r ──> r+k      r-k ──> r      (mod n)
 *
 * Pairwise does one k in a round, so that every rank sends to one and receives from one at a
 * time; linear does WIDTH of them, which hides latency and trusts the network with the
 * congestion.
 *
 * In place a block that comes must not overwrite the one that goes to the same rank: in step k
 * rank r meets rank k - r (mod n), and both first copy the block that goes away into a slot of
 * scratch.
 *
 * Counts differ from pair to pair in the v form, and no third rank knows them: a pair cuts its
 * block into its own slices of at most chunk bytes, slice i in lane i % lanes.
 *
 * Cost, blocks of N bytes: (n-1)N sent and received by every rank, n - 1 steps (in place n) a
 * slice; linear (n-1)/WIDTH, fan-in WIDTH.
 *
 * Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH.
 * Int. J. High Perform. Comput. Appl. 19(1), 2005.
 */
#include "lib/coll/coll.h"

#define WIDTH 8

struct work {
	struct tt_builder *b;
	const struct tt_plan_args *a;
};

/* Slice i of the block to one rank and of the block from another, if they have one. */
static void exchange(const struct work *w, int to, int from, size_t i)
{
	struct tt_span out = tt_send_block(w->a, to), in = tt_recv_block(w->a, from), s;
	size_t slices = tt_num_slices(w->a, out.len);

	if (i < slices) {
		s = tt_slice(w->a, out, slices, i);
		tt_send(w->b, to, TT_SENDBUF(s.off), s.len);
	}
	slices = tt_num_slices(w->a, in.len);
	if (i < slices) {
		s = tt_slice(w->a, in, slices, i);
		tt_recv(w->b, from, TT_RECVBUF(s.off), s.len);
	}
}

/* Steps first up to first + width - 1. */
static void steps(const struct work *w, int first, int width)
{
	int n = w->a->nranks, r = w->a->rank, k, end = first + width < n ? first + width : n;
	size_t most = 0, i;

	for (k = first; k < end; k++) {
		size_t out = tt_num_slices(w->a, tt_send_block(w->a, (r + k) % n).len);
		size_t in = tt_num_slices(w->a, tt_recv_block(w->a, (r - k + n) % n).len);

		most = out > most ? out : most;
		most = in > most ? in : most;
	}
	for (i = 0; i < most; i++) {
		tt_lane(w->b, (int)(i % (size_t)w->a->lanes));
		tt_round(w->b);
		for (k = first; k < end; k++)
			exchange(w, (r + k) % n, (r - k + n) % n, i);
	}
}

static void swap(const struct work *w, int peer, size_t base, size_t stride)
{
	struct tt_span block = tt_recv_block(w->a, peer), s;
	size_t slices = tt_num_slices(w->a, block.len), i;
	struct tt_ref slot;
	int lane;

	for (i = 0; i < slices; i++) {
		lane = (int)(i % (size_t)w->a->lanes);
		slot = TT_SCRATCH(base + (size_t)lane * stride);
		s = tt_slice(w->a, block, slices, i);
		tt_lane(w->b, lane);
		tt_round(w->b);
		tt_copy(w->b, slot, TT_RECVBUF(s.off), s.len);
		tt_round(w->b);
		tt_send(w->b, peer, slot, s.len);
		tt_recv(w->b, peer, TT_RECVBUF(s.off), s.len);
	}
}

static void swap_all(const struct work *w)
{
	int n = w->a->nranks, r = w->a->rank, k;
	size_t longest = tt_longest(w->a, tt_recv_block), base, stride;

	if (!longest)
		return;
	k = tt_num_lanes(w->a, tt_num_slices(w->a, longest));
	base = tt_slice_slots(w->b, (size_t)k, longest, &stride);
	for (k = 0; k < n; k++)
		if ((k - r + n) % n != r)
			swap(w, (k - r + n) % n, base, stride);
}

static void alltoall(struct tt_builder *b, int width)
{
	struct work w = {b, tt_builder_args(b)};
	struct tt_span own = tt_recv_block(w.a, w.a->rank);
	int k;

	if (w.a->in_place) {
		swap_all(&w);
		return;
	}
	tt_copy(b, TT_RECVBUF(own.off), TT_SENDBUF(tt_send_block(w.a, w.a->rank).off), own.len);
	for (k = 1; k < w.a->nranks; k += width)
		steps(&w, k, width);
}

void tt_alltoall_pairwise(struct tt_builder *b)
{
	alltoall(b, 1);
}

void tt_alltoall_linear(struct tt_builder *b)
{
	alltoall(b, WIDTH);
}
