/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows, and waiting for operations on them. The initiator checks bounds, transports check keys.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/rma/rma.h"

void tt_win_flush_end(struct tutti_win *win, struct tt_win_flush *f)
{
	tt_list_del(&f->link);
	if (win->spare_counts)
		free(f->left_at);
	else
		win->spare_counts = f->left_at;
	f->left_at = NULL;
}

/* An operation has ended for which f may wait. */
static void operation_over(struct tutti_win *win, struct tt_win_flush *f, int rank, uint32_t age)
{
	if ((f->rank >= 0 && f->rank != rank) || (int32_t)(f->age - age) < 0)
		return;
	if (f->left_at)
		f->left_at[rank]--;
	if (--f->left)
		return;
	tt_win_flush_end(win, f);
	if (f->over)
		f->over(f);
}

void tt_win_end(struct tutti_win *win, int rank, uint32_t age)
{
	struct tt_list *l, *tmp;

	/* Released: a flush that sees this sees the bytes. */
	atomic_store_explicit(&win->pending[rank], win->pending[rank] - 1, memory_order_release);
	tt_list_each(l, tmp, &win->flushing)
		operation_over(win, tt_container(l, struct tt_win_flush, link), rank, age);
}

/* The operations of a flush at each rank; without memory for them it is less precise. */
static void count_each(struct tutti_win *win, struct tt_win_flush *f)
{
	size_t n = (size_t)win->comm->size, i;

	f->left_at = win->spare_counts ? win->spare_counts : malloc(n * sizeof(*f->left_at));
	win->spare_counts = NULL;
	for (i = 0; f->left_at && i < n; i++)
		f->left_at[i] = win->pending[i];
}

void tt_win_flush_begin(struct tutti_win *win, int rank, struct tt_win_flush *f)
{
	int i, end = rank < 0 ? win->comm->size : rank + 1;

	f->rank = rank;
	f->age = win->age++;
	f->left = 0;
	f->left_at = NULL;
	for (i = rank < 0 ? 0 : rank; i < end; i++)
		f->left += (uint64_t)win->pending[i];
	tt_list_init(&f->link);
	if (!f->left)
		return;
	if (rank < 0)
		count_each(win, f);
	tt_list_add(&win->flushing, &f->link);
}

/* How many operations at a rank f waits for. */
static int left_at(const struct tutti_win *win, const struct tt_win_flush *f, int rank)
{
	if (!f->left || (f->rank >= 0 && f->rank != rank))
		return 0;
	return f->left_at ? f->left_at[rank] : win->pending[rank];
}

int tt_win_first_left(const struct tutti_win *win, const struct tt_win_flush *f)
{
	int i;

	for (i = 0; i < win->comm->size; i++)
		if (left_at(win, f, i))
			return i;
	return -1;
}

int tt_win_take_status(struct tutti_win *win, int rank, int *at)
{
	int i, end = rank < 0 ? win->comm->size : rank + 1, status = 0;

	for (i = rank < 0 ? 0 : rank; i < end; i++) {
		if (!win->status[i])
			continue;
		if (!status)
			*at = i;
		status = status ? status : win->status[i];
		win->status[i] = 0;
	}
	return status;
}

int tt_win_failure(struct tutti_win *win, int rank, const char *call, int status)
{
	struct tt_wire *wire = win->comm->ctx->wire;
	int blamed = rank;
	const char *why = NULL;
	char text[96];

	if (status == -EACCES)
		return tt_comm_blame_rank(win->comm, status, rank, "rank %d has freed its window",
					  rank);
	snprintf(text, sizeof(text), "%s on rank %d's window", call, rank);
	if (status == -TT_EFAULT_HERE)
		return tt_comm_blame_rank(win->comm, -EFAULT, win->comm->rank,
					  "%s failed: the local memory is not mapped; check "
					  "address and length",
					  text);
	if (status == -TUTTI_ETRANSPORT || tt_is_shortage(status))
		why = tt_wire_why(wire, win->comm->world[rank]);
	if (tt_is_shortage(status) &&
	    tt_wire_short_rank(wire, win->comm->world[rank]) != win->comm->world[rank])
		blamed = win->comm->rank;
	if (status == -TUTTI_EPEER && atomic_load(&win->comm->failed) == status)
		return tt_comm_check(win->comm);
	if (status == -TUTTI_EPEER && win->comm->ndead && tt_comm_dead(win->comm, rank) >= 0)
		return tt_comm_needs_dead(win->comm, rank, text);
	return tt_comm_blame_rank(win->comm, status, blamed, "%s failed: %s", text,
				  why ? why : tutti_strerror(status));
}

