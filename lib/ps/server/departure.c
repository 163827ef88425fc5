/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that leave. Before the first good-bye a server waits for no worker: it serves. From then
 * on other workers wait in tutti_ps_close. As long as a missing worker sends anything, it is at
 * work; when no missing worker has sent anything for TUTTI_TIMEOUT, all ranks are told which
 * workers are missing, or which rank these wait for in vain.
 *
 * Workers also wait for servers, which may be at work for long: a server reports between two
 * messages that it is alive, as long as it makes progress. A stuck server, for example in a
 * user-defined function, reports nothing for any replica on its rank: one thread runs all of them
 * (shutdown.c).
 */
#include <errno.h>

#include "lib/boot/control/control_tree.h"
#include "lib/ps/server/server.h"

#define TELL_MS 200 /* most that workers are told of a failure before it */
#define ASKED 8	    /* missing workers that are asked what they wait for */

static uint64_t limit(const struct tt_ps_server *srv)
{
	return (uint64_t)srv->ps->comm->ctx->env.timeout.number * TT_MS;
}

void tt_ps_leaves(struct tt_ps_client *c)
{
	struct tt_ps_server *srv = c->srv;

	if (c->leaves || c->buried)
		return;
	c->leaves = true;
	tt_ps_waited_for(srv);
	srv->heard = tt_now_ns();
	if (srv->end_at == TT_NEVER)
		srv->end_at = srv->heard;
}

static bool is_missing(const struct tt_ps_client *c)
{
	return !c->gone && !c->leaves && !c->dead;
}

/* The missing workers, as ranks of the world, at most max; *n: how many there are. */
static int list_missing(const struct tt_ps_server *srv, int *ranks, int max, int *n)
{
	const struct tutti_ps *ps = srv->ps;
	int w, listed = 0;

	for (w = *n = 0; w < ps->nworkers; w++) {
		if (!is_missing(&srv->client[w]))
			continue;
		++*n;
		if (listed < max)
			ranks[listed++] = ps->comm->world[srv->client[w].rank];
	}
	return listed;
}

int tt_ps_server_awaits(const struct tutti_ps *ps, int *ranks, int max)
{
	int c, n, listed = 0;

	/* its own worker is missing, too: what that one does counts */
	if (ps->srv[0] && ps->my_worker >= 0 && is_missing(&ps->srv[0]->client[ps->my_worker]))
		return 0;
	if (ps->srv[0] && atomic_load_explicit(&ps->srv[0]->handles, memory_order_relaxed))
		return 0;
	for (c = 0; c < ps->copies && ps->srv[c]; c++)
		if (atomic_load(&ps->srv[c]->serves) && ps->srv[c]->end_at != TT_NEVER)
			listed += list_missing(ps->srv[c], ranks + listed, max - listed, &n);
	return listed;
}

/*
 * Under the lock. A missing worker can be held up itself: by a server that is stopped, or by
 * another worker.
 */
static void give_up(struct tt_ps_server *srv, const int *ranks, int listed, int missing)
{
	struct tutti_comm *comm = srv->ps->comm;
	char more[32] = "has", why[TT_AWAIT_TEXT];
	int cause = tt_await_cause(comm->ctx, ranks, listed, why, sizeof(why));
	int first = ranks[0], i;

	for (i = 1; i < listed; i++)
		first = ranks[i] == cause ? cause : first;
	for (i = 0; comm->world[srv->client[i].rank] != first; i++)
		;
	if (missing > 1)
		snprintf(more, sizeof(more), "and %d more have", missing - 1);
	tt_comm_fail(comm, -ETIMEDOUT, cause, "ps_close", 0, "",
		     "worker %d (rank %d on host %s) %s not called tutti_ps_close, in which others "
		     "wait, nor sent anything "
		     "for %lld ms (TUTTI_TIMEOUT)%s",
		     i, first, tt_boot_host(comm->ctx->boot, first), more,
		     (long long)comm->ctx->env.timeout.number, why);
}

/* Whether the control tree has the news of this rank go by way of that one. */
static bool hears_by(const struct tt_ps_server *srv, const struct tt_ps_client *c, int by)
{
	const struct tutti_comm *comm = srv->ps->comm;
	int at = comm->ctx->boot_params.rank, to = comm->world[c->rank];

	while (at != to && at != by)
		at = tt_tree_hop(at, to);
	return !c->dead && at == by && to != by;
}

static bool all_told(void *arg)
{
	struct tt_ps_server *srv = arg;
	int w;

	if (srv->kick) {
		srv->alive = true;
		tt_ps_tell(srv);
	}
	for (w = 0; w < srv->ps->nworkers; w++)
		if (hears_by(srv, &srv->client[w], srv->failed - 1) &&
		    (srv->client[w].failed != srv->failed || srv->client[w].note_busy))
			return atomic_load(&srv->ps->comm->failed);
	return true;
}

/*
 * Under the lock, which it releases for a while. The news of the failure does not pass a rank of
 * the control tree that is stopped, so the workers behind that are told before.
 */
static void tell_behind(struct tt_ps_server *srv, int stopped)
{
	struct tt_wire *wire = srv->ps->comm->ctx->wire;
	int w, n = 0;

	for (w = 0; w < srv->ps->nworkers; w++)
		if (hears_by(srv, &srv->client[w], stopped)) {
			srv->client[w].note_due = true;
			n++;
		}
	if (!n)
		return;
	srv->failed = stopped + 1;
	srv->kick = true;
	tt_wire_unlock(wire);
	tt_engine_wait_beside(srv->ps->comm->ctx, all_told, srv, tt_deadline_ms(TELL_MS));
	tt_wire_lock(wire);
}

void tt_ps_find_missing(struct tt_ps_server *srv)
{
	struct tutti_context *ctx = srv->ps->comm->ctx;
	uint64_t now = srv->end_at == TT_NEVER ? 0 : tt_now_ns(), end;
	int ranks[ASKED], listed, n, stopped;
	char unused[TT_AWAIT_TEXT];

	if (now < srv->end_at)
		return;
	tt_wire_lock(ctx->wire);
	listed = list_missing(srv, ranks, ASKED, &n);
	end = srv->heard + limit(srv);
	srv->end_at = n ? tt_await_ask(ctx, ranks, listed, end) : TT_NEVER;
	if (n && tt_engine_due(ctx, end)) {
		stopped = tt_await_silent(ctx, ranks, listed, unused, sizeof(unused));
		if (stopped >= 0)
			tell_behind(srv, stopped);
		give_up(srv, ranks, listed, n);
	}
	tt_wire_unlock(ctx->wire);
}

void tt_ps_waited_for(struct tt_ps_server *srv)
{
	srv->waited = true;
}

void tt_ps_say_alive(struct tt_ps_server *srv)
{
	struct tt_wire *wire = srv->ps->comm->ctx->wire;
	uint64_t now = tt_now_ns();
	bool first = !srv->alive_at;

	if (!srv->serves || srv->published == UINT64_MAX || now < srv->alive_at)
		return;
	srv->alive_at = now + limit(srv) / 8;
	if (first && !srv->waited)
		return;
	tt_ps_tell_clock(srv);
	srv->alive = true;
	tt_wire_lock(wire);
	tt_ps_tell(srv);
	tt_wire_unlock(wire);
}
