/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of lists of (index, value): recursive doubling with sums of lists.
 *
 *	rank   step 1        step 2               all ranks
 *	0      0 + 1 <──┐    (0 + 1) + (2 + 3)
 *	1      0 + 1 <──┼─┐  (0 + 1) + (2 + 3)    D((0 + 1) + (2 + 3))
 *	2      2 + 3 <──┘ │  (0 + 1) + (2 + 3)
 *	3      2 + 3 <────┘  (0 + 1) + (2 + 3)
 *
 * A rank encodes p = g + e, its contribution and what earlier encodings have left out, and keeps
 * e = p - D(C(p)). In each step two ranks exchange the sums that they have, lengths first, and both
 * add them, that of the lower rank first, so that both have the same bits. A sum is a list until
 * the vector itself is shorter. Where the number of ranks is no power of two, a rank of each folded
 * pair gives its list to the other at the begin, and gets the result at the end.
 *
 * Cost per rank, n ranks: N bytes encoded and decoded; at most min(k C, N) sent and received in the
 * step in which sums of k ranks meet, besides heads; 2 log2 n steps, and 4 of a fold; fan-in 1. For
 * many ranks, or lists that name the same elements.
 *
 * Renggli et al.: SparCML: High-performance sparse communication for machine learning. SC 2019
 * (SSAR_Recursive_double).
 */
#include "lib/coll/p2p/codec_lists.h"

#define HEAD sizeof(struct tt_coded_head)

bool tt_can_allreduce_codec_merge(const struct tt_plan_args *a)
{
	return a->codec && a->codec->varies && a->codec->sparse && !a->ordered;
}

/* Three sums: this rank's, one that arrives, and what they add up to. */
struct sums {
	struct tt_builder *b;
	size_t slot, bytes;	  /* of a sum with its head */
	size_t own, other, spare; /* numbers of slots */
	size_t ranks;		  /* that the own sum contains */
};

static struct tt_ref sum_at(const struct sums *s, size_t slot)
{
	return TT_SCRATCH(slot * s->slot);
}

/* The head of a sum, or what follows it, to or from peer. */
static void move(const struct sums *s, enum tt_op_kind kind, int peer, bool head)
{
	size_t slot = s->slot * (kind == TT_OP_RECV ? s->other : s->own);

	if (head)
		tt_lists_move_head(s->b, kind, peer, slot);
	else
		tt_lists_move(s->b, kind, peer, slot, s->bytes - HEAD,
			      tt_usual_sum(tt_builder_args(s->b), s->ranks));
}

/* The own sum to peer, and peer's here. */
static void exchange(const struct sums *s, int peer, bool sends, bool receives)
{
	int k;

	for (k = 0; k < 2; k++) {
		if (receives)
			move(s, TT_OP_RECV, peer, !k);
		if (sends)
			move(s, TT_OP_SEND, peer, !k);
		tt_round(s->b);
	}
}

/* The own sum becomes that of both; peer's comes second if this rank is the lower one. */
static void merge(struct sums *s, int peer)
{
	const struct tt_plan_args *a = tt_builder_args(s->b);
	bool first = a->rank < peer;
	size_t sum = s->spare;

	s->ranks *= 2;
	tt_add(s->b, &(struct tt_op){.kind = TT_OP_MERGE,
				     .peer = peer,
				     .dst = sum_at(s, sum),
				     .a = sum_at(s, first ? s->own : s->other),
				     .b = sum_at(s, first ? s->other : s->own),
				     .len = a->count * a->elem,
				     .usual = tt_usual_sum(a, s->ranks)});
	tt_round(s->b);
	s->spare = s->own;
	s->own = sum;
}

/* The steps between encoding and decoding; returns the rank that has sent the result. */
static int add_up(struct sums *s)
{
	const struct tt_plan_args *a = tt_builder_args(s->b);
	struct tt_fold f = tt_fold(a, tt_fold_pow2(a->nranks));
	int bit, peer = a->rank;

	if (f.v < 0) {
		exchange(s, f.other, true, false);
		s->ranks = (size_t)a->nranks;
		exchange(s, f.other, false, true);
		s->own = s->other;
		return f.other;
	}
	if (f.other >= 0) {
		exchange(s, f.other, false, true);
		merge(s, f.other);
	} else if (f.extra) {
		s->ranks = 2; /* at most, as its peers' */
	}
	for (bit = 1; bit < f.core; bit *= 2) {
		peer = tt_fold_rank(&f, f.v ^ bit);
		exchange(s, peer, true, true);
		merge(s, peer);
	}
	s->ranks = (size_t)a->nranks;
	if (f.other >= 0)
		exchange(s, f.other, true, false);
	return peer;
}

void tt_lists_merge(struct tt_builder *b, size_t slot, size_t own, size_t other, size_t spare)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;
	struct sums s = {.b = b,
			 .slot = slot,
			 .bytes = tt_coded_sum(a, len),
			 .own = own,
			 .other = other,
			 .spare = spare,
			 .ranks = 1};
	int peer = add_up(&s);

	tt_add(b, &(struct tt_op){.kind = TT_OP_DECODE,
				  .flags = TT_OPF_SUM | (a->divide ? TT_OPF_DIVIDE : 0),
				  .peer = peer,
				  .dst = TT_RECVBUF(0),
				  .a = sum_at(&s, s.own),
				  .len = len});
	tt_round(b);
}

void tt_allreduce_codec_merge(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, slot;
	struct tt_op encode;

	if (!len)
		return;
	slot = (tt_coded_sum(a, len) + 63) / 64 * 64;
	tt_scratch(b, 3 * slot);
	encode = (struct tt_op){.kind = TT_OP_ENCODE,
				.flags = TT_OPF_SUM,
				.peer = -1,
				.dst = TT_SCRATCH(0),
				.a = TT_SENDBUF(0),
				.b = a->feedback ? TT_RESIDUAL(0) : TT_NONE,
				.len = len};
	tt_add(b, &encode);
	tt_round(b);
	tt_lists_merge(b, slot, 0, 1, 2);
}
