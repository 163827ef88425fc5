/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP (Dai and others, 2015), the server's side: when the clock has moved, or a worker's own pushes are published,
 * it gets a batch: the blocks that it has subscribed to and that have changed since the last one, straight out of the
 * slots in which they are published, then where they are, then the clock. cache.c says when a batch is in force. A worker that is slow
 * to take one gets the next when it has; blocks that change several times until then go once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ps/eager.h"

#define AT_ONCE 8 /* blocks put while the lock is kept */

static struct tt_ps_client *client_of(const struct tt_ps_sub *sub)
{
	const struct tt_ps_store *s = sub->store;

	return &s->t->ps->srv[0]->client[sub - s->sub];
}

static void acked(struct tt_bell *bell)
{
	struct tt_ps_sub *sub = tt_container(bell, struct tt_ps_sub, acked);

	if (sub->state == TT_PS_SUB_SENT)
		sub->state = TT_PS_SUB_IDLE;
	sub->store->t->ps->srv[0]->kick = true;
}

static void put_over(struct tt_win_end *end, int status)
{
	struct tt_ps_part_put *put = tt_container(end, struct tt_ps_part_put, end);

	put->busy = false;
	atomic_fetch_sub(put->sending, 1);
	put->sub->store->t->ps->srv[0]->kick = true;
	tt_ps_put_over(client_of(put->sub), status, "sending a block to a worker");
}

static void end_over(struct tt_win_end *end, int status)
{
	tt_ps_put_over(client_of(tt_container(end, struct tt_ps_sub, end)), status,
		       "sending blocks to a worker");
}

/* from: in the worker's cache; to the bell of parts, or of the line. */
static void put(struct tt_ps_sub *sub, void *from, size_t len, uint64_t to, bool line,
		struct tt_win_end *end)
{
	struct tutti_ps_table *t = sub->store->t;
	int rank = client_of(sub)->rank, k = sub->store->server, err;
	uint32_t token = t->cache_token[rank] + (uint32_t)(2 * k + line);
	struct tt_win_access a = {.rank = rank,
				  .local = from,
				  .len = len,
				  .offset = tt_ps_copies_at(t, rank) + t->part[k].cache + to,
				  .note = true,
				  .token = &token};

	t->ps->srv[0]->puts++;
	err = tt_win_op_start(t->win, &a, end);
	if (err)
		end->over(end, err);
}

static uint64_t *words_of(const struct tt_ps_sub *sub)
{
	return (uint64_t *)(void *)(sub->batch + 1);
}

/* The other copy than last time. */
static void send_block(struct tt_ps_sub *sub, struct tt_ps_part_put *p, uint64_t block)
{
	struct tt_ps_store *s = sub->store;
	uint64_t current = atomic_load(tt_ps_dir(s, block)), *word = &words_of(sub)[block];
	unsigned slot = current & 0xff, copy = *word ? (*word & 1) ^ 1 : 0;
	char *from = s->t->mem + tt_ps_slot_at(s->t, s->server, block, slot);
	const struct tt_ps_head *head = (const struct tt_ps_head *)(const void *)from;

	*word = tt_ps_word(current >> 8, copy);
	if (sub->lo == sub->hi)
		sub->lo = block;
	sub->hi = block + 1;
	sub->batch->parts++;
	p->busy = true;
	p->sub = sub;
	p->sending = &s->sending[block * TT_PS_COPIES + slot];
	atomic_fetch_add(p->sending, 1);
	p->end.over = put_over;
	put(sub, from, sizeof(*head) + head->length, tt_ps_cache_block(s->t, s->server, block, copy),
	    false, &p->end);
}

static bool next_due(struct tt_ps_sub *sub, uint64_t *block)
{
	uint64_t n = sub->store->part->blocks, b = sub->at;

	while (b < n && !(sub->due[b / 64] >> b % 64))
		b = (b / 64 + 1) * 64;
	while (b < n && !(sub->due[b / 64] >> b % 64 & 1))
		b++;
	*block = sub->at = b;
	return b < n;
}

/* Words that differ from those of two batches ago are of this one or the last. */
static void send_rest(struct tt_ps_sub *sub)
{
	struct tt_ps_store *s = sub->store;
	uint64_t lo = sub->lo, hi = sub->hi, old_lo = sub->last_lo, old_hi = sub->last_hi;

	sub->last_lo = lo;
	sub->last_hi = hi;
	if (lo == hi) {
		lo = old_lo;
		hi = old_hi;
	} else if (old_lo < old_hi) {
		lo = old_lo < lo ? old_lo : lo;
		hi = old_hi > hi ? old_hi : hi;
	}
	sub->state = TT_PS_SUB_SENT;
	if (lo < hi) {
		sub->batch->parts++;
		put(sub, words_of(sub) + lo, (hi - lo) * sizeof(uint64_t),
		    tt_ps_cache_words(s->t, s->server, sub->batch->number) + tt_ps_dir_at(lo), false,
		    &sub->end);
	}
	put(sub, sub->batch, sizeof(*sub->batch), tt_ps_cache_line(s->t, s->server), true, &sub->end);
}

