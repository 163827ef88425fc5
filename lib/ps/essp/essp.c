/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP (Dai and others, 2015), the server's side. When the clock has moved, or a worker's own
 * pushes are published, the server sends that worker a batch: the subscribed blocks that have
 * changed since the last batch, straight out of their published slots, then where they are, then
 * the clock (essp_batch.c; essp_cache.c says when a batch is in force). A slow worker gets the next
 * batch after it has taken this one. Blocks with many subscribers are relayed: see essp_tree.c.
 * Changes while the clock stands still are sent after a while, so that workers which only pull see
 * the last updates. A replica keeps the subscriptions too, and sends everything to all workers when
 * it takes over.
 */
#include "lib/ps/essp/essp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

#define OVERDUE_MS 50 /* delay after which changes are sent although the clock stands still */

static struct tt_ps_server *server_of(const struct tt_ps_store *s)
{
	return s->t->ps->srv[s->copy];
}

static struct tt_ps_client *client_of(const struct tt_ps_sub *sub)
{
	return &server_of(sub->store)->client[sub - sub->store->sub];
}

static bool sub_begin(struct tt_ps_sub *sub)
{
	const struct tt_ps_server *srv = server_of(sub->store);
	uint64_t finished = srv->passing ? srv->epoch - 1 : srv->epoch;
	bool own = sub->promised && sub->promised <= finished;
	bool overdue = sub->due_at != TT_NEVER && tt_passed(sub->due_at);

	if (srv->published ==
	    UINT64_MAX) /* the replica has taken over, and has published nothing yet */
		return false;
	if (!sub->fresh && !own && !overdue && srv->published <= sub->batch->min_clock)
		return false;
	if (own)
		sub->promised = 0;
	sub->fresh = false;
	sub->due_at = TT_NEVER;
	sub->clock = srv->published;
	return true;
}

static bool sub_next(struct tt_ps_sub *sub, uint64_t *block)
{
	uint64_t n = sub->store->part->blocks;

	*block = sub->at = tt_ps_next_bit(sub->due, sub->at, n);
	return *block < n;
}

static const struct tt_ps_head *sub_take(struct tt_ps_sub *sub, uint64_t block, uint64_t *sequence,
					 atomic_uint **reading)
{
	struct tt_ps_store *s = sub->store;
	uint64_t current = atomic_load(tt_ps_dir(s, block));
	unsigned slot = current & 0xff;

	sub->due[block / 64] &= ~(1ull << block % 64);
	*sequence = current >> 8;
	*reading = &s->sending[block * TT_PS_BLOCK_SLOTS + slot];
	return (const struct tt_ps_head *)(const void *)(s->mem + tt_ps_slot_at(s->t, s->server,
										block, slot));
}

static void sub_starts(struct tt_ps_sub *sub)
{
	server_of(sub->store)->puts++;
}

static void sub_over(struct tt_ps_sub *sub, int status)
{
	tt_ps_put_over(client_of(sub), status, "sending blocks to a worker");
}

static void sub_stir(struct tt_ps_sub *sub)
{
	server_of(sub->store)->kick = true;
}

static const struct tt_ps_sub_ops sub_ops = {.begin = sub_begin,
					     .next = sub_next,
					     .take = sub_take,
					     .starts = sub_starts,
					     .over = sub_over,
					     .stir = sub_stir};

void tt_ps_sub_send(struct tt_ps_server *srv)
{
	struct tutti_ps *ps = srv->ps;
	uint32_t i;
	int w;

	srv->send_at = TT_NEVER;
	for (i = 0; i < ps->ntables; i++) {
		struct tt_ps_store *s = tt_ps_store_of(srv, i);

		for (w = 0; s->sub && w < ps->nworkers; w++) {
			struct tt_ps_sub *sub = &s->sub[w];
			const struct tt_ps_client *c = &srv->client[w];

			/* a worker that has left relays until all have left */
			if (!sub->any || c->dead || (c->gone && !sub->relays))
				continue;
			srv->kick |= tt_ps_sub_go(sub);
			if (sub->state == TT_PS_SUB_IDLE && srv->published != UINT64_MAX &&
			    sub->due_at < srv->send_at)
				srv->send_at = sub->due_at;
		}
	}
}

void tt_ps_sub_due(struct tt_ps_store *s, uint64_t block)
{
	int w;

	for (w = 0; s->sub && w < s->t->ps->nworkers; w++) {
		struct tt_ps_sub *sub = &s->sub[w];
		uint64_t bit = sub->wanted[block / 64] & 1ull << block % 64;

		sub->due[block / 64] |= bit;
		if (bit && sub->due_at == TT_NEVER && s->t->ps->staleness)
			sub->due_at = tt_deadline_ms(OVERDUE_MS);
	}
}

void tt_ps_sub_promise(struct tt_ps_store *s, int worker, uint64_t sequence)
{
	int w;

	s->sub[worker].promised = sequence;
	if (!s->tree || !tt_ps_tree_relayed(s->tree, worker))
		return;
	for (w = 0; w < s->t->ps->nworkers; w++)
		if (s->sub[w].relays)
			s->sub[w].promised = sequence;
}

void tt_ps_sub_restart(struct tt_ps_store *s, uint64_t sequence)
{
	int w;

	for (w = 0; s->sub && w < s->t->ps->nworkers; w++)
		s->sub[w].promised = sequence;
}

void tt_ps_sub_serve(struct tt_ps_store *s)
{
	int w;

	for (w = 0; s->sub && w < s->t->ps->nworkers; w++)
		s->sub[w].fresh = s->sub[w].any;
}

