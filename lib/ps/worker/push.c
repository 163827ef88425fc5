/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes: a message for each block of a dense table, or messages of as many rows as fit. The first
 * values of a dense table (tutti_ps_set) are sent the same way.
 */
#include <errno.h>
#include <string.h>

#include "lib/ps/worker/accumulate.h"

struct push {
	struct tt_ps_task task;
	const char *buf;
	enum tt_ps_push_kind kind;

	/* a dense table: from element offset on */
	struct tt_ps_range range;
	uint64_t offset;
	int server; /* values: up to here it is known which blocks are published */
	uint64_t block;
	struct tt_ps_pieces *refused; /* of PUSH_UNCHANGED */

	/* rows */
	struct tt_ps_places places;
	bool placed;
	uint32_t *pick; /* rows of the message being made */
	size_t most;
};

static struct push *push_of(struct tt_ps_task *task)
{
	return tt_container(task, struct push, task);
}

/* ---- a dense table ---- */

/*
 * Sets what msg says of the payload, which is at *payload, or behind the head if that is NULL.
 * false: there is nothing to send, or it cannot be encoded.
 */
static bool pack(struct push *push, struct tt_ps_out *out, int k, struct tt_ps_msg *msg,
		 const void **payload)
{
	struct tutti_ps_table *t = push->task.table;
	uint64_t first = t->part[k].begin + msg->first;
	void *behind = out->staging + sizeof(*msg);
	size_t len = msg->count * t->elem;
	bool plain = false;
	int err = 0;

	msg->kind = push->kind == TT_PS_PUSH_FIRST	 ? TT_PS_SET
		    : push->kind == TT_PS_PUSH_UNCHANGED ? TT_PS_PUSH_SAME
							 : TT_PS_PUSH;
	*payload = NULL;
	if (push->kind == TT_PS_PUSH_HELD) {
		if (!tt_ps_feedback_take(t, first, msg->count, behind))
			return false;
		tt_wire_stats(t->ps->comm->ctx->wire)->copied_bytes += len;
	} else {
		*payload = push->buf + (first - push->offset) * t->elem;
	}
	if (push->kind == TT_PS_PUSH_UPDATES && t->feedback) {
		err = tt_ps_feedback_encode(t, *payload, first, msg->count, push->task.clock,
					    behind, &len, &plain);
		msg->kind = plain ? TT_PS_PUSH : TT_PS_PUSH_CODED;
		*payload = NULL;
	}
	if (err)
		tt_ps_task_fail(&push->task, err, "%s", tt_fail_text(err));
	msg->len = (uint32_t)len;
	return !err && len;
}

static void send_block(struct push *push, struct tt_ps_out *out, int k)
{
	struct tutti_ps_table *t = push->task.table;
	uint64_t *next = &push->range.next[k], end = push->range.next[push->range.n + k];
	uint64_t block = *next / t->block_elems, n = (block + 1) * t->block_elems - *next;
	struct tt_ps_msg msg = {.table = t->index, .first = *next};
	const void *payload;

	if (n > end - *next)
		n = end - *next;
	*next += n;
	msg.count = (uint32_t)n;
	msg.version = ~t->track[k].version[block];
	if (!pack(push, out, k, &msg, &payload))
		return;
	t->track[k].pending[block]++;
	tt_ps_trace(t->ps, "push %u %d %llu %llu\n", t->index, k, (unsigned long long)block,
		    (unsigned long long)push->task.clock);
	tt_ps_send(&push->task, out, msg, payload,
		   push->kind == TT_PS_PUSH_FIRST || push->kind == TT_PS_PUSH_UNCHANGED);
}

/* Send to every server in turn, until no server with work left has a free slot. */
static int send_range(struct push *push)
{
	int k, blocked = 0;

	while ((k = tt_ps_range_server(&push->range)) >= 0 && blocked < push->range.n) {
		struct tt_ps_out *out = tt_ps_out_get(&push->task.ps->link[k]);

		blocked = out ? 0 : blocked + 1;
		if (out)
			send_block(push, out, k);
	}
	return k < 0 ? 0 : -EAGAIN;
}

/* Whether all blocks are published that the answers to a set name. */
static bool published(struct push *push)
{
	const struct tutti_ps_table *t = push->task.table;

	for (; push->server < t->ps->nservers; push->server++, push->block = 0)
		for (; push->block < t->part[push->server].blocks; push->block++)
			if (atomic_load(tt_ps_hint(t, push->server, push->block)) >> 8 <
			    t->track[push->server].floor[push->block])
				return false;
	return true;
}

/* ---- rows ---- */

