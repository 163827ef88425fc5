/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first steps of tutti_ps_resize (resize_run.c): ranks exchange their roles, then the old
 * parameter server comes to rest.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/ps/resize/resize_run.h"
#include "lib/base/clock.h"
#include "lib/ps/worker/accumulate.h"

#define SLICE_NS (10 * TT_MS)
#define WAS_WORDS (sizeof(struct tt_ps_was) / sizeof(uint64_t))

/* ---- tell ---- */

static void tell(const struct tt_ps_resize *r, const struct tutti_ps_config *config,
		 struct tt_ps_was *w)
{
	const struct tutti_ps *old = r->old;

	*w = (struct tt_ps_was){.role = (uint64_t)r->config.role,
				.new_staleness = (uint64_t)(int64_t)r->config.staleness,
				.backup = (uint64_t)r->config.backup,
				.given = config != NULL};
	if (!old)
		return;
	w->generation = old->generation ? old->generation : 1;
	w->worker = (uint64_t)(old->my_worker + 1);
	w->server = (uint64_t)(old->my_server + 1);
	w->nworkers = (uint64_t)old->nworkers;
	w->nservers = (uint64_t)old->nservers;
	w->copies = (uint64_t)old->copies;
	w->backup |= (uint64_t)old->backup;
	w->staleness = (uint64_t)(int64_t)old->staleness;
	w->ntables = old->ntables;
	w->clock = old->clock;
	w->trace_id = old->my_worker < 0 ? 0 : (uint64_t)tt_ps_trace_id(old, old->my_worker);
	w->trace_ids = (uint64_t)old->trace_ids;
	w->accrues = tt_ps_accrues(old);
}

/*
 * All ranks that are not new must pass one parameter server. The remaining roles are checked when
 * the new one is opened.
 */
static int check_told(struct tt_ps_resize *r)
{
	const struct tt_ps_was *w;
	int i, err = 0;

	for (i = r->comm->size - 1; i >= 0; i--)
		if (r->was[i].generation)
			r->first = &r->was[i];
	if (!r->first)
		return tt_fail(-EINVAL, TT_PS_RESIZE ": ps is NULL on all ranks");
	r->ntables = r->first->ntables;
	for (i = 0; i < r->comm->size && !err; i++) {
		w = &r->was[i];
		r->stays += tt_ps_stays(w);
		if (w->backup)
			err = tt_comm_blame_rank(r->comm, -EINVAL, i,
						 TT_PS_RESIZE
						 ": rank %d has %d backup workers; a parameter "
						 "server with backup workers keeps its size",
						 r->comm->world[i], (int)w->backup);
		else if (w->generation && w->generation != r->first->generation)
			err = tt_comm_blame_rank(r->comm, -TUTTI_EMISMATCH, i,
						 TT_PS_RESIZE
						 ": rank %d gave another parameter server",
						 r->comm->world[i]);
		else if (!w->generation && !tt_ps_stays(w))
			err = tt_comm_blame_rank(
				r->comm, -EINVAL, i,
				TT_PS_RESIZE
				": rank %d leaves, but has no part in the old parameter server",
				r->comm->world[i]);
		else if (w->given && tt_ps_stays(w) && w->new_staleness != r->first->staleness)
			err = tt_comm_blame_rank(
				r->comm, -EINVAL, i,
				TT_PS_RESIZE
				": the staleness is %d, and %d on rank %d; it can't change",
				(int)r->first->staleness, (int)w->new_staleness, r->comm->world[i]);
		/* a table that some ranks lack was not made: a rank failed before the call ended */
		if (w->generation && w->ntables < r->ntables)
			r->ntables = w->ntables;
	}
	if (!err && !r->stays)
		err = tt_fail(-EINVAL, TT_PS_RESIZE ": all ranks leave");
	return err;
}

/* The rank of comm that had this server, or -1. */
static int host_of(const struct tt_ps_resize *r, uint64_t server)
{
	int i;

	for (i = 0; i < r->comm->size; i++)
		if (r->was[i].generation && r->was[i].server == server + 1)
			return i;
	return -1;
}

