/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulls of a range of a dense table, or of rows, into the caller's buffer. A pull is one struct
 * tt_ps_pull, which advance() takes through its states (enum tt_ps_pull_state). In the first two
 * it sends messages, so it waits there for its turn among the worker's calls. A call takes the wire
 * lock once; with all blocks at hand the pull also ends under it.
 */
#include "lib/ps/worker/pull.h"

#include <errno.h>

#include "lib/base/heap.h"
#include "lib/ps/worker/accumulate.h"

#define BUDGET 32 /* steps at once; a pull of many GB must not keep the lock */

static size_t row_size(const struct tutti_ps_table *t)
{
	return t->width * t->elem;
}

/* Items to read of a row: its values, and its version if it has one. */
static int items_of(const struct tutti_ps_table *t)
{
	return tt_ps_row_versions(t) ? 2 : 1;
}

/* ---- rows: in the order in which they lie at the servers ---- */

static bool after(const void *a, const void *b, const void *arg)
{
	const struct tt_ps_row *r = a, *than = b;

	(void)arg;
	return r->server > than->server || (r->server == than->server && r->place > than->place);
}

static const struct tt_heap_kind last_first = {sizeof(struct tt_ps_row), after, NULL};

/*
 * Heapsort: in place, whereas qsort allocates memory for longer arrays; and faster up to 100,000
 * rows.
 */
static void sort(struct tt_ps_row *row, size_t n)
{
	struct tt_ps_row moving;
	size_t i;

	for (i = n / 2; i-- > 0;) {
		moving = row[i];
		tt_heap_down(&last_first, row, n, i, &moving, NULL);
	}
	for (i = n; i-- > 1;) {
		moving = row[i];
		row[i] = row[0];
		tt_heap_down(&last_first, row, i, 0, &moving, NULL);
	}
}

static void sort_rows(struct tt_ps_pull *pull)
{
	struct tutti_ps_table *t = pull->task.table;
	size_t i;

	for (i = 0; i < pull->reads; i++) {
		struct tt_ps_row *row = &pull->row[i];
		uint64_t key = pull->places.keys[(size_t)(row->local - pull->buf) / row_size(t)];

		row->server = tt_ps_server_of(t->ps, key);
		row->place = tt_ps_place_of(t, &pull->places, key);
	}
	sort(pull->row, pull->reads);
}

/* ---- the next block to read, with all of the pull that it holds; false: none is left ---- */

static bool next_rows(struct tt_ps_pull *pull, struct tt_ps_unit *u)
{
	struct tutti_ps_table *t = pull->task.table;
	uint64_t per_block = t->block_elems / t->width;
	struct tt_ps_row *r = &pull->row[pull->at];
	int items = items_of(t);
	size_t offset;

	if (pull->at == pull->reads)
		return false;
	u->server = r->server;
	u->block = r->place / per_block;
	u->item = &pull->item[pull->at * (size_t)items];
	for (u->items = 0;
	     pull->at < pull->reads && r->server == u->server && r->place / per_block == u->block;
	     pull->at++, r++) {
		offset = (size_t)(r->place % per_block) * t->pitch;
		u->item[u->items++] = (struct tt_ps_item){
			.local = r->local, .offset = offset, .len = row_size(t)};
		if (items > 1)
			u->item[u->items++] = (struct tt_ps_item){.local = &r->version,
								  .offset = offset + t->pitch -
									    sizeof(r->version),
								  .len = sizeof(r->version)};
	}
	return true;
}

static bool next_range(struct tt_ps_pull *pull, struct tt_ps_unit *u)
{
	struct tutti_ps_table *t = pull->task.table;
	int k = tt_ps_range_server(&pull->range);
	uint64_t at, n;

	if (k < 0)
		return false;
	at = pull->range.next[k];
	u->server = k;
	u->block = at / t->block_elems;
	n = (u->block + 1) * t->block_elems - at;
	if (n > pull->range.next[pull->range.n + k] - at)
		n = pull->range.next[pull->range.n + k] - at;
	u->one = (struct tt_ps_item){.local = pull->buf +
					      (t->part[k].begin + at - pull->offset) * t->elem,
				     .offset = (size_t)(at % t->block_elems) * t->elem,
				     .len = (size_t)n * t->elem};
	u->item = &u->one;
	u->items = 1;
	pull->range.next[k] += n;
	return true;
}

/*
 * Once tables have priorities: it gives way to reads of higher priority, and keeps few reads under
 * way, which cannot be overtaken.
 */
static bool gives_way(const struct tt_ps_pull *pull)
{
	const struct tutti_ps *ps = pull->task.ps;

	const struct tutti_ps_options *opt = &pull->task.table->opt;

	return ps->window && (pull->yields || (size_t)pull->active * opt->block >=
						      ps->window * (size_t)ps->nservers);
}