/* Write the rows of a message behind their places; under the lock. false: they can't be encoded. */
static bool pack_rows(struct push *push, char *out, struct tt_ps_msg *msg, size_t *len)
{
	struct tutti_ps_table *t = push->task.table;
	size_t row = t->width * t->elem;
	bool plain = true;
	uint32_t j;
	int err;

	*len = msg->count * row;
	for (j = 0; j < msg->count && (push->kind == TT_PS_PUSH_HELD || !t->feedback); j++)
		if (t->feedback)
			tt_ps_feedback_take_row(t, push->places.keys[push->pick[j]],
						(float *)(void *)(out + j * row));
		else
			memcpy(out + j * row, push->buf + push->pick[j] * row, row);
	if (push->kind == TT_PS_PUSH_HELD || !t->feedback)
		return true;
	err = tt_ps_feedback_encode_rows(t, push->places.keys, push->pick, msg->count,
					 push->task.clock, out, len, &plain);
	msg->kind = plain ? TT_PS_PUSH_ROWS : TT_PS_PUSH_CODED;
	if (err)
		tt_ps_task_fail(&push->task, err, "%s", tt_fail_text(err));
	return !err;
}

/* The next rows of server k: push->pick, as many as fit into a message and travel. */
static uint32_t pick_rows(struct push *push, int k)
{
	struct tt_ps_places *p = &push->places;
	struct tutti_ps_table *t = push->task.table;
	size_t *i = &p->cursor[k];
	uint32_t n = 0;

	for (; *i < p->n && n < push->most; ++*i)
		if (tt_ps_server_of(t->ps, p->keys[*i]) == k)
			push->pick[n++] = (uint32_t)*i;
	return t->feedback && n && push->kind != TT_PS_PUSH_HELD
		       ? tt_ps_feedback_rows(t, p->keys, (const float *)(const void *)push->buf,
					     push->pick, n)
		       : n;
}

/* Send the next message to server k; false: no slot. */
static bool send_to(struct push *push, int k)
{
	struct tt_ps_places *p = &push->places;
	struct tutti_ps_table *t = push->task.table;
	struct tt_ps_out *out = tt_ps_out_get(&t->ps->link[k]);
	struct tt_ps_msg msg = {.kind = TT_PS_PUSH_ROWS, .table = t->index};
	bool versions = tt_ps_row_versions(t);
	size_t head, len;
	uint64_t block;
	uint32_t *place, j;

	if (!out)
		return false;
	msg.count = pick_rows(push, k);
	if (!msg.count)
		return true;
	head = tt_ps_rows_head(t, msg.count);
	place = (uint32_t *)(void *)(out->staging + sizeof(msg));
	if (!pack_rows(push, (char *)place + head, &msg, &len))
		return true;
	for (j = 0; j < msg.count; j++) {
		place[j] = tt_ps_place_of(t, p, p->keys[push->pick[j]]);
		if (versions)
			place[msg.count + j] = ~t->track[k].version[place[j]];
		block = (uint64_t)place[j] * t->width / t->block_elems;
		t->track[k].pending[block]++;
		tt_ps_trace(t->ps, "push %u %d %llu %llu\n", t->index, k, (unsigned long long)block,
			    (unsigned long long)push->task.clock);
	}
	if (msg.kind == TT_PS_PUSH_ROWS)
		tt_wire_stats(t->ps->comm->ctx->wire)->copied_bytes += len;
	msg.len = (uint32_t)(head + len);
	tt_ps_send(&push->task, out, msg, NULL, false);
	return true;
}

/* Before anything is sent: a push that finds no place for a row holds nothing back. */
static int meet_rows(struct push *push)
{
	struct tutti_ps_table *t = push->task.table;
	size_t i;
	int err = 0;

	for (i = 0; t->feedback && i < push->places.n && !err; i++)
		err = tt_ps_feedback_meet(t, push->places.keys[i]);
	return err ? tt_ps_task_fail(&push->task, err, "%s", tt_fail_text(err)) : 0;
}

/* A server without a free slot does not hold up other servers. */
static int send_rows(struct push *push)
{
	struct tt_ps_places *p = &push->places;
	int k, left = 0, err = push->placed ? 0 : tt_ps_places_ask(&push->task, p);

	if (!err && !push->placed)
		err = meet_rows(push);
	if (err)
		return err;
	push->placed = true;
	for (k = 0; k < push->task.ps->nservers; k++) {
		while (p->cursor[k] < p->n && !push->task.status && send_to(push, k))
			;
		left += p->cursor[k] < p->n && !push->task.status;
	}
	return left ? -EAGAIN : 0;
}

static void note_refused(struct push *push, const struct tt_ps_out *out)
{
	const struct tt_ps_msg *msg = (const struct tt_ps_msg *)(const void *)out->staging;
	const struct tt_ps_part *part = &push->task.table->part[out->link->index];

	push->refused->piece[push->refused->n++] =
		(struct tt_ps_piece){.offset = part->begin + msg->first, .count = msg->count};
}

static void told(struct tt_ps_task *task, struct tt_ps_out *out, const struct tt_ps_credit *credit,
		 const void *data)
{
	if (task->table->rows)
		tt_ps_places_told(task, &push_of(task)->places, out, credit, data);
	else if (push_of(task)->refused && credit->tau)
		note_refused(push_of(task), out);
}

/* ---- both ---- */

