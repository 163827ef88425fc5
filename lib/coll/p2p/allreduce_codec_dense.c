/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of lists of (index, value) as the vectors that they stand for: each rank encodes
 * p = g + e, its contribution and what earlier encodings have left out, decodes that at once, and
 * keeps e = p - D(C(p)); then the vectors D(C(p)) are added up by recursive halving and doubling
 * (allreduce_halving_doubling.c). So the result is that of the codec, without what it leaves out.
 *
 * Cost per rank: N bytes encoded and decoded, and an all-reduce of N bytes. For lists that are not
 * much shorter than the vector.
 */
#include "lib/coll/hier/hier.h"
#include "lib/coll/p2p/codec_lists.h"

bool tt_can_allreduce_codec_dense(const struct tt_plan_args *a)
{
	return a->codec && a->codec->varies && a->codec->sparse && !a->ordered && a->nranks > 1;
}

void tt_lists_dense(struct tt_builder *b, struct tt_ref own)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_plan_args plain = *a;
	struct tt_across where = {.place = -1, .send = TT_RECVBUF(0), .recv = TT_RECVBUF(0)};

	tt_add(b, &(struct tt_op){.kind = TT_OP_DECODE,
				  .peer = a->rank,
				  .dst = TT_RECVBUF(0),
				  .a = own,
				  .len = a->count * a->elem});
	plain.coll = TT_COLL_ALLREDUCE;
	plain.codec = NULL;
	plain.feedback = false;
	plain.in_place = true;
	plain.lanes = 1;
	tt_hier_once(b, "halving_doubling", &plain, where);
}

void tt_allreduce_codec_dense(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, own;

	if (!len)
		return;
	own = tt_scratch(b, tt_coded(a, len));
	tt_lists_encode(b, TT_SCRATCH(own));
	tt_lists_dense(b, TT_SCRATCH(own));
}
