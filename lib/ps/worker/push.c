/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes to a dense table, a message for each block; and its first values, which are sent the same
 * way.
 */
#include <errno.h>

#include "lib/ps/ps.h"

struct push {
	struct tt_ps_task task;
	struct tt_ps_range range;
	const char *buf; /* of element offset */
	uint64_t offset;
	bool set;
	int server; /* set: up to here it is known which blocks are published */
	uint64_t block;
};

static struct push *push_of(struct tt_ps_task *task)
{
	return tt_container(task, struct push, task);
}

static void send_block(struct push *push, struct tt_ps_out *out, int k)
{
	struct tutti_ps_table *t = push->task.table;
	uint64_t *next = &push->range.next[k], end = push->range.next[push->range.n + k];
	uint64_t block = *next / t->block_elems, n = (block + 1) * t->block_elems - *next;
	struct tt_ps_msg msg = {.kind = push->set ? TT_PS_SET : TT_PS_PUSH, .table = t->index};

	if (n > end - *next)
		n = end - *next;
	msg.first = *next;
	msg.count = (uint32_t)n;
	msg.len = (uint32_t)(n * t->elem);
	msg.version = ~t->track[k].version[block];
	t->track[k].pending[block]++;
	tt_ps_trace(t->ps, "push %u %d %llu %llu\n", t->index, k, (unsigned long long)block,
		    (unsigned long long)push->task.clock);
	tt_ps_send(&push->task, out, msg,
		   push->buf + (t->part[k].begin + *next - push->offset) * t->elem, push->set);
	*next += n;
}

/* Send to every server in turn, until no server with work left has a free slot. */
static int push_emit(struct tt_ps_task *task)
{
	struct push *push = push_of(task);
	int k, blocked = 0;

	while ((k = tt_ps_range_server(&push->range)) >= 0 && blocked < push->range.n) {
		struct tt_ps_out *out = tt_ps_out_get(&task->ps->link[k]);

		blocked = out ? 0 : blocked + 1;
		if (out)
			send_block(push, out, k);
	}
	return k < 0 ? 0 : -EAGAIN;
}

static void push_advance(struct tt_ps_task *task)
{
	if (!task->puts && !task->answers && !task->broken)
		tt_ps_task_end(task);
}

/* All messages are answered, and all blocks are published that the answers name. */
static void set_advance(struct tt_ps_task *task)
{
	struct push *push = push_of(task);
	struct tutti_ps_table *t = task->table;

	if (task->puts || task->answers || task->broken)
		return;
	for (; !task->status && push->server < task->ps->nservers; push->server++, push->block = 0)
		for (; push->block < t->part[push->server].blocks; push->block++)
			if (atomic_load(tt_ps_hint(t, push->server, push->block)) >> 8 <
			    t->track[push->server].floor[push->block]) {
				tt_ps_task_stall(task);
				return;
			}
	tt_ps_task_end(task);
}

int tt_ps_push(struct tutti_ps_table *t, const void *buf, uint64_t offset, uint64_t count, bool set,
	       const char *call, struct tutti_request **request)
{
	struct tt_ps_task *task;
	struct push *push;
	int err;

	err = tt_ps_task_new(t->ps, t, call, sizeof(*push), tt_ps_range_size(t), &task);
	if (err)
		return err;
	push = push_of(task);
	tt_ps_range_set(t, offset, count, (uint64_t *)(push + 1), &push->range);
	push->buf = buf;
	push->offset = offset;
	push->set = set;
	task->emit = push_emit;
	task->advance = set ? set_advance : push_advance;
	return tt_ps_task_start(task, request);
}
