/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of neighbours in two levels, where the ranks of a host share its memory: each rank
 * averages its part of the vector straight out of the inputs of its host into its own recvbuf,
 * replaces it by the weighted sum over the neighbouring hosts, in place, as in
 * lib/coll/p2p/neighbors.c, and stores it in the recvbufs of its host. Slices of the part in lanes,
 * as in allreduce_hier.c. lib/coll/p2p/neighbors_hier.c does the same by messages alone.
 *
 *	Cost, N bytes, m ranks on each host: N/m read from each of m inputs, out-degree x N/m sent,
 *	N/m stored in each of m - 1 other recvbufs; two waits for all ranks of the host.
 *
 * On one host each rank averages short vectors for itself, out of slots as in allreduce_node.c.
 *
 *	Cost: one copy of N bytes, one wait for all, N bytes read from each of m slots.
 */
#include "lib/coll/hier/hier.h"

static void add_slice(struct tt_hier *h, int place, size_t slice)
{
	struct tt_span at = tt_hier_part(h, place, slice);
	struct tt_plan_args across =
		tt_hier_args(h->a, TT_COLL_NEIGHBOR_ALLREDUCE, at.len / h->a->elem);
	struct tt_ref to = TT_RECVBUF(at.off);
	struct tt_across where = {.place = place, .send = to, .recv = to};

	across.in_place = true;
	across.edges = h->a->edges;
	if (!tt_hier_slice(h, &across, &where, 0, NULL))
		return;
	if (tt_hier_size(h->a) > 1)
		tt_pull_reduce(h->b, h->a->rank, to, TT_SENDBUF(at.off), at.len, TT_OPF_HOST);
	else
		tt_copy(h->b, to, TT_SENDBUF(at.off), at.len);
	tt_hier_add(h->b, &where, h->plan);
	tt_hier_push(h, at.off, at.len);
}

/* Longer vectors gain more from reading a part than they lose by a second wait. */
static bool uses_slots(const struct tt_plan_args *a)
{
	return a->hosts->hosts == 1 && a->nranks > 1 && a->count * a->elem <= TT_SLOT_SMALL;
}

static void average_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;

	tt_copy(b, TT_SLOT(0), tt_input(a), len);
	tt_meet(b, 1, TT_NONE, TT_NONE);
	tt_pull_reduce(b, a->rank, TT_RECVBUF(0), TT_SLOT(0), len, TT_OPF_HOST);
	tt_round(b);
	tt_add(b,
	       &(struct tt_op){
		       .kind = TT_OP_WEIGH, .dst = TT_RECVBUF(0), .a = TT_RECVBUF(0), .len = len});
}

static void neighbor_allreduce_hier(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a};

	if (a->count && uses_slots(a))
		average_slots(b);
	else if (a->count)
		tt_hier_lanes(&h, tt_hier_longest_part(a), 1, tt_input(a), TT_RECVBUF(0),
			      add_slice);
}

const struct tt_alg *tt_alg_neighbors_hier(void)
{
	static const struct tt_alg alg = {TT_COLL_NEIGHBOR_HIER_ALLREDUCE, "hier",
					  neighbor_allreduce_hier, NULL, NULL};

	return &alg;
}
