/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics on windows, at both ends. All origins take one path (lib/wire/amo.c), agreed on when the
 * window is made: the target's device, if all ranks, the target included, can use it; else CPUs. A
 * target validates every request again.
 */
#include <errno.h>
#include <stdatomic.h>

#include "lib/base/clock.h"
#include "lib/rma/rma.h"

static uint64_t apply(void *at, enum tt_amo_op op, uint64_t operand, uint64_t compare)
{
	_Atomic uint64_t *word = at;

	if (op == TT_AMO_ADD)
		return atomic_fetch_add(word, operand);
	atomic_compare_exchange_strong(word, &compare, operand);
	return compare;
}

int tt_win_execute(struct tt_bell *b, int peer, enum tt_amo_op op, uint64_t operand,
		   uint64_t compare, uint64_t offset, uint64_t *old)
{
	struct tt_win_bell *bell = tt_container(b, struct tt_win_bell, bell);
	struct tutti_win *win = bell->win;

	if (win->comm->world[bell - win->bell] != peer)
		return -EACCES;
	if (win->amo_place >= 0 || win->accs)
		return -EOPNOTSUPP;
	if (win->flags & TUTTI_WIN_READ_ONLY)
		return -EPERM;
	if (win->size < sizeof(*old) || offset > win->size - sizeof(*old))
		return -ERANGE;
	if (((uintptr_t)win->base + offset) % sizeof(*old))
		return -EINVAL;
	*old = apply(win->base + offset, op, operand, compare);
	return 0;
}

/* A word for the device to write the old value; false: all are in use. */
static bool take_word(struct tt_win_amo *a)
{
	struct tutti_win *win = a->win;
	int i;

	a->at.device = win->amo_place >= 0;
	if (!a->at.device)
		return true;
	if (!~win->amo_busy)
		return false;
	i = __builtin_ctzll(~win->amo_busy);
	win->amo_busy |= 1ull << i;
	a->at.place = win->amo_place;
	a->at.result = &win->amo_word[i];
	a->at.region = win->amo_region;
	return true;
}

static void give_word(struct tt_win_amo *a)
{
	if (a->at.device)
		a->win->amo_busy &= ~(1ull << (a->at.result - a->win->amo_word));
}

static void atomic_done(struct tt_atomic *at, int status)
{
	struct tt_win_amo *a = tt_container(at, struct tt_win_amo, at);

	give_word(a);
	a->status = at->device ? tt_win_lost_status(status) : tt_win_status(status);
	a->over = true;
	tt_win_end(a->win, a->rank, a->age);
	if (a->done)
		a->done(a);
}

void tt_win_amo_init(struct tt_win_amo *amo, struct tutti_win *win, int rank, enum tt_amo_op op,
		     uint64_t operand, uint64_t compare, uint64_t offset)
{
	struct tt_win_part *part = &win->part[rank];

	*amo = (struct tt_win_amo){.win = win,
				   .rank = rank,
				   .at = {.op = op,
					  .operand = operand,
					  .compare = compare,
					  .remote = part->base + offset,
					  .bell = (uint32_t)part->token + (uint32_t)win->comm->rank,
					  .offset = offset,
					  .done = atomic_done},
				   .stalled.again = tt_stalled_wait};
	tt_list_init(&amo->stalled.link);
}

/*
 * A target that makes no calls executes requests in its progress thread: wakes it once per window.
 */
void tt_win_wake_target(struct tutti_win *win, int rank)
{
	struct tt_win_bell *bell = &win->bell[rank];
	uint32_t zero = 0;

	if (bell->woken || rank == win->comm->rank)
		return;
	bell->woken = !tt_ctl_send(win->comm->ctx->boot, win->comm->world[rank], TT_CTL_PROGRESS,
				   &zero, sizeof(zero));
}

void tt_win_amo_try(struct tt_win_amo *a)
{
	struct tutti_win *win = a->win;
	struct tt_wire *wire = win->comm->ctx->wire;
	struct tt_win_part *part = &win->part[a->rank];
	int peer = win->comm->world[a->rank], place, err;
	const struct tt_way *way;

	if (a->started || a->over)
		return;
	err = tt_comm_check(win->comm);
	if (!err)
		err = tt_wire_reach(wire, peer, &a->waits, &way);
	if (!err && !take_word(a))
		err = -EAGAIN;
	if (!err) {
		place = a->at.device ? win->amo_place : way->place;
		a->at.rkey = (part->mapped || a->at.device) && part->has_key >> place & 1
				     ? &part->rkey[place]
				     : NULL;
		a->started = true;
		a->age = tt_win_begin(win, a->rank);
		err = tt_wire_atomic(wire, peer, &a->at);
		if (!err) {
			win->comm->ctx->moves++;
			if (!a->over && a->at.asked)
				tt_win_wake_target(win, a->rank);
			return;
		}
		tt_win_end(win, a->rank, a->age);
		a->started = false;
		give_word(a);
	}
	win->comm->ctx->refusals += err == -EAGAIN;
	a->over = err != -EAGAIN;
	a->status = a->over ? tt_win_refused(win, a->rank, err) : err;
}

