/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce in two levels, H hosts with m ranks each.
 *
 * hier_*: rank j of every host owns part j of the vector. For each slice of the part:
 *
 *	host 0    0 ─┐ 1 ─┐                  0 <─────> 2 ─┐           0 ─> 1
 *	          1 ─┴> 0 0 ─┴> 1            1 <─────> 3  │ across    1 ─> 0
 *	host 1    2 ─┐ 3 ─┐                               │ hosts     2 ─> 3
 *	          3 ─┴> 2 2 ─┴> 3                        ─┘           3 ─> 2
 *
 *	combine it straight out of the inputs of all ranks of the host into the own recvbuf;
 *	all-reduce it, in place, with the ranks in charge of the same part on the other hosts, by
 *	ring, recursive halving and doubling, recursive doubling or the double tree; store it in
 *	the recvbufs of the other ranks of the host.
 *
 * Only the owner accesses a part between the beginning, when all ranks have published their
 * buffers, and the end, when all have stored everything. So ranks of a host wait only twice, for
 * any number of slices. Slices are distributed over lanes, so one slice is combined while another
 * is on the network. This also works in place: the part of its input that a rank overwrites is
 * read by that rank only.
 *
 *	Cost per rank: N/m read from each of m inputs, and what an all-reduce of N/m among H ranks
 *	costs, N/m stored in each of m - 1 other recvbufs. A host sends what its ranks do together:
 *	2(H-1)/H N by ring, where a flat ring of all n = Hm sends 2(n-1)/n N.
 *
 * hier_leader, for short vectors: each rank copies its vector into its slot. The first rank of the
 * host combines the slots, runs recursive doubling (radix if H is not a power of two) with the
 * first ranks of the other hosts, and puts the result into its slot, from which the other ranks
 * copy it.
 *
 *	Cost: one copy, two signals within the host, log2 H messages of N bytes by the first of
 *	each host.
 *
 * All combine in rank order within a host. One rank of each host computes an element, by an
 * algorithm that gives the same bits on all hosts.
 */
#include "lib/coll/hier/hier.h"

bool tt_can_hier_commuting(const struct tt_plan_args *a)
{
	return a->hosts && !a->ordered;
}

bool tt_can_hier_ranks(const struct tt_plan_args *a)
{
	return tt_can_hier(a);
}

bool tt_can_hier_leader(const struct tt_plan_args *a)
{
	return tt_can_hier(a) && a->count * a->elem <= tt_slot_bytes(a);
}

static void add_slice(struct tt_hier *h, int place, size_t slice)
{
	struct tt_span at = tt_hier_part(h, place, slice);
	struct tt_plan_args across = tt_hier_args(h->a, TT_COLL_ALLREDUCE, at.len / h->a->elem);
	struct tt_ref to = TT_RECVBUF(at.off);
	struct tt_across where = {.place = place, .send = to, .recv = to};

	across.in_place = true;
	if (!tt_hier_slice(h, &across, &where, 0, NULL))
		return;
	tt_hier_combine(h->b, to, TT_SENDBUF(at.off), at.len);
	tt_hier_add(h->b, &where, h->plan);
	tt_hier_push(h, at.off, at.len);
}

static void levels(struct tt_builder *b, const char *name, size_t chunks)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a, .name = name};

	if (a->count)
		tt_hier_lanes(&h, tt_hier_longest_part(a), chunks, tt_input(a), TT_RECVBUF(0),
			      add_slice);
}

void tt_allreduce_hier_ring(struct tt_builder *b)
{
	levels(b, "ring", (size_t)tt_builder_args(b)->hosts->hosts);
}

void tt_allreduce_hier_halving_doubling(struct tt_builder *b)
{
	levels(b, "halving_doubling", (size_t)tt_builder_args(b)->hosts->hosts);
}

void tt_allreduce_hier_recursive_doubling(struct tt_builder *b)
{
	levels(b, "recursive_doubling", 1);
}

void tt_allreduce_hier_dbt(struct tt_builder *b)
{
	levels(b, "dbt", 2);
}

/* Among the first ranks of the hosts, from scratch to recvbuf. */
static void lead(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_ALLREDUCE, a->count);
	size_t len = a->count * a->elem, own = tt_scratch(b, len);
	struct tt_across where = {.send = TT_SCRATCH(own), .recv = TT_RECVBUF(0)};

	tt_meet(b, 1, TT_NONE, TT_NONE);
	tt_hier_combine(b, TT_SCRATCH(own), TT_SLOT(0), len);
	/* a fold would be two steps more */
	tt_hier_once(b,
		     tt_fold_pow2(across.nranks) == across.nranks ? "recursive_doubling" : "radix",
		     &across, where);
	tt_copy(b, TT_SLOT(0), TT_RECVBUF(0), len);
	tt_signal(b, 2, TT_NONE, TT_NONE);
}

void tt_allreduce_hier_leader(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;
	int first;

	if (!len)
		return;
	first = tt_hier_near(a, 0);
	tt_copy(b, TT_SLOT(0), tt_input(a), len);
	if (a->rank == first) {
		lead(b);
		return;
	}
	tt_signal(b, 1, TT_NONE, TT_NONE);
	tt_wait(b, first, 2);
	tt_pull_copy(b, first, TT_RECVBUF(0), TT_SLOT(0), len);
}
