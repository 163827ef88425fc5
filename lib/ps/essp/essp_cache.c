/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP, the worker's side. A block that was pulled once is sent from then on, in batches, by its
 * server or by a relaying worker (essp_relay.c); later pulls read it from this rank's own memory.
 *
 * A batch is in force when its last line and all its parts have arrived, in any order, each with a
 * note. Then words[number % 2] says which slot of each block is the newest. The sender sends
 * nothing more until it is told so, by a put into its part of the window; so it never writes a slot
 * that can be read here. A block has one sender at a time, so the feeds share the slots of a block.
 * Each replica of a server has its own memory here.
 *
 * The server can always be read instead. With relaying, a pull waits at most TUTTI_PS_RELAY_WAIT,
 * counted from the last arrival, for a block that the server has announced; then it reads at the
 * server until the next arrival.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/ps/essp/essp.h"
#include "lib/ps/worker/pull.h"

uint64_t tt_ps_cache_size(const struct tutti_ps_table *t, int server)
{
	return tt_ps_cache_block(t, server, t->part[server].blocks, 0);
}

/* ---- feeds ---- */

struct tt_ps_feed *tt_ps_feed_of(const struct tt_ps_cache *c, uint64_t block)
{
	const struct tutti_ps *ps = c->table->ps;

	if (c->of[block] == TT_PS_UNSENT)
		return NULL;
	if (c->of[block] < 2)
		return c->of[block] ? &c->feed[ps->link[c->server].copy] : NULL;
	return &c->feed[ps->copies + c->of[block] - 2];
}

uint64_t tt_ps_feed_word(const struct tt_ps_feed *f, uint64_t block)
{
	const char *words =
		f->base + tt_ps_feed_words(f->cache->table, f->cache->server, f->number);

	return ((const uint64_t *)(const void *)words)[block];
}

const struct tt_ps_head *tt_ps_feed_block(const struct tt_ps_feed *f, uint64_t block, uint64_t word)
{
	return (const struct tt_ps_head *)(const void *)(f->area +
							 tt_ps_cache_block(f->cache->table,
									   f->cache->server, block,
									   word & 0xff));
}

static int sender_of(const struct tt_ps_feed *f)
{
	const struct tutti_ps *ps = f->cache->table->ps;

	return f->parent < 0 ? ps->server[tt_ps_host(ps, f->cache->server, f->index)]
			     : ps->worker[f->parent];
}

/*
 * A sender that was not told sends nothing more: if both ranks live, one of them has to be dropped.
 */
static void ack_over(struct tt_win_end *end, int status)
{
	const struct tt_ps_feed *f = tt_container(end, struct tt_ps_feed, acked);
	struct tutti_ps *ps = f->cache->table->ps;
	bool lost = f->parent < 0 ? ps->lost[tt_ps_host(ps, f->cache->server, f->index)]
				  : ps->worker_lost[f->parent];

	if (status && !lost)
		tt_comm_broken(ps->comm, ps->comm->world[sender_of(f)], status, "ps", 0,
			       "acknowledging a batch");
}

void tt_ps_feed_ack(struct tt_ps_feed *f)
{
	struct tutti_ps_table *t = f->cache->table;
	int k = f->cache->server, rank;
	uint32_t token;
	uint64_t to;

	if (!f->ack_due || f->lost || t->ps->parted ||
	    atomic_load(&f->reading[(f->number + 1) % 2]))
		return;
	f->ack_due = false;
	rank = sender_of(f);
	if (f->parent < 0) {
		token = t->sub_token[rank * TT_PS_REPLICAS + f->index] + (uint32_t)t->ps->my_worker;
		to = tt_ps_base_at(t, k, f->index) + tt_ps_ack_at(t, k, t->ps->my_worker);
	} else {
		token = t->cache_token[rank] + tt_ps_child_bell(t, k, f->slot) + 1;
		to = tt_ps_area_at(t, rank, k, 0) + tt_ps_want_at(t, k, f->slot) +
		     offsetof(struct tt_ps_want, ack);
	}
	tt_ps_put(t->win, rank, f->base + tt_ps_feed_line(t, k), sizeof(uint64_t), to, token,
		  &f->acked);
}