bool tt_win_decided(const struct tutti_win *win, int rank)
{
	const struct tutti_comm *comm = win->comm;

	if (atomic_load(&comm->failed) || tt_comm_dead(comm, rank) >= 0)
		return true;
	return comm->lost && tt_boot_gone(comm->ctx->boot, comm->world[rank], NULL, 0);
}

bool tt_win_doubtful(const struct tutti_win *win, int rank, int status)
{
	const struct tutti_comm *comm = win->comm;

	return status == -TUTTI_EPEER || (status == -TUTTI_ETRANSPORT &&
					  tt_wire_may_be_gone(comm->ctx->wire, comm->world[rank]));
}

int tt_win_judged(const struct tutti_win *win, int rank, int status)
{
	bool gone = status == -TUTTI_ETRANSPORT && tt_win_doubtful(win, rank, status) &&
		    tt_win_decided(win, rank);

	return gone ? -TUTTI_EPEER : status;
}

struct lost {
	const struct tutti_win *win;
	int rank;
};

static bool decided(void *arg)
{
	const struct lost *l = arg;

	return tt_win_decided(l->win, l->rank);
}

int tt_win_lost(struct tutti_win *win, int rank, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_context *ctx = win->comm->ctx;
	struct lost l = {.win = win, .rank = rank};
	bool doubtful;

	tt_wire_lock(ctx->wire);
	doubtful = tt_win_doubtful(win, rank, err);
	tt_wire_unlock(ctx->wire);
	if (!doubtful)
		return err;
	tutti_last_error(&info);
	tt_engine_wait_a_while(ctx, decided, &l, TT_WIN_DECISION);
	tt_wire_lock(ctx->wire);
	err = tt_win_judged(win, rank, err);
	if (atomic_load(&win->comm->failed))
		err = tt_comm_check(win->comm);
	else if (tt_comm_dead(win->comm, rank) >= 0 || info.code != err)
		err = tt_win_failure(win, rank, "a one-sided operation", err);
	else
		err = tt_fail_info(&info); /* the wait may have left another one */
	tt_wire_unlock(ctx->wire);
	return err;
}

/*
 * The structs of the last freed windows, with their contexts: a call on one of them is an error
 * instead of undefined behaviour.
 */
#define CLOSED 64
static struct {
	pthread_mutex_t lock;
	struct {
		struct tutti_win *win;
		const struct tutti_context *ctx;
	} last[CLOSED];
	unsigned next;
} closed = {.lock = PTHREAD_MUTEX_INITIALIZER};

void tt_win_forget(const struct tutti_context *ctx)
{
	int i;

	pthread_mutex_lock(&closed.lock);
	for (i = 0; i < CLOSED; i++)
		if (closed.last[i].win && closed.last[i].ctx == ctx) {
			free(closed.last[i].win);
			closed.last[i].win = NULL;
		}
	pthread_mutex_unlock(&closed.lock);
}

static void bury(struct tutti_win *win)
{
	const struct tutti_context *ctx = win->comm->ctx;
	unsigned i;

	memset(win, 0, sizeof(*win));
	win->magic = TT_WIN_FREED;
	pthread_mutex_lock(&closed.lock);
	i = closed.next++ % CLOSED;
	free(closed.last[i].win);
	closed.last[i].win = win;
	closed.last[i].ctx = ctx;
	pthread_mutex_unlock(&closed.lock);
}

static void free_win(struct tutti_win *win)
{
	tt_win_free_ops(win);
	tt_win_free_idle(&win->free_strides);
	tt_accs_free(win);
	free(win->part);
	free(win->bell);
	free(win->pending);
	free(win->status);
	free(win->spare_counts);
	free(win->maps);
	bury(win);
}

static void fill_part(struct tutti_win *win, void *base, size_t size, struct tt_win_part *mine)
{
	struct tt_wire *wire = win->comm->ctx->wire;
	int i, local;

	memset(mine, 0, sizeof(*mine));
	mine->base = (uintptr_t)base;
	mine->size = size;
	mine->flags = win->flags;
	mine->token = win->token;
	mine->mapped = win->region && win->region->mem.memfd >= 0;
	mine->device = (uint64_t)(win->amo_place + 1);
	for (i = 0; i < TT_WIN_TPS && win->region; i++) {
		local = tt_wire_at_place(wire, i);
		if (local < 0 || !win->region->mr[local])
			continue;
		mine->rkey[i] = win->region->mr[local]->rkey;
		mine->has_key |= 1ull << i;
	}
}

/*
 * Whether devices could execute this rank's atomics, and other ranks' atomics on its memory. The
 * results need registered memory.
 */
