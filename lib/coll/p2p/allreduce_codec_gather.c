/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of vectors whose encodings vary in length: an all-gather of the encodings, which every
 * rank decodes and adds up.
 *
 *	rank 0   C(p0) ──┬──> all ranks: D(C(p0)) + D(C(p1)) + D(C(p2)) + D(C(p3))
 *	rank 1   C(p1) ──┤
 *	rank 2   C(p2) ──┤
 *	rank 3   C(p3) ──┘
 *
 * A rank encodes p = g + e, its contribution and what earlier encodings have left out, and keeps
 * e = p - D(C(p)). It sends the length of C(p) to all ranks, then C(p). All ranks decode the same
 * bytes in rank order, their own too. So a value is quantized once, and with feedback the results
 * and all e add up to all contributions.
 *
 * The whole vector is encoded at once: the k greatest elements are those of the vector.
 *
 * Cost per rank, n ranks, N bytes whose encoding has C: (n-1) C sent and received, besides a head
 * for each; N encoded, nN decoded, of which lists touch only what they name; 2 steps; fan-in n-1.
 * For few ranks, or encodings so short that latency decides.
 *
 * Strom: Scalable distributed DNN training using commodity GPU cloud computing. Interspeech 2015.
 */
#include "lib/coll/coll.h"

#define HEAD sizeof(struct tt_coded_head)

bool tt_can_allreduce_codec_gather(const struct tt_plan_args *a)
{
	return a->codec && a->codec->varies && !a->ordered;
}

/* A round of messages between all ranks: len bytes, this far into each slot. */
static void exchange(struct tt_builder *b, size_t slot, size_t into, size_t len, unsigned flags)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_op op;
	int i, peer;

	for (i = 1; i < a->nranks; i++) {
		peer = (a->rank + a->nranks - i) % a->nranks;
		op = tt_op_recv(peer, TT_SCRATCH((size_t)peer * slot + into), len);
		op.flags = flags;
		tt_add(b, &op);
	}
	for (i = 1; i < a->nranks; i++) {
		op = tt_op_send((a->rank + i) % a->nranks,
				TT_SCRATCH((size_t)a->rank * slot + into), len);
		op.flags = flags;
		tt_add(b, &op);
	}
	tt_round(b);
}

void tt_allreduce_codec_gather(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, coded = tt_coded(a, len), slot = (coded + 63) / 64 * 64;
	struct tt_op op = {.kind = TT_OP_ENCODE, .peer = -1, .a = TT_SENDBUF(0), .len = len};
	int r;

	if (!len)
		return;
	tt_scratch(b, slot * (size_t)a->nranks);
	op.dst = TT_SCRATCH((size_t)a->rank * slot);
	op.b = a->feedback ? TT_RESIDUAL(0) : TT_NONE;
	tt_add(b, &op);
	tt_round(b);
	exchange(b, slot, 0, HEAD, 0);
	exchange(b, slot, HEAD, coded - HEAD, TT_OPF_VARIES);
	for (r = 0; r < a->nranks; r++) {
		op = (struct tt_op){.kind = r ? TT_OP_DECODE_ADD : TT_OP_DECODE,
				    .flags = a->divide && r == a->nranks - 1 ? TT_OPF_DIVIDE : 0,
				    .peer = r,
				    .dst = TT_RECVBUF(0),
				    .a = TT_SCRATCH((size_t)r * slot),
				    .len = len,
				    .usual = r ? coded : len};
		tt_add(b, &op);
		tt_round(b);
	}
}
