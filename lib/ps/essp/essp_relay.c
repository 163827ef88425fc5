/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP, a worker between the server and other workers. When a worker subscribes, the server says
 * which worker sends it a block and which slot it has there (essp_tree.c); the child puts the bits
 * of the blocks that it wants into that slot. The parent sends them as the server would, out of its
 * own cache: what is in force there and newer than what was sent, and the lowest clock of all feeds
 * with blocks that the child wants. The parent acknowledges a batch when no put to a child reads
 * what the next batch overwrites. So a slow child holds up its parent's batches, and their readers
 * read at the server: see essp_cache.c.
 *
 * Only its children notice when a worker fails: they read at the server, and tell their own
 * children that these blocks are lost, so that those do the same. Children on other hosts also
 * subscribe again, and the server sends them the blocks. Children on the same host do not: a parent
 * wrongly taken for dead could still write the slots that the server would write. A worker that has
 * said good-bye relays until all workers have. Then each asks for nothing more and waits for the
 * confirmation, so no rank writes memory of a rank that has left.
 */

#include "lib/ps/essp/essp.h"

/* ---- to children ---- */

static struct tt_ps_child *child_of(struct tt_ps_sub *sub)
{
	return tt_container(sub, struct tt_ps_child, sub);
}

/* The feed with this block, if anything was sent; *word: the newest. */
static const struct tt_ps_feed *source(const struct tt_ps_cache *c, uint64_t block, uint64_t *word)
{
	const struct tt_ps_feed *f = tt_ps_feed_of(c, block);

	*word = f ? tt_ps_feed_word(f, block) : 0;
	return *word && *word != TT_PS_LOST ? f : NULL;
}

/* Newer than what the child has. */
static bool newer(const struct tt_ps_sub *sub, uint64_t block, uint64_t word)
{
	return word >> 8 > tt_ps_sub_words(sub)[block] >> 8;
}

static bool has(const struct tt_ps_sub *sub, uint64_t block)
{
	uint64_t word = tt_ps_sub_words(sub)[block];

	return word && word != TT_PS_LOST;
}

/* No process sends this block here any more, and the child does not know it. */
static bool lost(struct tt_ps_sub *sub, uint64_t block, uint64_t word)
{
	return (child_of(sub)->cache->of[block] == TT_PS_UNSENT || word == TT_PS_LOST) &&
	       tt_ps_sub_words(sub)[block] != TT_PS_LOST;
}

/*
 * The clock that the child was told holds for all its blocks. So a block from a feed behind that
 * clock is not sent; and while a block that the child has is between two senders here, the clock
 * stands still. A block that has lost its sender is lost for the child, which then reads it at the
 * server.
 */
static bool child_begin(struct tt_ps_sub *sub)
{
	struct tt_ps_child *child = child_of(sub);
	const struct tt_ps_cache *c = child->cache;
	uint64_t n = sub->table->part[sub->server].blocks, told = sub->batch->min_clock,
		 clock = UINT64_MAX;
	uint64_t b, word;
	bool due = false;

	if (child->seen == c->news)
		return false;
	child->seen = c->news;
	for (b = tt_ps_next_bit(sub->wanted, 0, n); b < n;
	     b = tt_ps_next_bit(sub->wanted, b + 1, n)) {
		const struct tt_ps_feed *f = source(c, b, &word);

		if (lost(sub, b, word))
			due = true;
		else if (!f && has(sub, b))
			clock = told;
		else if (f && f->min_clock < clock)
			clock = f->min_clock;
		due = due || (f && newer(sub, b, word) && f->min_clock >= told);
	}
	sub->clock = clock == UINT64_MAX || clock < told ? told : clock;
	return due || sub->clock > told;
}

static bool child_next(struct tt_ps_sub *sub, uint64_t *block)
{
	const struct tt_ps_cache *c = child_of(sub)->cache;
	uint64_t n = sub->table->part[sub->server].blocks, b, word;

	for (b = tt_ps_next_bit(sub->wanted, sub->at, n); b < n;
	     b = tt_ps_next_bit(sub->wanted, b + 1, n)) {
		const struct tt_ps_feed *f = source(c, b, &word);

		if (f && newer(sub, b, word) && f->min_clock >= sub->clock)
			break;
		if (lost(sub, b, word))
			tt_ps_sub_lost(sub, b);
	}
	*block = sub->at = b;
	return b < n;
}

