/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scan and exscan of short vectors in two levels, where the ranks of a host follow one another:
 * all ranks copy their vectors into their slots. The first rank of each host combines them, and
 * the first ranks run an exscan by recursive doubling. Each rank then combines the sum of the
 * hosts before with the slots of the ranks before it on its host.
 *
 *	host 0	0: x0 ─┐			x0
 *		1: x1 ─┴ x0+x1 ──┐		x0+x1
 *	host 1	2: x2 ─┐	 └> x0+x1	(x0+x1) + x2
 *		3: x3 ─┴ x2+x3 ──> ...		(x0+x1) + (x2+x3)
 *
 * Cost: two signals within the host, what an exscan of N among H ranks costs, up to m vectors read
 * by each rank. Long vectors: a chain crosses from host to host as often, and no rank reads more
 * than a message.
 */
#include "lib/coll/hier/hier.h"

bool tt_can_scan_hier(const struct tt_plan_args *a)
{
	return a->hosts && a->hosts->in_order && 2 * a->count * a->elem <= tt_slot_bytes(a);
}

/* The vectors of the first n ranks of this host, combined; false: there are none. */
static bool combine_first(struct tt_builder *b, int n, size_t sum, size_t next, size_t len)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int i;

	for (i = 0; i < n; i++) {
		tt_round(b);
		if (tt_hier_near(a, i) == a->rank)
			tt_copy(b, TT_SCRATCH(i ? next : sum), TT_SLOT(0), len);
		else
			tt_pull_copy(b, tt_hier_near(a, i), TT_SCRATCH(i ? next : sum), TT_SLOT(0),
				     len);
		tt_round(b);
		if (i)
			tt_reduce(b, TT_SCRATCH(sum), TT_SCRATCH(sum), TT_SCRATCH(next), len, 0);
	}
	tt_round(b);
	return n > 0;
}

/* Stores the sum of the hosts before at `to`. */
static void before(struct tt_builder *b, size_t to, size_t len)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_EXSCAN, a->count);
	size_t all = tt_scratch(b, len);
	struct tt_across where = {.send = TT_SCRATCH(all), .recv = TT_SCRATCH(to)};

	tt_wait(b, TT_ALL_RANKS, 1);
	tt_hier_combine(b, TT_SCRATCH(all), TT_SLOT(0), len);
	tt_hier_once(b, "doubling", &across, where);
	if (tt_hier_host(a))
		tt_copy(b, TT_SLOT(len), TT_SCRATCH(to), len);
	tt_signal(b, 2, TT_NONE, TT_NONE);
}

void tt_scan_hier_leader(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem, stride = (len + 63) / 64 * 64, sum, rest, next;
	int first, n = a->hosts->local[a->rank] + (a->coll == TT_COLL_SCAN);
	bool some, later = tt_hier_host(a) > 0;

	if (!len)
		return;
	first = tt_hier_near(a, 0);
	sum = tt_scratch(b, 3 * stride);
	next = sum + stride;
	rest = next + stride;
	tt_copy(b, TT_SLOT(0), TT_SENDBUF(0), len);
	tt_signal(b, 1, TT_NONE, TT_NONE);
	if (a->rank == first)
		before(b, rest, len);
	else
		tt_wait(b, TT_ALL_RANKS, 1);
	some = combine_first(b, n, sum, next, len);
	if (a->rank != first && later) {
		tt_wait(b, first, 2);
		tt_pull_copy(b, first, TT_SCRATCH(rest), TT_SLOT(len), len);
		tt_round(b);
	}
	if (some && later)
		tt_reduce(b, TT_RECVBUF(0), TT_SCRATCH(rest), TT_SCRATCH(sum), len, 0);
	else if (some || later)
		tt_copy(b, TT_RECVBUF(0), TT_SCRATCH(some ? sum : rest), len);
}
