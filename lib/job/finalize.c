/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a job: brings the layers down, in the reverse order of init.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/engine/node/node_ops.h"
#include "lib/job/job.h"
#include "lib/observe/report/prometheus.h"
#include "lib/rma/rma.h"
#include "lib/base/clock.h"
#include "lib/base/inject.h"

#define ORPHANS_MS 1000 /* for requests that nobody waits for, after all ranks have met */

void tt_job_close_wire(struct tutti_context *ctx)
{
	tt_wire_close(ctx->wire);
	if (ctx->node)
		tt_node_close(ctx->node);
}

static void free_comms(struct tutti_context *ctx)
{
	while (!tt_list_empty(&ctx->comms)) {
		struct tutti_comm *comm = tt_container(ctx->comms.next, struct tutti_comm, link);

		tt_comm_strip(comm);
		tt_comm_bury(comm);
	}
	tt_comm_free_dead(ctx);
}

/* A failure in other ranks' calls that no call of this rank has returned. */
static struct tutti_error_info untold(const struct tutti_context *ctx)
{
	const struct tt_list *comms[] = {&ctx->comms, &ctx->dead};
	struct tutti_error_info info = ctx->untold;
	struct tt_list *l, *tmp;
	int i;

	for (i = 0; i < 2; i++)
		tt_list_each(l, tmp, comms[i]) if (!info.code) info =
			tt_comm_untold(tt_container(l, struct tutti_comm, link));
	return info;
}

int tt_job_leave(struct tutti_context *ctx, uint64_t deadline, struct tutti_error_info *late)
{
	int err;

	tt_thread_stop(ctx);
	tt_prom_stop(ctx);
	tt_record_due(ctx);
	err = tt_boot_stop(ctx->boot, deadline);
	ctx->boot = NULL; /* freed: what follows can tell no other rank anything */
	tt_wire_attach(ctx->wire, NULL);
	atomic_store(&ctx->beats, NULL);
	*late = untold(ctx);
	free_comms(ctx); /* read by its handlers until then */
	free(ctx->tune);
	tt_userop_free_all(ctx);
	tt_stuck_free(ctx);
	tt_vote_free_all(ctx);
	free(ctx->polled);
	free(ctx->heard);
	free(ctx->broken);
	tt_win_forget(ctx);
	return err;
}

static int owner_left(const struct tutti_comm *comm, int more)
{
	char others[60] = " still exists";

	if (more)
		snprintf(others, sizeof(others), " and %d more object%s still exist", more,
			 more == 1 ? "" : "s");
	return tt_fail(-EBUSY, "tutti_finalize: %s%s; call %s", comm->owner, others,
		       comm->owner_free);
}

static int check_idle(struct tutti_context *ctx)
{
	struct tt_list *l, *tmp;
	struct tutti_comm *owned = NULL;
	int busy = 0, windows = 0, objects = 0, err = 0;

	tt_wire_lock(ctx->wire);
	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		busy += comm->requests;
		windows += comm->windows;
		if (comm->owner && !comm->freed) {
			objects++;
			owned = owned ? owned : comm;
		}
		if (!err)
			err = tt_comm_carries(comm, "tutti_finalize");
	}
	busy -= ctx->orphans;
	if (!err && owned)
		err = owner_left(owned, objects - 1);
	else if (!err && busy)
		err = tt_fail(-EBUSY, "tutti_finalize: %d request%s not been waited for or freed",
			      busy, busy == 1 ? " has" : "s have");
	else if (!err && windows)
		err = tt_fail(-EBUSY, "tutti_finalize: %d window%s not been freed", windows,
			      windows == 1 ? " has" : "s have");
	tt_wire_unlock(ctx->wire);
	return err;
}

static bool all_sent(void *arg)
{
	struct tutti_context *ctx = arg;

	return atomic_load(&ctx->world->coll_failed) || !tt_wire_pending(ctx->wire);
}

static bool all_sent_anyway(void *arg)
{
	struct tutti_context *ctx = arg;

	return !tt_wire_pending(ctx->wire);
}

static bool no_orphans(void *arg)
{
	struct tutti_context *ctx = arg;

	return !ctx->orphans;
}

static void take_back(struct tutti_comm *comm, enum tt_active which)
{
	struct tutti_request *req;

	while (comm->ctx->orphans && !tt_list_empty(&comm->active[which])) {
		req = tt_container(comm->active[which].next, struct tutti_request, link);
		req->ops->cancel(req);
		tt_request_end(req, -ECANCELED);
	}
}