static const struct tt_ps_head *child_take(struct tt_ps_sub *sub, uint64_t block,
					   uint64_t *sequence, atomic_uint **reading)
{
	struct tt_ps_feed *f = tt_ps_feed_of(child_of(sub)->cache, block);
	uint64_t word = tt_ps_feed_word(f, block);

	*sequence = word >> 8;
	*reading = &f->reading[f->number % 2];
	return tt_ps_feed_block(f, block, word);
}

static void child_starts(struct tt_ps_sub *sub)
{
	(void)sub;
}

static void put_failed(const struct tt_ps_child *child, int status)
{
	struct tutti_ps *ps = child->cache->table->ps;

	if (status && !ps->worker_lost[child->worker])
		tt_comm_broken(ps->comm, ps->comm->world[ps->worker[child->worker]], status, "ps",
			       0, "relaying blocks to a worker");
}

static void child_over(struct tt_ps_sub *sub, int status)
{
	struct tt_ps_child *child = child_of(sub);
	const struct tutti_ps *ps = sub->table->ps;
	int i;

	put_failed(child, status);
	for (i = 0; i < ps->copies + ps->parents; i++)
		tt_ps_feed_ack(&child->cache->feed[i]);
}

static void child_stir(struct tt_ps_sub *sub)
{
	tt_ps_relay_stir(child_of(sub)->cache);
}

static const struct tt_ps_sub_ops child_ops = {.begin = child_begin,
					       .next = child_next,
					       .take = child_take,
					       .starts = child_starts,
					       .over = child_over,
					       .stir = child_stir};

static void told_over(struct tt_win_end *end, int status)
{
	put_failed(tt_container(end, struct tt_ps_child, end), status);
}

/* Whether there may be more to send to the child. */
static bool serve(struct tt_ps_child *child)
{
	struct tt_ps_sub *sub = &child->sub;

	if (!child->open || child->told || sub->table->ps->worker_lost[child->worker])
		return false;
	if (!child->leaves)
		return !child->dead && tt_ps_sub_go(sub);
	if (!tt_ps_sub_quiet(sub))
		return false;
	child->told = true;
	sub->batch->number = TT_PS_LEFT;
	tt_ps_sub_put(sub, sub->batch, sizeof(*sub->batch),
		      sub->feed + tt_ps_feed_line(sub->table, sub->server), true, &child->end);
	return false;
}

static void step(struct tt_stalled *stalled)
{
	struct tt_ps_cache *c = tt_container(stalled, struct tt_ps_cache, step);
	bool more = false;
	int i;

	tt_list_del(&stalled->link);
	if (atomic_load(&c->table->ps->comm->failed))
		return;
	for (i = 0; i < c->table->ps->children; i++)
		more |= serve(&c->child[i]);
	if (more)
		tt_ps_relay_stir(c);
}

/* Deferred: the caller may be in the middle of serving a child. */
void tt_ps_relay_stir(struct tt_ps_cache *c)
{
	int i;

	if (!tt_list_empty(&c->step.link))
		return;
	for (i = 0; i < c->table->ps->children; i++)
		if (c->child[i].open) {
			tt_list_add(&c->table->ps->comm->ctx->stalled, &c->step.link);
			return;
		}
}

static const struct tt_ps_want *want_of(const struct tt_ps_child *child)
{
	const struct tt_ps_cache *c = child->cache;

	return (const struct tt_ps_want *)(const void *)(c->feed[0].area +
							 tt_ps_want_at(c->table, c->server,
								       child->slot));
}

/* A child has said what it wants. */
static void wants(struct tt_bell *bell)
{
	struct tt_ps_child *child = tt_container(bell, struct tt_ps_child, wants);
	struct tutti_ps *ps = child->cache->table->ps;
	const struct tt_ps_want *want = want_of(child);

	if (!child->open) {
		if (want->worker >= (uint64_t)ps->nworkers || want->feed < (uint64_t)ps->copies ||
		    want->feed >= (uint64_t)(ps->copies + ps->parents))
			return;
		child->worker = (int)want->worker;
		child->open = true;
		tt_ps_sub_to(&child->sub, ps->worker[child->worker], 0, (int)want->feed);
		atomic_store(&ps->relaying, true);
	}
	child->leaves = child->leaves || want->leaves;
	child->cache->news++;
	tt_ps_relay_stir(child->cache);
}

/* ---- from parents ---- */

static void ask(struct tt_ps_feed *f);

