/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast by a scatter and an all-gather (van de Geijn): long messages at twice the bytes of a
 * chain and without its latency.
 *
 *	scatter, down a binomial tree          all-gather, on a ring
 *	0: 0 1 2 3                             in step k rank v sends block v - k to v + 1,
 *	0 ── 2 3 ──> 2     0 ── 1 ──> 1        unless the scatter has brought it there
 *	             2 ── 3 ──> 3              v = rank - root (mod n)
 *
 * The message is cut into slices of at most n chunks, a slice into n even blocks; lane l does
 * slices l, l + lanes, ... one after the other.
 *
 * Cost, n ranks, N bytes: at most 2(n-1)/n N sent by any rank, N received by all but the root; n
 * - 1 + ceil(log2 n) steps a slice; fan-in 1.
 *
 * Barnett, Gupta, Payne, Shuler, van de Geijn, Watts: Interprocessor collective communication
 * library. Scalable High Performance Computing Conference, 1994.
 */
#include "lib/coll/coll.h"

static struct tt_span blocks(const struct tt_plan_args *a, struct tt_span slice, int first, int n)
{
	return tt_pieces(slice, a->elem, (size_t)a->nranks, (size_t)first, (size_t)n);
}

/* How many blocks, from v on, the scatter brings to v. */
static int share(int n, int v)
{
	int bit = v & -v;

	return !v ? n : v + bit < n ? bit : n - v;
}

static void scatter(struct tt_builder *b, struct tt_span slice, int v)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int n = a->nranks, bit = 1;
	struct tt_span s;

	while (bit < n && !(v & bit))
		bit *= 2;
	if (v) {
		s = blocks(a, slice, v, share(n, v));
		tt_round(b);
		tt_recv_long(b, (v - bit + a->root) % n, TT_RECVBUF(s.off), s.len);
	}
	for (bit /= 2; bit; bit /= 2) {
		if (v + bit >= n)
			continue;
		s = blocks(a, slice, v + bit, share(n, v + bit));
		tt_round(b);
		tt_send_long(b, (v + bit + a->root) % n, TT_RECVBUF(s.off), s.len);
	}
}

static bool has(int n, int v, int block)
{
	return block >= v && block < v + share(n, v);
}

static void allgather(struct tt_builder *b, struct tt_span slice, int v)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int n = a->nranks, k, block;
	struct tt_span s;

	for (k = 0; k < n - 1; k++) {
		tt_round(b);
		block = (v - k + n) % n;
		s = blocks(a, slice, block, 1);
		if (!has(n, (v + 1) % n, block))
			tt_send(b, (a->rank + 1) % n, TT_RECVBUF(s.off), s.len);
		block = (v - 1 - k + n) % n;
		s = blocks(a, slice, block, 1);
		if (!has(n, v, block))
			tt_recv(b, (a->rank + n - 1) % n, TT_RECVBUF(s.off), s.len);
	}
}

void tt_bcast_scatter_allgather(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_pieces(a->count * a->elem, a->elem, (size_t)a->nranks * a->chunk), i;
	int v = (a->rank - a->root + a->nranks) % a->nranks;
	struct tt_span s;

	for (i = 0; i < slices; i++) {
		s = tt_slice(a, tt_vector(a), slices, i);
		tt_lane(b, (int)(i % (size_t)a->lanes));
		scatter(b, s, v);
		allgather(b, s, v);
	}
}
