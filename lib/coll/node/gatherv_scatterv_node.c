/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gatherv and scatterv in the memory of one host, node_slots: as gather and scatter by node_slots,
 * but only a rank and the root know how long the rank's block is. Short blocks go through slots:
 *
 *	gatherv    slot of each other rank:   | length | its block
 *	scatterv   slot of the root:          | length of the block for 0, 1 .. n-1 | for 0 | ..
 *
 * The receiver compares the length that the sender tells with the one that it expects, also of
 * blocks that are empty, before it takes the block. Longer blocks of a scatterv are read straight
 * out of the root's input, and its slot tells where. Those of a gatherv are stored in the root's
 * recvbuf, all at the same time; the root tells lengths, which their owners compare, and places:
 *
 *	gatherv    slot of the root:          | length of the block of 0, 1 .. n-1 | place of 0 ..
 *
 * Where ranks cannot reach each other's ordinary memory, the root reads copies of them.
 *
 *	Cost of the gatherv: a length and a short block copied by each rank; the root waits for all,
 *	reads n-1 lengths and the short blocks, and waits for the longer ones. Cost of the
 *	scatterv: n-1 lengths and short blocks copied by the root; the others wait for the root and
 *	read one of both. The sender of a longer block waits for the receiver.
 */
#include "lib/coll/coll.h"
#include "lib/coll/node/coll_node.h"

static bool is_longer(const struct tt_plan_args *a, const struct tt_shares *s, int j)
{
	return j != a->rank && tt_recv_block(a, j).len > s->each;
}

/* Takes the blocks that no other rank stores; ranks whose blocks were read have them back. */
static void take_all(struct tt_builder *b, const struct tt_shares *s)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block;
	bool owes = false;
	int i, j;

	for (i = 1; i < a->nranks; i++) {
		j = (a->rank + i) % a->nranks;
		block = tt_recv_block(a, j);
		if (!a->direct || !is_longer(a, s, j))
			owes |= tt_node_take(b, s, j, 0, TT_RECVBUF(block.off), block.len);
	}
	if (owes)
		tt_signal(b, 2, TT_NONE, TT_NONE);
}

static void gather_all(struct tt_builder *b, const struct tt_shares *s)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int j;

	tt_signal(b, 1, TT_NONE, a->direct ? tt_node_offer_places(b, s->each) : TT_NONE);
	if (!a->in_place)
		tt_copy(b, TT_RECVBUF(tt_recv_block(a, a->rank).off), tt_input(a),
			tt_vector(a).len);
	tt_wait(b, TT_ALL_RANKS, 1);
	for (j = 0; j < a->nranks; j++)
		if (j != a->rank)
			tt_node_expect(b, j, 0, tt_recv_block(a, j).len);
	tt_round(b);
	take_all(b, s);
	for (j = 0; a->direct && j < a->nranks; j++)
		if (is_longer(a, s, j))
			tt_wait(b, j, 2);
}

/* Of another rank. */
static void give_longer(struct tt_builder *b, const struct tt_shares *s, size_t len)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	tt_node_offer(b, s, 0, tt_input(a), len, 0);
	if (!a->direct) {
		tt_signal(b, 1, tt_input(a), TT_NONE);
		tt_wait(b, a->root, 2);
		return;
	}
	tt_signal(b, 1, TT_NONE, TT_NONE);
	tt_wait(b, a->root, 1);
	tt_node_expect(b, a->root, a->rank, len);
	tt_round(b);
	tt_node_store(b, a->root, tt_input(a), len);
	tt_signal(b, 2, TT_NONE, TT_NONE);
}

void tt_gatherv_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_shares s = tt_node_shares_of(a, 1);
	size_t len = tt_vector(a).len;

	if (a->rank == a->root) {
		gather_all(b, &s);
	} else if (len > s.each) {
		give_longer(b, &s, len);
	} else {
		tt_node_offer(b, &s, 0, tt_input(a), len, 0);
		tt_signal(b, 1, TT_NONE, TT_NONE);
	}
}

void tt_scatterv_node_slots(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_shares s = tt_node_shares_of(a, a->nranks);
	size_t own = tt_send_block(a, a->root).off; /* at the root */

	if (a->rank == a->root) {
		tt_signal(b, 1, tt_node_offer_all(b, &s), TT_NONE);
		if (!a->in_place)
			tt_copy(b, TT_RECVBUF(0), TT_SENDBUF(own), tt_vector(a).len);
		tt_node_await_longer(b, &s);
		return;
	}
	tt_wait(b, a->root, 1);
	tt_node_expect(b, a->root, a->rank, tt_vector(a).len);
	tt_round(b);
	if (tt_node_take(b, &s, a->root, a->rank, TT_RECVBUF(0), tt_vector(a).len))
		tt_signal(b, 2, TT_NONE, TT_NONE);
}
