/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided operations on windows: bounds are checked at the initiator, keys at the transport. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/rma/rma.h"

struct tt_win_op {
	struct tt_wr wr;
	struct tutti_win *win;
	struct tt_win_op *next;
	int rank;
};

static void ring(struct tt_bell *bell)
{
	tt_container(bell, struct tt_win_bell, bell)->count++;
}

static int new_tokens(struct tutti_win *win)
{
	int n = win->comm->size, i, err;
	struct tt_bell **bells = malloc((size_t)n * sizeof(struct tt_bell *));

	if (!bells)
		return tt_fail(-ENOMEM, "no memory for a window");
	for (i = 0; i < n; i++) {
		win->bell[i] = (struct tt_win_bell){
			.bell = {.ring = ring, .amo = tt_win_execute}, .win = win};
		bells[i] = &win->bell[i].bell;
	}
	tt_wire_lock(win->comm->ctx->wire);
	err = tt_wire_tokens_new(win->comm->ctx->wire, bells, n, &win->token);
	tt_wire_unlock(win->comm->ctx->wire);
	free(bells);
	return err;
}

static void free_win(struct tutti_win *win)
{
	struct tt_win_op *op;

	while ((op = win->free_ops)) {
		win->free_ops = op->next;
		free(op);
	}
	free(win->part);
	free(win->bell);
	free(win->pending);
	free(win);
}

static void fill_part(struct tutti_win *win, void *base, size_t size, struct tt_win_part *mine)
{
	struct tt_wire *wire = win->comm->ctx->wire;
	int i, local;

	memset(mine, 0, sizeof(*mine));
	mine->base = (uintptr_t)base;
	mine->size = size;
	mine->token = win->token;
	mine->mapped = win->region && win->region->mem.memfd >= 0;
	for (i = 0; i < TT_WIN_TPS && win->region; i++) {
		local = tt_wire_at_place(wire, i);
		if (local < 0 || !win->region->mr[local])
			continue;
		mine->rkey[i] = win->region->mr[local]->rkey;
		mine->has_key |= 1ull << i;
	}
}

int tt_win_open(struct tutti_comm *comm, void *base, size_t size, struct tutti_win **out,
		struct tt_win_part *mine)
{
	struct tutti_win *win = calloc(1, sizeof(*win));
	size_t n = (size_t)comm->size;
	int err;

	if (!win)
		return tt_fail(-ENOMEM, "no memory for a window");
	win->comm = comm;
	win->base = base;
	win->size = size;
	win->part = calloc(n, sizeof(*win->part));
	win->bell = calloc(n, sizeof(*win->bell));
	win->pending = calloc(n, sizeof(*win->pending));
	if (!win->part || !win->bell || !win->pending) {
		free_win(win);
		return tt_fail(-ENOMEM, "no memory for a window of %d ranks", comm->size);
	}
	err = size ? tt_mem_register(tt_wire_memory(comm->ctx->wire), base, size,
				     TT_ACCESS_READ | TT_ACCESS_WRITE, &win->region)
		   : 0;
	if (!err)
		err = new_tokens(win);
	if (err) {
		if (win->region)
			tt_mem_deregister(win->region);
		free_win(win);
		return err;
	}
	fill_part(win, base, size, mine);
	*out = win;
	return 0;
}

void tt_win_take_back(struct tutti_win *win, int rank)
{
	int i;

	for (i = 0; i < win->comm->size; i++)
		if (win->pending[i] && (rank < 0 || rank == i))
			tt_wire_fence(win->comm->ctx->wire, win->comm->world[i],
				      "a one-sided operation under way was taken back");
}

void tt_win_close(struct tutti_win *win)
{
	struct tt_wire *wire = win->comm->ctx->wire;
	int i;

	tt_wire_lock(wire);
	tt_win_take_back(win, -1); /* those that were never flushed */
	for (i = 0; i < win->comm->size; i++)
		tt_wire_token_free(wire, win->token + (uint32_t)i);
	tt_wire_unlock(wire);
	if (win->region)
		tt_mem_deregister(win->region);
	free_win(win);
}

static void op_done(struct tt_wr *wr, int status)
{
	struct tt_win_op *op = tt_container(wr, struct tt_win_op, wr);

	op->win->pending[op->rank]--;
	if (status && !op->win->status)
		op->win->status = status;
	op->next = op->win->free_ops;
	op->win->free_ops = op;
}

static struct tt_win_op *op_get(struct tutti_win *win)
{
	struct tt_win_op *op = win->free_ops;

	if (op) {
		win->free_ops = op->next;
		return op;
	}
	op = calloc(1, sizeof(*op));
	if (op) {
		op->win = win;
		op->wr.done = op_done;
		tt_wire_stats(win->comm->ctx->wire)->allocations++;
	}
	return op;
}

/* A try to start an operation, repeated while there is no room. */
struct attempt {
	struct tutti_win *win;
	int rank;
	void *local;
	size_t len;
	uint64_t offset;
	bool get, note, over;
	struct tt_region *region;
	int result;
};

