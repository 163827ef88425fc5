/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce in two levels, H hosts with m ranks each; see allreduce_hier.c, of which these are the parts that the root needs.
 *
 * hier_binomial: rank j of every host combines part j out of all inputs of the host, the parts are reduced to the
 * ranks at the same place of the root's host by a binomial tree, and those store them in the root's recvbuf.
 *
 *	Cost: N/m read from each of m inputs, what a reduce of N/m among H ranks costs, N/m stored.
 *
 * hier_leader, for short vectors: all copy their vectors into their slots; the rank at the root's place of each host combines
 * them and takes part in a binomial tree to the root. The others are done at once.
 *
 *	Cost: a copy, a signal within the host, log2 H messages of N bytes.
 */
#include "lib/coll/hier.h"

bool tt_can_reduce_hier_leader(const struct tt_plan_args *a)
{
	return tt_can_hier(a) && a->count * a->elem <= TT_SLOT_BYTES;
}

static void add_slice(struct tt_hier *h, struct tt_span at, int lane)
{
	const struct tt_plan_args *a = h->a;
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_REDUCE, at.len / a->elem);
	struct tt_across where = {.local = tt_hier_local(a)};
	bool root = a->rank == a->root;

	across.root = a->hosts->host[a->root];
	across.in_place = tt_hier_host(a) == across.root;
	if (!tt_hier_slice(h, &across, root ? 0 : at.len))
		return;
	where.scratch = h->base + (size_t)lane * h->slot;
	where.send = root ? TT_RECVBUF(at.off)
			  : TT_SCRATCH(where.scratch + (h->plan->scratch + 63) / 64 * 64);
	where.recv = where.send;
	tt_pull_reduce(h->b, a->rank, where.send, TT_SENDBUF(at.off), at.len, 0);
	tt_hier_add(h->b, &where, h->plan);
	if (across.in_place && !root)
		tt_push(h->b, a->root, TT_RECVBUF(at.off), where.recv, at.len);
}

void tt_reduce_hier_binomial(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a, .name = "binomial"};
	size_t longest;

	if (!a->count)
		return;
	h.part = tt_hier_part(a, &longest);
	tt_hier_lanes(&h, longest, 1, tt_input(a), a->rank == a->root ? TT_RECVBUF(0) : TT_NONE,
		      add_slice);
}

void tt_reduce_hier_leader(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_REDUCE, a->count);
	struct tt_across where = {.local = a->hosts->local[a->root], .recv = TT_RECVBUF(0)};
	size_t len = a->count * a->elem, own;
	struct tt_plan *plan = NULL;

	if (!len)
		return;
	tt_copy(b, TT_SLOT(0), tt_input(a), len);
	tt_signal(b, 1, TT_NONE, TT_NONE);
	if (tt_hier_local(a) != where.local)
		return;
	own = tt_scratch(b, len);
	where.send = TT_SCRATCH(own);
	across.root = a->hosts->host[a->root];
	tt_wait(b, TT_ALL_RANKS, 1);
	tt_pull_reduce(b, a->rank, TT_SCRATCH(own), TT_SLOT(0), len, 0);
	if (tt_hier_plan(b, "binomial", &across, &plan)) {
		where.scratch = tt_scratch(b, plan->scratch);
		tt_hier_add(b, &where, plan);
	}
	tt_plan_free(plan);
}
