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
#include "lib/coll/p2p/codec_lists.h"

#define HEAD sizeof(struct tt_coded_head)

bool tt_can_allreduce_codec_gather(const struct tt_plan_args *a)
{
	return a->codec && a->codec->varies && !a->ordered;
}

/* A message of what is at ref. */
static void add_message(struct tt_builder *b, enum tt_op_kind kind, int peer, struct tt_ref ref,
			const struct tt_op *rest)
{
	struct tt_op op = *rest;

	op.kind = kind;
	op.peer = peer;
	op.dst = kind == TT_OP_RECV ? ref : TT_NONE;
	op.a = kind == TT_OP_RECV ? TT_NONE : ref;
	tt_add(b, &op);
}

void tt_lists_move_head(struct tt_builder *b, enum tt_op_kind kind, int peer, size_t slot)
{
	add_message(b, kind, peer, TT_SCRATCH(slot), &(struct tt_op){.len = HEAD, .usual = HEAD});
}

void tt_lists_move(struct tt_builder *b, enum tt_op_kind kind, int peer, size_t slot, size_t len,
		   size_t usual)
{
	size_t chunk = tt_builder_args(b)->chunk, at, left;

	for (at = 0; at < len; at += chunk) {
		struct tt_op op = {.flags = TT_OPF_VARIES, .b = TT_SCRATCH(slot)};

		left = len - at;
		op.len = left < chunk ? left : chunk;
		op.flags |= left > chunk ? TT_OPF_MORE : 0;
		op.usual = usual <= at ? 1 : usual - at < op.len ? usual - at : op.len;
		add_message(b, kind, peer, TT_SCRATCH(slot + HEAD + at), &op);
	}
}

/* A round of messages between all ranks: heads, or encodings of at most len bytes. */
static void exchange(struct tt_builder *b, size_t slot, size_t len, size_t usual)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int turn, i, peer;

	for (turn = 0; turn < 2; turn++)
		for (i = 1; i < a->nranks; i++) {
			enum tt_op_kind kind = turn ? TT_OP_SEND : TT_OP_RECV;

			peer = (a->rank + (turn ? i : a->nranks - i)) % a->nranks;
			if (len)
				tt_lists_move(b, kind, peer, slot * (size_t)(turn ? a->rank : peer),
					      len, usual);
			else
				tt_lists_move_head(b, kind, peer,
						   slot * (size_t)(turn ? a->rank : peer));
		}
	tt_round(b);
}

void tt_lists_encode(struct tt_builder *b, struct tt_ref dst)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	tt_add(b, &(struct tt_op){.kind = TT_OP_ENCODE,
				  .peer = -1,
				  .dst = dst,
				  .a = TT_SENDBUF(0),
				  .b = a->feedback ? TT_RESIDUAL(0) : TT_NONE,
				  .len = a->count * a->elem});
	tt_round(b);
}

void tt_lists_heads(struct tt_builder *b, size_t slot)
{
	exchange(b, slot, 0, 0);
}

void tt_lists_gather(struct tt_builder *b, size_t slot)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, coded = tt_coded(a, len), usual = tt_usual_list(a);
	int r;

	exchange(b, slot, coded - HEAD, usual);
	for (r = 0; r < a->nranks; r++) {
		struct tt_op op = {.kind = r ? TT_OP_DECODE_ADD : TT_OP_DECODE,
				   .flags = a->divide && r == a->nranks - 1 ? TT_OPF_DIVIDE : 0,
				   .peer = r,
				   .dst = TT_RECVBUF(0),
				   .a = TT_SCRATCH((size_t)r * slot),
				   .len = len,
				   .usual = r ? usual + HEAD : len};

		tt_add(b, &op);
		tt_round(b);
	}
}

void tt_allreduce_codec_gather(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, slot = (tt_coded(a, len) + 63) / 64 * 64;

	if (!len)
		return;
	tt_scratch(b, slot * (size_t)a->nranks);
	tt_lists_encode(b, TT_SCRATCH((size_t)a->rank * slot));
	tt_lists_heads(b, slot);
	tt_lists_gather(b, slot);
}
