/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of vectors that travel encoded: the direct reduce-scatter and all-gather of
 * allreduce_ps.c, with encodings C in place of blocks.
 *
 *	owner i of block i, ranks 0 to 3       block i on all ranks
 *	C(p0) ─┐
 *	   g1 ─┼> s = D(C(p0)) + g1 + D(C(p2)) + D(C(p3)) ──> C(s + e1) ──> D(C(s + e1))
 *	C(p2) ─┤                                            (owner: 1)
 *	C(p3) ─┘
 *
 * A rank encodes p = g + e, its contribution and what earlier encodings have left out, for the
 * owner of each other block, and keeps e = p - D(C(p)). The owner combines its own block, which is
 * not encoded, with what it decodes, in rank order; it adds its own e when it encodes the sum, and
 * keeps the rest of the sum as its e. All ranks, the owner too, decode the same bytes. So a value
 * is quantized at most twice, for any number of ranks, and with feedback the results and all e
 * add up to all contributions.
 *
 * Blocks and slices begin at multiples of the codec's align, so that results do not depend on
 * chunks or lanes. Slices are short: encoding one holds the library's lock, and what one lane
 * encodes travels while another lane decodes.
 *
 * Cost per rank, n ranks, N bytes whose encoding has C: 2(n-1)/n C sent and received; (n-1)/n N
 * encoded and decoded at the begin, N/n encoded and N decoded at the end; 2 steps a slice; fan-in
 * n-1.
 *
 * Seide et al.: 1-bit stochastic gradient descent and its application to data-parallel distributed
 * training of speech DNNs. Interspeech 2014.
 */
#include "lib/coll/coll.h"

#define SCRATCH_MAX (8u << 20) /* bytes a lane */
#define SLICE_MAX (256u << 10) /* of the vector */

/* State of the generator: of a lane's scratch, and of a slot in it. */
enum { LANE, SLOT };

/* Units first to end - 1 of the vector; the last of all may be cut short. */
static struct tt_span units(const struct tt_plan_args *a, size_t first, size_t end)
{
	size_t all = a->count * a->elem, unit = a->codec->align * a->elem;
	size_t from = first * unit < all ? first * unit : all;
	size_t to = end * unit < all ? end * unit : all;

	return (struct tt_span){from, to - from};
}

static struct tt_span slice_of(const struct tt_plan_args *a, size_t slices, int block, size_t slice)
{
	size_t all = tt_codec_units(a), from = tt_part_begin(all, a->nranks, block);
	size_t n = tt_part_begin(all, a->nranks, block + 1) - from, q = n / slices, r = n % slices;
	size_t first = from + q * slice + (slice < r ? slice : r);

	return units(a, first, first + q + (slice < r));
}

/* A lane's scratch: n slots for encodings that are sent, n for those received, and the sum. */
struct places {
	size_t out, in, sum, slot;
};

static struct places places_of(const struct tt_plan_args *a, const struct tt_sliced *sl, int lane)
{
	size_t base = (size_t)lane * sl->state[LANE], slots = (size_t)a->nranks * sl->state[SLOT];

	return (struct places){
		.out = base, .in = base + slots, .sum = base + 2 * slots, .slot = sl->state[SLOT]};
}

static struct tt_ref out_slot(const struct places *p, int rank)
{
	return TT_SCRATCH(p->out + (size_t)rank * p->slot);
}

static struct tt_ref in_slot(const struct places *p, int rank)
{
	return TT_SCRATCH(p->in + (size_t)rank * p->slot);
}

static struct tt_op encode(const struct tt_plan_args *a, struct tt_ref to, struct tt_ref from,
			   struct tt_span s)
{
	return (struct tt_op){.kind = TT_OP_ENCODE,
			      .peer = -1,
			      .dst = to,
			      .a = from,
			      .b = {a->feedback ? TT_BUF_RESIDUAL : TT_BUF_NONE, s.off},
			      .len = s.len};
}

static struct tt_op decode(enum tt_op_kind kind, struct tt_ref to, struct tt_ref from, int peer,
			   struct tt_span s)
{
	return (struct tt_op){.kind = kind,
			      .peer = peer,
			      .dst = to,
			      .a = from,
			      .b = {TT_BUF_NONE, s.off},
			      .len = s.len};
}

/* Combines what rank m contributes to this rank's block. */
static struct tt_op combine(const struct tt_plan_args *a, const struct places *p, int m,
			    struct tt_span s)
{
	struct tt_ref sum = TT_SCRATCH(p->sum), own = TT_SENDBUF(s.off);