static void asked_over(struct tt_win_end *end, int status)
{
	struct tt_ps_feed *f = tt_container(end, struct tt_ps_feed, asked);
	struct tutti_ps *ps = f->cache->table->ps;

	f->want_busy = false;
	if (status) {
		f->lost = true;
		if (!ps->worker_lost[f->parent])
			tt_comm_broken(ps->comm, ps->comm->world[ps->worker[f->parent]], status,
				       "ps", 0, "asking a worker to relay blocks");
	} else {
		ask(f);
	}
}

static void ask(struct tt_ps_feed *f)
{
	struct tutti_ps_table *t = f->cache->table;
	int k = f->cache->server, rank;

	if (!f->want_due || f->want_busy || f->lost)
		return;
	rank = t->ps->worker[f->parent];
	f->want_due = false;
	f->want_busy = true;
	tt_ps_put(t->win, rank, f->want, tt_ps_want_size(t, k),
		  tt_ps_area_at(t, rank, k, 0) + tt_ps_want_at(t, k, f->slot),
		  t->cache_token[rank] + tt_ps_child_bell(t, k, f->slot), &f->asked);
}

void tt_ps_relay_ask(struct tt_ps_cache *c)
{
	const struct tutti_ps *ps = c->table->ps;
	int i;

	for (i = 0; i < ps->parents; i++)
		ask(&c->feed[ps->copies + i]);
}

/* This block has no sender any more. Subscribe again if that is safe. */
static void unsent(struct tt_ps_cache *c, uint64_t block, int worker)
{
	const struct tutti_ps *ps = c->table->ps;

	c->of[block] = TT_PS_UNSENT;
	if (ps->host[ps->worker[worker]] != ps->host[ps->comm->rank])
		c->asked[block / 64] &= ~(1ull << block % 64);
}

/* The feed of a worker's slot, perhaps a new one; NULL: none is left. */
static struct tt_ps_feed *feed_from(struct tt_ps_cache *c, int worker, int slot)
{
	const struct tutti_ps *ps = c->table->ps;
	int i;

	for (i = 0; i < ps->parents; i++) {
		struct tt_ps_feed *f = &c->feed[ps->copies + i];

		if (f->parent >= 0 && (f->parent != worker || f->slot != slot))
			continue;
		f->parent = worker;
		f->slot = slot;
		f->lost = f->lost || ps->worker_lost[worker];
		return f;
	}
	return NULL;
}

void tt_ps_relay_want(struct tt_ps_cache *c, uint64_t block, int worker, int slot)
{
	const struct tutti_ps *ps = c->table->ps;
	struct tt_ps_feed *f;
	uint64_t *bits;

	if (worker >= ps->nworkers || slot >= ps->children || worker == ps->my_worker)
		return;
	f = feed_from(c, worker, slot);
	if (!f || f->lost) {
		unsent(c, block, worker);
		return;
	}
	f->want->worker = (uint64_t)ps->my_worker;
	f->want->feed = (uint64_t)f->index;
	bits = (uint64_t *)(void *)(f->want + 1);
	bits[block / 64] |= 1ull << block % 64;
	c->of[block] = (uint8_t)(f->index - ps->copies + 2);
	f->want_due = true;
}

/* ---- ends ---- */

/* This parent sends nothing more. */
static void orphaned(struct tt_ps_cache *c, struct tt_ps_feed *f)
{
	uint64_t b, n = c->table->part[c->server].blocks;

	f->lost = true;
	for (b = 0; b < n; b++)
		if (c->of[b] == f->index - c->table->ps->copies + 2)
			unsent(c, b, f->parent);
	c->news++; /* children have to hear it */
	tt_ps_relay_stir(c);
}

void tt_ps_relay_lost(struct tutti_ps *ps, int worker)
{
	uint32_t i;
	int k, f;

	ps->worker_lost[worker] = true;
	for (i = 0; i < ps->ntables; i++)
		for (k = 0; ps->table[i]->cache && k < ps->nservers; k++) {
			struct tt_ps_cache *c = &ps->table[i]->cache[k];

			for (f = ps->copies; f < ps->copies + ps->parents; f++)
				if (c->feed[f].parent == worker)
					orphaned(c, &c->feed[f]);
		}
}

