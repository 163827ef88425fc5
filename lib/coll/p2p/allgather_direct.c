/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-gather(v), direct: every rank sends its block to every other one.
 *
 *	step k = 1 .. n-1:   r ──> r+k      r-k ──> r      (mod n), WIDTH of them in a round
 *
 * Everything goes straight from where it is to where it belongs, and no rank waits for a third
 * rank: good where ranks are few, or the network is a crossbar and messages are long.
 *
 * Cost, blocks of N bytes: (n-1)N sent and received by every rank; (n-1)/WIDTH steps a slice,
 * fan-in WIDTH.
 */
#include "lib/coll/coll.h"

#define WIDTH 4

static void slice(struct tt_builder *b, size_t slices, size_t i)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int n = a->nranks, r = a->rank, k, from;
	struct tt_span own = tt_recv_block(a, r), s = tt_slice(a, own, slices, i), t;
	struct tt_ref in = tt_input(a);

	in.off += s.off - own.off;
	for (k = 1; k < n; k++) {
		if (k % WIDTH == 1)
			tt_round(b);
		if (k == 1 && !a->in_place)
			tt_copy(b, TT_RECVBUF(s.off), in, s.len);
		from = (r - k + n) % n;
		t = tt_slice(a, tt_recv_block(a, from), slices, i);
		tt_send(b, (r + k) % n, in, s.len);
		tt_recv(b, from, TT_RECVBUF(t.off), t.len);
	}
}

void tt_allgather_direct(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_slices(a, tt_longest(a, tt_recv_block)), i;

	for (i = 0; i < slices; i++) {
		tt_lane(b, (int)(i % (size_t)a->lanes));
		slice(b, slices, i);
	}
}