static void send_blocks(struct tt_ps_sub *sub)
{
	struct tt_ps_server *srv = sub->store->t->ps->srv[0];
	uint64_t block;
	int i, n = 0;

	for (i = 0; i < TT_PS_PUTS && n < AT_ONCE; i++) {
		if (sub->put[i].busy)
			continue;
		if (!next_due(sub, &block)) {
			send_rest(sub);
			return;
		}
		sub->due[block / 64] &= ~(1ull << block % 64);
		sub->at = block + 1;
		send_block(sub, &sub->put[i], block);
		n++;
	}
	srv->kick = srv->kick || n;
}

static void begin(struct tt_ps_sub *sub)
{
	const struct tt_ps_server *srv = sub->store->t->ps->srv[0];
	uint64_t finished = srv->passing ? srv->epoch - 1 : srv->epoch;
	bool own = sub->promised && sub->promised <= finished;

	if (!sub->fresh && !own && srv->published <= sub->batch->min_clock)
		return;
	if (own)
		sub->promised = 0;
	sub->fresh = false;
	sub->batch->number++;
	sub->batch->parts = 0;
	sub->batch->min_clock = srv->published;
	sub->at = sub->lo = sub->hi = 0;
	sub->state = TT_PS_SUB_BLOCKS;
}

void tt_ps_sub_send(struct tt_ps_server *srv)
{
	struct tutti_ps *ps = srv->ps;
	uint32_t i;
	int w;

	for (i = 0; i < ps->ntables; i++) {
		struct tt_ps_store *s = ps->table[i]->store[0];

		for (w = 0; s->sub && w < ps->nworkers; w++) {
			struct tt_ps_sub *sub = &s->sub[w];

			if (!sub->any || srv->client[w].gone)
				continue;
			if (sub->state == TT_PS_SUB_IDLE)
				begin(sub);
			if (sub->state == TT_PS_SUB_BLOCKS)
				send_blocks(sub);
		}
	}
}

void tt_ps_sub_due(struct tt_ps_store *s, uint64_t block)
{
	int w;

	for (w = 0; s->sub && w < s->t->ps->nworkers; w++)
		s->sub[w].due[block / 64] |= s->sub[w].wanted[block / 64] & 1ull << block % 64;
}

void tt_ps_sub_restart(struct tt_ps_store *s, uint64_t sequence)
{
	int w;

	for (w = 0; s->sub && w < s->t->ps->nworkers; w++)
		s->sub[w].promised = sequence;
}

int tt_ps_subscribe(struct tt_ps_store *s, int worker, const struct tt_ps_msg *m, const char *payload)
{
	const uint32_t *block = (const uint32_t *)(const void *)payload;
	struct tt_ps_sub *sub;
	uint32_t i;

	if (!s->sub || m->len != m->count * sizeof(*block))
		return -EPROTO;
	sub = &s->sub[worker];
	for (i = 0; i < m->count; i++)
		if (block[i] >= s->part->blocks)
			return -EPROTO;
	for (i = 0; i < m->count; i++) {
		sub->wanted[block[i] / 64] |= 1ull << block[i] % 64;
		if (atomic_load(tt_ps_dir(s, block[i])))
			sub->due[block[i] / 64] |= 1ull << block[i] % 64;
	}
	sub->any = sub->fresh = true;
	return 0;
}

/* ---- memory ---- */

static int new_sub(struct tt_ps_store *s, int w, char *lines, size_t pitch)
{
	struct tt_ps_sub *sub = &s->sub[w];
	size_t n = (size_t)s->part->blocks / 64 + 1;

	sub->store = s;
	sub->acked.ring = acked;
	sub->end.over = end_over;
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
	s->sending = calloc((size_t)s->part->blocks * TT_PS_COPIES + 1, sizeof(*s->sending));
	if (!s->sub || !s->sending)
		return -ENOMEM;
	err = tutti_alloc(ps->comm->ctx, pitch * (size_t)ps->nworkers, (void **)&s->lines);
	if (err)
		return err;
	memset(s->lines, 0, pitch * (size_t)ps->nworkers);
	for (w = 0; !err && w < ps->nworkers; w++)
		err = new_sub(s, w, s->lines, pitch);
	return err;
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

uint32_t tt_ps_acks(const struct tutti_ps_table *t)
{
	return t->store[0]->my_acks;
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
	free(s->sub);
	free(s->sending);
	tutti_free(s->lines);
}