static void prepare_atomics(struct tutti_win *win)
{
	struct tt_wire *wire = win->comm->ctx->wire;
	int tp, place;

	tt_wire_lock(wire);
	place = tt_wire_amo_place(wire, win->comm->world, win->comm->size);
	tt_wire_unlock(wire);
	tp = place < 0 || place >= TT_WIN_TPS ? -1 : tt_wire_at_place(wire, place);
	if (tp < 0 || (win->region && !win->region->mr[tp]))
		return;
	if (!tt_mem_alloc(tt_wire_memory(wire), TT_WIN_AMOS * sizeof(*win->amo_word),
			  (void **)&win->amo_word, &win->amo_region))
		win->amo_place = place;
}

void tt_win_agree(struct tutti_win *win)
{
	int i;

	for (i = 0; i < win->comm->size; i++)
		if (win->part[i].device != win->part[0].device)
			win->amo_place = -1;
	tt_info("atomics on this window are executed by %s",
		win->amo_place < 0 ? "CPUs" : "the devices of the targets");
}

int tt_win_open(struct tutti_comm *comm, void *base, size_t size, unsigned flags,
		struct tutti_win **out, struct tt_win_part *mine)
{
	struct tutti_win *win = calloc(1, sizeof(*win));
	size_t n = (size_t)comm->size;
	size_t nbells = n + (flags & TT_WIN_IDS ? TUTTI_NOTIFY_IDS : 0);
	unsigned access = TT_ACCESS_READ;
	int err;

	if (!win)
		return tt_fail(-ENOMEM, "no memory for a window");
	win->magic = TT_WIN_MAGIC;
	win->comm = comm;
	win->base = base;
	win->size = size;
	win->flags = flags;
	win->amo_place = -1;
	tt_list_init(&win->flushing);
	tt_list_init(&win->strides);
	tt_list_init(&win->free_strides);
	tt_list_init(&win->moved.link);
	win->part = calloc(n, sizeof(*win->part));
	win->bell = calloc(nbells, sizeof(*win->bell));
	win->nbells = (int)nbells;
	win->pending = calloc(n, sizeof(*win->pending));
	win->status = calloc(n, sizeof(*win->status));
	win->maps = calloc(n, sizeof(*win->maps));
	if (!win->part || !win->bell || !win->pending || !win->status || !win->maps) {
		free_win(win);
		return tt_fail(-ENOMEM, "no memory for a window of %d ranks", comm->size);
	}
	if (!(flags & TUTTI_WIN_READ_ONLY))
		access |= TT_ACCESS_WRITE;
	err = size ? tt_mem_register(tt_wire_memory(comm->ctx->wire), base, size, access,
				     &win->region)
		   : 0;
	if (!err && flags & TUTTI_WIN_ACCUMULATE)
		err = tt_accs_new(win);
	if (!err)
		err = tt_win_new_bells(win);
	if (err) {
		if (win->region)
			tt_mem_deregister(win->region);
		free_win(win);
		return err;
	}
	if (!win->accs)
		prepare_atomics(win);
	fill_part(win, base, size, mine);
	*out = win;
	return 0;
}

static void take_back_at(struct tutti_win *win, int rank)
{
	tt_win_drop_strides(win, rank, -TUTTI_EABORTED);
	tt_accs_drop(win, rank, -TUTTI_EABORTED);
	tt_win_drop_stalled(win, rank, -TUTTI_EABORTED);
	if (win->pending[rank])
		tt_wire_fence(win->comm->ctx->wire, win->comm->world[rank], win->comm->uid,
			      "a one-sided operation under way was taken back");
}

void tt_win_take_back(struct tutti_win *win, int rank)
{
	int i, end = rank < 0 ? win->comm->size : rank + 1;

	for (i = rank < 0 ? 0 : rank; i < end; i++)
		if (win->pending[i])
			take_back_at(win, i);
}

void tt_win_flush_give_up(struct tutti_win *win, struct tt_win_flush *f)
{
	int i;

	for (i = 0; i < win->comm->size; i++)
		if (left_at(win, f, i))
			take_back_at(win, i);
	tt_win_flush_end(win, f);
}

void tt_win_close(struct tutti_win *win)
{
	struct tt_wire *wire = win->comm->ctx->wire;

	tt_wire_lock(wire);
	tt_win_take_back(win, -1); /* operations never flushed */
	tt_accs_free(win);
	tt_wire_moved_close(wire, &win->moved);
	tt_win_free_reqs(win);
	tt_win_free_bells(win);
	tt_win_unmark(win);
	tt_wire_unlock(wire);
	if (win->region && !(win->owned && win->abandoned))
		tt_mem_deregister(win->region);
	if (win->amo_word)
		tt_mem_free(tt_wire_memory(wire), win->amo_word);
	tt_win_unmap(win);
	if (win->owned && !win->abandoned)
		tt_mem_free(tt_wire_memory(wire), win->owned);
	free_win(win);
}

/* A blocking flush: operations that other threads begin meanwhile are not its own. */
struct flush {
	struct tutti_win *win;
	struct tt_win_flush wait;
	bool begun;
};

