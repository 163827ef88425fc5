/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker's view of a communicator: its ranks start its calls in one order. Plans with node ops
 * are turns of its memory on the host: a rank runs one at a time, in the order in which it has
 * started them, and turn t begins once all ranks of the host have ended t - 2 (lib/node).
 * Priorities order pieces of messages, never turns; opts->any_turn plants the fault of ranks that
 * do not agree on the order.
 *
 * Turns t and t - 2 share a slot of each rank, with its flag: it must not be written while a rank
 * still reads what turn t - 2 has put there. opts->early plants this fault.
 */

#include <errno.h>

#include "lib/base/error.h"
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
		if (tt_ck_near(c, r, rank) &&
		    turns_of(c, r)->ended < c->turn[rank] - 2 - c->opts.early)
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

/* ---- slots ---- */

static struct ck_slot *slot_of(const struct tt_checker *c, int rank)
{
	return &c->net->slots[2 * ((c->comm - 1) * c->n + rank) + c->turn[rank] % 2];
}

static int touch(const struct tt_checker *c, int rank, int *at, const char *what, bool write,
		 const struct ck_op *op)
{
	int turn = c->turn[ck_lane_of(c, op)->rank];

	if (write)
		*at = turn;
	if (*at == turn)
		return 0;
	return tt_fail(-EINVAL, "hazard: %s, in turn %d, meets turn %d in rank %d's %s",
		       tt_ck_where(c, op), turn, *at, rank, what);
}

int tt_ck_touch_slot(const struct tt_checker *c, int rank, bool write, const struct ck_op *op)
{
	return is_turn(c, rank) ? touch(c, rank, &slot_of(c, rank)->data, "slot", write, op) : 0;
}

int tt_ck_touch_flag(const struct tt_checker *c, int rank, bool write, const struct ck_op *op)
{
	return is_turn(c, rank) ? touch(c, rank, &slot_of(c, rank)->flag, "flag", write, op) : 0;
}

bool tt_ck_copies(const struct tt_checker *c, int rank)
{
	return is_turn(c, rank) && c->opts.copies >> rank & 1;
}