static bool fill(struct tt_ps_pull *pull, struct tt_ps_unit *u)
{
	if (!pull->more || pull->task.status || gives_way(pull))
		return false;
	pull->more = pull->task.table->rows ? next_rows(pull, u) : next_range(pull, u);
	if (!pull->more)
		return false;
	u->pull = pull;
	u->pending = u->status = 0;
	u->word = u->since = 0;
	u->copy = pull->task.ps->link[u->server].copy;
	u->state = TT_PS_READ_WAIT;
	pull->active++;
	return true;
}

/* A push of the block or row says which version was pulled last. */
void tt_ps_pull_got(const struct tt_ps_unit *u)
{
	const struct tt_ps_pull *pull = u->pull;
	const struct tutti_ps_table *t = pull->task.table;
	uint32_t *version = t->track[u->server].version;
	const struct tt_ps_row *r;
	size_t i;

	if (!t->rows) {
		version[u->block] = ~(uint32_t)u->landing->head.version;
		return;
	}
	if (!tt_ps_row_versions(t))
		return;
	r = &pull->row[(size_t)(u->item - pull->item) / 2];
	for (i = 0; i < u->items / 2; i++)
		version[r[i].place] = ~(uint32_t)r[i].version;
}

/* ---- the states ---- */

/* Mark the pull's blocks as wanted, and tell the servers. 0, or -EAGAIN. */
static int subscribe(struct tt_ps_pull *pull)
{
	struct tutti_ps_table *t = pull->task.table;
	const struct tt_ps_range *r = &pull->range;
	uint64_t block;
	size_t i;
	int k;

	if (!t->cache || (t->coded && !pull->coded)) /* see tt_ps_cached() */
		return 0;
	for (i = 0; i < pull->reads; i++)
		tt_ps_cache_want(t, pull->row[i].server,
				 (uint64_t)pull->row[i].place * t->width / t->block_elems);
	for (k = 0; k < r->n; k++)
		for (block = r->next[k] / t->block_elems;
		     block * t->block_elems < r->next[r->n + k]; block++)
			tt_ps_cache_want(t, k, block);
	return tt_ps_cache_ask(&pull->task);
}

static void read_blocks(struct tt_ps_pull *pull)
{
	struct tt_ps_unit *u;
	int steps = 0, i, moved;

	pull->busy = true;
	do {
		moved = 0;
		pull->yields = pull->more && pull->task.ps->window &&
			       tt_ps_reads_above(pull->task.ps, pull->task.table->opt.priority);
		for (i = 0; i < TT_PS_UNITS; i++) {
			u = &pull->units->unit[i];
			if (i < pull->used && u->state != TT_PS_READ_IDLE) {
				moved += tt_ps_unit_step(u);
			} else if (fill(pull, u)) {
				pull->used += i == pull->used;
				moved += 1 + tt_ps_unit_step(u);
			} else if (i == pull->used) {
				break;
			}
		}
		steps += moved;
	} while (moved && steps < BUDGET);
	pull->task.r.progressed |= steps > 0;
	pull->task.ps->comm->ctx->moves += (uint64_t)steps;
	pull->busy = false;
}

static void end(struct tt_ps_pull *pull)
{
	struct tt_ps_task *task = &pull->task;
	struct tutti_ps_read *last = &task->table->last;

	pull->seen.clock = task->clock;
	if (pull->seen.version == UINT64_MAX) /* nothing was read */
		pull->seen.version = pull->seen.min_clock = 0;
	pull->seen.age =
		task->clock > pull->seen.min_clock ? task->clock - pull->seen.min_clock : 0;
	pull->seen.retries += last->retries;
	if (!task->status)
		*last = pull->seen;
	tt_ps_task_end(task);
}

static void advance(struct tt_ps_task *task)
{
	struct tt_ps_pull *pull = tt_container(task, struct tt_ps_pull, task);
	int err;

	if (pull->busy || task->cancelled)
		return;
	if (pull->state == TT_PS_PULL_PLACES) {
		err = tt_ps_places_ask(task, &pull->places);
		if (err == -EAGAIN)
			return;
		if (!err)
			sort_rows(pull);
		pull->state = err ? TT_PS_PULL_READ : TT_PS_PULL_SUBSCRIBE;
	}
	if (pull->state == TT_PS_PULL_SUBSCRIBE) {
		if (subscribe(pull) == -EAGAIN)
			return;
		pull->state = TT_PS_PULL_READ;
	}
	tt_ps_task_sent(task);
	read_blocks(pull);
	if (task->broken || task->cancelled)
		return;
	if (!pull->active && !task->puts && !task->answers && (!pull->more || task->status))
		end(pull);
	else
		tt_ps_task_stall(task); /* units wait for notes, or for their turn */
}

