/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A member of a partial all-reduce: keeps results until its caller takes them, and offers until a
 * result has them. At most TT_PARTIAL_OFFERS offers are under way; what the caller contributes
 * beyond waits as one sum.
 */
#include <string.h>

#include "lib/base/copy.h"
#include "lib/partial/partial.h"

/* ---- results ---- */

struct tt_partial_slot *tt_partial_kept(struct tutti_partial *p, uint64_t round)
{
	struct tt_partial_slot *slot = &p->slot[round % TUTTI_PARTIAL_WINDOW];

	return slot->vec && slot->head->round == round ? slot : NULL;
}

/* Adds the results that the call has not seen to its buffer. False: some are not kept any more. */
static bool deliver(struct tutti_partial *p)
{
	struct tt_partial_slot *slot;
	const void *src[2] = {p->recv};

	while (p->seen < p->round) {
		slot = tt_partial_kept(p, p->seen + 1);
		if (!slot)
			return false;
		src[1] = slot->vec->data;
		if (!p->first)
			tt_copy_data(p->recv, slot->vec->data, p->bytes);
		else
			tt_reduce_multi(&p->recv, 1, src, 2, p->count, p->datatype, TUTTI_SUM, 0,
					0);
		p->seen++;
		p->first = p->first ? p->first : p->seen;
		memcpy(p->took, tt_partial_bitmap(p, slot->head), p->bitmap_len);
	}
	return true;
}

/* Something has come that a call may wait for. A drain takes results as they come. */
void tt_partial_take(struct tutti_partial *p)
{
	if (p->call == TT_PARTIAL_NONE || p->call_over)
		return;
	p->behind = !deliver(p);
	if (p->behind)
		p->call_over = true;
	else if (p->call == TT_PARTIAL_ALLREDUCE)
		p->call_over = p->first != 0;
	else
		p->call_over = p->drains >= p->drain_goal;
}

/* ---- offers ---- */

void tt_partial_carry(struct tutti_partial *p)
{
	size_t bytes = 0;
	int i;

	for (i = 0; i <= TT_PARTIAL_OFFERS; i++)
		if (p->offer[i].vec && p->config.late == TUTTI_PARTIAL_CARRY && !p->failed)
			bytes = p->bytes;
	p->parent->carried += bytes;
	p->parent->carried -= p->carried;
	p->carried = bytes;
}

/* The first offer is over, or is given up. */
static void drop_first(struct tutti_partial *p)
{
	tt_partial_vec_put(p, p->offer[0].vec);
	memmove(p->offer, p->offer + 1, TT_PARTIAL_OFFERS * sizeof(p->offer[0]));
	p->offer[TT_PARTIAL_OFFERS] = (struct tt_partial_offer){0};
}

/* Offers up to consumed[] are in results. The number of sent ones left. */
static int settle(struct tutti_partial *p)
{
	uint64_t number = p->consumed[p->comm->rank];
	int n = 0;

	while (p->offer[0].vec && p->offer[0].number && p->offer[0].number <= number)
		drop_first(p);
	while (n < TT_PARTIAL_OFFERS && p->offer[n].vec && p->offer[n].number)
		n++;
	tt_partial_carry(p);
	return n;
}

static void say(struct tutti_partial *p, const struct tt_partial_head *head,
		struct tt_partial_vec *vec)
{
	struct tt_partial_peer *me = &p->peer[p->comm->rank];

	if (p->decider != p->comm->rank)
		tt_partial_send(p, p->decider, head, vec);
	else if (head->kind == TT_PARTIAL_OFFER)
		tt_partial_offered(me, head, vec);
	else if (head->kind == TT_PARTIAL_CALL)
		tt_partial_called(me, head);
	else
		tt_partial_draining(me, head);
}

/* The round that the caller waits for; 0: it waits for none. */
static uint64_t waits_for(const struct tutti_partial *p)
{
	return p->call == TT_PARTIAL_ALLREDUCE && !p->call_over ? p->round + 1 : 0;
}

/* No round takes what is not sent yet, from offer i on: a drain ends it, else the next call offers
 * it. */
