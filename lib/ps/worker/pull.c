/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pull of a range of a dense table: the blocks of all servers, straight into the caller's
 * buffer.
 */
#include "lib/ps/worker/accumulate.h"
#include "lib/ps/ps.h"
#include "lib/ps/worker/block_read.h"

struct pull_range {
	struct tt_ps_pull pull;
	struct tt_ps_range range;
	char *buf; /* of element offset */
	uint64_t offset, count;
};

static struct pull_range *range_of(struct tt_ps_task *task)
{
	return tt_container(task, struct pull_range, pull.task);
}

static bool next_block(struct tt_ps_pull *pull, struct tt_ps_unit *u)
{
	struct pull_range *p = tt_container(pull, struct pull_range, pull);
	struct tutti_ps_table *t = pull->task.table;
	int k = tt_ps_range_server(&p->range);
	uint64_t at, n;

	if (k < 0)
		return false;
	at = p->range.next[k];
	u->server = k;
	u->block = at / t->block_elems;
	n = (u->block + 1) * t->block_elems - at;
	if (n > p->range.next[p->range.n + k] - at)
		n = p->range.next[p->range.n + k] - at;
	u->one =
		(struct tt_ps_item){.local = p->buf + (t->part[k].begin + at - p->offset) * t->elem,
				    .offset = (size_t)(at % t->block_elems) * t->elem,
				    .len = (size_t)n * t->elem};
	u->item = &u->one;
	u->items = 1;
	p->range.next[k] += n;
	return true;
}

static void got_block(struct tt_ps_pull *pull, const struct tt_ps_unit *u)
{
	pull->task.table->track[u->server].version[u->block] = ~(uint32_t)u->landing->head.version;
}

/* A pull sends little or nothing, but takes its turn, so that the tasks before it have sent. */
static int pull_emit(struct tt_ps_task *task)
{
	struct tt_ps_range *r = &range_of(task)->range;
	struct tutti_ps_table *t = task->table;
	uint64_t block;
	int k;

	if (!t->cache)
		return 0;
	for (k = 0; k < r->n; k++)
		for (block = r->next[k] / t->block_elems;
		     block * t->block_elems < r->next[r->n + k]; block++)
			tt_ps_cache_want(t, k, block);
	return tt_ps_cache_ask(task);
}

static void pull_seen(struct tt_ps_task *task)
{
	const struct pull_range *p = range_of(task);

	tt_ps_budget_seen(task->table, p->buf, p->offset, p->count);
}

static void pull_release(struct tt_ps_task *task)
{
	tt_ps_pull_free(&range_of(task)->pull);
}

int tt_ps_pull(struct tutti_ps_table *t, void *buf, uint64_t offset, uint64_t count,
	       const char *call, struct tutti_request **request)
{
	struct tt_ps_task *task;
	struct pull_range *p;
	int err;

	err = tt_ps_task_new(t->ps, t, call, sizeof(*p), tt_ps_range_size(t), &task);
	if (err)
		return err;
	p = range_of(task);
	p->buf = buf;
	p->offset = offset;
	p->count = count;
	p->pull.next = next_block;
	p->pull.got = got_block;
	task->emit = pull_emit;
	task->release = pull_release;
	if (t->budget)
		task->seen = pull_seen;
	tt_ps_range_set(t, offset, count, (uint64_t *)(p + 1), &p->range);
	err = tt_ps_pull_init(&p->pull);
	if (err) {
		tt_ps_task_drop(task);
		return err;
	}
	return tt_ps_task_start(task, request);
}