/* Send this block to the worker, beginning with its current values. */
static void add(struct tt_ps_store *s, struct tt_ps_sub *sub, uint64_t block)
{
	sub->wanted[block / 64] |= 1ull << block % 64;
	if (atomic_load(tt_ps_dir(s, block)))
		sub->due[block / 64] |= 1ull << block % 64;
	sub->any = sub->fresh = true;
}

static void choose(struct tt_ps_store *s, int worker, const uint32_t *block, uint32_t n,
		   uint32_t *feeder)
{
	struct tt_ps_server *srv = server_of(s);
	struct tt_wire *wire = s->t->ps->comm->ctx->wire;
	int w;
	uint32_t i;

	tt_wire_lock(wire);
	for (w = 0; w < s->t->ps->nworkers; w++)
		s->living[w] = !srv->client[w].dead && !srv->client[w].gone;
	tt_wire_unlock(wire);
	for (i = 0; i < n; i++) {
		feeder[i] = tt_ps_tree_feeder(s->tree, worker, block[i], s->living);
		if (feeder[i] == TT_PS_BY_SERVER)
			continue;
		s->sub[tt_ps_feeder_worker(feeder[i])].relays = true;
		s->sub[tt_ps_feeder_worker(feeder[i])].most = TT_PS_PIECE;
	}
}

int tt_ps_subscribe(struct tt_ps_store *s, int worker, const struct tt_ps_msg *m,
		    const char *payload, uint32_t *feeder)
{
	const uint32_t *block = (const uint32_t *)(const void *)payload;
	uint32_t i;

	if (!s->sub || m->len != m->count * sizeof(*block) || (s->tree && m->count > TT_PS_KEYS))
		return -EPROTO;
	for (i = 0; i < m->count; i++)
		if (block[i] >= s->part->blocks)
			return -EPROTO;
	if (s->tree)
		choose(s, worker, block, m->count, feeder);
	for (i = 0; i < m->count; i++)
		if (!s->tree || feeder[i] == TT_PS_BY_SERVER)
			add(s, &s->sub[worker], block[i]);
	return 0;
}

/* ---- memory ---- */

static int new_sub(struct tt_ps_store *s, int w, char *lines, size_t pitch)
{
	struct tt_ps_sub *sub = &s->sub[w];
	size_t n = (size_t)s->part->blocks / 64 + 1;

	sub->ops = &sub_ops;
	sub->store = s;
	sub->table = s->t;
	sub->server = s->server;
	sub->due_at = TT_NEVER;
	tt_ps_sub_to(sub, s->t->ps->worker[w], (int)s->copy, (int)s->copy);
	sub->batch = (struct tt_ps_batch *)(void *)(lines + (size_t)w * pitch);
	sub->wanted = calloc(n, sizeof(uint64_t));
	sub->due = calloc(n, sizeof(uint64_t));
	return sub->wanted && sub->due ? 0 : -ENOMEM;
}

static int new_subs(struct tt_ps_store *s)
{
	struct tutti_ps *ps = s->t->ps;
	size_t pitch = sizeof(struct tt_ps_batch) + (size_t)tt_ps_dir_size(s->t, s->server);
	int w, err;

	s->sub = calloc((size_t)ps->nworkers, sizeof(*s->sub));
	s->sending = calloc((size_t)s->part->blocks * TT_PS_BLOCK_SLOTS + 1, sizeof(*s->sending));
	s->living = calloc((size_t)ps->nworkers, sizeof(*s->living));
	if (!s->sub || !s->sending || !s->living)
		return -ENOMEM;
	err = tutti_alloc(ps->comm->ctx, pitch * (size_t)ps->nworkers, (void **)&s->lines);
	if (err)
		return err;
	memset(s->lines, 0, pitch * (size_t)ps->nworkers);
	for (w = 0; !err && w < ps->nworkers; w++)
		err = new_sub(s, w, s->lines, pitch);
	return !err && ps->parents && !s->copy ? tt_ps_tree_new(s, &s->tree) : err;
}

int tt_ps_sub_new(struct tt_ps_store *s)
{
	struct tutti_ps *ps = s->t->ps;
	struct tt_bell **bells = malloc((size_t)ps->nworkers * sizeof(*bells));
	int w, err = bells ? new_subs(s) : -ENOMEM;

	for (w = 0; !err && w < ps->nworkers; w++)
		bells[w] = &s->sub[w].acked;
	if (!err) {
		tt_wire_lock(ps->comm->ctx->wire);
		err = tt_wire_tokens_new(ps->comm->ctx->wire, bells, ps->nworkers, &s->my_acks);
		tt_wire_unlock(ps->comm->ctx->wire);
		s->has_acks = !err;
	}
	free(bells);
	return err;
}

uint32_t tt_ps_acks(const struct tutti_ps_table *t, int copy)
{
	return t->store[copy] ? t->store[copy]->my_acks : 0;
}

void tt_ps_sub_free(struct tt_ps_store *s)
{
	struct tutti_ps *ps = s->t->ps;
	int w;

	if (s->has_acks) {
		tt_wire_lock(ps->comm->ctx->wire);
		for (w = 0; w < ps->nworkers; w++)
			tt_wire_token_free(ps->comm->ctx->wire, s->my_acks + (uint32_t)w);
		tt_wire_unlock(ps->comm->ctx->wire);
	}
	for (w = 0; s->sub && w < ps->nworkers; w++) {
		free(s->sub[w].wanted);
		free(s->sub[w].due);
	}
	tt_ps_tree_free(s->tree);
	free(s->sub);
	free(s->living);
	free(s->sending);
	tutti_free(s->lines);
}
