/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a parameter server, for a rank in tutti_ps_close. A worker waits for other workers as
 * long as they are at work, but not for a stuck server. A server that is waited for reports now and
 * then that it is alive (departure.c); a server that reports nothing for TUTTI_TIMEOUT fails the
 * parameter server on all ranks. At last all live ranks meet, also after failures: an idle rank may
 * hold a replica that must take over if another rank fails, so all ranks leave together.
 */
#include <errno.h>

#include "lib/base/clock.h"
#include "lib/ps/ps.h"

#define LOOKS 16 /* within a deadline */

static uint64_t limit(const struct tutti_ps *ps)
{
	return (uint64_t)ps->comm->ctx->env.timeout.number * TT_MS;
}

/* ---- silent servers ---- */

/* Under the lock. */
static void fail_for(struct tutti_ps *ps, const struct tt_ps_link *link)
{
	struct tutti_comm *comm = ps->comm;
	int rank = comm->world[link->rank];

	tt_comm_fail(comm, -ETIMEDOUT, rank, "ps_close", 0, "",
		     "server %d (rank %d on host %s) has not answered tutti_ps_close, nor said "
		     "that it is at work, for "
		     "%lld ms (TUTTI_TIMEOUT)",
		     link->index, rank, tt_boot_host(comm->ctx->boot, rank),
		     (long long)comm->ctx->env.timeout.number);
}

/* Under the lock. begin: all servers are waited for from now on. */
static void look(struct tutti_ps *ps, bool begin)
{
	uint64_t now = tt_now_ns();
	int k;

	for (k = 0; ps->link && k < ps->nservers; k++) {
		struct tt_ps_link *link = &ps->link[k];

		if (begin || link->ended || link->lost || link->seen != link->said)
			link->heard = now;
		link->seen = link->said;
		if (now - link->heard >=
		    limit(ps) + limit(ps) / 4) /* a call that waits for this server knows more, and
						  reports first */
			fail_for(ps, link);
	}
}

void tt_ps_await_servers(struct tutti_ps *ps, bool (*done)(void *), void *arg)
{
	struct tutti_context *ctx = ps->comm->ctx;
	bool begin = true;

	do {
		tt_wire_lock(ctx->wire);
		look(ps, begin);
		tt_wire_unlock(ctx->wire);
		begin = false;
	} while (tt_engine_wait(ctx, done, arg, tt_now_ns() + limit(ps) / LOOKS));
}

/* ---- the last meeting ---- */

static bool met(void *arg)
{
	const struct tutti_ps *ps = arg;

	return tt_vote_over(ps->comm) || atomic_load(&ps->comm->failed);
}

/*
 * Whether other ranks are expected by now. None is before a worker arrives, and a worker arrives
 * when all servers are done. Only the collector of arrivals can tell; its report reaches a rank
 * that only serves.
 */
static bool expected(const struct tutti_ps *ps)
{
	bool any = false;
	int w;

	for (w = 0; w < ps->nworkers; w++) {
		if (ps->worker_lost[w])
			continue;
		if (tt_vote_came(ps->comm, ps->worker[w]))
			return true;
		any = true;
	}
	return !any;
}

/*
 * Under the lock: the deadline has passed. The collector knows which ranks are missing, so it
 * reports first.
 */
static void give_up(struct tutti_ps *ps)
{
	char missing[200];
	int rank = tt_vote_missing(ps->comm, missing, sizeof(missing));

	tt_comm_fail(ps->comm, -ETIMEDOUT, rank < 0 ? rank : ps->comm->world[rank], "ps_close", 0,
		     "",
		     "the end of tutti_ps_close did not finish within %lld ms "
		     "(TUTTI_TIMEOUT)%s",
		     (long long)ps->comm->ctx->env.timeout.number, missing);
}

static void await_all(struct tutti_ps *ps)
{
	struct tutti_context *ctx = ps->comm->ctx;
	uint64_t end = TT_NEVER, now = tt_now_ns();

	while (tt_engine_wait(ctx, met, ps, now + limit(ps) / LOOKS)) {
		now = tt_now_ns();
		tt_wire_lock(ctx->wire);
		if (end == TT_NEVER && expected(ps))
			end = now + limit(ps);
		if (end != TT_NEVER &&
		    now >= end + (tt_vote_collects(ps->comm) ? 0 : limit(ps) / 4) && !met(ps))
			give_up(ps);
		tt_wire_unlock(ctx->wire);
	}
}

int tt_ps_last_meeting(struct tutti_ps *ps)
{
	struct tt_wire *wire = ps->comm->ctx->wire;
	struct tt_ballot ballot = {.kind = TT_VOTE_AND};
	int err;

	tt_wire_lock(wire);
	err = tt_comm_check(ps->comm);
	if (!err)
		err = tt_vote_begin(ps->comm, &ballot);
	tt_wire_unlock(wire);
	if (err)
		return err;
	await_all(ps);
	tt_wire_lock(wire);
	if (tt_vote_over(ps->comm)) {
		tt_vote_end(ps->comm, &ballot, NULL);
	} else {
		err = tt_comm_check(ps->comm);
		tt_vote_drop(ps->comm);
	}
	tt_wire_unlock(wire);
	return err;
}
