/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's view of a communicator: its ranks start its calls in one order. Plans with node ops
 * are turns of its memory on the host: a rank runs one at a time, in the order in which it has
 * started them, and turn t begins once all ranks of the host have ended t - 2 (lib/node).
 * Priorities order pieces of messages, never turns; opts->any_turn plants the fault of ranks that
 * do not agree on the order.
 */

#include "lib/verify/check_int.h"

static struct ck_turns *turns_of(const struct tt_checker *c, int rank)
{
	return &c->net->turns[(c->comm - 1) * c->n + rank];
}

static bool is_turn(const struct tt_checker *c, int rank)
{
	return c->comm && c->plans[rank]->node;
}

bool tt_ck_may_start(const struct tt_checker *c, int rank)
{
	const struct tt_checker *other = c->net->call;
	int after = c->after ? c->after[rank] : -1;

	if (c->offered[rank])
		return false;
	if (after >= 0 && (!other[after].begun[rank] || other[after].left[rank]))
		return false;
	for (; other < c && !c->opts.any_turn; other++)
		if (c->comm && other->comm == c->comm && !other->started[rank])
			return false;
	return true;
}

static bool may_begin(const struct tt_checker *c, int rank)
{
	const struct ck_turns *t;
	int r;

	if (!c->started[rank] || c->begun[rank])
		return false;
	if (!is_turn(c, rank))
		return true;
	t = turns_of(c, rank);
	if (c->turn[rank] != t->begun + 1 || t->ended != t->begun)
		return false;
	for (r = 0; r < c->n; r++)
		if (tt_ck_near(c, r, rank) && turns_of(c, r)->ended < c->turn[rank] - 2)
			return false;
	return true;
}

void tt_ck_give_turn(struct tt_checker *c, int rank)
{
	if (is_turn(c, rank))
		c->turn[rank] = ++turns_of(c, rank)->given;
}

bool tt_ck_begin(struct tt_checker *c, int rank)
{
	if (!may_begin(c, rank))
		return false;
	c->begun[rank] = true;
	if (is_turn(c, rank))
		turns_of(c, rank)->begun++;
	return true;
}

void tt_ck_end_turn(struct tt_checker *c, int rank)
{
	if (is_turn(c, rank))
		turns_of(c, rank)->ended++;
}
