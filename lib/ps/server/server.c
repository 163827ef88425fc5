/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's thread: it sleeps until a message comes, or until a slot has rested. */
#include "lib/ps/server/server.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/spawn.h"
#include "lib/ps/resize/resize.h"

#define ANSWERS                                                                                    \
	(TT_PS_SLOTS * (sizeof(struct tt_ps_credit) + TT_PS_REPLY) + sizeof(struct tt_ps_note))

static void ring(struct tt_bell *bell)
{
	struct tt_ps_in_bell *b = tt_container(bell, struct tt_ps_in_bell, bell);

	b->rung = true;
	if (b->srv->copy) /* the message may be one that this server has had already */
		atomic_store(&b->srv->stirred, true);
}

static void worker_lost(struct tutti_ps *ps, int w)
{
	int c;

	ps->dead++;
	tt_ps_relay_lost(ps, w);
	tt_ps_trace(ps, "dead %d\n", tt_ps_trace_id(ps, w));
	tt_warn("worker %d (rank %d) has failed; other workers go on", w,
		ps->comm->world[ps->worker[w]]);
	for (c = 0; c < ps->copies && ps->srv[c]; c++) {
		ps->srv[c]->client[w].dead = true;
		atomic_store(&ps->srv[c]->stirred, true);
	}
}

/* Whether every server has a rank left. */
static bool server_lost(struct tutti_ps *ps, int index)
{
	int k, c;

	ps->lost[index] = true;
	ps->dead++;
	for (k = 0; k < ps->nservers; k++)
		if (tt_ps_living(ps, k, 0) < 0)
			return false;
	tt_warn("server %d (rank %d) has failed; its replicas go on", index,
		ps->comm->world[ps->server[index]]);
	for (c = 0; c < ps->copies && ps->srv[c]; c++)
		atomic_store(&ps->srv[c]->stirred, true);
	for (k = 0; k < ps->nservers && ps->link; k++)
		tt_ps_link_step(&ps->link[k]);
	return true;
}

bool tt_ps_lost(void *arg, int rank)
{
	struct tutti_ps *ps = arg;
	int i;

	for (i = 0; i < ps->nservers; i++)
		if (ps->server[i] == rank && (ps->copies == 1 || !server_lost(ps, i)))
			return false;
	for (i = 0; i < ps->nworkers; i++)
		if (ps->worker[i] == rank)
			worker_lost(ps, i);
	tt_wire_wake(ps->comm->ctx->wire);
	return true;
}

/* Under the lock. */
static bool has_work(void *arg)
{
	struct tt_ps_server *const *srv = arg;
	struct tutti_ps *ps = srv[0]->ps;
	int c;

	for (c = 0; c < ps->copies; c++)
		if (srv[c]->kick || atomic_load(&srv[c]->stirred) || tt_ps_may_end(srv[c]) ||
		    tt_ps_inbox_any(srv[c]))
			return true;
	return atomic_load(&srv[0]->stop) || atomic_load(&ps->comm->failed);
}

static void *run(void *arg)
{
	struct tt_ps_server **srv = arg;
	struct tutti_ps *ps = srv[0]->ps;
	struct tutti_context *ctx = ps->comm->ctx;
	uint64_t wake_at;
	int n, c;

	while (!atomic_load(&srv[0]->stop) && !atomic_load(&ps->comm->failed)) {
		wake_at = TT_NEVER;
		for (n = c = 0; c < ps->copies; c++) {
			n += tt_ps_chain(srv[c]);
			if (!srv[c]->serves)
				continue;
			n += tt_ps_inbox(srv[c]);
			n += tt_ps_publish_pass(srv[c]);
			tt_ps_find_slow(srv[c]);
			tt_ps_find_missing(srv[c]);
			if (srv[c]->waited)
				tt_ps_say_alive(srv[c]);
			if (srv[c]->wake_at < wake_at)
				wake_at = srv[c]->wake_at;
			if (srv[c]->slow_at < wake_at)
				wake_at = srv[c]->slow_at;
			if (srv[c]->end_at < wake_at)
				wake_at = srv[c]->end_at;
			if (srv[c]->send_at < wake_at)
				wake_at = srv[c]->send_at;
			if (srv[c]->waited && srv[c]->alive_at < wake_at)
				wake_at = srv[c]->alive_at;
		}
		tt_wire_lock(ctx->wire);
		for (c = 0; c < ps->copies; c++)
			tt_ps_tell(srv[c]);
		tt_engine_progress(ctx);
		if (n)
			tt_wire_leave(ctx->wire);
		tt_wire_unlock(ctx->wire);
		if (!n && atomic_load(&ps->resting) && tt_ps_at_rest(ps)) {
			atomic_store(&ps->calm, true);
			tt_wire_wake(ctx->wire);
		}
		if (!n)
			tt_engine_wait_beside(ctx, has_work, srv, wake_at);
	}
	return NULL;
}

