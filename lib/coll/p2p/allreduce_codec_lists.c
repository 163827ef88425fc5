/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of lists whose lengths follow the data: each rank encodes, and sends the length of its
 * list to all ranks. So all ranks know the mean density of this very call, and all of them go on in
 * the way that takes the least time at that density: they gather the lists
 * (allreduce_codec_gather.c), add them up as lists (allreduce_codec_merge.c), or as vectors
 * (allreduce_codec_dense.c). The lengths where one way becomes shorter than another are those of
 * the cost model (set_ways in lib/plan/choose.c), equal on all ranks.
 *
 * Cost: that of the way, and a round of heads of 8 bytes where the lists are not gathered.
 */
#include "lib/coll/p2p/codec_lists.h"

/* Where no list can be as long as the vector, the codec says enough about lengths. */
bool tt_can_allreduce_codec_lists(const struct tt_plan_args *a)
{
	size_t len = a->count * a->elem;

	return a->codec && a->codec->varies && a->codec->sparse && !a->ordered && a->nranks > 1 &&
	       tt_coded(a, len) == tt_coded_sum(a, len);
}

void tt_allreduce_codec_lists(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t n = (size_t)a->nranks, slots = n > 3 ? n : 3, own = (size_t)a->rank, slot;

	if (!a->count)
		return;
	slot = (tt_coded(a, a->count * a->elem) + 63) / 64 * 64;
	tt_scratch(b, slots * slot);
	tt_lists_encode(b, TT_SCRATCH(own * slot));
	tt_lists_heads(b, slot);
	tt_fork(b, 0, slot);
	tt_next_branch(b);
	tt_lists_gather(b, slot);
	tt_next_branch(b);
	tt_lists_merge(b, slot, own, (own + 1) % slots, (own + 2) % slots);
	tt_next_branch(b);
	tt_lists_dense(b, TT_SCRATCH(own * slot));
}