static void advance(struct tt_ps_task *task)
{
	struct push *push = push_of(task);

	if (!task->sent && (task->table->rows ? send_rows(push) : send_range(push)) == -EAGAIN)
		return;
	tt_ps_task_sent(task);
	if (task->puts || task->answers || task->broken)
		return;
	if (push->kind == TT_PS_PUSH_FIRST && !task->status && !published(push))
		tt_ps_task_stall(task);
	else
		tt_ps_task_end(task);
}

static const struct tt_ps_task_ops push_ops = {.advance = advance, .answered = told};

static int push_range(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
		      enum tt_ps_push_kind kind, struct tt_ps_pieces *refused, const char *call,
		      struct tutti_request **request)
{
	struct tt_ps_task *task;
	struct push *push;
	int err = tt_ps_task_new(t->ps, t, call, &push_ops, sizeof(*push), tt_ps_range_size(t),
				 &task);

	if (err)
		return err;
	push = push_of(task);
	tt_ps_range_set(t, offset, count, (uint64_t *)(push + 1), &push->range);
	push->buf = buf;
	push->offset = offset;
	push->kind = kind;
	push->refused = refused;
	return tt_ps_task_start(task, request);
}

int tt_ps_push_now(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
		   enum tt_ps_push_kind kind, const char *call, struct tutti_request **request)
{
	return push_range(t, buf, offset, count, kind, NULL, call, request);
}

int tt_ps_push_unchanged(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
			 struct tt_ps_pieces *refused, const char *call)
{
	refused->n = 0;
	return push_range(t, buf, offset, count, TT_PS_PUSH_UNCHANGED, refused, call, NULL);
}

static int push_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n, const void *buf,
		     enum tt_ps_push_kind kind, const char *call, struct tutti_request **request)
{
	size_t fit = t->coded_rows ? t->coded_rows : tt_ps_rows_fit(t), most = n < fit ? n : fit,
	       cursor = tt_ps_places_size(t);
	struct tt_ps_task *task;
	struct push *push;
	int err = tt_ps_task_new(t->ps, t, call, &push_ops, sizeof(*push),
				 cursor + most * sizeof(uint32_t), &task);

	if (err)
		return err;
	push = push_of(task);
	tt_ps_places_set(task, &push->places, keys, n, true, (size_t *)(push + 1));
	push->buf = buf;
	push->kind = kind;
	push->pick = (uint32_t *)(void *)((char *)(push + 1) + cursor);
	push->most = most;
	return tt_ps_task_start(task, request);
}

int tt_ps_push_rows_now(struct tutti_ps_table *t, const uint64_t *keys, size_t n, const void *buf,
			const char *call, struct tutti_request **request)
{
	return push_rows(t, keys, n, buf, TT_PS_PUSH_UPDATES, call, request);
}

int tt_ps_push_rows_held(struct tutti_ps_table *t, const uint64_t *keys, size_t n, const char *call)
{
	return push_rows(t, keys, n, NULL, TT_PS_PUSH_HELD, call, NULL);
}

/* ---- the calls: a push that a server has refused since is reported first ---- */

int tt_ps_push(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count,
	       const char *call, struct tutti_request **request)
{
	int err = tt_ps_check_calls(t->ps);

	if (err)
		return err;
	if (t->budget)
		return tt_ps_budget_push(t, buf, offset, count, call, request);
	return t->accrued.sums
		       ? tt_ps_accrue(t, buf, offset, count, call, request)
		       : tt_ps_push_now(t, buf, offset, count, TT_PS_PUSH_UPDATES, call, request);
}

int tt_ps_push_rows(struct tutti_ps_table *t, const uint64_t *keys, size_t n, const void *buf,
		    const char *call, struct tutti_request **request)
{
	int err = tt_ps_check_calls(t->ps);

	if (err)
		return err;
	if (t->budget)
		return tt_ps_budget_push_rows(t, keys, n, buf, call, request);
	return t->accrued.sums ? tt_ps_accrue_rows(t, keys, n, buf, call, request)
			       : tt_ps_push_rows_now(t, keys, n, buf, call, request);
}

int tt_ps_set(struct tutti_ps_table *t, const void *values, const char *call)
{
	int err = tt_ps_check_calls(t->ps);

	return err ? err : tt_ps_push_now(t, values, 0, t->count, TT_PS_PUSH_FIRST, call, NULL);
}

int tt_ps_push_pull(struct tutti_ps_table *t, const void *update, void *values, uint64_t offset,
		    uint64_t count, const char *call)
{
	struct tutti_request *req[2] = {NULL, NULL};
	int err = tt_ps_push(t, update, offset, count, call, &req[0]), end;

	if (!err && values != update)
		err = tt_ps_pull(t, values, offset, count, call, &req[1]);
	end = tutti_waitall(2, req);
	if (!err && !end && values == update) /* else the pull would overwrite data being sent */
		return tt_ps_pull(t, values, offset, count, call, NULL);
	return err ? err : end;
}