/* The tokens of all replicas must be consecutive. */
static void open_clients(struct tt_ps_server *srv, struct tt_bell **bells)
{
	struct tutti_ps *ps = srv->ps;
	int w, j;

	for (w = 0; w < ps->nworkers; w++) {
		struct tt_ps_client *c = &srv->client[w];

		c->srv = srv;
		c->index = w;
		c->rank = ps->worker[w];
		c->held_end = &c->held;
		c->answers = srv->answers + (size_t)w * ANSWERS;
		c->note_end.over = tt_ps_note_over;
		c->credit_end.over = tt_ps_credit_over;
		for (j = 0; j < TT_PS_SLOTS * 2; j++) {
			struct tt_ps_in_bell *b = &c->bell[j / 2][j % 2];

			b->bell.ring = ring;
			b->srv = srv;
			bells[tt_ps_bell_in(ps, srv->copy, w, j / 2, j % 2)] = &b->bell;
		}
	}
}

static int open_server(struct tutti_ps *ps, int copy, struct tt_bell **bells)
{
	struct tt_ps_server *srv = calloc(1, sizeof(*srv));
	size_t answers = (size_t)ps->nworkers * ANSWERS;
	int err;

	if (!srv)
		return tt_fail(-ENOMEM, "no memory for a parameter server");
	ps->srv[copy] = srv;
	srv->ps = ps;
	srv->copy = copy;
	srv->index = (ps->my_server - copy + ps->nservers) % ps->nservers;
	srv->serves = !copy;
	srv->left = srv->here = ps->nworkers;
	srv->epoch = copy ? tt_ps_first((uint64_t)copy) : 1;
	srv->wake_at = srv->slow_at = srv->end_at = srv->send_at = TT_NEVER;
	srv->client = calloc((size_t)ps->nworkers, sizeof(*srv->client));
	err = srv->client ? tutti_alloc(ps->comm->ctx, answers + TT_PS_LINE, (void **)&srv->answers)
			  : tt_fail(-ENOMEM, "no memory for %d workers", ps->nworkers);
	if (err)
		return err;
	srv->ack = srv->answers + answers;
	open_clients(srv, bells);
	return tt_ps_chain_new(srv, bells);
}

/* Everything but the thread, which needs what the ranks tell each other. */
int tt_ps_server_new(struct tutti_ps *ps)
{
	int n = tt_ps_bells(ps), c, err = 0;
	struct tt_bell **bells = calloc((size_t)n, sizeof(struct tt_bell *));

	if (!bells)
		return tt_fail(-ENOMEM, "no memory for %d workers", ps->nworkers);
	for (c = 0; c < ps->copies && !err; c++)
		err = open_server(ps, c, bells);
	tt_wire_lock(ps->comm->ctx->wire);
	if (!err)
		err = tt_wire_tokens_new(ps->comm->ctx->wire, bells, n, &ps->my_in);
	ps->bells = !err;
	tt_wire_unlock(ps->comm->ctx->wire);
	free(bells);
	return err;
}

int tt_ps_server_start(struct tutti_ps *ps)
{
	struct tt_ps_server *srv = ps->srv[0];
	int err = tt_spawn(&srv->thread, run, ps->srv, "the server's thread");

	srv->runs = !err;
	return err;
}

void tt_ps_server_stop(struct tutti_ps *ps)
{
	struct tt_ps_server *srv = ps->srv[0];

	if (!srv || !srv->runs)
		return;
	atomic_store(&srv->stop, true);
	tt_wire_wake(ps->comm->ctx->wire);
	pthread_join(srv->thread, NULL);
	srv->runs = false;
}

int tt_ps_server_restart(struct tutti_ps *ps)
{
	atomic_store(&ps->srv[0]->stop, false);
	return tt_ps_server_start(ps);
}

void tt_ps_server_free(struct tutti_ps *ps)
{
	int i, c;

	if (!ps->srv[0])
		return;
	tt_wire_lock(ps->comm->ctx->wire);
	for (i = 0; ps->bells && i < tt_ps_bells(ps); i++)
		tt_wire_token_free(ps->comm->ctx->wire, ps->my_in + (uint32_t)i);
	tt_wire_unlock(ps->comm->ctx->wire);
	for (c = 0; c < TT_PS_REPLICAS && ps->srv[c]; c++) {
		struct tt_ps_server *srv = ps->srv[c];

		if (srv->client)
			tt_ps_inbox_free(srv);
		tutti_free(srv->answers);
		free(srv->client);
		free(srv->entry);
		free(srv->log);
		free(srv);
		ps->srv[c] = NULL;
	}
}

bool tt_ps_server_done(struct tutti_ps *ps)
{
	int c;

	for (c = 0; c < ps->copies && ps->srv[c]; c++) {
		const struct tt_ps_server *srv = ps->srv[c];

		if (srv->left || srv->told < srv->order || srv->puts || srv->ack_due ||
		    srv->ack_busy || (srv->serves && !srv->ended))
			return false;
	}
	return true;
}
