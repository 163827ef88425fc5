/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP, the worker's side: blocks that were pulled once are sent by their server from then on, in batches, and
 * pulled out of this rank's own memory.
 *
 *	of each server:	[words 0] [words 1] [batch] [block 0: copy 0, copy 1] [block 1: ...]
 *
 * A batch is in force when its last line and all its parts are here, in whatever order they came, each with a note. Then
 * words[number % 2] says which copy of each block is the newest. Until the server has been told so, by a put into its part of the
 * window, it sends nothing more; so it never writes a copy that can be read here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/eager.h"

uint64_t tt_ps_cache_size(const struct tutti_ps_table *t, int server)
{
	return tt_ps_cache_block(t, server, t->part[server].blocks, 0);
}

static char *cache_of(const struct tutti_ps_table *t, int server)
{
	return t->mem + t->copies + t->part[server].cache;
}

/* A server that was not told sends nothing any more: if it lives, one of the two has to go. */
static void ack_over(struct tt_win_end *end, int status)
{
	const struct tt_ps_cache *c = tt_container(end, struct tt_ps_cache, acked);
	struct tutti_ps *ps = c->table->ps;

	if (status)
		tt_comm_broken(ps->comm, ps->comm->world[ps->server[c->server]], status, "ps", 0,
			       "telling a server what is here");
}

/* Everything of the batch may be here. */
static void look(struct tt_ps_cache *c)
{
	struct tutti_ps_table *t = c->table;
	const struct tt_ps_batch *batch = (const struct tt_ps_batch *)(const void *)(
		cache_of(t, c->server) + tt_ps_cache_line(t, c->server));
	int rank = t->ps->server[c->server], err;
	uint32_t token = t->sub_token[rank] + (uint32_t)t->ps->my_worker;
	struct tt_win_access a = {.rank = rank,
				  .local = cache_of(t, c->server) + tt_ps_cache_line(t, c->server),
				  .len = sizeof(uint64_t),
				  .offset = tt_ps_ack_at(t, c->server, t->ps->my_worker),
				  .note = true,
				  .token = &token};

	if (!c->here || c->parts != batch->parts)
		return;
	c->here = false;
	c->parts = 0;
	c->number = batch->number;
	c->min_clock = batch->min_clock;
	err = tt_win_op_start(t->win, &a, &c->acked);
	if (err)
		ack_over(&c->acked, err);
}

static void part_ring(struct tt_bell *bell)
{
	struct tt_ps_cache *c = tt_container(bell, struct tt_ps_cache, part);

	c->parts++;
	look(c);
}

static void line_ring(struct tt_bell *bell)
{
	struct tt_ps_cache *c = tt_container(bell, struct tt_ps_cache, line);

	c->here = true;
	look(c);
}

static int new_cache(struct tutti_ps_table *t, int k)
{
	struct tt_ps_cache *c = &t->cache[k];

	c->table = t;
	c->server = k;
	c->part.ring = part_ring;
	c->line.ring = line_ring;
	c->acked.over = ack_over;
	c->asked = calloc(t->part[k].blocks / 64 + 1, sizeof(uint64_t));
	c->ask = malloc((t->part[k].blocks + 1) * sizeof(uint32_t));
	c->own = calloc(t->part[k].blocks + 1, sizeof(uint64_t));
	memset(cache_of(t, k), 0, tt_ps_cache_block(t, k, 0, 0));
	return c->asked && c->ask && c->own ? 0 : -ENOMEM;
}

int tt_ps_cache_new(struct tutti_ps_table *t)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	int n = t->ps->nservers, k, err = 0;
	struct tt_bell **bells = malloc(2 * (size_t)n * sizeof(*bells));

	t->cache = calloc((size_t)n, sizeof(*t->cache));
	for (k = 0; t->cache && bells && k < n && !err; k++) {
		err = new_cache(t, k);
		bells[2 * k] = &t->cache[k].part;
		bells[2 * k + 1] = &t->cache[k].line;
	}
	if (!t->cache || !bells || err) {
		free(bells);
		return tt_fail(-ENOMEM, "no memory to keep table '%s'", t->name);
	}
	tt_wire_lock(wire);
	err = tt_wire_tokens_new(wire, bells, 2 * n, &t->my_cache);
	tt_wire_unlock(wire);
	t->has_cache = !err;
	free(bells);
	return err;
}

