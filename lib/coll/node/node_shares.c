/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks whose lengths only two ranks know, in the memory of one host: see coll_node.h. */
#include "lib/coll/coll.h"
#include "lib/coll/node/coll_node.h"

struct tt_shares tt_node_shares_of(const struct tt_plan_args *a, int n)
{
	size_t lengths = (size_t)n * TT_LENGTH_BYTES, slot = tt_slot_bytes(a);
	size_t begin = (lengths + a->elem - 1) / a->elem * a->elem;
	size_t room = begin < slot ? (slot - begin) / (size_t)n : 0;

	return (struct tt_shares){begin, room - room % a->elem};
}

/* Whether the place of a long block fits a share. */
bool tt_can_node_shares(const struct tt_plan_args *a)
{
	return tt_can_node_ranks(a) && tt_node_shares_of(a, a->nranks).each >= TT_LENGTH_BYTES;
}

static struct tt_ref share(const struct tt_shares *s, int i)
{
	return TT_SLOT(s->begin + (size_t)i * s->each);
}

static struct tt_ref length(int i)
{
	return TT_SLOT((size_t)i * TT_LENGTH_BYTES);
}

void tt_node_offer(struct tt_builder *b, const struct tt_shares *s, int i, struct tt_ref block,
		   size_t len, size_t place)
{
	tt_tell_length(b, length(i), len);
	if (len <= s->each)
		tt_copy(b, share(s, i), block, len);
	else
		tt_tell_length(b, share(s, i), place);
}

/* The block for rank j, if it is longer than a share; else empty. */
static struct tt_span longer(const struct tt_plan_args *a, const struct tt_shares *s, int j)
{
	struct tt_span block = tt_send_block(a, j);

	if (j == a->rank || block.len <= s->each)
		block.len = 0;
	return block;
}

/* Longer blocks are copied aside, one after the other, if what comes overwrites them. */
static bool goes_aside(const struct tt_plan_args *a)
{
	return a->in_place && a->coll == TT_COLL_ALLTOALLV;
}

static void copy_aside(struct tt_builder *b, const struct tt_shares *s, size_t at)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_span block;
	int j;

	for (j = 0; j < a->nranks; j++) {
		block = longer(a, s, j);
		tt_copy(b, TT_SCRATCH(at), TT_SENDBUF(block.off), block.len);
		at += block.len;
	}
}

struct tt_ref tt_node_offer_all(struct tt_builder *b, const struct tt_shares *s)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t bytes = 0, at; /* of longer blocks */
	struct tt_span block;
	int j;

	for (j = 0; j < a->nranks; j++) {
		if (j == a->rank)
			continue;
		block = tt_send_block(a, j);
		tt_node_offer(b, s, j, TT_SENDBUF(block.off), block.len,
			      goes_aside(a) ? bytes : block.off);
		bytes += longer(a, s, j).len;
	}
	if (!bytes)
		return TT_NONE;
	if (!goes_aside(a))
		return TT_SENDBUF(0);
	at = tt_scratch(b, bytes);
	copy_aside(b, s, at);
	return TT_SCRATCH(at);
}

/* Of the block of rank i, behind all lengths. */
static struct tt_ref place_of(const struct tt_plan_args *a, int i)
{
	return length(a->nranks + i);
}

struct tt_ref tt_node_offer_places(struct tt_builder *b, size_t least)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_ref result = TT_NONE;
	struct tt_span block;
	int j;

	for (j = 0; j < a->nranks; j++) {
		if (j == a->rank)
			continue;
		block = tt_recv_block(a, j);
		tt_tell_length(b, length(j), block.len);
		if (block.len <= least)
			continue;
		tt_tell_length(b, place_of(a, j), block.off);
		result = TT_RECVBUF(0);
	}
	return result;
}

void tt_node_store(struct tt_builder *b, int peer, struct tt_ref block, size_t len)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	tt_push_told(b, peer, place_of(a, a->rank), block, len);
}

void tt_node_await_longer(struct tt_builder *b, const struct tt_shares *s)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	int j;

	for (j = 0; j < a->nranks; j++)
		if (longer(a, s, j).len)
			tt_wait(b, j, 2);
}

void tt_node_expect(struct tt_builder *b, int peer, int i, size_t len)
{
	tt_expect_length(b, peer, length(i), len);
}

bool tt_node_take(struct tt_builder *b, const struct tt_shares *s, int peer, int i,
		  struct tt_ref dst, size_t len)
{
	if (len > s->each)
		tt_pull_told(b, peer, dst, share(s, i), len);
	else
		tt_pull_copy(b, peer, dst, share(s, i), len);
	return len > s->each;
}