/* The whole batch may have arrived. */
static void look(struct tt_ps_feed *f)
{
	const struct tt_ps_batch *batch =
		(const struct tt_ps_batch *)(const void *)(f->base +
							   tt_ps_feed_line(f->cache->table,
									   f->cache->server));

	f->left = f->left || (f->here && batch->number == TT_PS_LEFT);
	if (!f->here || f->left || f->parts != batch->parts ||
	    atomic_load(&f->cache->table->ps->comm->failed))
		return;
	f->here = false;
	f->parts = 0;
	f->number = batch->number;
	f->min_clock = batch->min_clock;
	f->ack_due = true;
	f->cache->news++;
	tt_ps_feed_ack(f);
	tt_ps_relay_stir(f->cache);
}

static void heard(struct tt_ps_feed *f)
{
	f->slow = false;
	if (f->cache->table->ps->parents)
		f->heard = tt_now_ns();
}

static void part_ring(struct tt_bell *bell)
{
	struct tt_ps_feed *f = tt_container(bell, struct tt_ps_feed, part);

	f->parts++;
	heard(f);
	look(f);
}

static void line_ring(struct tt_bell *bell)
{
	struct tt_ps_feed *f = tt_container(bell, struct tt_ps_feed, line);

	f->here = true;
	heard(f);
	look(f);
}

/* ---- memory ---- */

static int feeds_of(const struct tutti_ps *ps)
{
	return ps->copies + ps->parents;
}

static int new_feeds(struct tt_ps_cache *c)
{
	struct tutti_ps_table *t = c->table;
	int n = feeds_of(t->ps), copy, i;

	c->feed = calloc((size_t)n, sizeof(*c->feed));
	if (!c->feed)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		struct tt_ps_feed *f = &c->feed[i];

		copy = i < t->ps->copies ? i : 0;
		f->cache = c;
		f->index = i;
		f->parent = f->slot = -1;
		f->part.ring = part_ring;
		f->line.ring = line_ring;
		f->acked.over = ack_over;
		f->area = t->mem + tt_ps_area_at(t, t->ps->comm->rank, c->server, copy);
		f->base = f->area +
			  tt_ps_feed_at(t, c->server, i < t->ps->copies ? -1 : i - t->ps->copies);
		if (i < t->ps->copies)
			memset(f->area, 0, tt_ps_cache_block(t, c->server, 0, 0));
	}
	return 0;
}

static int new_cache(struct tutti_ps_table *t, int k, struct tt_bell **bells, char *memory)
{
	struct tt_ps_cache *c = &t->cache[k];
	uint64_t n = t->part[k].blocks;
	int i, err;

	c->table = t;
	c->server = k;
	err = new_feeds(c);
	for (i = 0; !err && i < feeds_of(t->ps); i++) {
		bells[tt_ps_feed_bell(t, k, i)] = &c->feed[i].part;
		bells[tt_ps_feed_bell(t, k, i) + 1] = &c->feed[i].line;
	}
	c->asked = calloc(n / 64 + 1, sizeof(uint64_t));
	c->ask = malloc((n + 1) * sizeof(uint32_t));
	c->own = calloc(n + 1, sizeof(uint64_t));
	c->of = calloc(n + 1, 1);
	c->child = calloc((size_t)t->ps->children + 1, sizeof(*c->child));
	if (err || !c->asked || !c->ask || !c->own || !c->of || !c->child)
		return -ENOMEM;
	tt_ps_relay_new(c, memory);
	tt_ps_relay_bells(c, bells);
	return 0;
}

static int relay_memory(struct tutti_ps_table *t)
{
	size_t size = 0;
	int k, err;

	for (k = 0; k < t->ps->nservers; k++)
		size += tt_ps_relay_memory(t, k);
	if (!size)
		return 0;
	err = tutti_alloc(t->ps->comm->ctx, size, (void **)&t->relay);
	if (!err)
		memset(t->relay, 0, size);
	return err;
}

