/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strided puts and gets: blocks at equal distances, at both ends. A few blocks are under way at
 * once, each as a put or get of its own. Short blocks of memory that is not registered go through
 * pool memory, one place for each block under way, so the vector as a whole is never packed. A
 * notification follows when all blocks are in place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/rma/rma.h"

#define AT_ONCE 16		 /* blocks under way */
#define LONGEST_COPY (64u << 10) /* longer blocks are registered one by one */

struct block {
	struct tt_win_end end;
	struct tt_win_strides_op *op;
	size_t number;
	bool busy;
};

struct tt_win_strides_op {
	struct tt_list link; /* of the window, under way or free */
	struct tutti_win *win;
	struct tt_win_strides s;
	struct tt_win_end *end;
	size_t next; /* block to start */
	int under_way, status;
	uint32_t age;
	bool starting, notified;
	char *bounce; /* AT_ONCE blocks; NULL: blocks go from and to local */
	struct block block[AT_ONCE];
};

static char *local_block(const struct tt_win_strides_op *op, size_t number)
{
	return (char *)op->s.local + (ptrdiff_t)number * op->s.local_stride;
}

static void op_over(struct tt_win_strides_op *op)
{
	struct tutti_win *win = op->win;
	struct tt_win_end *end = op->end;
	int status = tt_win_status(op->status);

	if (op->bounce)
		tt_mem_free(tt_wire_memory(win->comm->ctx->wire), op->bounce);
	if (!end)
		tt_win_keep_status(win, op->s.rank, status);
	tt_list_del(&op->link);
	tt_list_add(&win->free_strides, &op->link);
	tt_win_end(win, op->s.rank, op->age);
	if (end)
		end->over(end, status);
}

static void start(struct tt_win_strides_op *op, struct block *b, struct tt_win_access *access)
{
	int err;

	b->busy = true;
	op->under_way++;
	err = tt_win_op_start(op->win, access, &b->end);
	if (!err)
		return; /* block_over has run or will */
	b->busy = false;
	op->under_way--;
	op->status = err;
}

static void start_block(struct tt_win_strides_op *op, struct block *b)
{
	const struct tt_win_strides *s = &op->s;
	struct tt_win_access access = {.rank = s->rank,
				       .local = local_block(op, op->next),
				       .len = s->block,
				       .offset = s->offset +
						 (uint64_t)((int64_t)op->next * s->stride),
				       .get = s->get};

	b->number = op->next++;
	if (op->bounce) {
		access.local = op->bounce + (size_t)(b - op->block) * s->block;
		if (!s->get) {
			memcpy(access.local, local_block(op, b->number), s->block);
			tt_wire_stats(op->win->comm->ctx->wire)->copied_bytes += s->block;
		}
	}
	start(op, b, &access);
}

static void notify(struct tt_win_strides_op *op)
{
	struct tt_win_access access = {
		.rank = op->s.rank, .note = true, .token = op->s.token ? &op->s.token : NULL};

	op->notified = true;
	start(op, &op->block[0], &access);
}

/* Starts what there is room for, then perhaps ends the operation. */
static void step(struct tt_win_strides_op *op)
{
	int i;

	if (op->starting)
		return;
	op->starting = true;
	do
		for (i = 0; i < AT_ONCE; i++)
			while (!op->status && op->next < op->s.count && !op->block[i].busy)
				start_block(op, &op->block[i]);
	while (!op->status && op->next < op->s.count && !op->under_way);
	if (!op->status && !op->under_way && op->s.note && !op->notified)
		notify(op);
	op->starting = false;
	if (!op->under_way)
		op_over(op);
}

static void block_over(struct tt_win_end *end, int status)
{
	struct block *b = tt_container(end, struct block, end);
	struct tt_win_strides_op *op = b->op;

	b->busy = false;
	op->under_way--;
	if (status && !op->status)
		op->status = status;
	if (!status && op->bounce && op->s.get && !op->notified) {
		memcpy(local_block(op, b->number),
		       op->bounce + (size_t)(b - op->block) * op->s.block, op->s.block);
		tt_wire_stats(op->win->comm->ctx->wire)->copied_bytes += op->s.block;
	}
	step(op);
}