static void drop_unsent(struct tutti_partial *p, int i)
{
	for (; p->call == TT_PARTIAL_DRAINING && !p->call_over && i <= TT_PARTIAL_OFFERS; i++) {
		if (p->offer[i].vec)
			p->stats.dropped += p->offer[i].calls;
		tt_partial_vec_put(p, p->offer[i].vec);
		p->offer[i] = (struct tt_partial_offer){0};
	}
}

static void send_offers(struct tutti_partial *p)
{
	struct tt_partial_head head = {.kind = TT_PARTIAL_OFFER, .round = waits_for(p)};
	int i = settle(p);

	if (p->config.late == TUTTI_PARTIAL_DROP && !head.round) {
		drop_unsent(p, i);
		return;
	}
	for (; i < TT_PARTIAL_OFFERS && p->offer[i].vec; i++) {
		head.number = p->offer[i].number = ++p->number;
		p->told_round = head.round ? head.round : p->told_round;
		say(p, &head, p->offer[i].vec);
	}
}

void tt_partial_offer(struct tutti_partial *p)
{
	struct tt_partial_head head = {.drains = p->drains};
	int drain;

	if (!p->open || p->failed)
		return;
	send_offers(p);
	head.round = waits_for(p);
	if (head.round && head.round != p->told_round) {
		head.kind = TT_PARTIAL_CALL;
		p->told_round = head.round;
		say(p, &head, NULL);
	}
	if (p->call != TT_PARTIAL_DRAINING || p->call_over)
		return;
	head.complete = !p->offer[TT_PARTIAL_OFFERS].vec;
	drain = 1 + (int)head.complete;
	if (drain == p->told_drain)
		return;
	head.kind = TT_PARTIAL_DRAIN;
	p->told_drain = drain;
	say(p, &head, NULL);
}

void tt_partial_drain_no_more(struct tutti_partial *p)
{
	const struct tt_partial_head head = {.kind = TT_PARTIAL_CALL};

	if (p->open && !p->failed)
		say(p, &head, NULL);
}

/* ---- what the decider says ---- */

/* The numbers of a RESULT or OPEN; both only grow. */
static void learn(struct tutti_partial *p, const struct tt_partial_head *head)
{
	memcpy(p->consumed, head->consumed, sizeof(uint64_t) * (size_t)p->comm->size);
	if (head->lost > p->lost)
		p->lost = head->lost;
}

/* The rounds for which offers were made are over. */
static void drop_late(struct tutti_partial *p)
{
	settle(p);
	for (; p->offer[0].vec; drop_first(p))
		p->stats.dropped += p->offer[0].calls;
}

void tt_partial_result(struct tutti_partial *p, const struct tt_partial_head *head,
		       struct tt_partial_vec *vec)
{
	struct tt_partial_slot *slot = &p->slot[head->round % TUTTI_PARTIAL_WINDOW];
	bool waited = waits_for(p) != 0;

	if (head->round <= p->round)
		return;
	tt_partial_vec_put(p, slot->vec);
	vec->refs++;
	slot->vec = vec;
	memcpy(slot->head, head, p->head_max);
	p->round = head->round;
	learn(p, head);
	settle(p);
	p->stats.late += waited && p->offer[0].vec;
	if (p->config.late == TUTTI_PARTIAL_DROP)
		drop_late(p);
	if (p->comm->ctx->trace)
		tt_trace_partial(p->comm->ctx->trace, p->comm->uid, p->round,
				 tt_partial_bitmap(p, head), p->comm->size);
	tt_partial_take(p);
	p->stirred = true;
}

void tt_partial_opened(struct tutti_partial *p, const struct tt_partial_head *head)
{
	int i;

	if (head->round > p->round)
		p->round = head->round; /* what was missed is not kept by any rank */
	learn(p, head);
	settle(p);
	for (i = 0; i <= TT_PARTIAL_OFFERS; i++)
		p->offer[i].number = 0;
	p->told_round = 0;
	p->told_drain = 0;
	p->open = true;
	p->stirred = true;
	tt_partial_drained(p, head->drains);
}

void tt_partial_drained(struct tutti_partial *p, uint64_t drains)
{
	if (drains > p->drains) {
		p->drains = drains;
		p->told_drain = 0;
	}
	tt_partial_take(p);
	p->stirred = true;
}
