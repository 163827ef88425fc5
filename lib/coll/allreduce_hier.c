/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce in two levels, H hosts with m ranks each.
 *
 * hier_*: rank j of every host is in charge of part j of the vector, and does with each slice of it:
 *
 *	host 0    0 ─┐ 1 ─┐                  0 <─────> 2 ─┐           0 ─> 1
 *	          1 ─┴> 0 0 ─┴> 1            1 <─────> 3  │ across    1 ─> 0
 *	host 1    2 ─┐ 3 ─┐                               │ hosts     2 ─> 3
 *	          3 ─┴> 2 2 ─┴> 3                        ─┘           3 ─> 2
 *
 *	combine it straight out of the inputs of all ranks of the host into the own recvbuf;
 *	all-reduce it, in place, with the ranks in charge of the same part on the other hosts, by ring, recursive halving and
 *	doubling, recursive doubling or the double tree;
 *	store it in the recvbufs of the other ranks of the host.
 *
 * Nobody but its rank touches a part between the beginning, when all have told where their buffers are, and the end, when
 * all have stored everything: within a host that is all the waiting there is, two times, however many slices.
 * Slices are dealt out to lanes, so one slice is combined while another one is on the network. In place that is right
 * as well: what a rank overwrites of its own input, its part, only itself has to read.
 *
 *	Cost per rank: N/m read from each of m inputs, and what an all-reduce of N/m among H ranks costs, N/m stored in each
 *	of m - 1 other recvbufs. A host sends what its ranks do together: 2(H-1)/H N by ring, where a flat ring of all n = Hm
 *	sends 2(n-1)/n N.
 *
 * hier_leader, for short vectors: each rank copies its vector into its slot; the first of the host combines them, does recursive
 * doubling with those of the other hosts, and puts the result into its slot, out of which the others copy it.
 *
 *	Cost: one copy, two signals within the host, log2 H messages of N bytes by the first of each host.
 *
 * All combine in order of rank within a host. One rank of each host computes an element, and all of those by an
 * algorithm that gives the same bits.
 */
#include "lib/coll/hier.h"

#define SLICE_CHUNKS 16 /* at most, as in allreduce_halving_doubling.c */

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
	return tt_can_hier(a) && a->count * a->elem <= TT_SLOT_BYTES;
}

struct levels {
	struct tt_builder *b;
	const struct tt_plan_args *a;
	const char *name;     /* of what goes across */
	struct tt_span part;  /* this rank's */
	size_t slices;
	size_t base, slot;    /* of scratch; bytes for a lane */
	int lanes;
	struct tt_plan *plan; /* of the last slice */
};

static void add_slice(struct levels *l, size_t s)
{
	const struct tt_plan_args *a = l->a;
	struct tt_span at = tt_pieces(l->part, a->elem, l->slices, s, 1);
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_ALLREDUCE, at.len / a->elem);
	struct tt_across where = {tt_hier_local(a), TT_RECVBUF(at.off), TT_RECVBUF(at.off),
				  0};

	across.in_place = true;
	if (!at.len || !tt_hier_plan(l->b, l->name, &across, &l->plan))
		return;
	if (!l->slot) { /* the first slice is a longest one */
		l->base = tt_scratch(l->b, 0);
		l->slot = tt_slots(l->b, (size_t)l->lanes, l->plan->scratch);
	}
	where.scratch = l->base + s % (size_t)l->lanes * l->slot;
	tt_round(l->b);
	tt_pull_reduce(l->b, a->rank, TT_RECVBUF(at.off), TT_SENDBUF(at.off), at.len, 0);
	tt_hier_add(l->b, &where, l->plan);
	tt_push(l->b, TT_ALL_RANKS, TT_RECVBUF(at.off), TT_RECVBUF(at.off), at.len);
}

/* Slices of the longest part: of so many chunks, for algorithms that cut it into parts again. */
static size_t slices_of(const struct tt_plan_args *a, size_t chunks)
{
	size_t most = 0, len;
	int i;

	for (i = 0; i < a->hosts->each; i++) {
		len = tt_node_part_of(a, a->hosts->each, i).len;
		most = len > most ? len : most;
	}
	return tt_num_pieces(most, a->elem, a->chunk * (chunks < SLICE_CHUNKS ? chunks : SLICE_CHUNKS));
}

static void levels(struct tt_builder *b, const char *name, size_t chunks)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct levels l = {.b = b, .a = a, .name = name, .slices = slices_of(a, chunks)};
	size_t s;
	int lane;

	if (!a->count)
		return;
	l.part = tt_node_part_of(a, a->hosts->each, tt_hier_local(a));
	l.lanes = l.slices < (size_t)a->lanes ? (int)l.slices : a->lanes;
	tt_lane(b, 0);
	tt_signal(b, TT_NEXT_STEP, tt_input(a), TT_RECVBUF(0));
	for (lane = 0; lane < l.lanes; lane++) {
		tt_lane(b, lane);
		tt_wait(b, TT_ALL_RANKS, 1);
	}
	for (s = 0; s < l.slices; s++) {
		tt_lane(b, (int)(s % (size_t)l.lanes));
		add_slice(&l, s);
	}
	for (lane = 0; lane < l.lanes; lane++) {
		tt_lane(b, lane);
		tt_signal(b, TT_NEXT_STEP, TT_NONE, TT_NONE);
	}
	tt_lane(b, 0);
	tt_wait(b, TT_ALL_RANKS, 1 + (unsigned)l.lanes);
	tt_plan_free(l.plan);
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
	struct tt_across where = {0, TT_SCRATCH(own), TT_RECVBUF(0), 0};
	struct tt_plan *plan = NULL;

	tt_signal(b, 1, TT_NONE, TT_NONE);
	tt_wait(b, TT_ALL_RANKS, 1);
	tt_pull_reduce(b, a->rank, TT_SCRATCH(own), TT_SLOT(0), len, 0);
	if (tt_hier_plan(b, "recursive_doubling", &across, &plan)) {
		where.scratch = tt_scratch(b, plan->scratch);
		tt_hier_add(b, &where, plan);
	}
	tt_copy(b, TT_SLOT(0), TT_RECVBUF(0), len);
	tt_signal(b, 2, TT_NONE, TT_NONE);
	tt_plan_free(plan);
}

void tt_allreduce_hier_leader(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;
	int first;

	if (!len)
		return;
	first = a->hosts->rank[tt_hier_host(a) * a->hosts->each];
	tt_copy(b, TT_SLOT(0), tt_input(a), len);
	if (a->rank == first) {
		lead(b);
		return;
	}
	tt_signal(b, 1, TT_NONE, TT_NONE);
	tt_wait(b, first, 2);
	tt_pull_copy(b, first, TT_RECVBUF(0), TT_SLOT(0), len);
}
