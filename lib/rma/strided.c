/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets of blocks, at equal distances or in a layout, at both ends. The bytes are cut into
 * pieces, each in one block there, and a few pieces are under way at once, each as a put or get of
 * its own. A piece goes directly from or to its block here; but a piece of several short blocks,
 * and a short piece of memory that is not registered, goes through pool memory, one place for each
 * piece under way. So the whole is never packed. A notification follows when all pieces are in
 * place.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/rma/rma.h"

#define AT_ONCE 16		   /* pieces under way */
#define LONGEST_COPY (64u << 10)   /* longer blocks are registered one by one */
#define SHORTEST_DIRECT (4u << 10) /* shorter blocks here share a longer one there */

struct piece {
	struct tt_win_end end;
	struct tt_win_strides_op *op;
	struct tt_place here; /* of its first byte */
	size_t len;
	bool busy, copied;
};

struct tt_win_strides_op {
	struct tt_list link; /* of the window, under way or free */
	struct tutti_win *win;
	struct tt_win_strides s;
	struct tt_win_end *end;
	struct tt_place here, there; /* of the next piece, and */
	size_t left;		     /* the bytes from there on */
	int under_way, status, priority;
	uint32_t age;
	bool starting, notified;
	bool registered; /* all of local */
	size_t bare;	 /* longest piece that needs no registration */
	char *bounce;	 /* `places` times `place` bytes; NULL: not needed yet */
	size_t place, places;
	struct piece piece[AT_ONCE];
};

static void op_over(struct tt_win_strides_op *op)
{
	struct tutti_win *win = op->win;
	struct tt_win_end *end = op->end;
	int status = tt_win_status(op->status);
	bool here = op->status == -TT_EFAULT_HERE;

	if (op->bounce)
		tt_mem_free(tt_wire_memory(win->comm->ctx->wire), op->bounce);
	if (!end)
		tt_win_keep_status(win, op->s.rank, here ? -TT_EFAULT_HERE : status);
	tt_list_del(&op->link);
	tt_list_add(&win->free_strides, &op->link);
	tt_win_end(win, op->s.rank, op->age);
	if (!end)
		return;
	end->here = here;
	end->over(end, status);
}

static void start(struct tt_win_strides_op *op, struct piece *p, struct tt_win_access *access)
{
	int err;

	p->busy = true;
	op->under_way++;
	err = tt_win_op_start_at(op->win, op->priority, access, &p->end);
	if (!err)
		return; /* piece_over has run or will */
	p->busy = false;
	op->under_way--;
	op->status = p->end.here ? -TT_EFAULT_HERE : err;
}

/* Whether a piece goes from or to its block here; so many bytes of the blocks follow. */
static bool is_direct(const struct tt_win_strides_op *op, size_t here, size_t there)
{
	size_t len = here < there ? here : there;

	if (len > LONGEST_COPY)
		return true;
	return (op->registered || len <= op->bare) && (here >= there || here >= SHORTEST_DIRECT);
}

static int get_bounce(struct tt_win_strides_op *op)
{
	if (op->bounce)
		return 0;
	return tt_mem_alloc(tt_wire_memory(op->win->comm->ctx->wire), op->places * op->place,
			    (void **)&op->bounce, NULL);
}

/* The memory for a piece that is copied; filled, if it is a put. */
static char *bounce_piece(struct tt_win_strides_op *op, struct piece *p)
{
	char *mem = op->bounce + (size_t)(p - op->piece) * op->place;

	p->here = op->here;
	if (op->s.get) {
		tt_byte_blocks_skip(&op->s.here, &op->here, p->len);
		return mem;
	}
	tt_byte_blocks_gather(&op->s.here, &op->here, op->s.local, mem, p->len);
	tt_wire_stats(op->win->comm->ctx->wire)->copied_bytes += p->len;
	return mem;
}

static void start_piece(struct tt_win_strides_op *op, struct piece *p)
{
	struct tt_win_access access = {.rank = op->s.rank, .get = op->s.get};
	size_t here, there;
	ptrdiff_t near, far;

	here = tt_byte_blocks_run(&op->s.here, &op->here, &near);
	there = tt_byte_blocks_run(&op->s.there, &op->there, &far);
	p->copied = !is_direct(op, here, there);
	if (p->copied) {
		op->status = get_bounce(op);
		if (op->status)
			return;
		p->len = there < op->place ? there : op->place;
		access.local = bounce_piece(op, p);
	} else {
		p->len = here < there ? here : there;
		access.local = (char *)op->s.local + near;
		tt_byte_blocks_skip(&op->s.here, &op->here, p->len);
	}
	tt_byte_blocks_skip(&op->s.there, &op->there, p->len);
	op->left -= p->len;
	access.len = p->len;
	access.offset = op->s.offset + (uint64_t)(int64_t)far;
	start(op, p, &access);
}

