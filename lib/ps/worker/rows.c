/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulls and pushes rows of many keys at once. A worker first asks the servers for the places of new
 * keys; servers make missing rows. Places never change, so the worker keeps them. Then a pull reads
 * the rows one-sidedly, and a push sends messages of as many rows as fit.
 */
#include <errno.h>
#include <string.h>

#include "lib/ps/worker/accumulate.h"
#include "lib/ps/ps.h"
#include "lib/ps/worker/block_read.h"

struct row {
	int server;
	uint32_t place;
	char *local;
	uint64_t version; /* as pulled, in tables with row versions */
};

/* What it points to lies behind it. */
struct rows {
	struct tt_ps_pull pull; /* a push uses its task only */
	const uint64_t *keys;
	size_t n;
	char *buf;
	bool create, push, found;
	size_t *cursor; /* by server: keys that were looked at */

	struct row *row; /* pull: those to be read, sorted by server and place */
	size_t reads;
	struct tt_ps_item *item;
	size_t at;

	uint32_t *pick; /* push: rows of the message being made */
	size_t most;
};

static struct rows *rows_of(struct tt_ps_task *task)
{
	return tt_container(task, struct rows, pull.task);
}

static size_t row_size(const struct tutti_ps_table *t)
{
	return t->width * t->elem;
}

/* ---- places ---- */

/* The key's place, as far as this worker knows. */
static uint32_t place_of(const struct rows *rows, uint64_t key)
{
	uint32_t place = tt_ps_keys_find(rows->pull.task.table->places, key);

	if (place == TT_PS_NOWHERE || !(place & TT_PS_UNSEEN))
		return place;
	return rows->push ? place & ~TT_PS_UNSEEN : TT_PS_NOWHERE;
}

/* Ask server k for the places of as many unknown keys as fit in a message; false: no slot. */
static bool ask(struct rows *rows, int k)
{
	struct tt_ps_task *task = &rows->pull.task;
	struct tutti_ps_table *t = task->table;
	struct tt_ps_out *out = tt_ps_out_get(&task->ps->link[k]);
	struct tt_ps_msg msg = {.kind = TT_PS_LOOKUP, .table = t->index, .first = rows->create};
	uint64_t *key;
	size_t *i = &rows->cursor[k];

	if (!out)
		return false;
	/* the rows of a clock are known at its end */
	if (!rows->push && tt_ps_rows_late(t) && task->ps->link[k].min_clock < rows->pull.need)
		return false;
	key = (uint64_t *)(void *)(out->staging + sizeof(msg));
	for (; *i < rows->n && msg.count < TT_PS_KEYS; ++*i)
		if (tt_ps_server_of(task->ps, rows->keys[*i]) == k &&
		    place_of(rows, rows->keys[*i]) == TT_PS_NOWHERE)
			key[msg.count++] = rows->keys[*i];
	msg.len = msg.count * (uint32_t)sizeof(*key);
	if (msg.count)
		tt_ps_send(task, out, msg, NULL, true);
	return true;
}

/*
 * The answer came over the network: check that it has as many places as keys were asked, and that
 * these places exist.
 */
