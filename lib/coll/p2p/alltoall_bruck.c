/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all in ceil(log2 n) steps (Bruck): every block moves several times, so right for short
 * ones.
 *
 *	the block that goes j ranks on moves 2^k ranks in step k if bit k of j is set
 *
 *	j = 5 = 101:   r ── step 0 ──> r + 1 ── step 2 ──> r + 5              (mod n)
 *
 * In step k a rank packs the blocks of all j with bit k set, sends them to r + 2^k in one message,
 * and unpacks the message from r - 2^k: block j to its place if bit k is its last one, else to
 * slot j of scratch. A block is packed from sendbuf the first time (in place all are copied to
 * their slots at first), so there is no rotation before or after, unlike in the paper. Slices of
 * blocks are so short that those of all blocks fit in SLICE_CHUNKS chunks (or have an element
 * each).
 *
 * Cost, n = 2^k ranks, blocks of N bytes: n/2 k N sent and received, as much copied twice; k
 * steps a slice; fan-in 1. In general each block moves as often as j has bits set.
 *
 * Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in
 * multiport message-passing systems. IEEE Trans. Parallel Distrib. Syst. 8(11), 1997.
 */
#include "lib/coll/coll.h"

#define SLICE_CHUNKS 8

struct work {
	struct tt_builder *b;
	const struct tt_plan_args *a;
	size_t slices, slice;
	size_t len;	      /* of the slice of a block */
	size_t slot, out, in; /* scratch of this lane: blocks on their way, packed ones */
};

static struct tt_ref user(const struct work *w, enum tt_buf buf, int i)
{
	int n = w->a->nranks;
	struct tt_span s = buf == TT_BUF_SEND ? tt_send_block(w->a, (i + n) % n)
					      : tt_recv_block(w->a, (i + n) % n);

	return (struct tt_ref){buf, tt_slice(w->a, s, w->slices, w->slice).off};
}

static struct tt_ref packed(const struct work *w, size_t base, int i)
{
	return TT_SCRATCH(base + (size_t)i * w->len);
}

static void step(const struct work *w, int bit)
{
	int n = w->a->nranks, r = w->a->rank, j, howmany = 0;
	bool moved;

	tt_round(w->b);
	for (j = bit; j < n; j++) {
		if (!(j & bit))
			continue;
		moved = w->a->in_place || (j & (bit - 1));
		tt_copy(w->b, packed(w, w->out, howmany++),
			moved ? packed(w, w->slot, j) : user(w, TT_BUF_SEND, r + j), w->len);
	}
	tt_round(w->b);
	tt_send_long(w->b, (r + bit) % n, TT_SCRATCH(w->out), (size_t)howmany * w->len);
	tt_recv_long(w->b, (r - bit + n) % n, TT_SCRATCH(w->in), (size_t)howmany * w->len);
	tt_round(w->b);
	for (j = bit, howmany = 0; j < n; j++)
		if (j & bit)
			tt_copy(w->b,
				j < 2 * bit ? user(w, TT_BUF_RECV, r - j) : packed(w, w->slot, j),
				packed(w, w->in, howmany++), w->len);
}

static void slice(const struct work *w)
{
	int n = w->a->nranks, r = w->a->rank, j;
	long bit;

	tt_round(w->b);
	for (j = 1; w->a->in_place && j < n; j++)
		tt_copy(w->b, packed(w, w->slot, j), user(w, TT_BUF_SEND, r + j), w->len);
	if (!w->a->in_place)
		tt_copy(w->b, user(w, TT_BUF_RECV, r), user(w, TT_BUF_SEND, r), w->len);
	for (bit = 1; bit < n; bit *= 2)
		step(w, (int)bit);
}

void tt_alltoall_bruck(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct work w = {.b = b, .a = a};
	struct tt_span all = tt_vector(a);
	size_t n = (size_t)a->nranks, base[3], stride[3], most, lane, k;
	int lanes;

	w.slices = tt_num_pieces(all.len, a->elem, SLICE_CHUNKS * a->chunk / n);
	if (!w.slices)
		return;
	most = tt_slice(a, all, w.slices, 0).len;
	lanes = tt_num_lanes(a, w.slices);
	for (k = 0; k < 3; k++) { /* slots by j; at most (n + 1) / 2 blocks are packed */
		base[k] = tt_scratch(b, 0);
		stride[k] = tt_slots(b, (size_t)lanes, (k ? (n + 1) / 2 : n) * most);
	}
	for (w.slice = 0; w.slice < w.slices; w.slice++) {
		lane = w.slice % (size_t)lanes;
		w.len = tt_slice(a, all, w.slices, w.slice).len;
		w.slot = base[0] + lane * stride[0];
		w.out = base[1] + lane * stride[1];
		w.in = base[2] + lane * stride[2];
		tt_lane(b, (int)lane);
		slice(&w);
	}
}
