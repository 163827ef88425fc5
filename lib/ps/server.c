/* SPDX-License-Identifier: BSD-3-Clause */
/* A server's thread: it sleeps until a message comes, or until a slot that it waits for has rested. */
#include "lib/ps/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

#define ANSWERS (TT_PS_SLOTS * (sizeof(struct tt_ps_credit) + TT_PS_REPLY) + sizeof(struct tt_ps_note))

static void ring(struct tt_bell *bell)
{
	struct tt_ps_in_bell *b = tt_container(bell, struct tt_ps_in_bell, bell);

	b->rung = true;
}

bool tt_ps_lost(void *arg, int rank)
{
	struct tutti_ps *ps = arg;
	int i;

	for (i = 0; i < ps->nservers; i++)
		if (ps->server[i] == rank)
			return false;
	ps->dead++;
	for (i = 0; i < ps->nworkers; i++)
		if (ps->worker[i] == rank) {
			tt_warn("worker %d (rank %d) is gone; the others go on", i, rank);
			if (ps->srv)
				ps->srv->client[i].dead = ps->srv->kick = true;
		}
	tt_wire_wake(ps->comm->ctx->wire);
	return true;
}

/* Under the lock. */
static bool has_work(void *arg)
{
	struct tt_ps_server *srv = arg;

	return srv->kick || tt_ps_byes(srv, false) || atomic_load(&srv->stop) || atomic_load(&srv->ps->comm->failed) ||
	       tt_ps_inbox_any(srv);
}

static void *run(void *arg)
{
	struct tt_ps_server *srv = arg;
	struct tutti_context *ctx = srv->ps->comm->ctx;
	int n;

	while (!atomic_load(&srv->stop) && !atomic_load(&srv->ps->comm->failed)) {
		n = tt_ps_inbox(srv);
		n += tt_ps_pass(srv);
		tt_wire_lock(ctx->wire);
		tt_ps_tell(srv);
		tt_engine_progress(ctx);
		tt_wire_unlock(ctx->wire);
		if (!n)
			tt_engine_wait(ctx, has_work, srv, srv->wake_at);
	}
	return NULL;
}

static int open_clients(struct tt_ps_server *srv)
{
	struct tutti_ps *ps = srv->ps;
	int n = ps->nworkers * TT_PS_SLOTS * 2, w, j, i = 0, err;
	struct tt_bell **bells = malloc((size_t)n * sizeof(struct tt_bell *));

	if (!bells)
		return tt_fail(-ENOMEM, "no memory for %d workers", ps->nworkers);
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
			bells[i++] = &b->bell;
		}
	}
	tt_wire_lock(ps->comm->ctx->wire);
	err = tt_wire_tokens_new(ps->comm->ctx->wire, bells, n, &ps->my_in);
	tt_wire_unlock(ps->comm->ctx->wire);
	free(bells);
	return err;
}

/* All but the thread, which needs what the ranks tell each other. */
int tt_ps_server_new(struct tutti_ps *ps)
{
	struct tt_ps_server *srv = calloc(1, sizeof(*srv));
	int err;

	if (!srv)
		return tt_fail(-ENOMEM, "no memory for a parameter server");
	srv->ps = ps;
	srv->left = ps->nworkers;
	srv->epoch = 1;
	srv->wake_at = TT_NEVER;
	srv->client = calloc((size_t)ps->nworkers, sizeof(*srv->client));
	err = srv->client ? tutti_alloc(ps->comm->ctx, (size_t)ps->nworkers * ANSWERS,
					(void **)&srv->answers)
			  : tt_fail(-ENOMEM, "no memory for %d workers", ps->nworkers);
	if (!err)
		err = open_clients(srv);
	if (err) {
		tutti_free(srv->answers);
		free(srv->client);
		free(srv);
		return err;
	}
	ps->srv = srv;
	return 0;
}

int tt_ps_server_start(struct tutti_ps *ps)
{
	struct tt_ps_server *srv = ps->srv;
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&srv->thread, NULL, run, srv);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return tt_fail(-err, "can't start the server's thread: %s", strerror(err));
	srv->runs = true;
	return 0;
}

void tt_ps_server_stop(struct tutti_ps *ps)
{
	struct tt_ps_server *srv = ps->srv;

	if (!srv || !srv->runs)
		return;
	atomic_store(&srv->stop, true);
	tt_wire_wake(ps->comm->ctx->wire);
	pthread_join(srv->thread, NULL);
	srv->runs = false;
}

void tt_ps_server_free(struct tutti_ps *ps)
{
	struct tt_ps_server *srv = ps->srv;
	int i;

	if (!srv)
		return;
	tt_wire_lock(ps->comm->ctx->wire);
	for (i = 0; i < ps->nworkers * TT_PS_SLOTS * 2; i++)
		tt_wire_token_free(ps->comm->ctx->wire, ps->my_in + (uint32_t)i);
	tt_wire_unlock(ps->comm->ctx->wire);
	tt_ps_inbox_free(srv);
	tutti_free(srv->answers);
	free(srv->client);
	free(srv);
	ps->srv = NULL;
}

bool tt_ps_server_done(struct tutti_ps *ps)
{
	return !ps->srv || !ps->srv->left;
}