void tt_ps_cache_free(struct tutti_ps_table *t)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	int k;

	if (t->has_cache) {
		tt_wire_lock(wire);
		for (k = 0; k < 2 * t->ps->nservers; k++)
			tt_wire_token_free(wire, t->my_cache + (uint32_t)k);
		tt_wire_unlock(wire);
	}
	for (k = 0; t->cache && k < t->ps->nservers; k++) {
		free(t->cache[k].asked);
		free(t->cache[k].ask);
		free(t->cache[k].own);
	}
	free(t->cache);
}

void tt_ps_cache_want(struct tutti_ps_table *t, int server, uint64_t block)
{
	struct tt_ps_cache *c = &t->cache[server];

	if (c->asked[block / 64] >> block % 64 & 1)
		return;
	c->asked[block / 64] |= 1ull << block % 64;
	c->ask[c->asks++] = (uint32_t)block;
}

int tt_ps_cache_ask(struct tt_ps_task *task)
{
	struct tutti_ps_table *t = task->table;
	struct tt_ps_msg msg = {.kind = TT_PS_SUBSCRIBE, .table = t->index};
	struct tt_ps_out *out;
	int k;

	for (k = 0; k < t->ps->nservers; k++) {
		struct tt_ps_cache *c = &t->cache[k];

		while (c->asks) {
			out = tt_ps_out_get(&t->ps->link[k]);
			if (!out)
				return -EAGAIN;
			msg.count = c->asks < TT_PS_BLOCK / 4 ? c->asks : (uint32_t)(TT_PS_BLOCK / 4);
			msg.len = msg.count * (uint32_t)sizeof(uint32_t);
			c->asks -= msg.count;
			memcpy(out->staging + sizeof(msg), c->ask + c->asks, msg.len);
			tt_ps_send(task, out, msg, NULL, false);
		}
	}
	return 0;
}

void tt_ps_cache_own(struct tutti_ps_table *t, int server, uint64_t block, uint64_t sequence)
{
	if (t->cache && t->cache[server].own[block] < sequence)
		t->cache[server].own[block] = sequence;
}

static void take(struct tt_ps_unit *u, const struct tt_ps_cache *c, uint64_t word)
{
	struct tutti_ps_table *t = c->table;
	const char *copy = cache_of(t, c->server) +
			   tt_ps_cache_block(t, c->server, u->block, word & 0xff);
	size_t i;

	memcpy((void *)&u->landing->head, copy, sizeof(struct tt_ps_head));
	for (i = 0; i < u->items; i++) {
		memcpy(u->item[i].local, copy + sizeof(struct tt_ps_head) + u->item[i].offset,
		       u->item[i].len);
		tt_wire_stats(t->ps->comm->ctx->wire)->copied_bytes += u->item[i].len;
	}
	u->word = word;
	u->floor = t->track[c->server].floor[u->block];
	u->told = c->min_clock;
	u->span = 0;
}

enum tt_ps_where tt_ps_cached(struct tt_ps_unit *u)
{
	struct tutti_ps_table *t = u->pull->task.table;
	const struct tt_ps_cache *c = &t->cache[u->server];
	const struct tt_ps_track *track = &t->track[u->server];
	const uint64_t *words = (const uint64_t *)(const void *)(
		cache_of(t, u->server) + tt_ps_cache_words(t, u->server, c->number));
	uint64_t word = words[u->block], sequence = word >> 8;

	if (c->min_clock < u->pull->need)
		return TT_PS_COMING;
	if (!word)
		return TT_PS_AWAY; /* it was not subscribed to when that was sent, or has no values */
	if ((t->ps->staleness && track->pending[u->block]) || sequence < c->own[u->block])
		return TT_PS_COMING;
	if (sequence < track->floor[u->block])
		return TT_PS_AWAY; /* a newer one was read at the server before this was sent */
	take(u, c, word);
	return TT_PS_HERE;
}