int tt_ps_cache_new(struct tutti_ps_table *t)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	int n = (int)tt_ps_child_bell(t, t->ps->nservers, 0), k, err = relay_memory(t);
	struct tt_bell **bells = malloc((size_t)n * sizeof(*bells));
	char *memory = t->relay;

	t->cache = calloc((size_t)t->ps->nservers, sizeof(*t->cache));
	for (k = 0; t->cache && k < t->ps->nservers; k++)
		tt_list_init(&t->cache[k].step.link);
	for (k = 0; t->cache && bells && k < t->ps->nservers && !err; k++) {
		err = new_cache(t, k, bells, memory);
		memory += tt_ps_relay_memory(t, k);
	}
	if (!t->cache || !bells || err) {
		free(bells);
		return tt_fail(-ENOMEM, "no memory to cache table '%s'", t->name);
	}
	tt_wire_lock(wire);
	err = tt_wire_tokens_new(wire, bells, n, &t->my_cache);
	tt_wire_unlock(wire);
	t->has_cache = !err;
	free(bells);
	return err;
}

void tt_ps_cache_free(struct tutti_ps_table *t)
{
	struct tt_wire *wire = t->ps->comm->ctx->wire;
	int k;

	if (!t->cache)
		return;
	tt_wire_lock(wire);
	for (k = 0; t->has_cache && k < (int)tt_ps_child_bell(t, t->ps->nservers, 0); k++)
		tt_wire_token_free(wire, t->my_cache + (uint32_t)k);
	for (k = 0; k < t->ps->nservers; k++)
		tt_list_del(&t->cache[k].step.link);
	tt_wire_unlock(wire);
	for (k = 0; k < t->ps->nservers; k++) {
		free(t->cache[k].feed);
		free(t->cache[k].child);
		free(t->cache[k].of);
		free(t->cache[k].asked);
		free(t->cache[k].ask);
		free(t->cache[k].own);
	}
	free(t->cache);
	tutti_free(t->relay);
}

/* ---- subscribing ---- */

/* Whether the server's answer names the senders; if not, the server sends. */
static bool is_told(const struct tutti_ps *ps)
{
	return ps->parents || ps->copies > 1;
}

void tt_ps_cache_want(struct tutti_ps_table *t, int server, uint64_t block)
{
	struct tt_ps_cache *c = &t->cache[server];

	if (c->asked[block / 64] >> block % 64 & 1)
		return;
	c->asked[block / 64] |= 1ull << block % 64;
	c->ask[c->asks++] = (uint32_t)block;
	if (!is_told(t->ps))
		c->of[block] = 1;
}

int tt_ps_cache_ask(struct tt_ps_task *task)
{
	struct tutti_ps_table *t = task->table;
	struct tt_ps_msg msg = {.kind = TT_PS_SUBSCRIBE, .table = t->index};
	uint32_t most = is_told(t->ps) ? TT_PS_KEYS : (uint32_t)(TT_PS_BLOCK / sizeof(uint32_t));
	struct tt_ps_out *out;
	int k;

	for (k = 0; k < t->ps->nservers; k++) {
		struct tt_ps_cache *c = &t->cache[k];

		while (c->asks) {
			out = tt_ps_out_get(&t->ps->link[k]);
			if (!out)
				return -EAGAIN;
			msg.count = c->asks < most ? c->asks : most;
			msg.len = msg.count * (uint32_t)sizeof(uint32_t);
			c->asks -= msg.count;
			memcpy(out->staging + sizeof(msg), c->ask + c->asks, msg.len);
			tt_ps_send(task, out, msg, NULL, is_told(t->ps));
		}
	}
	return 0;
}

void tt_ps_cache_told(struct tutti_ps_table *t, struct tt_ps_link *link, const uint32_t *block,
		      uint32_t count, const uint32_t *feeder, bool by_others)
{
	struct tt_ps_cache *c = &t->cache[link->index];
	uint32_t i;

	for (i = 0; i < count; i++)
		if (!by_others || link->copy || feeder[i] == TT_PS_BY_SERVER)
			c->of[block[i]] = 1;
		else
			tt_ps_relay_want(c, block[i], tt_ps_feeder_worker(feeder[i]),
					 (int)(feeder[i] & 0xff));
	c->news++; /* the batch with these blocks may have come before this answer */
	tt_ps_relay_stir(c);
	tt_ps_relay_ask(c);
}