/* The first live replica of each old server sends. */
static int find_sources(struct tt_ps_resize *r)
{
	uint64_t k, c, n = r->first->nservers;
	int rank = -1;

	r->copy = malloc((size_t)n * sizeof(*r->copy));
	if (!r->copy)
		return tt_fail(-ENOMEM, "no memory for " TT_PS_RESIZE);
	for (k = 0; k < n; k++) {
		for (c = 0; c < r->first->copies; c++) {
			rank = host_of(r, (k + c) % n);
			if (rank >= 0)
				break;
		}
		if (rank < 0)
			return tt_fail(-TUTTI_EPEER,
				       TT_PS_RESIZE ": server %d has failed, and no replica is "
						    "left (copies was %d): its values are lost",
				       (int)k, (int)r->first->copies);
		r->copy[k] = rank == r->comm->rank ? (int)c : -1;
	}
	return 0;
}

int tt_ps_resize_meet(struct tt_ps_resize *r, const struct tutti_ps_config *config)
{
	struct tt_ps_was mine;
	int i, n = 0, err;

	tell(r, config, &mine);
	err = tt_exchange(r->comm, &mine, r->was, WAS_WORDS);
	if (!err)
		err = check_told(r);
	if (err)
		return err;
	if (!config) {
		r->config.staleness = (int)r->first->staleness;
		r->config.copies = (int)r->first->copies;
	}
	for (i = 0; i < r->comm->size; i++)
		if (tt_ps_stays(&r->was[i]))
			r->rank_of[n++] = i;
	return tt_ps_resize_agree(r, find_sources(r));
}

/* ---- hush, rest ---- */

/*
 * Workers of the old parameter server that do not take part have left, whether this rank has heard
 * of it or not.
 */
static int miss(struct tt_ps_resize *r)
{
	struct tutti_ps *old = r->old;
	struct tutti_context *ctx;
	bool *here;
	int i, w;

	if (!old)
		return 0;
	ctx = old->comm->ctx;
	here = calloc((size_t)(old->nworkers + old->comm->size), sizeof(*here));
	if (!here)
		return tt_fail(-ENOMEM, "no memory for " TT_PS_RESIZE);
	r->present = here;
	for (i = 0; i < r->comm->size; i++) {
		if (r->was[i].worker)
			here[r->was[i].worker - 1] = true;
		if (r->was[i].worker)
			here[old->nworkers + old->worker[r->was[i].worker - 1]] = true;
		if (r->was[i].server)
			here[old->nworkers + old->server[r->was[i].server - 1]] = true;
	}
	tt_wire_lock(ctx->wire);
	old->present = here;
	for (w = 0; w < old->nworkers; w++)
		if (!here[w])
			tt_ps_trace(old, "dead %d\n", tt_ps_trace_id(old, w));
	for (i = 0; i < old->comm->size; i++)
		if (!here[old->nworkers + i] &&
		    !tt_boot_gone(ctx->boot, old->comm->world[i], NULL, 0))
			tt_ps_lost(old, i);
	tt_wire_unlock(ctx->wire);
	return 0;
}

static bool over(const struct tt_ps_resize *r)
{
	return atomic_load(&r->comm->failed) || atomic_load(&r->old->comm->failed);
}

static bool hushed(void *arg)
{
	struct tt_ps_resize *r = arg;

	return over(r) || tt_ps_answered_all(r->old);
}

static bool rested(void *arg)
{
	struct tt_ps_resize *r = arg;

	return over(r) || atomic_load(&r->old->calm);
}

static int failure_of(struct tutti_comm *comm)
{
	int err;

	tt_wire_lock(comm->ctx->wire);
	err = tt_comm_check(comm);
	tt_wire_unlock(comm->ctx->wire);
	return err;
}

