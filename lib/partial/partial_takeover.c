/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a rank becomes the decider: at the beginning, or when all lower ranks have died. It waits for
 * a STATE of every living rank, fetches the results that it lacks from the one that has most, sends
 * each rank those that that one lacks, and opens. More deaths meanwhile begin the last unfinished
 * step anew.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/partial/partial.h"

static int lowest(const struct tutti_partial *p)
{
	int r = 0;

	while (p->peer[r].gone)
		r++;
	return r; /* this rank lives */
}

static bool any_calls(const struct tutti_partial *p)
{
	int r;

	for (r = 0; r < p->comm->size; r++)
		if (p->peer[r].calls)
			return true;
	return false;
}

void tt_partial_gone(struct tt_partial_peer *peer)
{
	struct tutti_partial *p = peer->p;

	peer->gone = true;
	p->living--;
	p->lost += peer->offered != NULL;
	tt_partial_vec_put(p, peer->offered);
	peer->offered = NULL;
	peer->calls = peer->draining = peer->complete = false;
	if (!any_calls(p))
		p->cutoff_at = TT_NEVER; /* the next caller begins it */
	if (p->fetches_from == peer->rank)
		p->fetches_from = -1;
	p->stirred = true;
}

void tt_partial_pass(struct tutti_partial *p, int rank, uint64_t round)
{
	struct tt_partial_slot *slot;
	uint64_t t =
		round + TUTTI_PARTIAL_WINDOW < p->round ? p->round - TUTTI_PARTIAL_WINDOW : round;

	for (t++; t <= p->round; t++) {
		slot = tt_partial_kept(p, t);
		if (slot)
			tt_partial_send(p, rank, slot->head, slot->vec);
	}
	p->peer[rank].told = p->round;
	p->peer[rank].waits = false;
}

void tt_partial_fetched(struct tt_partial_peer *peer, const struct tt_partial_head *head)
{
	tt_partial_pass(peer->p, peer->rank, head->round);
}

/* The living rank with the most results, unless this rank has as many: -1; -2: not known yet. */
static int ahead(const struct tutti_partial *p)
{
	uint64_t round = p->round;
	int r, best = -1;

	for (r = 0; r < p->comm->size; r++) {
		const struct tt_partial_peer *peer = &p->peer[r];

		if (r == p->comm->rank || peer->gone)
			continue;
		if (!peer->state_in)
			return -2;
		if (peer->state_round > round) {
			round = peer->state_round;
			best = r;
		}
	}
	return best;
}

static void open_for_all(struct tutti_partial *p)
{
	struct tt_partial_head *head = tt_partial_head_new(p);
	int r;

	if (!head)
		return;
	for (r = 0; r < p->comm->size; r++)
		if (!p->peer[r].gone && p->peer[r].state_drains > p->drains)
			p->drains = p->peer[r].state_drains;
	head->kind = TT_PARTIAL_OPEN;
	head->round = p->round;
	head->drains = p->drains;
	head->lost = p->lost;
	memcpy(head->consumed, p->consumed, sizeof(uint64_t) * (size_t)p->comm->size);
	for (r = 0; r < p->comm->size; r++) {
		if (r == p->comm->rank || p->peer[r].gone)
			continue;
		tt_partial_pass(p, r, p->peer[r].state_round);
		tt_partial_send(p, r, head, NULL);
	}
	p->taking = false;
	p->deciding = true;
	tt_partial_opened(p, head);
	free(head);
}

static void collect(struct tutti_partial *p)
{
	struct tt_partial_head head = {.kind = TT_PARTIAL_FETCH, .round = p->round};
	int best = ahead(p);

	if (best == -2)
		return;
	if (best == -1) {
		open_for_all(p);
	} else if (p->fetches_from < 0) {
		p->fetches_from = best;
		tt_partial_send(p, best, &head, NULL);
	}
}

void tt_partial_takeover(struct tutti_partial *p)
{
	struct tt_partial_head head = {
		.kind = TT_PARTIAL_STATE, .round = p->round, .drains = p->drains};
	int decider = lowest(p);

	if (decider != p->decider) {
		p->decider = decider;
		p->open = false;
		p->taking = decider == p->comm->rank;
		if (!p->taking)
			tt_partial_send(p, decider, &head, NULL);
	}
	if (p->taking && !p->failed)
		collect(p);
}
