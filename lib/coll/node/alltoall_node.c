/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all in the memory of one host: each copies its blocks straight out of the others' inputs.
 * In place the input is copied aside first, as its blocks are overwritten while others still want
 * them.
 *
 *	Cost: two waits for all; n-1 blocks read and written by each rank, n more copied in place.
 */
#include "lib/coll/node/coll_node.h"

void tt_alltoall_node(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, own = (size_t)a->rank * len;
	struct tt_ref input = TT_SENDBUF(0);
	int i, j;

	if (!len)
		return;
	if (a->in_place) {
		input = TT_SCRATCH(tt_scratch(b, (size_t)a->nranks * len));
		tt_copy(b, input, TT_RECVBUF(0), (size_t)a->nranks * len);
	} else {
		tt_copy(b, TT_RECVBUF(own), TT_SENDBUF(own), len);
	}
	tt_signal(b, 1, input, TT_NONE);
	tt_wait(b, TT_ALL_RANKS, 1);
	for (i = 1; i < a->nranks; i++) {
		j = (a->rank + i) % a->nranks;
		tt_pull_copy(b, j, TT_RECVBUF((size_t)j * len), TT_SENDBUF(own), len);
	}
	tt_signal(b, 2, TT_NONE, TT_NONE);
	tt_wait(b, TT_ALL_RANKS, 2);
}