/* The verdict on a lost connection to a rank that f needs is on its way, and names the rank. */
static bool awaits_verdict(const struct flush *f)
{
	const struct tutti_comm *comm = f->win->comm;
	int rank = f->wait.rank;

	return comm->suspect >= 0 &&
	       (rank < 0 || comm->world[rank] == comm->suspect || f->win->status[rank]);
}

/* Its first call comes after a step of progress, which has ended complete operations. */
static bool flushed(void *arg)
{
	struct flush *f = arg;

	if (!f->begun)
		tt_win_flush_begin(f->win, f->wait.rank, &f->wait);
	f->begun = true;
	if (atomic_load(&f->win->comm->failed))
		return true;
	return !f->wait.left && !awaits_verdict(f);
}

/* Nothing is under way and no error has to be reported. Without the lock. */
static bool nothing_to_flush(const struct tutti_win *win, int rank)
{
	int i = rank < 0 ? 0 : rank, end = rank < 0 ? win->comm->size : rank + 1;

	if (atomic_load(&win->comm->failed) || atomic_load(&win->comm->suspect) >= 0)
		return false;
	for (; i < end; i++)
		if (atomic_load_explicit(&win->pending[i], memory_order_acquire) ||
		    atomic_load_explicit(&win->status[i], memory_order_relaxed))
			return false;
	return true;
}

/*
 * Operations at that rank, -1: unknown, have not ended at the deadline. holder: the rank that holds
 * the lock of the part for which accumulates wait; -1: none does.
 */
static int too_late(const struct tutti_win *win, int rank, int holder)
{
	long long limit = win->comm->ctx->env.timeout.number;
	int world = rank < 0 ? -1 : win->comm->world[rank];

	if (holder >= 0)
		return tt_comm_blame_rank(
			win->comm, -ETIMEDOUT, holder,
			"rank %d on host %s holds the lock of rank %d's window: accumulates did "
			"not complete within %lld ms (TUTTI_TIMEOUT); look at that rank",
			win->comm->world[holder],
			tt_boot_host(win->comm->ctx->boot, win->comm->world[holder]), world, limit);
	if (rank < 0)
		return tt_fail(
			-ETIMEDOUT,
			"one-sided operations did not complete within %lld ms (TUTTI_TIMEOUT)",
			limit);
	return tt_comm_blame_rank(win->comm, -ETIMEDOUT, rank,
				  "one-sided operations at rank %d on host %s did not complete "
				  "within %lld ms (TUTTI_TIMEOUT)",
				  world, tt_boot_host(win->comm->ctx->boot, world), limit);
}

/* The communicator, which is intact, fails. */
static int fail_late(const struct tutti_win *win, int rank, int holder)
{
	int err = too_late(win, rank, holder), blamed = holder >= 0 ? holder : rank;

	tt_comm_fail(win->comm, err, blamed < 0 ? -1 : win->comm->world[blamed], "win_flush", 0, "",
		     "%s", tt_fail_text(err));
	return err;
}

/* All but every 16th flush that finds nothing; the count need not be exact. */
static bool may_skip_progress(struct tutti_win *win)
{
	unsigned n = atomic_load_explicit(&win->idle_flushes, memory_order_relaxed);

	atomic_store_explicit(&win->idle_flushes, n + 1, memory_order_relaxed);
	return n % 16;
}

int tt_win_wait(struct tutti_win *win, int rank)
{
	struct tutti_context *ctx = win->comm->ctx;
	int err, at = rank, status, late, holder;
	struct flush f;

	/* what this processor has put is in place before the caller reads anything */
	atomic_thread_fence(memory_order_seq_cst);
	/* A loop of short puts and flushes must also advance what peers wait for. */
	if (nothing_to_flush(win, rank) && may_skip_progress(win))
		return 0;
	f = (struct flush){.win = win, .wait.rank = rank}; /* not earlier: the fence would wait */
	err = tt_engine_wait(ctx, flushed, &f, tt_deadline_ms(ctx->env.timeout.number));
	tt_wire_lock(ctx->wire);
	if (err && flushed(&f)) /* since then */
		err = 0;
	late = f.wait.left ? tt_win_first_left(win, &f.wait) : -1;
	holder = tt_accs_holder(win, late);
	if (err) /* the reason, before taking back closes connections */
		err = fail_late(win, late, holder);
	if (f.wait.left) /* after a failure or timeout: before the caller learns of it */
		tt_win_flush_give_up(win, &f.wait);
	err = err ? err : tt_comm_check(win->comm);
	status = tt_win_take_status(win, rank, &at);
	if (!err && status)
		err = tt_win_failure(win, at, "a one-sided operation", status);
	tt_wire_unlock(ctx->wire);
	return status ? tt_win_lost(win, at, err) : err;
}
