/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notifications of windows. A window has a bell for each rank of its communicator, then, if it has
 * ids, one for each id. A put with a notification carries the token of a bell, and any rank of the
 * job may send any token: a bell only counts.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/rma/rma.h"

static void ring(struct tt_bell *bell)
{
	tt_container(bell, struct tt_win_bell, bell)->count++;
}

/* Rank bells are rung by their rank, id bells by every rank of the communicator. */
static bool may_ring(const struct tutti_win *win, int bell, int peer)
{
	int i;

	if (bell < win->comm->size)
		return win->comm->world[bell] == peer;
	for (i = 0; i < win->comm->size; i++)
		if (win->comm->world[i] == peer)
			return true;
	return false;
}

/* For checksums. */
static const void *put_at(struct tt_bell *b, int peer, uint64_t offset, uint64_t len)
{
	struct tt_win_bell *bell = tt_container(b, struct tt_win_bell, bell);
	struct tutti_win *win = bell->win;

	if (!may_ring(win, (int)(bell - win->bell), peer) || win->flags & TUTTI_WIN_READ_ONLY ||
	    offset > win->size || len > win->size - offset)
		return NULL;
	return win->base + offset;
}

int tt_win_new_bells(struct tutti_win *win)
{
	int n = win->nbells, i, err;
	struct tt_bell **bells = malloc((size_t)n * sizeof(struct tt_bell *));

	if (!bells)
		return tt_fail(-ENOMEM, "no memory for a window");
	for (i = 0; i < n; i++) {
		win->bell[i] = (struct tt_win_bell){
			.bell = {.ring = ring,
				 .amo = i < win->comm->size ? tt_win_execute : NULL,
				 .put = put_at},
			.win = win};
		bells[i] = &win->bell[i].bell;
	}
	tt_wire_lock(win->comm->ctx->wire);
	err = tt_wire_tokens_new(win->comm->ctx->wire, bells, n, &win->token);
	tt_wire_unlock(win->comm->ctx->wire);
	free(bells);
	return err;
}

void tt_win_free_bells(struct tutti_win *win)
{
	int i;

	for (i = 0; i < win->nbells; i++)
		tt_wire_token_free(win->comm->ctx->wire, win->token + (uint32_t)i);
}

struct bells_wait {
	struct tutti_win *win;
	const struct tt_win_bells *want;
	int index; /* what has been taken; -1: nothing yet */
};

static struct tt_win_bell *bell_at(const struct bells_wait *w, int i)
{
	return &w->win->bell[w->want->first + w->want->bell[i]];
}

/* Takes from every bell; puts all back if one, perhaps listed before, has too few. */
static bool take_all(struct bells_wait *w)
{
	uint64_t count = w->want->count;
	int i;

	for (i = 0; i < w->want->n && bell_at(w, i)->count >= count; i++)
		bell_at(w, i)->count -= count;
	if (i == w->want->n)
		return true;
	while (i-- > 0)
		bell_at(w, i)->count += count;
	return false;
}

static int take_any(struct bells_wait *w)
{
	int i;

	for (i = 0; i < w->want->n; i++)
		if (bell_at(w, i)->count >= w->want->count) {
			bell_at(w, i)->count -= w->want->count;
			return i;
		}
	return -1;
}

/* The dead rank of a tolerant communicator that may have to notify; -1: none. */
static int dead_of(const struct bells_wait *w)
{
	return tt_comm_dead(w->win->comm, w->want->first ? -1 : w->want->bell[0]);
}

/* The wait ends without a notification. */
static int refused(const struct bells_wait *w)
{
	int err = tt_comm_check(w->win->comm), dead = dead_of(w);

	if (err || dead < 0)
		return err;
	return tt_comm_needs_dead(w->win->comm, dead,
				  w->want->first ? "waiting for a notification id (until "
						   "tutti_comm_ack_failed)"
						 : "waiting for a notification");
}

/* Takes the notifications, once: the lock is held here anyway. */
static bool rung(void *arg)
{
	struct bells_wait *w = arg;

	if (w->index < 0 && w->want->all && take_all(w))
		w->index = 0;
	else if (w->index < 0 && !w->want->all)
		w->index = take_any(w);
	return w->index >= 0 || atomic_load(&w->win->comm->failed) || dead_of(w) >= 0;
}

static int too_late(const struct bells_wait *w)
{
	long long ms = (long long)w->win->comm->ctx->env.timeout.number;
	int rank = w->want->bell[0], i;

	if (w->want->first == 0)
		return tt_comm_blame_rank(w->win->comm, -ETIMEDOUT, rank,
					  "rank %d did not notify within %lld ms (TUTTI_TIMEOUT)",
					  rank, ms);
	tt_wire_lock(w->win->comm->ctx->wire); /* other ranks' puts change the counts */
	for (i = 0; w->want->all && i < w->want->n - 1; i++)
		if (bell_at(w, i)->count < w->want->count)
			break;
	tt_wire_unlock(w->win->comm->ctx->wire);
	return tt_fail(-ETIMEDOUT, "no notification of %sid %d came within %lld ms (TUTTI_TIMEOUT)",
		       w->want->all || w->want->n == 1 ? "" : "any of the ids listed, first ",
		       w->want->bell[i], ms);
}

int tt_win_wait_bells(struct tutti_win *win, const struct tt_win_bells *bells, int *index)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct bells_wait w = {.win = win, .want = bells, .index = -1};
	int err = 0;

	if (bells->test) {
		tt_wire_lock(ctx->wire);
		if (!rung(&w)) {
			tt_engine_progress(ctx);
			tt_engine_timers(ctx);
			rung(&w);
			tt_wire_leave(ctx->wire);
		}
		if (w.index < 0)
			err = refused(&w);
		tt_wire_unlock(ctx->wire);
	} else if (tt_engine_wait(ctx, rung, &w, tt_deadline_ms(ctx->env.timeout.number))) {
		return too_late(&w);
	} else if (w.index < 0) {
		tt_wire_lock(ctx->wire);
		err = refused(&w);
		tt_wire_unlock(ctx->wire);
	}
	if (!err)
		*index = w.index;
	return err;
}
