/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers that leave. Before the first good-bye a server waits for no worker: it serves. From then
 * on other workers wait in tutti_ps_close. As long as a missing worker sends anything, it is at
 * work; when no missing worker has sent anything for TUTTI_TIMEOUT, all ranks are told which
 * workers are missing.
 *
 * Workers also wait for servers, which may be at work for long: a server reports between two
 * messages that it is alive, as long as it makes progress. A stuck server, for example in a
 * user-defined function, reports nothing for any replica on its rank: one thread runs all of them
 * (shutdown.c).
 */
#include <errno.h>

#include "lib/ps/server/server.h"

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
		srv->end_at = srv->heard + limit(srv);
}

/* Under the lock. */
static void give_up(struct tt_ps_server *srv, const struct tt_ps_client *first, int missing)
{
	struct tutti_comm *comm = srv->ps->comm;
	int rank = comm->world[first->rank];
	char more[32] = "has";

	if (missing > 1)
		snprintf(more, sizeof(more), "and %d more have", missing - 1);
	tt_comm_fail(comm, -ETIMEDOUT, rank, "ps_close", 0, "",
		     "worker %d (rank %d on host %s) %s not called tutti_ps_close, in which others "
		     "wait, nor sent anything "
		     "for %lld ms (TUTTI_TIMEOUT)",
		     first->index, rank, tt_boot_host(comm->ctx->boot, rank), more,
		     (long long)comm->ctx->env.timeout.number);
}

void tt_ps_find_missing(struct tt_ps_server *srv)
{
	const struct tt_ps_client *first = NULL;
	uint64_t now = srv->end_at == TT_NEVER ? 0 : tt_now_ns();
	int w, n = 0;

	if (now < srv->end_at)
		return;
	tt_wire_lock(srv->ps->comm->ctx->wire);
	for (w = srv->ps->nworkers - 1; w >= 0; w--) {
		const struct tt_ps_client *c = &srv->client[w];

		if (c->gone || c->leaves || c->dead)
			continue;
		first = c;
		n++;
	}
	srv->end_at = n ? srv->heard + limit(srv) : TT_NEVER;
	if (n && now >= srv->end_at)
		give_up(srv, first, n);
	tt_wire_unlock(srv->ps->comm->ctx->wire);
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
