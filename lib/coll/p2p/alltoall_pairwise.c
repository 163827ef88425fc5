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

static size_t slices_of(const struct tt_plan_args *a, struct tt_span block)
{
	return tt_num_slices(a, block.len);
}

/* Slice i of the block to one rank and of the block from another, if they have one. */
static void exchange(struct tt_builder *b, int to, int from, size_t i)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span out = tt_send_block(a, to), in = tt_recv_block(a, from), s;

	if (i < slices_of(a, out)) {
		s = tt_slice(a, out, slices_of(a, out), i);
		tt_send(b, to, TT_SENDBUF(s.off), s.len);
	}
	if (i < slices_of(a, in)) {
		s = tt_slice(a, in, slices_of(a, in), i);
		tt_recv(b, from, TT_RECVBUF(s.off), s.len);
	}
}

/* Steps first up to first + width - 1. */
static void steps(struct tt_builder *b, int first, int width)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int n = a->nranks, r = a->rank, k, end = first + width < n ? first + width : n;
	size_t most = 0, i;

	for (k = first; k < end; k++) {
		size_t out = slices_of(a, tt_send_block(a, (r + k) % n));
		size_t in = slices_of(a, tt_recv_block(a, (r - k + n) % n));

		most = out > most ? out : most;
		most = in > most ? in : most;
	}
	for (i = 0; i < most; i++) {
		tt_lane(b, (int)(i % (size_t)a->lanes));
		tt_round(b);
		for (k = first; k < end; k++)
			exchange(b, (r + k) % n, (r - k + n) % n, i);
	}
}

static void swap(struct tt_builder *b, int peer, size_t base, size_t stride)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block = tt_recv_block(a, peer), s;
	size_t slices = slices_of(a, block), i;
	struct tt_ref slot;
	int lane;

	for (i = 0; i < slices; i++) {
		lane = (int)(i % (size_t)a->lanes);
		slot = TT_SCRATCH(base + (size_t)lane * stride);
		s = tt_slice(a, block, slices, i);
		tt_lane(b, lane);
		tt_round(b);
		tt_copy(b, slot, TT_RECVBUF(s.off), s.len);
		tt_round(b);
		tt_send(b, peer, slot, s.len);
		tt_recv(b, peer, TT_RECVBUF(s.off), s.len);
	}
}

static void alltoall(struct tt_builder *b, int width)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int n = a->nranks, r = a->rank, k;
	size_t longest, base, stride;

	if (a->in_place) {
		longest = tt_longest(a, tt_recv_block);
		k = tt_num_lanes(a, tt_num_slices(a, longest));
		base = tt_slice_slots(b, (size_t)k, longest, &stride);
		for (k = 0; k < n; k++)
			if ((k - r + n) % n != r)
				swap(b, (k - r + n) % n, base, stride);
		return;
	}
	tt_copy(b, TT_RECVBUF(tt_recv_block(a, r).off), TT_SENDBUF(tt_send_block(a, r).off),
		tt_recv_block(a, r).len);
	for (k = 1; k < n; k += width)
		steps(b, k, width);
}

void tt_alltoall_pairwise(struct tt_builder *b)
{
	alltoall(b, 1);
}

void tt_alltoall_linear(struct tt_builder *b)
{
	alltoall(b, WIDTH);
}