static void notify(struct tt_win_strides_op *op)
{
	struct tt_win_access access = {
		.rank = op->s.rank, .note = true, .token = op->s.token ? &op->s.token : NULL};

	op->notified = true;
	op->piece[0].copied = false;
	start(op, &op->piece[0], &access);
}

/* Starts what there is room for, then perhaps ends the operation. */
static void step(struct tt_win_strides_op *op)
{
	size_t i;

	if (op->starting)
		return;
	op->starting = true;
	do
		for (i = 0; i < op->places; i++)
			while (!op->status && op->left && !op->piece[i].busy)
				start_piece(op, &op->piece[i]);
	while (!op->status && op->left && !op->under_way);
	if (!op->status && !op->under_way && op->s.note && !op->notified)
		notify(op);
	op->starting = false;
	if (!op->under_way)
		op_over(op);
}

static void piece_over(struct tt_win_end *end, int status)
{
	struct piece *p = tt_container(end, struct piece, end);
	struct tt_win_strides_op *op = p->op;

	p->busy = false;
	op->under_way--;
	if (status && !op->status)
		op->status = end->here ? -TT_EFAULT_HERE : status;
	if (!status && p->copied && op->s.get) {
		tt_byte_blocks_scatter(&op->s.here, &p->here, op->s.local,
				       op->bounce + (size_t)(p - op->piece) * op->place, p->len);
		tt_wire_stats(op->win->comm->ctx->wire)->copied_bytes += p->len;
	}
	step(op);
}

/* How the pieces travel. Takes the memory for copies if the first piece is copied. */
static int set_ways(struct tt_win_strides_op *op)
{
	const struct tt_win_strides *s = &op->s;
	struct tt_wire *wire = op->win->comm->ctx->wire;
	const struct tt_way *way = tt_wire_open_way(wire, op->win->comm->world[s->rank]);
	size_t here, there;
	ptrdiff_t at;

	op->registered = tt_mem_find(tt_wire_memory(wire), (char *)s->local + s->here.low,
				     (size_t)(s->here.high - s->here.low)) != NULL;
	op->bare = !way ? 0 : s->get ? way->bare_get : way->bare_put;
	op->place = s->there.longest < LONGEST_COPY ? s->there.longest : LONGEST_COPY;
	op->places = s->there.count + s->there.bytes / op->place; /* or more pieces, not fewer */
	op->places = op->places < AT_ONCE ? op->places : AT_ONCE;
	here = tt_byte_blocks_run(&s->here, &op->here, &at);
	there = tt_byte_blocks_run(&s->there, &op->there, &at);
	return is_direct(op, here, there) ? 0 : get_bounce(op);
}

void *tt_win_take_op(struct tutti_win *win, struct tt_list *idle, size_t bytes)
{
	struct tt_list *link = idle->next;

	if (!tt_list_empty(idle)) {
		tt_list_del(link);
		return link;
	}
	link = calloc(1, bytes);
	if (!link) {
		tt_fail(-ENOMEM, "no memory for a one-sided operation");
		return NULL;
	}
	tt_list_init(link);
	tt_wire_stats(win->comm->ctx->wire)->allocations++;
	return link;
}

void tt_win_free_idle(struct tt_list *idle)
{
	struct tt_list *link, *tmp;

	tt_list_each(link, tmp, idle) free(link);
	tt_list_init(idle);
}

static struct tt_win_strides_op *op_new(struct tutti_win *win)
{
	struct tt_win_strides_op *op = tt_win_take_op(win, &win->free_strides, sizeof(*op));
	int i;

	for (i = 0; op && !op->win && i < AT_ONCE; i++) {
		op->piece[i].op = op;
		op->piece[i].end.over = piece_over;
	}
	if (op)
		op->win = win;
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
	op->here = op->there = (struct tt_place){0};
	op->left = s->here.bytes;
	op->under_way = op->status = 0;
	op->priority = win->priority;
	op->starting = op->notified = false;
	op->bounce = NULL;
	op->places = 0;
	if (op->left)
		err = set_ways(op);
	if (err) {
		tt_list_add(&win->free_strides, &op->link);
		return err;
	}
	op->age = tt_win_begin(win, s->rank);
	tt_list_add(&win->strides, &op->link);
	step(op);
	return 0;
}

/* The pieces under way end by themselves: their channel is about to be closed. */
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