/* Freed sends are left, and have waited for room at a peer since *moves was noted. */
static bool is_stuck(struct tutti_context *ctx, uint64_t *moves)
{
	bool stuck;

	tt_wire_lock(ctx->wire);
	stuck = ctx->orphans && !tt_wire_in_flight(ctx->wire) && ctx->moves == *moves;
	*moves = ctx->moves;
	tt_wire_unlock(ctx->wire);
	return stuck;
}

/*
 * All ranks have called tutti_finalize and receive nothing more but what they wait for already. So
 * sends that were freed, and that find no room for a while, are for no receive. Returns whether
 * there are such.
 */
static bool await_sent(struct tutti_context *ctx, uint64_t deadline)
{
	uint64_t moves = UINT64_MAX, until;
	bool stuck;

	(void)is_stuck(ctx, &moves);
	do {
		until = tt_deadline_ms(ORPHANS_MS);
		until = until < deadline ? until : deadline;
		if (!tt_engine_wait(ctx, all_sent, ctx, until))
			return false;
		stuck = is_stuck(ctx, &moves) && until < deadline; /* for the whole of it */
	} while (!stuck && !tt_passed(deadline));
	return stuck;
}

/*
 * Requests that were freed while they ran: sends end soon, as all ranks have made their receives;
 * the rest is taken back. stuck: they have been waited for.
 */
static void end_orphans(struct tutti_context *ctx, bool stuck)
{
	struct tt_list *l, *tmp;

	if (ctx->orphans && !stuck)
		tt_engine_wait(ctx, no_orphans, ctx, tt_deadline_ms(ORPHANS_MS));
	tt_wire_lock(ctx->wire);
	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		take_back(comm, TT_ACTIVE_COLL);
		take_back(comm, TT_ACTIVE_PERSISTENT);
		take_back(comm, TT_ACTIVE_NEIGHBORS);
		take_back(comm, TT_ACTIVE_RECV);
		take_back(comm, TT_ACTIVE_OTHER);
	}
	tt_wire_unlock(ctx->wire);
}

/* All ranks have made all their calls: those on the memory of a host are compared. */
static void check_last(struct tutti_context *ctx)
{
	struct tt_list *l, *tmp;

	tt_wire_lock(ctx->wire);
	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		tt_node_check_last(comm, comm->node);
		tt_node_check_last(comm, comm->near);
	}
	tt_wire_unlock(ctx->wire);
}

/*
 * Leaves when no rank needs this one any more: everything sent has left, then all ranks meet in a
 * barrier, then in tt_boot_stop. Connections are closed only afterwards. *stuck: as await_sent.
 */
static int say_goodbye(struct tutti_context *ctx, bool *stuck)
{
	uint64_t deadline = tt_deadline_ms(ctx->env.timeout.number);
	int err = 0;

	tt_wire_lock(ctx->wire);
	ctx->leaves = true;
	tt_wire_unlock(ctx->wire);
	if (ctx->world->size > 1 && !atomic_load(&ctx->world->coll_failed)) {
		err = tutti_barrier(ctx->world);
		if (!err)
			*stuck = await_sent(ctx, deadline);
		else
			tt_comm_tell_refused(ctx);
		check_last(ctx);
	} else if (ctx->shrunk) {
		tt_engine_wait(ctx, all_sent_anyway, ctx, tt_deadline_ms(1000));
	}
	return err;
}

int tt_finalize(struct tutti_context *ctx)
{
	struct tutti_error_info late;
	bool failed, stuck = false;
	int err, stop;

	err = check_idle(ctx);
	if (err)
		return err;
	err = say_goodbye(ctx, &stuck);
	end_orphans(ctx, stuck);
	tt_kin_leave(ctx);
	failed = err || atomic_load(&ctx->world->coll_failed);
	/* Failed ranks never come; after a shrink, survivors may come as late as the timeout. */
	stop = tt_job_leave(ctx,
			    tt_deadline_ms(failed && !ctx->shrunk ? 1000 : ctx->env.timeout.number),
			    &late);
	tt_job_close_wire(ctx);
	tt_inject_report();
	tt_record_close(ctx);
	tt_request_memory_free(ctx);
	tt_env_job_leave(ctx, true);
	tt_env_free(&ctx->env);
	explicit_bzero(&ctx->magic, sizeof(ctx->magic)); /* a plain store before free is left out */
	free(ctx->win_under_way);
	free(ctx);
	if (!err && late.code)
		return tt_fail_info(&late);
	return err || failed ? err : stop;
}
