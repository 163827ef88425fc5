/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decider of a partial all-reduce: collects offers, and decides a round
 *
 *	when a caller waits for it, and `quorum` ranks have offered or drain,
 *	or the cutoff has passed since the first caller was heard of;
 *	or when all living ranks drain and one has offered.
 *
 * The ranks that have offered by then take part. Their vectors combine in rank order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/partial/partial.h"

#define PASS_NS (TT_MS / 2) /* from a result until ranks that do not wait get it */

int tt_partial_quorum(const struct tutti_partial *p)
{
	int quorum = p->config.quorum;

	return quorum == TUTTI_PARTIAL_MAJORITY ? p->living / 2 + 1 : quorum ? quorum : p->living;
}

static void caller(struct tt_partial_peer *peer, uint64_t round)
{
	struct tutti_partial *p = peer->p;

	if (round) {
		peer->draining = peer->complete = false;
		peer->waits = peer->told < round;
	}
	if (round != p->round + 1)
		return; /* it gets a result that is on its way */
	peer->calls = true;
	if (!p->config.cutoff_us || p->cutoff_at != TT_NEVER)
		return;
	p->cutoff_at = tt_now_ns() + (uint64_t)p->config.cutoff_us * 1000;
}

void tt_partial_offered(struct tt_partial_peer *peer, const struct tt_partial_head *head,
			struct tt_partial_vec *vec)
{
	struct tutti_partial *p = peer->p;

	if (!p->deciding || head->number <= p->consumed[peer->rank])
		return;
	if (p->config.late == TUTTI_PARTIAL_DROP && head->round != p->round + 1) {
		peer->waits |= peer->told < head->round; /* no CALL follows */
		p->stirred = true;
		return;
	}
	if (!tt_partial_vec_add(p, &peer->offered, vec))
		return;
	peer->number = head->number;
	caller(peer, head->round);
	p->stirred = true;
}

void tt_partial_called(struct tt_partial_peer *peer, const struct tt_partial_head *head)
{
	if (peer->p->deciding) {
		peer->draining = peer->complete = false;
		caller(peer, head->round);
	}
	peer->p->stirred = true;
}

void tt_partial_draining(struct tt_partial_peer *peer, const struct tt_partial_head *head)
{
	if (!peer->p->deciding || head->drains != peer->p->drains)
		return;
	peer->draining = true;
	peer->complete = head->complete;
	peer->p->stirred = true;
}

/* As many results are on their way to it as are kept. */
static bool is_full(const struct tt_partial_peer *peer)
{
	return peer->results >= TUTTI_PARTIAL_WINDOW;
}

/* A drain gets all results: those that it lacks must still be kept. */
static bool too_far_ahead(const struct tutti_partial *p)
{
	int r;

	for (r = 0; r < p->comm->size; r++)
		if (!p->peer[r].gone && p->peer[r].draining && is_full(&p->peer[r]) &&
		    p->round - p->peer[r].told >= TUTTI_PARTIAL_WINDOW)
			return true;
	return false;
}

/*
 * Sends the ranks that wait the results that they lack, and the others at pass_at. Unless it is the
 * end, not more than is_full.
 */
static void pass_on(struct tutti_partial *p, bool end)
{
	bool all = end || tt_passed(p->pass_at), lack = false;
	int r;

	for (r = 0; r < p->comm->size; r++) {
		struct tt_partial_peer *peer = &p->peer[r];

		if (r == p->comm->rank || peer->gone || peer->told >= p->round ||
		    (!end && is_full(peer)))
			continue;
		if (all || peer->waits || peer->draining)
			tt_partial_pass(p, r, peer->told);
		else
			lack = true;
	}
	if (!lack)
		p->pass_at = TT_NEVER;
	else if (p->pass_at == TT_NEVER)
		p->pass_at = tt_now_ns() + PASS_NS;
}

static bool can_decide(const struct tutti_partial *p)
{
	int r, offers = 0, draining = 0, ready = 0;
	bool called = false;

	if (!p->deciding || p->failed || too_far_ahead(p))
		return false;
	for (r = 0; r < p->comm->size; r++) {
		const struct tt_partial_peer *peer = &p->peer[r];

		if (peer->gone)
			continue;
		offers += peer->offered != NULL;
		draining += peer->draining;
		ready += peer->offered || peer->draining;
		called |= peer->calls;
	}
	if (!offers)
		return false;
	if (draining == p->living)
		return true;
	return called && (ready >= tt_partial_quorum(p) ||
			  (p->cutoff_at != TT_NEVER && tt_now_ns() >= p->cutoff_at));
}

/* Combines the offers into a new vector, and says in head who took part. */
static struct tt_partial_vec *combine(struct tutti_partial *p, struct tt_partial_head *head)
{
	const void **src = malloc(sizeof(*src) * (size_t)p->comm->size);
	struct tt_partial_vec *vec = src ? tt_partial_vec_get(p) : NULL;
	int r, n = 0, divide = 0;

	if (!vec && !p->failed)
		p->failed = -ENOMEM;
	for (r = 0; vec && r < p->comm->size; r++) {
		struct tt_partial_peer *peer = &p->peer[r];

		if (!peer->offered)
			continue;
		src[n++] = peer->offered->data;
		head->consumed[r] = peer->number;
		tt_partial_bitmap(p, head)[r / 8] |= (unsigned char)(1u << r % 8);
	}
	if (vec && p->op == TUTTI_AVG)
		divide = p->config.divide == TUTTI_PARTIAL_BY_SIZE ? p->comm->size : n;
	if (vec) {
		tt_reduce_multi(&vec->data, 1, src, n, p->count, p->datatype, TUTTI_SUM, divide, 0);
		tt_wire_stats(p->comm->ctx->wire)->reduced_bytes += p->bytes;
	}
	free(src);
	return vec;
}

static void forget_offers(struct tutti_partial *p)
{
	int r;

	for (r = 0; r < p->comm->size; r++) {
		tt_partial_vec_put(p, p->peer[r].offered);
		p->peer[r].offered = NULL;
		p->peer[r].calls = false;
	}
	p->cutoff_at = TT_NEVER;
}

static void decide_one(struct tutti_partial *p)
{
	struct tt_partial_head *head = tt_partial_head_new(p);
	struct tt_partial_vec *vec;

	if (!head)
		return;
	head->kind = TT_PARTIAL_RESULT;
	head->round = p->round + 1;
	head->drains = p->drains;
	head->lost = p->lost;
	memcpy(head->consumed, p->consumed, sizeof(uint64_t) * (size_t)p->comm->size);
	vec = combine(p, head);
	if (vec) {
		forget_offers(p);
		tt_partial_result(p, head, vec);
		tt_partial_vec_put(p, vec);
		pass_on(p, false);
	}
	free(head);
}

static bool all_drained(const struct tutti_partial *p)
{
	int r;

	for (r = 0; r < p->comm->size; r++)
		if (!p->peer[r].gone && (p->peer[r].offered || !p->peer[r].complete))
			return false;
	return p->deciding && !p->failed;
}

void tt_partial_decide(struct tutti_partial *p)
{
	struct tt_partial_head head = {.kind = TT_PARTIAL_DRAINED};
	int r;

	if (p->deciding && !p->failed)
		pass_on(p, false);
	while (can_decide(p))
		decide_one(p);
	if (!all_drained(p))
		return;
	pass_on(p, true);
	for (r = 0; r < p->comm->size; r++)
		p->peer[r].draining = p->peer[r].complete = false;
	head.drains = p->drains + 1;
	tt_partial_send_all(p, &head, NULL);
	tt_partial_drained(p, head.drains);
}
