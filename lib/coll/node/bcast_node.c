/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast in the memory of one host.
 *
 * node_slots: the root copies the vector into its slot, signals and is done; the others copy it
 * out when they come.
 *
 *	Cost: one signal; N bytes copied in by the root and out by each other rank.
 *
 * node_pull: the root signals where the vector is, the others copy it out of there and signal that
 * they have.
 *
 *	Cost: two signals; N bytes read and written by each rank but the root, which waits for them.
 *
 * With one other rank, which the root can write to, the root stores the second half of a vector
 * longer than a slot there while the other rank copies the first.
 *
 *	Cost: two waits for both; N/2 bytes read and written by each.
 */
#include "lib/coll/node/coll_node.h"

bool tt_can_bcast_node_slots(const struct tt_plan_args *a)
{
	return tt_can_node_ranks(a) && a->count * a->elem <= tt_slot_bytes(a);
}

void tt_bcast_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;

	if (!len)
		return;
	if (a->rank == a->root) {
		tt_copy(b, TT_SLOT(0), TT_RECVBUF(0), len);
		tt_signal(b, 1, TT_NONE, TT_NONE);
		return;
	}
	tt_wait(b, a->root, 1);
	tt_pull_copy(b, a->root, TT_RECVBUF(0), TT_SLOT(0), len);
}

bool tt_bcast_in_halves(const struct tt_plan_args *a)
{
	return a->direct && a->nranks == 2 && a->count * a->elem > tt_slot_bytes(a);
}

static void by_halves(struct tt_builder *b, int root, struct tt_ref vector)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span first = tt_node_part(a, 0), second = tt_node_part(a, 1);
	struct tt_ref rest = {vector.buf, vector.off + second.off};
	bool sends = a->rank == root;

	tt_meet(b, 1, sends ? vector : TT_NONE, sends ? TT_NONE : TT_RECVBUF(0));
	if (sends) {
		tt_push_else(b, !root, TT_RECVBUF(second.off), rest, second.len);
	} else {
		tt_pull_copy_if(b, TT_OPF_ELSE, root, TT_RECVBUF(0), TT_SENDBUF(0), first.len);
		tt_pull_copy_if(b, TT_OPF_STREAMED, root, TT_RECVBUF(0), TT_SENDBUF(0),
				a->count * a->elem);
	}
	tt_meet(b, 2, TT_NONE, TT_NONE);
}

void tt_node_bcast(struct tt_builder *b, int root, struct tt_ref vector)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t len = a->count * a->elem;

	if (!len)
		return;
	if (tt_bcast_in_halves(a)) {
		by_halves(b, root, vector);
		return;
	}
	if (a->rank == root) {
		tt_signal(b, 1, vector, TT_NONE);
		tt_signal(b, 2, TT_NONE, TT_NONE);
		tt_wait_release(b, TT_ALL_RANKS, 2);
		return;
	}
	tt_wait(b, root, 1);
	tt_pull_copy(b, root, TT_RECVBUF(0), TT_SENDBUF(0), len);
	tt_signal(b, 2, TT_NONE, TT_NONE);
}

void tt_bcast_node_pull(struct tt_builder *b)
{
	tt_node_bcast(b, tt_builder_args(b)->root, TT_RECVBUF(0));
}
