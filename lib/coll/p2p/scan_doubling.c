/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scan and exscan by recursive doubling: few steps, for short vectors.
 *
 *	step 0   0 ──> 1 ──> 2 ──> 3 ──> 4      2 has x1+x2, 3 has x2+x3, ...
 *	step 1   0 ────────> 2
 *	               1 ────────> 3            3 has (x0+x1)+(x2+x3)
 *	                     2 ────────> 4
 *	step 2   0 ────────────────────> 4
 *
 * In step k rank r sends its sum to r + 2^k and combines the sum from r - 2^k on the left; then it
 * has the sum of the 2^(k+1) ranks up to itself in rank order, so the operator need not commute.
 * In an exscan every rank first sends its own vector to the next rank, and ranks 1 to n - 1 scan
 * the received vectors.
 *
 * A step must not overwrite the sum that it sends: sums alternate between scratch and recvbuf, and
 * the last one is in recvbuf. Only in place, if the first sum is also the last, the send comes
 * first.
 *
 * Cost, n ranks, N bytes: ceil(log2 n) steps a slice (exscan 1 + ceil(log2 (n-1))), in each at
 * most N sent, received and reduced; fan-in 1.
 *
 * Hillis, Steele: Data parallel algorithms. Communications of the ACM 29(12), 1986.
 */
#include "lib/coll/coll.h"

struct work {
	struct tt_builder *b;
	int v, n;	    /* number among, and count of, the ranks that scan */
	struct tt_span s;   /* the slice */
	struct tt_ref temp; /* for sums that are not the last */
	bool in_place;
};

/* The place of the next sum, given the number of messages still to come. */
static struct tt_ref place(const struct work *w, int left)
{
	return left % 2 ? w->temp : TT_RECVBUF(w->s.off);
}

static bool same_place(const struct work *w, struct tt_ref a, struct tt_ref b)
{
	bool one = w->in_place && a.buf != TT_BUF_SCRATCH && b.buf != TT_BUF_SCRATCH;

	return one || (a.buf == b.buf && a.off == b.off);
}

/* cur: the rank's first operand; peers are v's plus shift. */
static void scan(const struct work *w, struct tt_ref cur, int shift)
{
	int receives = 0, r = w->v + shift;
	struct tt_ref next;
	long dist;

	for (dist = 1; dist <= w->v; dist *= 2)
		receives++;
	for (dist = 1; dist < w->n; dist *= 2) {
		tt_round(w->b);
		if (w->v + dist < w->n)
			tt_send(w->b, (int)(r + dist), cur, w->s.len);
		if (dist > w->v)
			continue;
		next = place(w, --receives);
		if (same_place(w, next, cur))
			tt_round(w->b);
		tt_recv_reduce(w->b, (int)(r - dist), next, TT_NET, cur, w->s.len, 0);
		cur = next;
	}
}

static void exscan(const struct work *w, int rank)
{
	struct tt_ref own = TT_SENDBUF(w->s.off), given;
	int receives = 0;
	long dist;

	for (dist = 1; dist <= w->v; dist *= 2)
		receives++;
	given = place(w, receives);
	tt_round(w->b);
	if (w->v < w->n - 1)
		tt_send(w->b, rank + 1, own, w->s.len);
	if (!rank)
		return;
	if (same_place(w, given, own))
		tt_round(w->b);
	tt_recv(w->b, rank - 1, given, w->s.len);
	scan(w, given, 1);
}

void tt_scan_doubling(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	bool ex = a->coll == TT_COLL_EXSCAN;
	size_t slices = tt_num_slices(a, a->count * a->elem), base, slot, i;
	int lanes = tt_num_lanes(a, slices), lane;
	struct work w = {.b = b, .v = a->rank - ex, .n = a->nranks - ex, .in_place = a->in_place};

	base = tt_slice_slots(b, (size_t)lanes, tt_vector(a).len, &slot);
	for (i = 0; i < slices; i++) {
		lane = (int)(i % (size_t)lanes);
		w.s = tt_slice(a, tt_vector(a), slices, i);
		w.temp = TT_SCRATCH(base + (size_t)lane * slot);
		tt_lane(b, lane);
		if (ex)
			exscan(&w, a->rank);
		else
			scan(&w, TT_SENDBUF(w.s.off), 0);
		if (!a->rank && !ex && !a->in_place)
			tt_copy(b, TT_RECVBUF(w.s.off), TT_SENDBUF(w.s.off), w.s.len);
	}
}
