/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of a single rank, which has no peers.
 *
 * The result is the input, copied unless the call is in place; a broadcast, a barrier and an
 * exclusive scan have nothing to do. The average of one vector is the vector itself (dividing by
 * 1 changes no bit), so there is nothing to divide.
 *
 * Cost: no message; out of place N bytes copied.
 */
#include "lib/plan/plan.h"

void tt_single(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_ref to = TT_RECVBUF(0), from = tt_input(a);
	size_t len = a->count * a->elem;

	switch (a->coll) {
	case TT_COLL_BCAST:
	case TT_COLL_BARRIER:
	case TT_COLL_EXSCAN:
		return;
	case TT_COLL_REDUCE_SCATTER:
		len = tt_send_block(a, 0).len;
		break;
	case TT_COLL_SCATTERV:
	case TT_COLL_ALLTOALLV:
		from.off += tt_send_block(a, 0).off;
		/* fall through */
	case TT_COLL_ALLGATHERV:
	case TT_COLL_GATHERV:
		to.off = a->coll == TT_COLL_SCATTERV ? 0 : tt_recv_block(a, 0).off;
		len = a->coll == TT_COLL_SCATTERV ? len : tt_recv_block(a, 0).len;
		break;
	default:
		break;
	}
	if (!a->in_place)
		tt_copy(b, to, from, len);
}