/* true: started or failed, a->result says which; false: to be tried again */
static bool start_op(struct attempt *a)
{
	struct tutti_win *win = a->win;
	struct tt_wire *wire = win->comm->ctx->wire;
	struct tt_win_part *part = &win->part[a->rank];
	int peer = win->comm->world[a->rank], place;
	struct tt_win_op *op;
	struct tt_rma rma;

	a->result = tt_comm_check(win->comm);
	if (!a->result)
		a->result = tt_wire_reach(wire, peer, &place);
	if (a->result)
		return a->result != -EAGAIN;
	if (a->len && !(part->has_key >> place & 1)) {
		a->result = tt_fail(-EOPNOTSUPP, "the window's memory at rank %d can't be reached "
						 "over the transport in use; take it from tutti_alloc",
				    a->rank);
		return true;
	}
	op = op_get(win);
	if (!op) {
		a->result = tt_fail(-ENOMEM, "no memory for a one-sided operation");
		return true;
	}
	op->rank = a->rank;
	rma = (struct tt_rma){.local = a->local,
			      .len = a->len,
			      .remote = part->base + a->offset,
			      .rkey = &part->rkey[place],
			      .note = (uint32_t)part->token + (uint32_t)win->comm->rank,
			      .flags = a->get ? 0 : TT_RMA_REMOTE | (a->note ? TT_RMA_NOTE : 0)};
	win->pending[a->rank]++;
	a->result = a->get ? tt_wire_get(wire, peer, &rma, a->region, &op->wr)
			   : tt_wire_put(wire, peer, &rma, a->region, &op->wr);
	if (a->result) {
		op_done(&op->wr, 0);
		return a->result != -EAGAIN;
	}
	return true;
}

/* A wait asks more than once whether it is over: the operation must not start twice. */
static bool try_start(void *arg)
{
	struct attempt *a = arg;

	if (!a->over)
		a->over = start_op(a);
	return a->over;
}

int tt_win_op(struct tutti_win *win, int rank, void *local, size_t len, uint64_t offset, bool get,
	      bool note)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct attempt a = {.win = win,
			    .rank = rank,
			    .local = local,
			    .len = len,
			    .offset = offset,
			    .get = get,
			    .note = note};
	bool over;

	a.region = len ? tt_mem_find(tt_wire_memory(ctx->wire), local, len) : NULL;
	tt_wire_lock(ctx->wire);
	over = try_start(&a);
	tt_wire_unlock(ctx->wire);
	if (!over && tt_engine_wait(ctx, try_start, &a, tt_deadline_ms(ctx->env.timeout.number)))
		return tt_fail_rank(-ETIMEDOUT, rank, NULL,
				    "a one-sided operation on rank %d could not be started within "
				    "%lld ms (TUTTI_TIMEOUT)",
				    rank, (long long)ctx->env.timeout.number);
	return a.result;
}

struct flush {
	struct tutti_win *win;
	int rank;
};

static bool flushed(void *arg)
{
	struct flush *f = arg;
	int i;

	if (atomic_load(&f->win->comm->failed))
		return true;
	if (f->rank >= 0)
		return !f->win->pending[f->rank];
	for (i = 0; i < f->win->comm->size; i++)
		if (f->win->pending[i])
			return false;
	return true;
}

int tt_win_wait(struct tutti_win *win, int rank)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct flush f = {.win = win, .rank = rank};
	int err;

	err = tt_engine_wait(ctx, flushed, &f, tt_deadline_ms(ctx->env.timeout.number));
	tt_wire_lock(ctx->wire);
	tt_win_take_back(win, rank); /* of a failed communicator, or late: before the caller learns of it */
	if (err)
		err = tt_fail(-ETIMEDOUT,
			      "one-sided operations did not complete within %lld ms (TUTTI_TIMEOUT)",
			      (long long)ctx->env.timeout.number);
	else
		err = tt_comm_check(win->comm);
	if (!err && win->status)
		err = tt_fail(win->status, "a one-sided operation failed: %s",
			      tutti_strerror(win->status));
	win->status = 0;
	tt_wire_unlock(ctx->wire);
	return err;
}

struct bell_wait {
	struct tutti_win *win;
	int rank;
	uint64_t count;
};

static bool rung(void *arg)
{
	struct bell_wait *w = arg;

	return w->win->bell[w->rank].count >= w->count || atomic_load(&w->win->comm->failed);
}

int tt_win_wait_bell(struct tutti_win *win, int rank, uint64_t count)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct bell_wait w = {.win = win, .rank = rank, .count = count};
	int err = 0;

	if (tt_engine_wait(ctx, rung, &w, tt_deadline_ms(ctx->env.timeout.number)))
		return tt_fail_rank(-ETIMEDOUT, rank, NULL,
				    "rank %d did not notify within %lld ms (TUTTI_TIMEOUT)", rank,
				    (long long)ctx->env.timeout.number);
	tt_wire_lock(ctx->wire);
	if (win->bell[rank].count >= count)
		win->bell[rank].count -= count;
	else
		err = tt_comm_check(win->comm);
	tt_wire_unlock(ctx->wire);
	return err;
}
