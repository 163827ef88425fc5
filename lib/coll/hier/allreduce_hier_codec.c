/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of a vector that travels encoded between hosts, and as it is within them. H hosts with
 * m ranks each; rank j of every host owns part j of the vector. For each slice of the part:
 *
 *	host 0    0 ─┐ 1 ─┐                  0 <─C(p)──> 2 ─┐           0 ─> 1
 *	          1 ─┴> 0 0 ─┴> 1            1 <─C(p)──> 3  │ across    1 ─> 0
 *	host 1    2 ─┐ 3 ─┐                                 │ hosts     2 ─> 3
 *	          3 ─┴> 2 2 ─┴> 3                          ─┘           3 ─> 2
 *
 * combine it straight out of the inputs of all ranks of the host into the own recvbuf; run
 * allreduce_codec_direct.c with the ranks in charge of the same part on the other hosts, each of
 * which encodes what its host has combined; store the result in the recvbufs of the other ranks of
 * the host. So a value is quantized twice, whatever the number of ranks, and once for each host
 * rather than once for each rank.
 *
 * A rank's residual is that of its part. The engine adds what an earlier plan has left elsewhere to
 * the input. Parts and slices begin at multiples of the codec's align. The owner of an element, and
 * with it the bits, depends on the slices, as in plain algorithms; it is equal on all ranks.
 *
 * Cost per rank: N/m read from each of m inputs; an all-reduce of N/m among H ranks, 2(H-1)/H C/m
 * sent; N/m stored in each of m - 1 other recvbufs. A host sends 2(H-1)/H C, where the ranks of a
 * flat plan send about 2m C.
 *
 * Tang et al.: 1-bit Adam: communication efficient large-scale training with Adam's convergence
 * speed. ICML 2021 (hierarchical compressed all-reduce).
 */
#include "lib/coll/hier/hier.h"

bool tt_can_hier_codec(const struct tt_plan_args *a)
{
	return a->hosts && a->codec && !a->codec->varies && !a->ordered;
}

static struct tt_span slice_of(const struct tt_hier *h, int place, size_t slice)
{
	struct tt_span part = tt_codec_part(h->a, h->a->hosts->places, place), s;
	size_t grain = tt_codec_grain(h->a), end = part.off + part.len;

	s = part;
	s.len = tt_num_pieces(part.len, 1, grain) * grain; /* whole grains, perhaps beyond it */
	s = tt_pieces(s, grain, h->slices, slice, 1);
	s.off = s.off < end ? s.off : end;
	s.len = s.len < end - s.off ? s.len : end - s.off;
	return s;
}

static void add_slice(struct tt_hier *h, int place, size_t slice)
{
	struct tt_span at = slice_of(h, place, slice);
	struct tt_plan_args across = tt_hier_args(h->a, TT_COLL_ALLREDUCE, at.len / h->a->elem);
	struct tt_ref to = TT_RECVBUF(at.off);
	struct tt_across where = {.place = place, .send = to, .recv = to, .vector = at.off};

	across.in_place = true;
	across.codec = h->a->codec;
	across.feedback = h->a->feedback;
	if (!tt_hier_slice(h, &across, &where, 0, NULL))
		return;
	tt_hier_combine(h->b, to, TT_SENDBUF(at.off), at.len);
	tt_hier_add(h->b, &where, h->plan);
	tt_hier_push(h, at.off, at.len);
}

void tt_allreduce_hier_codec(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a, .name = "codec_direct"};

	if (a->count) /* the first part is the longest */
		tt_hier_lanes(&h, tt_codec_part(a, a->hosts->places, 0).len,
			      (size_t)a->hosts->hosts, tt_input(a), TT_RECVBUF(0), add_slice);
}
