/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce, linear: every rank sends to the root, which combines in rank order.
 *
 *	x0 ──> root   x1 ──> root   own   x3 ──> root      acc = ((x0 + x1) + own) + x3
 *
 * The root keeps what is left of its own part in a slot of scratch (its recvbuf may hold that
 * part), the rest in recvbuf. For operators that do not commute, and for few ranks.
 *
 * Cost: N bytes sent by every rank but the root, (n-1)N received there; n - 1 steps a slice;
 * fan-in 1.
 */
#include "lib/coll/coll.h"

static void collect(struct tt_builder *b, struct tt_span s, struct tt_ref left)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_ref own = TT_SENDBUF(s.off), out = TT_RECVBUF(s.off);
	unsigned last;
	int i;

	for (i = 0; i < a->nranks; i++) {
		last = a->divide && i == a->nranks - 1 ? TT_OPF_DIVIDE : 0;
		tt_round(b);
		if (i == a->root && i)
			tt_reduce(b, out, left, own, s.len, last);
		else if (i > a->root)
			tt_recv_reduce(b, i, out, i - 1 ? out : own, TT_NET, s.len, last);
		else if (i && i < a->root)
			tt_recv_reduce(b, i, left, left, TT_NET, s.len, 0);
		else if (i < a->root)
			tt_recv(b, i, left, s.len);
	}
}

void tt_reduce_linear(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t slices = tt_num_slices(a, a->count * a->elem), base = 0, slot = 0, i;
	int lanes = tt_num_lanes(a, slices), lane;
	struct tt_span s;

	if (a->rank == a->root && a->root)
		base = tt_slice_slots(b, (size_t)lanes, tt_vector(a).len, &slot);
	for (i = 0; i < slices; i++) {
		lane = (int)(i % (size_t)lanes);
		s = tt_slice(a, tt_vector(a), slices, i);
		tt_lane(b, lane);
		tt_round(b);
		if (a->rank == a->root)
			collect(b, s, TT_SCRATCH(base + (size_t)lane * slot));
		else
			tt_send(b, a->root, TT_SENDBUF(s.off), s.len);
	}
}