static void told_places(struct tt_ps_task *task, struct tt_ps_out *out,
			const struct tt_ps_credit *credit, const void *data)
{
	struct tutti_ps_table *t = task->table;
	const struct tt_ps_msg *msg = (const struct tt_ps_msg *)(const void *)out->staging;
	const uint64_t *key = (const uint64_t *)(const void *)(msg + 1);
	uint64_t room = t->part[out->link->index].elems / t->width;
	const uint32_t *answer = data;
	uint32_t i, place;

	if (msg->kind != TT_PS_LOOKUP) /* a push, which is waited for if there are replicas */
		return;
	if (credit->len != msg->count * sizeof(*answer)) {
		tt_ps_task_fail(task, -EPROTO, "rank %d answered %llu bytes of places of %u keys",
				out->link->rank, (unsigned long long)credit->len, msg->count);
		return;
	}
	for (i = 0; i < msg->count; i++) {
		if (answer[i] == TT_PS_NOWHERE)
			continue;
		place = answer[i] & ~TT_PS_UNSEEN;
		if (place >= room) {
			tt_ps_task_fail(task, -EPROTO,
					"rank %d has room for %llu rows, and says that one "
					"is at place %u",
					out->link->rank, (unsigned long long)room, place);
			return;
		}
		if (answer[i] & TT_PS_UNSEEN)
			tt_ps_floor(t, out->link->index,
				    (uint64_t)place * t->width / t->block_elems, credit->sequence);
		if (rows_of(task)->push && tt_ps_rows_late(t))
			place = answer[i];
		if (tt_ps_keys_add(t->places, key[i], place))
			tt_ps_task_fail(task, -ENOMEM, "no memory for the places of keys");
	}
}

/* 0: all places are known; -EAGAIN: waiting for some. */
static int resolve(struct rows *rows)
{
	struct tt_ps_task *task = &rows->pull.task;
	struct tutti_ps_table *t = task->table;
	bool left = false;
	size_t i;
	int k;

	for (k = 0; k < task->ps->nservers && !task->status; k++) {
		while (rows->cursor[k] < rows->n && ask(rows, k))
			;
		left = left || rows->cursor[k] < rows->n;
	}
	if (task->answers || (left && !task->status))
		return -EAGAIN;
	if (task->status)
		return task->status;
	for (i = 0; i < rows->n; i++)
		if (place_of(rows, rows->keys[i]) == TT_PS_NOWHERE)
			return tt_ps_task_fail(
				task, -ENOENT,
				"table '%s' has no row of key %llu, and no initial values", t->name,
				(unsigned long long)rows->keys[i]);
	rows->found = true;
	memset(rows->cursor, 0, (size_t)task->ps->nservers * sizeof(*rows->cursor));
	return 0;
}

/* ---- push ---- */

/* Send the next message to server k; false: no slot. */
static bool send_rows(struct rows *rows, int k)
{
	struct tt_ps_task *task = &rows->pull.task;
	struct tutti_ps_table *t = task->table;
	struct tt_ps_out *out = tt_ps_out_get(&task->ps->link[k]);
	struct tt_ps_msg msg = {.kind = TT_PS_PUSH_ROWS, .table = t->index};
	size_t *i = &rows->cursor[k], head, row = row_size(t);
	bool versions = tt_ps_row_versions(t);
	uint64_t block;
	uint32_t *place, j;

	if (!out)
		return false;
	for (; *i < rows->n && msg.count < rows->most; ++*i)
		if (tt_ps_server_of(task->ps, rows->keys[*i]) == k)
			rows->pick[msg.count++] = (uint32_t)*i;
	if (!msg.count)
		return true;
	head = tt_ps_rows_head(t, msg.count);
	place = (uint32_t *)(void *)(out->staging + sizeof(msg));
	for (j = 0; j < msg.count; j++) {
		place[j] = place_of(rows, rows->keys[rows->pick[j]]);
		memcpy((char *)place + head + j * row, rows->buf + rows->pick[j] * row, row);
		if (versions)
			place[msg.count + j] = ~t->track[k].version[place[j]];
		block = (uint64_t)place[j] * t->width / t->block_elems;
		t->track[k].pending[block]++;
		tt_ps_trace(t->ps, "push %u %d %llu %llu\n", t->index, k, (unsigned long long)block,
			    (unsigned long long)task->clock);
	}
	tt_wire_stats(task->ps->comm->ctx->wire)->copied_bytes += msg.count * row;
	msg.len = (uint32_t)(head + msg.count * row);
	tt_ps_send(task, out, msg, NULL, false);
	return true;
}