/* Wait in the old context; if the new context is another, it must progress, too. */
static int await(struct tt_ps_resize *r, bool (*done)(void *), const char *what)
{
	struct tutti_context *ctx = r->old->comm->ctx, *other = r->comm->ctx;
	uint64_t now = tt_now_ns(), end = now + (uint64_t)ctx->env.timeout.number * TT_MS;
	char text[128];
	int err;

	while (tt_engine_wait(ctx, done, r, now + SLICE_NS < end ? now + SLICE_NS : end)) {
		now = tt_now_ns();
		if (now >= end) {
			snprintf(text, sizeof(text),
				 TT_PS_RESIZE ": %s within %lld ms (TUTTI_TIMEOUT)", what,
				 (long long)ctx->env.timeout.number);
			return done == hushed ? tt_ps_fail_unanswered(r->old, text)
					      : tt_fail(-ETIMEDOUT, "%s", text);
		}
		if (other == ctx)
			continue;
		tt_wire_lock(other->wire);
		tt_engine_progress(other);
		tt_wire_leave(other->wire);
		tt_wire_unlock(other->wire);
	}
	err = failure_of(r->comm);
	return err ? err : failure_of(r->old->comm);
}

static bool leaves(const struct tt_ps_was *w)
{
	return w->worker && (!tt_ps_stays(w) || !(w->role & TUTTI_PS_WORKER));
}

/* A worker's part: everything that it sent has been handled; all: also what it held back. */
static int hush(struct tt_ps_resize *r, bool all)
{
	struct tutti_ps *old = r->old;
	int err;

	if (!old || old->my_worker < 0)
		return 0;
	err = tt_ps_check_worker(TT_PS_RESIZE, old);
	if (err)
		return err;
	tt_ps_budget_rest(old);
	if (old->tasks)
		return tt_fail(-EBUSY, TT_PS_RESIZE ": %d requests have not been waited for",
			       old->tasks);
	err = tt_ps_send_accrued(old, all ? UINT64_MAX : old->clock);
	if (!err)
		err = await(r, hushed, "a server did not answer");
	if (err)
		return err;
	tt_wire_lock(old->comm->ctx->wire);
	err = tt_ps_refusal(old);
	tt_wire_unlock(old->comm->ctx->wire);
	return err;
}

static int rest(struct tt_ps_resize *r)
{
	struct tutti_ps *old = r->old;

	if (!old || !old->srv[0])
		return 0;
	tt_ps_rest_wanted(old, true);
	return await(r, rested, "a server was not done");
}

/* No rank sends to servers any more, replicas included. */
static int stop(struct tt_ps_resize *r)
{
	struct tutti_ps *old = r->old;

	if (!old)
		return 0;
	tt_ps_server_stop(old);
	r->stopped = true;
	tt_ps_rest_settle(old);
	(void)tt_ps_settle_own(old); /* what was under way to failed ranks fails */
	return 0;
}

/* Servers that are at rest. */
static int check_ended(struct tt_ps_resize *r)
{
	struct tutti_ps *old = r->old;

	if (!old)
		return 0;
	if (tt_ps_rest_unended(old))
		return tt_fail(-EBUSY,
			       TT_PS_RESIZE ": a worker has pushed or set values since its last "
					    "clock; call it right after tutti_ps_clock");
	atomic_store(&old->last_pushes, true);
	return 0;
}

/*
 * BSP: only workers that leave push for the clock that has begun. Each that holds something back
 * does so in turn: the result depends on what is pushed, not on when.
 */
static int hush_in_turn(struct tt_ps_resize *r)
{
	int i, err = tt_ps_resize_agree(r, hush(r, false));

	if (!err)
		err = tt_ps_resize_agree(r, rest(r));
	if (!err)
		err = tt_ps_resize_agree(r, check_ended(r));
	for (i = 0; i < r->comm->size && !err; i++)
		if (leaves(&r->was[i]) && r->was[i].accrues)
			err = tt_ps_resize_agree(r, i == r->comm->rank ? hush(r, true) : 0);
	return err;
}

int tt_ps_resize_quieten(struct tt_ps_resize *r)
{
	int err = tt_ps_resize_agree(r, miss(r));

	if (!err)
		err = r->first->staleness
			      ? tt_ps_resize_agree(r, hush(r, leaves(&r->was[r->comm->rank])))
			      : hush_in_turn(r);
	if (!err)
		err = tt_ps_resize_agree(r, rest(r));
	if (!err)
		err = tt_ps_resize_agree(r, stop(r));
	if (r->old) /* before the vote, after which workers may push again */
		atomic_store(&r->old->last_pushes, false);
	return err;
}