static bool advance(void *arg)
{
	struct tt_win_amo *a = arg;

	tt_win_amo_try(a);
	if (a->started || a->over)
		tt_list_del(&a->stalled.link);
	return a->over || atomic_load(&a->win->comm->failed);
}

int tt_win_amo_failure(struct tutti_win *win, int rank, int status)
{
	int err = tt_comm_check(win->comm);

	return err ? err : tt_win_failure(win, rank, "an atomic", status);
}

/* One that was started is taken back, so the communicator fails: for this reason. */
static int too_late(struct tutti_win *win, int rank, bool started)
{
	int err = tt_comm_check(win->comm);

	if (err)
		return err;
	err = tt_comm_blame_rank(win->comm, -ETIMEDOUT, rank,
				 "an atomic on rank %d's window did not complete within %lld ms "
				 "(TUTTI_TIMEOUT)",
				 rank, (long long)win->comm->ctx->env.timeout.number);
	if (started)
		tt_comm_fail(win->comm, err, win->comm->world[rank], "atomic", 0, "", "%s",
			     tt_fail_text(err));
	return err;
}

/*
 * In memory that is mapped here, which the peer sees as in a put; false: it has to go through the
 * transport.
 */
static inline bool execute_mapped(const struct tutti_win *win, const struct tt_win_map *map,
				  enum tt_amo_op op, uint64_t operand, uint64_t compare,
				  uint64_t offset, uint64_t *old)
{
	bool open;

	if (!map->reached || win->amo_place >= 0 ||
	    atomic_load_explicit(&win->comm->failed, memory_order_relaxed))
		return false;
	tt_copy_begin(map->mark, &map->open);
	open = tt_win_is_open(&map->open);
	if (open)
		*old = apply(map->part.ptr + offset, op, operand, compare);
	tt_copy_end(map->mark);
	return open;
}

static int result(const struct tt_win_amo *a, uint64_t *old)
{
	if (a->over && !a->started)
		return a->status; /* reported already */
	if (!a->over || a->status)
		return tt_win_amo_failure(a->win, a->rank, a->status);
	*old = a->at.old;
	return 0;
}

/* The first one on rank's part maps it, if CPUs execute atomics there. */
static int by_wire(struct tutti_win *win, int rank, enum tt_amo_op op, uint64_t operand,
		   uint64_t compare, uint64_t offset, uint64_t *old)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct tt_win_amo a;
	bool over, late = false;
	int err = 0;

	tt_win_amo_init(&a, win, rank, op, operand, compare, offset);
	tt_wire_lock(ctx->wire);
	if (win->kept && win->amo_place < 0 && tt_win_map(win, rank) &&
	    execute_mapped(win, &win->maps[rank], op, operand, compare, offset, old)) {
		tt_wire_unlock(ctx->wire);
		return 0;
	}
	over = advance(&a);
	if (!over && !a.started)
		tt_list_add(&ctx->stalled, &a.stalled.link);
	tt_wire_unlock(ctx->wire);
	if (!over)
		late = tt_engine_wait(ctx, advance, &a, tt_deadline_ms(ctx->env.timeout.number));
	tt_wire_lock(ctx->wire);
	tt_list_del(&a.stalled.link);
	late = late && !a.over;
	if (late) /* the reason, before taking back closes connections */
		err = too_late(win, rank, a.started);
	else
		err = result(&a, old);
	if (a.started && !a.over)
		tt_win_take_back(win, rank); /* a goes out of scope */
	tt_wire_unlock(ctx->wire);
	return err ? tt_win_lost(win, rank, err) : 0;
}

int tt_win_atomic(struct tutti_win *win, int rank, enum tt_amo_op op, uint64_t operand,
		  uint64_t compare, uint64_t offset, uint64_t *old)
{
	const struct tt_win_map *map = &win->maps[rank];

	if (execute_mapped(win, map, op, operand, compare, offset, old))
		return 0;
	return by_wire(win, rank, op, operand, compare, offset, old);
}