static void told(struct tt_ps_task *task, struct tt_ps_out *out, const struct tt_ps_credit *credit,
		 const void *data)
{
	tt_ps_places_told(task, &tt_container(task, struct tt_ps_pull, task)->places, out, credit,
			  data);
}

static void release(struct tt_ps_task *task)
{
	tt_ps_units_put(tt_container(task, struct tt_ps_pull, task));
}

const struct tt_ps_task_ops tt_ps_pull_ops = {
	.advance = advance, .answered = told, .release = release};

/* ---- the calls ---- */

/* The caller has its values. */
static void values_seen(struct tt_ps_task *task)
{
	const struct tt_ps_pull *pull = tt_container(task, struct tt_ps_pull, task);
	const struct tt_ps_places *p = &pull->places;
	const float *values = (const float *)(const void *)pull->buf;
	struct tutti_ps_table *t = task->table;

	if (tt_ps_filters(t) && t->rows)
		tt_ps_feedback_seen_rows(t, p->keys, p->n, values);
	else if (tt_ps_filters(t))
		tt_ps_feedback_seen(t, values, pull->offset, pull->count);
	if (t->budget && t->rows)
		tt_ps_budget_seen_rows(t, p->keys, p->n, pull->buf);
	else if (t->budget)
		tt_ps_budget_seen(t, pull->buf, pull->offset, pull->count);
	if (tt_ps_notes_rows(t))
		tt_ps_fetched_rows(t, p->keys, p->n);
}

/* As tt_ps_task_new. */
static int pull_new(struct tutti_ps_table *t, void *buf, size_t more, const char *call,
		    struct tt_ps_pull **out)
{
	const struct tutti_ps *ps = t->ps;
	struct tt_ps_pull *pull;
	struct tt_ps_task *task;
	int err = tt_ps_task_new(t->ps, t, call, &tt_ps_pull_ops, sizeof(*pull), more, &task);

	if (err)
		return err;
	pull = tt_container(task, struct tt_ps_pull, task);
	pull->coded = t->coded && !t->exact;
	err = tt_ps_check_calls(t->ps);
	if (!err)
		err = tt_ps_units_get(pull);
	if (err) {
		tt_ps_task_drop(task);
		return err;
	}
	pull->buf = buf;
	pull->more = true;
	if (ps->staleness >= 0 && task->clock > (uint64_t)ps->staleness)
		pull->need = task->clock - (uint64_t)ps->staleness;
	pull->seen.version = pull->seen.min_clock = UINT64_MAX;
	if (t->budget || tt_ps_filters(t) || tt_ps_notes_rows(t))
		task->seen = values_seen;
	*out = pull;
	return 0;
}

int tt_ps_pull(struct tutti_ps_table *t, void *buf, uint64_t offset, uint64_t count,
	       const char *call, struct tutti_request **request)
{
	struct tt_ps_pull *pull;
	int err;

	if (t->opt.n_fetch > 1 && !tt_ps_fetches(t))
		return tt_ps_nothing(t, call, request);
	err = pull_new(t, buf, tt_ps_range_size(t), call, &pull);
	if (err)
		return err;
	pull->state = TT_PS_PULL_SUBSCRIBE;
	pull->offset = offset;
	pull->count = count;
	tt_ps_range_set(t, offset, count, (uint64_t *)(pull + 1), &pull->range);
	return tt_ps_task_start(&pull->task, request);
}

/* Choose all rows but those that Downpour does not fetch. */
static void choose_rows(struct tt_ps_pull *pull)
{
	const struct tutti_ps_table *t = pull->task.table;
	size_t i;

	for (i = 0; i < pull->places.n; i++)
		if (!tt_ps_notes_rows(t) || tt_ps_fetches_row(t, pull->places.keys[i]))
			pull->row[pull->reads++].local = pull->buf + i * row_size(t);
}

int tt_ps_pull_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n, void *buf,
		    const char *call, struct tutti_request **request)
{
	size_t items = n * (size_t)items_of(t), cursor = tt_ps_places_size(t);
	struct tt_ps_pull *pull;
	int err = pull_new(
		t, buf, cursor + n * sizeof(struct tt_ps_row) + items * sizeof(struct tt_ps_item),
		call, &pull);

	if (err)
		return err;
	tt_ps_places_set(&pull->task, &pull->places, keys, n, false, (size_t *)(pull + 1));
	pull->places.need = pull->need;
	pull->row = (struct tt_ps_row *)(void *)((char *)(pull + 1) + cursor);
	pull->item = (struct tt_ps_item *)(pull->row + n);
	choose_rows(pull);
	return tt_ps_task_start(&pull->task, request);
}