static int push_emit(struct tt_ps_task *task)
{
	struct rows *rows = rows_of(task);
	int err = rows->found ? 0 : resolve(rows), k;

	for (k = 0; !err && k < task->ps->nservers; k++)
		while (rows->cursor[k] < rows->n)
			if (!send_rows(rows, k)) {
				err = -EAGAIN;
				break;
			}
	/* a server without a free slot does not hold up other servers */
	for (; err == -EAGAIN && rows->found && k < task->ps->nservers; k++)
		while (rows->cursor[k] < rows->n && send_rows(rows, k))
			;
	return err;
}

static void push_advance(struct tt_ps_task *task)
{
	if (!task->puts && !task->answers && !task->broken)
		tt_ps_task_end(task);
}

/* ---- pull ---- */

static bool before(const struct row *a, const struct row *b)
{
	return a->server < b->server || (a->server == b->server && a->place < b->place);
}

/* In a heap of n, move the row at `at` down to its place. */
static void sift(struct row *row, size_t at, size_t n)
{
	struct row down = row[at];
	size_t child;

	while ((child = 2 * at + 1) < n) {
		child += child + 1 < n && before(&row[child], &row[child + 1]);
		if (!before(&down, &row[child]))
			break;
		row[at] = row[child];
		at = child;
	}
	row[at] = down;
}

/*
 * Heapsort: in place, whereas qsort allocates memory for longer arrays; and faster up to 100,000
 * rows.
 */
static void sort(struct row *row, size_t n)
{
	struct row last;
	size_t i;

	for (i = n / 2; i-- > 0;)
		sift(row, i, n);
	for (i = n; i-- > 1;) {
		last = row[i];
		row[i] = row[0];
		row[0] = last;
		sift(row, 0, i);
	}
}

static void sort_rows(struct rows *rows)
{
	struct tutti_ps_table *t = rows->pull.task.table;
	size_t i;

	for (i = 0; i < rows->reads; i++) {
		uint64_t key = rows->keys[(size_t)(rows->row[i].local - rows->buf) / row_size(t)];

		rows->row[i].server = tt_ps_server_of(t->ps, key);
		rows->row[i].place = place_of(rows, key);
	}
	sort(rows->row, rows->reads);
}

/* Choose all rows but those that Downpour does not fetch. Without the lock. */
static void choose_rows(struct rows *rows)
{
	const struct tutti_ps_table *t = rows->pull.task.table;
	size_t i;

	for (i = 0; i < rows->n; i++)
		if (!t->fetched || tt_ps_fetches_row(t, rows->keys[i]))
			rows->row[rows->reads++].local = rows->buf + i * row_size(t);
}

/* Items to read of a row: its values, and its version if it has one. */
static int items_of(const struct tutti_ps_table *t)
{
	return tt_ps_row_versions(t) ? 2 : 1;
}

