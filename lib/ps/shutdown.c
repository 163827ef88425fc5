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
#define ASKED 16 /* ranks that are asked what they do */

static uint64_t limit(const struct tutti_ps *ps)
{
	return (uint64_t)ps->comm->ctx->env.timeout.number * TT_MS;
}

/* ---- silent servers ---- */

/* A call that waits for a server knows more, and reports first. */
static uint64_t silence(const struct tutti_ps *ps)
{
	return limit(ps) + limit(ps) / 4;
}

/* Adds the server, and the ranks of its replicas, which acknowledge what it answers. */
static int add_server(const struct tt_ps_link *link, int *ranks, int n)
{
	const struct tutti_ps *ps = link->ps;
	int copy, host;

	n = tt_doing_add_rank(ranks, n, ASKED, ps->comm->world[link->rank]);
	for (copy = link->copy + 1; copy < ps->copies; copy++) {
		host = tt_ps_host(ps, link->index, copy);
		if (!ps->lost[host])
			n = tt_doing_add_rank(ranks, n, ASKED, ps->comm->world[ps->server[host]]);
	}
	return n;
}

/* Under the lock. A server can be silent because of a rank with a replica. */
static void fail_for(struct tutti_ps *ps, const struct tt_ps_link *link, const int *ranks, int n)
{
	struct tutti_comm *comm = ps->comm;
	char why[TT_AWAIT_TEXT];
	int cause = tt_await_silent(comm->ctx, ranks, n, why, sizeof(why)), rank, k;

	for (k = 0; k < ps->nservers; k++)
		if (comm->world[ps->link[k].rank] == cause && !ps->link[k].ended)
			link = &ps->link[k];
	rank = comm->world[link->rank];
	tt_comm_fail(comm, -ETIMEDOUT, cause < 0 ? rank : cause, "ps_close", 0, "",
		     "server %d (rank %d on host %s) has not answered tutti_ps_close, nor said "
		     "that it is at work, for "
		     "%lld ms (TUTTI_TIMEOUT)%s",
		     link->index, rank, tt_boot_host(comm->ctx->boot, rank),
		     (long long)comm->ctx->env.timeout.number, why);
}

/*
 * Under the lock. begin: all servers are waited for from now on. Asks those that have been silent
 * for a while. Returns when to look again.
 */
static uint64_t look(struct tutti_ps *ps, bool begin)
{
	uint64_t now = tt_now_ns(), again = now + limit(ps) / LOOKS, ask_at;
	const struct tt_ps_link *oldest = NULL;
	int ranks[ASKED], k, n = 0;

	for (k = 0; ps->link && k < ps->nservers; k++) {
		struct tt_ps_link *link = &ps->link[k];

		if (begin || link->ended || link->lost || link->seen != link->said)
			link->heard = now;
		link->seen = link->said;
		if (now - link->heard < limit(ps) / 4)
			continue;
		n = add_server(link, ranks, n);
		oldest = oldest && oldest->heard <= link->heard ? oldest : link;
	}
	if (!oldest)
		return again;
	if (tt_engine_due(ps->comm->ctx, oldest->heard + silence(ps))) {
		fail_for(ps, oldest, ranks, n);
		return again;
	}
	ask_at = tt_await_ask(ps->comm->ctx, ranks, n, oldest->heard + silence(ps));
	return ask_at < again ? ask_at : again;
}

int tt_ps_awaits(void *arg, int *ranks, int max)
{
	const struct tutti_ps *ps = arg;
	int n = 0, k;

	if (atomic_load(&ps->comm->failed))
		return 0;
	n = tt_ps_server_awaits(ps, ranks, max);

	for (k = 0; ps->comm->inside && ps->link && k < ps->nservers; k++)
		if (!ps->link[k].ended)
			n = tt_doing_add_rank(ranks, n, max, ps->comm->world[ps->link[k].rank]);
	return n;
}

void tt_ps_await_servers(struct tutti_ps *ps, bool (*done)(void *), void *arg)
{
	struct tutti_context *ctx = ps->comm->ctx;
	bool begin = true;
	uint64_t again;

	do {
		tt_wire_lock(ctx->wire);
		again = look(ps, begin);
		tt_wire_unlock(ctx->wire);
		begin = false;
	} while (tt_engine_wait(ctx, done, arg, again));
}