void tt_ps_cache_moved(struct tutti_ps *ps, int server)
{
	uint32_t i;

	for (i = 0; i < ps->ntables; i++)
		if (ps->table[i]->cache)
			tt_ps_relay_over(&ps->table[i]->cache[server]);
}

void tt_ps_cache_own(struct tutti_ps_table *t, int server, uint64_t block, uint64_t sequence)
{
	if (t->cache && t->cache[server].own[block] < sequence)
		t->cache[server].own[block] = sequence;
}

static bool has_items(const struct tt_ps_unit *u, const struct tt_ps_head *copy)
{
	size_t i;

	for (i = 0; i < u->items; i++)
		if (u->item[i].offset + u->item[i].len > copy->length)
			return false;
	return true;
}

static void take(struct tt_ps_unit *u, const struct tt_ps_feed *f, uint64_t word)
{
	struct tutti_ps_table *t = f->cache->table;
	const struct tt_ps_head *copy = tt_ps_feed_block(f, u->block, word);
	size_t i;

	memcpy((void *)&u->landing->head, copy, sizeof(*copy));
	u->coded = (const char *)(copy + 1);
	for (i = 0; i < u->items && !t->coded; i++) {
		tt_copy_data(u->item[i].local, (const char *)(copy + 1) + u->item[i].offset,
			     u->item[i].len);
		tt_wire_stats(t->ps->comm->ctx->wire)->copied_bytes += u->item[i].len;
	}
	u->word = word;
	u->copy = f->parent < 0 ? f->index : 0;
	u->floor = t->track[u->server].floor[u->block];
	u->told = f->min_clock;
	u->span = 0;
}

/*
 * The block will be sent. If the server has announced it already and the sender does not bring it,
 * the pull waits for a limited time only.
 */
static enum tt_ps_where coming(struct tt_ps_unit *u, struct tt_ps_feed *f)
{
	const struct tutti_ps_table *t = f->cache->table;
	const struct tt_ps_link *link = &t->ps->link[u->server];
	uint64_t patience = (uint64_t)t->ps->comm->ctx->env.ps_relay_wait.number * TT_MS, now;

	if (!t->ps->parents || !link->ready || link->min_clock < u->pull->need ||
	    (t->ps->staleness && t->track[u->server].pending[u->block]))
		return TT_PS_COMING;
	now = tt_now_ns();
	if (!u->since)
		u->since = now;
	if (now > (f->heard > u->since ? f->heard : u->since) + patience)
		f->slow = true;
	return f->slow ? TT_PS_AWAY : TT_PS_COMING;
}

enum tt_ps_where tt_ps_cached(struct tt_ps_unit *u)
{
	struct tutti_ps_table *t = u->pull->task.table;
	const struct tt_ps_cache *c = &t->cache[u->server];
	const struct tt_ps_track *track = &t->track[u->server];
	struct tt_ps_feed *f = tt_ps_feed_of(c, u->block);
	uint64_t word, sequence;

	if (!f || (t->coded && !u->pull->coded)) /* values themselves are not sent */
		return TT_PS_AWAY;
	word = tt_ps_feed_word(f, u->block);
	sequence = word >> 8;
	if (word == TT_PS_LOST)
		return TT_PS_AWAY;
	if (f->min_clock < u->pull->need)
		return coming(u, f);
	if (!word)
		return TT_PS_AWAY; /* not subscribed when the batch was sent, or has no values */
	if ((t->ps->staleness && track->pending[u->block]) || sequence < c->own[u->block])
		return coming(u, f);
	if (sequence < track->floor[u->block])
		return TT_PS_AWAY; /* a newer one was read at the server before the batch was sent
				    */
	if (!has_items(u, tt_ps_feed_block(f, u->block, word)))
		return TT_PS_AWAY; /* rows that were published after it are known by now */
	take(u, f, word);
	return TT_PS_HERE;
}