static bool next_block(struct tt_ps_pull *pull, struct tt_ps_unit *u)
{
	struct rows *rows = tt_container(pull, struct rows, pull);
	struct tutti_ps_table *t = pull->task.table;
	uint64_t per_block = t->block_elems / t->width;
	struct row *r = &rows->row[rows->at];
	int items = items_of(t);
	size_t offset;

	if (rows->at == rows->reads)
		return false;
	u->server = r->server;
	u->block = r->place / per_block;
	u->item = &rows->item[rows->at * (size_t)items];
	for (u->items = 0;
	     rows->at < rows->reads && r->server == u->server && r->place / per_block == u->block;
	     rows->at++, r++) {
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

static void got_versions(struct tt_ps_pull *pull, const struct tt_ps_unit *u)
{
	struct rows *rows = tt_container(pull, struct rows, pull);
	uint32_t *version = pull->task.table->track[u->server].version;
	const struct row *r = &rows->row[(size_t)(u->item - rows->item) / 2];
	size_t i;

	for (i = 0; i < u->items / 2; i++)
		version[r[i].place] = ~(uint32_t)r[i].version;
}

static int pull_emit(struct tt_ps_task *task)
{
	struct rows *rows = rows_of(task);
	struct tutti_ps_table *t = task->table;
	int err = rows->found ? 0 : resolve(rows);
	size_t i;

	if (err)
		return err;
	sort_rows(rows);
	for (i = 0; t->cache && i < rows->reads; i++)
		tt_ps_cache_want(t, rows->row[i].server,
				 (uint64_t)rows->row[i].place * t->width / t->block_elems);
	return t->cache ? tt_ps_cache_ask(task) : 0;
}

/* ---- both ---- */

static void pull_seen(struct tt_ps_task *task)
{
	const struct rows *rows = rows_of(task);

	if (task->table->budget)
		tt_ps_budget_seen_rows(task->table, rows->keys, rows->n, rows->buf);
	if (task->table->fetched)
		tt_ps_fetched_rows(task->table, rows->keys, rows->n);
}

static void rows_release(struct tt_ps_task *task)
{
	tt_ps_pull_free(&rows_of(task)->pull);
}

/* How many of n pushed rows go in one message. */
static size_t most_of(const struct tutti_ps_table *t, size_t n)
{
	size_t fit = (TT_PS_BLOCK - 8) / (tt_ps_rows_head(t, 2) / 2 + row_size(t));

	return n < fit ? n : fit;
}

/* Size of all memory behind the struct. */
static size_t bytes_of(const struct tutti_ps_table *t, size_t n, bool push)
{
	size_t cursor = (size_t)t->ps->nservers * sizeof(size_t);

	if (push)
		return cursor + most_of(t, n) * sizeof(uint32_t);
	return cursor + n * (sizeof(struct row) + (size_t)items_of(t) * sizeof(struct tt_ps_item));
}

static void set_memory(struct rows *rows)
{
	const struct tutti_ps_table *t = rows->pull.task.table;
	size_t n = (size_t)t->ps->nservers;

	rows->cursor = (size_t *)(rows + 1);
	memset(rows->cursor, 0, n * sizeof(*rows->cursor));
	if (rows->push) {
		rows->most = most_of(t, rows->n);
		rows->pick = (uint32_t *)(rows->cursor + n);
	} else {
		rows->row = (struct row *)(rows->cursor + n);
		rows->item = (struct tt_ps_item *)(rows->row + rows->n);
	}
}

static int start(struct tutti_ps_table *t, const uint64_t *keys, size_t n, void *buf, bool push,
		 const char *call, struct tutti_request **request)
{
	struct tt_ps_task *task;
	struct rows *rows;
	int err;

	err = tt_ps_task_new(t->ps, t, call, sizeof(*rows), bytes_of(t, n, push), &task);
	if (err)
		return err;
	rows = rows_of(task);
	rows->keys = keys;
	rows->n = n;
	rows->buf = buf;
	rows->push = push;
	rows->create = push || t->opt.init != TUTTI_PS_UNSET;
	rows->pull.next = next_block;
	if (!push && tt_ps_row_versions(t))
		rows->pull.got = got_versions;
	set_memory(rows);
	err = push ? 0 : tt_ps_pull_init(&rows->pull);
	if (err) {
		tt_ps_task_drop(task);
		return err;
	}
	task->emit = push ? push_emit : pull_emit;
	task->answered = told_places;
	task->release = rows_release;
	if (push)
		task->advance = push_advance;
	else if (t->budget || t->fetched)
		task->seen = pull_seen;
	if (!push)
		choose_rows(rows);
	return tt_ps_task_start(task, request);
}

int tt_ps_push_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n, const void *buf,
		    const char *call, struct tutti_request **request)
{
	return start(t, keys, n, (void *)buf, true, call, request);
}

int tt_ps_pull_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n, void *buf,
		    const char *call, struct tutti_request **request)
{
	return start(t, keys, n, buf, false, call, request);
}
