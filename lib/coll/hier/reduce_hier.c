/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce in two levels, H hosts with m ranks each: the stages of allreduce_hier.c that the root
 * needs.
 *
 * hier_binomial: rank j of every host combines part j from all inputs of the host. A binomial tree
 * reduces the parts to the ranks at the same place of the root's host, which store them in the
 * root's recvbuf.
 *
 *	Cost: N/m read from each of m inputs, what a reduce of N/m among H ranks costs, N/m stored.
 *
 * hier_leader, for short vectors: all copy their vectors into their slots; the rank at the root's
 * place of each host combines them and takes part in a binomial tree to the root. Other ranks are
 * done at once.
 *
 *	Cost: a copy, a signal within the host, log2 H messages of N bytes.
 */
#include "lib/coll/hier/hier.h"

bool tt_can_reduce_hier_leader(const struct tt_plan_args *a)
{
	return tt_can_hier(a) && a->count * a->elem <= tt_slot_bytes(a);
}

static void add_slice(struct tt_hier *h, int place, size_t slice)
{
	const struct tt_plan_args *a = h->a;
	struct tt_span at = tt_hier_part(h, place, slice);
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_REDUCE, at.len / a->elem);
	struct tt_across where = {.place = place};
	bool root = a->rank == a->root;
	size_t sum;

	across.root = a->hosts->host[a->root];
	across.in_place = tt_hier_host(a) == across.root;
	if (!tt_hier_slice(h, &across, &where, root ? 0 : at.len, &sum))
		return;
	where.send = root ? TT_RECVBUF(at.off) : TT_SCRATCH(sum);
	where.recv = where.send;
	tt_hier_combine(h->b, where.send, TT_SENDBUF(at.off), at.len);
	tt_hier_add(h->b, &where, h->plan);
	if (across.in_place && !root)
		tt_push(h->b, a->root, TT_RECVBUF(at.off), where.recv, at.len);
}

void tt_reduce_hier_binomial(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a, .name = "binomial"};

	if (a->count)
		tt_hier_lanes(&h, tt_hier_longest_part(a), 1, tt_input(a),
			      a->rank == a->root ? TT_RECVBUF(0) : TT_NONE, add_slice);
}

void tt_reduce_hier_leader(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_REDUCE, a->count);
	struct tt_across where = {.place = a->hosts->local[a->root], .recv = TT_RECVBUF(0)};
	size_t len = a->count * a->elem, own;

	if (!len)
		return;
	tt_copy(b, TT_SLOT(0), tt_input(a), len);
	tt_signal(b, 1, TT_NONE, TT_NONE);
	if (a->rank != tt_hier_near(a, where.place))
		return;
	own = tt_scratch(b, len);
	where.send = TT_SCRATCH(own);
	across.root = a->hosts->host[a->root];
	tt_wait(b, TT_ALL_RANKS, 1);
	tt_hier_combine(b, TT_SCRATCH(own), TT_SLOT(0), len);
	tt_hier_once(b, "binomial", &across, where);
}
