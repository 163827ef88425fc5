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
#include <errno.h>
#include <stdlib.h>

#include "lib/coll/p2p/codec_lists.h"

bool tt_can_allreduce_codec_dense(const struct tt_plan_args *a)
{
	return a->codec && a->codec->varies && a->codec->sparse && !a->ordered && a->nranks > 1;
}

/* The rounds of a plan of the vectors in recvbuf. */
static void add_rounds(struct tt_builder *b, const struct tt_plan *plan, size_t scratch)
{
	struct tt_op *tmp = calloc((size_t)plan->max_ops + 1, sizeof(*tmp)), op;
	const struct tt_op *ops;
	int round, i, n;

	if (!tmp)
		tt_builder_broken(b, -ENOMEM);
	for (round = 0; tmp && plan->nlanes && round < tt_plan_rounds(plan, 0); round++) {
		n = tt_plan_ops(plan, 0, round, tmp, &ops);
		for (i = 0; i < n; i++) {
			op = ops[i];
			op.a.off += op.a.buf == TT_BUF_SCRATCH ? scratch : 0;
			op.b.off += op.b.buf == TT_BUF_SCRATCH ? scratch : 0;
			op.dst.off += op.dst.buf == TT_BUF_SCRATCH ? scratch : 0;
			op.a.buf = op.a.buf == TT_BUF_SEND ? TT_BUF_RECV : op.a.buf;
			op.b.buf = op.b.buf == TT_BUF_SEND ? TT_BUF_RECV : op.b.buf;
			tt_add(b, &op);
		}
		tt_round(b);
	}
	free(tmp);
}

void tt_lists_dense(struct tt_builder *b, struct tt_ref own)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_plan_args plain = *a;
	struct tt_plan *plan;
	int err;

	tt_add(b, &(struct tt_op){.kind = TT_OP_DECODE,
				  .peer = a->rank,
				  .dst = TT_RECVBUF(0),
				  .a = own,
				  .len = a->count * a->elem});
	tt_round(b);
	plain.codec = NULL;
	plain.feedback = false;
	plain.in_place = true;
	plain.lanes = 1;
	err = tt_plan_build(tt_alg_find(TT_COLL_ALLREDUCE, "halving_doubling"), &plain, &plan);
	if (err) {
		tt_builder_broken(b, err);
		return;
	}
	add_rounds(b, plan, tt_scratch(b, plan->scratch));
	tt_plan_free(plan);
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
