/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast in two levels, H hosts with m ranks each.
 *
 * hier_binomial: on the root's host rank j reads part j of the vector from the root's memory. On
 * every host rank j owns part j: the part goes to the ranks at the same place of the other hosts
 * by a binomial tree, and each owner stores it in the recvbufs of the other ranks of its host.
 * Slices of parts in lanes, as in allreduce_hier.c.
 *
 *	Cost: N/m read on the root's host, what a broadcast of N/m among H ranks costs, (m-1)/m N
 *	stored. All ranks of a host send and receive.
 *
 * hier_leader, for short vectors: the root sends the vector to the ranks at its place on the other
 * hosts. It and they copy the vector into their slots, from which the other ranks of their hosts
 * copy it.
 *
 *	Cost: log2 H messages of N bytes, two copies and a signal within each host.
 */
#include "lib/coll/hier/hier.h"

bool tt_can_bcast_hier_leader(const struct tt_plan_args *a)
{
	return tt_can_hier(a) && a->count * a->elem <= tt_slot_bytes(a);
}

/* Stores the part at all other ranks of this host that do not have it. */
static void push_slice(struct tt_hier *h, struct tt_span at)
{
	const struct tt_hosts *hosts = h->a->hosts;
	struct tt_ref here = TT_RECVBUF(at.off);
	int host = tt_hier_host(h->a), i, rank;

	if (host != hosts->host[h->a->root]) {
		tt_hier_push(h, at.off, at.len);
		return;
	}
	for (i = 0; i < hosts->size[host]; i++) {
		rank = tt_hier_near(h->a, i);
		if (rank != h->a->rank && rank != h->a->root)
			tt_push(h->b, rank, here, here, at.len);
	}
}

static void add_slice(struct tt_hier *h, int place, size_t slice)
{
	const struct tt_plan_args *a = h->a;
	struct tt_span at = tt_hier_part(h, place, slice);
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_BCAST, at.len / a->elem);
	struct tt_across where = {.place = place, .recv = TT_RECVBUF(at.off)};

	across.root = a->hosts->host[a->root];
	if (!tt_hier_slice(h, &across, &where, 0, NULL))
		return;
	if (tt_hier_host(a) == across.root && a->rank != a->root)
		tt_pull_copy(h->b, a->root, TT_RECVBUF(at.off), TT_SENDBUF(at.off), at.len);
	tt_hier_add(h->b, &where, h->plan);
	push_slice(h, at);
}

void tt_bcast_hier_binomial(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_hier h = {.b = b, .a = a, .name = "binomial"};
	bool root = a->rank == a->root;

	if (a->count)
		tt_hier_lanes(&h, tt_hier_longest_part(a), 1, root ? TT_RECVBUF(0) : TT_NONE,
			      root ? TT_NONE : TT_RECVBUF(0), add_slice);
}

void tt_bcast_hier_leader(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_BCAST, a->count);
	struct tt_across where = {.place = a->hosts->local[a->root], .recv = TT_RECVBUF(0)};
	int lead = tt_hier_near(a, where.place);
	size_t len = a->count * a->elem;

	if (!len)
		return;
	if (a->rank != lead) {
		tt_wait(b, lead, 1);
		tt_pull_copy(b, lead, TT_RECVBUF(0), TT_SLOT(0), len);
		return;
	}
	across.root = a->hosts->host[a->root];
	tt_hier_once(b, "binomial", &across, where);
	tt_copy(b, TT_SLOT(0), TT_RECVBUF(0), len);
	tt_signal(b, 1, TT_NONE, TT_NONE);
}