/* Whether the transport takes the blocks of local as they are. */
static bool direct(const struct tutti_win *win, const struct tt_win_strides *s)
{
	struct tt_wire *wire = win->comm->ctx->wire;
	ptrdiff_t last = (ptrdiff_t)(s->count - 1) * s->local_stride;
	char *first = (char *)s->local + (last < 0 ? last : 0);
	const struct tt_way *way;

	if (s->block > LONGEST_COPY)
		return true;
	if (!tt_wire_reach(wire, win->comm->world[s->rank], &way) &&
	    s->block <= (s->get ? way->bare_get : way->bare_put))
		return true;
	return tt_mem_find(tt_wire_memory(wire), first,
			   (size_t)(last < 0 ? -last : last) + s->block) != NULL;
}

static struct tt_win_strides_op *op_new(struct tutti_win *win)
{
	struct tt_win_strides_op *op;
	int i;

	if (!tt_list_empty(&win->free_strides)) {
		op = tt_container(win->free_strides.next, struct tt_win_strides_op, link);
		tt_list_del(&op->link);
		return op;
	}
	op = calloc(1, sizeof(*op));
	if (!op) {
		tt_fail(-ENOMEM, "no memory for a one-sided operation");
		return NULL;
	}
	tt_list_init(&op->link);
	op->win = win;
	for (i = 0; i < AT_ONCE; i++) {
		op->block[i].op = op;
		op->block[i].end.over = block_over;
	}
	tt_wire_stats(win->comm->ctx->wire)->allocations++;
	return op;
}

int tt_win_strides_start(struct tutti_win *win, const void *strides, struct tt_win_end *end)
{
	const struct tt_win_strides *s = strides;
	struct tt_win_strides_op *op;
	int err = tt_comm_check(win->comm);

	if (err)
		return err;
	op = op_new(win);
	if (!op)
		return -ENOMEM;
	op->s = *s;
	op->end = end;
	op->next = 0;
	op->under_way = op->status = 0;
	op->starting = op->notified = false;
	op->bounce = NULL;
	if (!s->block)
		op->s.count = 0;
	if (op->s.count && !direct(win, s)) {
		size_t places = s->count < AT_ONCE ? s->count : AT_ONCE;

		err = tt_mem_alloc(tt_wire_memory(win->comm->ctx->wire), places * s->block,
				   (void **)&op->bounce, NULL);
		if (err) {
			tt_list_add(&win->free_strides, &op->link);
			return err;
		}
	}
	op->age = tt_win_begin(win, s->rank);
	tt_list_add(&win->strides, &op->link);
	step(op);
	return 0;
}

int tt_win_strided(struct tutti_win *win, const struct tt_win_strides *s)
{
	struct tutti_context *ctx = win->comm->ctx;
	int err;

	tt_wire_lock(ctx->wire);
	err = tt_win_strides_start(win, s, NULL);
	if (ctx->thread_runs)
		tt_wire_wake(ctx->wire);
	tt_wire_unlock(ctx->wire);
	return err;
}

/* The blocks under way end by themselves: their channel is about to be closed. */
void tt_win_drop_strides(struct tutti_win *win, int rank, int status)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &win->strides)
	{
		struct tt_win_strides_op *op = tt_container(l, struct tt_win_strides_op, link);

		if ((rank < 0 || op->s.rank == rank) && !op->status)
			op->status = status;
	}
}

void tt_win_free_strides(struct tutti_win *win)
{
	while (!tt_list_empty(&win->free_strides)) {
		struct tt_list *l = win->free_strides.next;

		tt_list_del(l);
		free(tt_container(l, struct tt_win_strides_op, link));
	}
}