/* ---- relays ---- */

/* Under the lock. Returns when to look again. */
static uint64_t look_at_relays(struct tutti_ps *ps, uint64_t end)
{
	struct tutti_comm *comm = ps->comm;
	char why[TT_AWAIT_TEXT];
	int ranks[ASKED], n = tt_ps_relay_awaited(ps, ranks, ASKED), cause;

	if (!n || !tt_engine_due(comm->ctx, end))
		return tt_await_ask(comm->ctx, ranks, n, end);
	cause = tt_await_silent(comm->ctx, ranks, n, why, sizeof(why));
	cause = cause < 0 ? ranks[0] : cause;
	tt_comm_fail(comm, -ETIMEDOUT, cause, "ps_close", 0, "",
		     "rank %d on host %s did not stop relaying within %lld ms "
		     "(TUTTI_TIMEOUT)%s",
		     cause, tt_boot_host(comm->ctx->boot, cause),
		     (long long)comm->ctx->env.timeout.number, why);
	return end;
}

int tt_ps_await_relays(struct tutti_ps *ps)
{
	struct tutti_context *ctx = ps->comm->ctx;
	uint64_t end = tt_deadline_ms(ctx->env.timeout.number), again;
	int err;

	do {
		tt_wire_lock(ctx->wire);
		again = look_at_relays(ps, end);
		err = tt_comm_check(ps->comm);
		tt_wire_unlock(ctx->wire);
	} while (!err && tt_engine_wait(ctx, tt_ps_relay_left, ps, again));
	return err;
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

/* Under the lock: the deadline has passed. The first `awaited` of the n ranks are missing here. */
static void give_up(struct tutti_ps *ps, const int *ranks, int awaited, int n)
{
	struct tutti_comm *comm = ps->comm;
	char missing[200], why[TT_AWAIT_TEXT];
	int first = tt_vote_missing(comm, missing, sizeof(missing));
	int cause = tt_await_silent(comm->ctx, ranks, n, why, sizeof(why));

	if (cause < 0)
		cause = first >= 0 ? comm->world[first]
				   : tt_await_cause(comm->ctx, ranks, awaited, why, sizeof(why));
	tt_comm_fail(comm, -ETIMEDOUT, cause, "ps_close", 0, "",
		     "the end of tutti_ps_close did not finish within %lld ms "
		     "(TUTTI_TIMEOUT)%s%s",
		     (long long)comm->ctx->env.timeout.number, missing, why);
}

/*
 * Under the lock. Returns when to look again. The collector knows which ranks are missing, so it
 * reports first: to others, it is missing itself.
 */
static uint64_t look_at_meeting(struct tutti_ps *ps, uint64_t *end)
{
	uint64_t now = tt_now_ns(), again = now + limit(ps) / LOOKS, ask_at;
	int ranks[ASKED], awaited, n, r;

	if (*end == TT_NEVER && expected(ps))
		*end = now + (tt_vote_collects(ps->comm) ? limit(ps) : silence(ps));
	if (*end == TT_NEVER || met(ps))
		return again;
	n = awaited = tt_vote_awaited(ps->comm, ranks, ASKED);
	for (r = 0; r < ps->comm->size && !tt_vote_collects(ps->comm); r++)
		n = tt_doing_add_rank(ranks, n, ASKED, ps->comm->world[r]); /* may hold it up */
	if (tt_engine_due(ps->comm->ctx, *end))
		give_up(ps, ranks, awaited, n);
	ask_at = tt_await_ask(ps->comm->ctx, ranks, n, *end);
	return ask_at < again ? ask_at : again;
}

static void await_all(struct tutti_ps *ps)
{
	struct tutti_context *ctx = ps->comm->ctx;
	uint64_t end = TT_NEVER, again;

	do {
		tt_wire_lock(ctx->wire);
		again = look_at_meeting(ps, &end);
		tt_wire_unlock(ctx->wire);
	} while (tt_engine_wait(ctx, met, ps, again));
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