void tt_ps_relay_over(struct tt_ps_cache *c)
{
	uint64_t b, n = c->table->part[c->server].blocks;
	int i;

	for (b = 0; b < n; b++)
		if (c->of[b] && c->of[b] != TT_PS_UNSENT)
			c->of[b] = 1;
	for (i = 0; i < c->table->ps->children; i++)
		c->child[i].dead = true;
}

static void leave(const struct tt_ps_cache *c)
{
	const struct tutti_ps *ps = c->table->ps;
	int i;

	for (i = ps->copies; i < ps->copies + ps->parents; i++) {
		struct tt_ps_feed *f = &c->feed[i];

		if (f->parent < 0 || f->lost)
			continue;
		f->want->leaves = 1;
		f->want_due = true;
		ask(f);
	}
}

void tt_ps_relay_leave(struct tutti_ps *ps)
{
	uint32_t i;
	int k;

	for (i = 0; i < ps->ntables; i++)
		for (k = 0; ps->table[i]->cache && k < ps->nservers; k++)
			leave(&ps->table[i]->cache[k]);
}

/* Adds the workers that have not ended what they relay to this one, or get from it. */
static int list_awaited(const struct tt_ps_cache *c, int *ranks, int n, int max)
{
	const struct tutti_ps *ps = c->table->ps;
	int i;

	for (i = ps->copies; i < ps->copies + ps->parents; i++)
		if (c->feed[i].parent >= 0 && !c->feed[i].lost && !c->feed[i].left)
			n = tt_doing_add_rank(ranks, n, max,
					      ps->comm->world[ps->worker[c->feed[i].parent]]);
	for (i = 0; i < ps->children; i++)
		if (c->child[i].open && !c->child[i].told && !ps->worker_lost[c->child[i].worker])
			n = tt_doing_add_rank(ranks, n, max,
					      ps->comm->world[ps->worker[c->child[i].worker]]);
	return n;
}

int tt_ps_relay_awaited(const struct tutti_ps *ps, int *ranks, int max)
{
	int k, n = 0;
	uint32_t i;

	for (i = 0; i < ps->ntables; i++)
		for (k = 0; ps->table[i]->cache && k < ps->nservers; k++)
			n = list_awaited(&ps->table[i]->cache[k], ranks, n, max);
	return n;
}

bool tt_ps_relay_left(void *arg)
{
	const struct tutti_ps *ps = arg;
	int rank;

	return !tt_ps_relay_awaited(ps, &rank, 1) || atomic_load(&ps->comm->failed);
}

/* ---- memory ---- */

static size_t lines_size(const struct tutti_ps_table *t, int server)
{
	return sizeof(struct tt_ps_batch) + (size_t)tt_ps_dir_size(t, server);
}

size_t tt_ps_relay_memory(const struct tutti_ps_table *t, int server)
{
	return (size_t)t->ps->parents * (size_t)tt_ps_want_size(t, server) +
	       (size_t)t->ps->children * lines_size(t, server);
}

void tt_ps_relay_new(struct tt_ps_cache *c, char *memory)
{
	struct tutti_ps_table *t = c->table;
	int i;

	c->step.again = step;
	for (i = 0; i < t->ps->parents; i++) {
		struct tt_ps_feed *f = &c->feed[t->ps->copies + i];

		f->asked.over = asked_over;
		f->want = (struct tt_ps_want *)(void *)memory;
		memory += tt_ps_want_size(t, c->server);
	}
	for (i = 0; i < t->ps->children; i++) {
		struct tt_ps_child *child = &c->child[i];

		child->cache = c;
		child->slot = i;
		child->wants.ring = wants;
		child->end.over = told_over;
		child->sub.ops = &child_ops;
		child->sub.table = t;
		child->sub.server = c->server;
		child->sub.most = TT_PS_PIECE;
		child->sub.batch = (struct tt_ps_batch *)(void *)memory;
		tt_ps_sub_to(&child->sub, t->ps->comm->rank, 0, 0); /* until the child is known */
		child->sub.wanted = (uint64_t *)(void *)((char *)(void *)want_of(child) +
							 sizeof(struct tt_ps_want));
		memory += lines_size(t, c->server);
	}
}

void tt_ps_relay_bells(struct tt_ps_cache *c, struct tt_bell **bells)
{
	int i;

	for (i = 0; i < c->table->ps->children; i++) {
		uint32_t at = tt_ps_child_bell(c->table, c->server, i);

		bells[at] = &c->child[i].wants;
		bells[at + 1] = &c->child[i].sub.acked;
	}
}