	if (m != a->rank)
		return decode(m ? TT_OP_DECODE_ADD : TT_OP_DECODE, sum, in_slot(p, m), m, s);
	if (m)
		return (struct tt_op){.kind = TT_OP_REDUCE,
				      .peer = -1,
				      .dst = sum,
				      .a = sum,
				      .b = own,
				      .len = s.len};
	return (struct tt_op){.kind = TT_OP_COPY, .peer = -1, .dst = sum, .a = own, .len = s.len};
}

/* The two ops of an exchange with one peer: of contributions, then of sums. */
static void exchange(const struct tt_plan_args *a, const struct tt_sliced *sl,
		     const struct tt_step *at, const struct places *p, int peer, struct tt_op *ops)
{
	size_t mine = tt_coded(a, slice_of(a, sl->slices, a->rank, at->slice).len);
	size_t theirs = tt_coded(a, slice_of(a, sl->slices, peer, at->slice).len);
	bool sums = at->step > 1;
	uint32_t index = 2 * at->turn + sums;

	ops[0] = (struct tt_op){.kind = TT_OP_RECV, .peer = peer, .index = index};
	ops[0].dst = sums ? out_slot(p, peer) : in_slot(p, peer);
	ops[0].len = sums ? theirs : mine;
	ops[1] = (struct tt_op){.kind = TT_OP_SEND, .peer = peer, .index = index};
	ops[1].a = out_slot(p, sums ? a->rank : peer);
	ops[1].len = sums ? mine : theirs;
}

/*
 * Step 0: encode for the other ranks; 1: exchange; 2 to n + 1: combine; n + 2: encode the sum;
 * n + 3: exchange; n + 4: decode. Peers in an order of each rank's own, or all would begin with 0.
 */
static int step(const struct tt_plan_args *a, const struct tt_sliced *sl, const struct tt_step *at,
		struct tt_op *ops)
{
	struct tt_span own = slice_of(a, sl->slices, a->rank, at->slice), s;
	struct places p = places_of(a, sl, at->lane);
	int n = a->nranks, i, peer, nops = 0;

	if (at->step >= 2 && at->step < n + 2) {
		ops[0] = combine(a, &p, at->step - 2, own);
		return 1;
	}
	if (at->step == n + 2) {
		ops[0] = encode(a, out_slot(&p, a->rank), TT_SCRATCH(p.sum), own);
		return 1;
	}
	for (i = at->step == n + 4 ? 0 : 1; i < n; i++) {
		peer = (a->rank + i) % n;
		s = slice_of(a, sl->slices, peer, at->slice);
		if (at->step == 1 || at->step == n + 3) {
			exchange(a, sl, at, &p, peer, &ops[nops]);
			nops += 2;
			continue;
		}
		if (at->step == 0) {
			ops[nops++] = encode(a, out_slot(&p, peer), TT_SENDBUF(s.off), s);
			continue;
		}
		ops[nops] = decode(TT_OP_DECODE, TT_RECVBUF(s.off), out_slot(&p, peer), peer, s);
		ops[nops++].flags = a->divide ? TT_OPF_DIVIDE : 0;
	}
	return nops;
}

bool tt_can_allreduce_codec_direct(const struct tt_plan_args *a)
{
	return a->codec && !a->codec->varies && !a->ordered;
}

size_t tt_codec_slice_units(const struct tt_plan_args *a)
{
	size_t most = SCRATCH_MAX / (size_t)a->nranks / 4, unit = a->codec->align * a->elem;
	size_t n;

	most = most < SLICE_MAX ? most : SLICE_MAX;
	most = most < a->chunk ? most : a->chunk;
	n = most > unit ? most / unit : 1;
	while (n > 1 && tt_coded(a, n * unit) > most) /* longer than the vector */
		n /= 2;
	return n;
}

void tt_allreduce_codec_direct(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t n = (size_t)a->nranks, all = tt_codec_units(a), longest = tt_num_pieces(all, 1, n);
	struct tt_sliced s = {.fn = step, .steps = a->nranks + 5, .max_ops = 2 * a->nranks};
	size_t sum;

	s.slices = tt_num_pieces(longest, 1, tt_codec_slice_units(a));
	s.full = s.slices && all / n >= s.slices;
	s.slice_ops = 7 * n;
	if (s.slices) {
		sum = units(a, 0, tt_num_pieces(longest, 1, s.slices)).len;
		s.state[SLOT] = (tt_coded(a, sum) + 63) / 64 * 64;
		s.state[LANE] = 2 * n * s.state[SLOT] + (sum + 63) / 64 * 64;
		tt_scratch(b, s.state[LANE] * (size_t)a->lanes);
	}
	tt_sliced(b, &s);
}
