/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates at an origin that has mapped the target's part: it combines there, a piece at a time
 * under the part's lock, without the wire lock if nothing of the window is under way to that rank.
 * If another rank holds the lock for long, the rest waits among the stalled operations, which any
 * thread of this process tries again. The target takes the same lock for its own accumulates
 * and for those that come as messages.
 */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/proc.h"
#include "lib/rma/win_accumulate.h"

#define LOOKS 100	/* at a lock, until the operation waits: a few short pieces */
#define CLAIM_LOOKS 400 /* of an operation that waits: a long piece */
#define GIVE_WAY 100	/* looks at a lock until the next piece, if another rank waits */
#define PROBE_NS TT_MS	/* between looks whether a holder has ended */

void tt_accs_place(struct tt_accs *accs)
{
	struct tutti_win *win = accs->win;
	struct tt_acc_peer *own = &accs->peer[win->comm->rank];

	accs->name = tt_part_name(win->comm->rank, getpid());
	own->mark = own->held_mark = &tt_win_unseen;
	own->lock = (struct tt_part_lock *)(win->base + tt_part_lock_at(win->size));
	own->read_only = win->flags & TUTTI_WIN_READ_ONLY;
	own->base = win->base;
}

/* Takes the lock; false: another thread or rank holds it, also after so many more looks. */
static inline bool try_lock(struct tt_part_lock *lock, uint64_t name, int looks)
{
	int i;

	if (tt_part_take(lock, 0, name))
		return true;
	for (i = 0; i < looks; i++) {
		tt_cpu_relax();
		if (tt_part_holder(lock) < 0 && tt_part_take(lock, 0, name))
			return true;
	}
	return false;
}

/* As try_lock, of an operation that waits: looks for as long as a piece takes, and says so. */
static bool claim_lock(struct tt_part_lock *lock, uint64_t name)
{
	bool taken;

	if (tt_part_take(lock, 0, name))
		return true;
	atomic_store_explicit(&lock->wanted, 1, memory_order_relaxed);
	taken = try_lock(lock, name, CLAIM_LOOKS);
	atomic_store_explicit(&lock->wanted, 0, memory_order_relaxed);
	return taken;
}

static inline bool is_wanted(const struct tt_part_lock *lock)
{
	return atomic_load_explicit(&lock->wanted, memory_order_relaxed);
}

/* Whether a rank waits, which has the time until the next piece. It may have ended. */
static bool forget_wish(struct tt_part_lock *lock)
{
	return is_wanted(lock) && atomic_exchange_explicit(&lock->wanted, 0, memory_order_relaxed);
}

/* Pauses until the rank that waits has the lock. The rank may have ended meanwhile. */
static void give_way(struct tt_part_lock *lock)
{
	int i;

	for (i = 0; i < GIVE_WAY && tt_part_holder(lock) < 0; i++)
		tt_cpu_relax();
	if (i < GIVE_WAY)
		return;
	atomic_store_explicit(&lock->wanted, 0, memory_order_relaxed);
	sched_yield();
}

static void advance(struct tt_win_acc *rest, size_t count, size_t bytes)
{
	if (rest->local)
		rest->local = (const char *)rest->local + bytes;
	if (rest->result)
		rest->result = (char *)rest->result + bytes;
	rest->offset += bytes;
	rest->count -= count;
}

static inline int refusal(const struct tt_acc_peer *peer)
{
	if (!tt_win_is_open(&peer->open))
		return -ENOTCONN;
	return atomic_load_explicit(&peer->lock->closed, memory_order_acquire) ? -EACCES : 0;
}

/*
 * Combines the next piece of rest. -EAGAIN: another rank holds the lock; -ENOTCONN: the connection
 * has been closed; -EACCES: the owner has freed the window. The mark is there as long as the lock
 * is held: if this process is stopped meanwhile and taken for dead, the target ends it, and others
 * take the lock over. A read-only part has no lock: it is mapped without write access.
 */
static inline int combine_piece(const struct tt_accs *accs, const struct tt_acc_peer *peer,
				_Atomic uint32_t *mark, bool claims, struct tt_win_acc *rest)
{
	size_t size = tutti_datatype_size(rest->datatype), most = TT_ACC_MOST / size;
	size_t n = rest->count < most ? rest->count : most;
	int err = -EAGAIN;

	tt_copy_begin(mark, &peer->open);
	if (peer->read_only || (claims ? claim_lock(peer->lock, accs->name)
				       : try_lock(peer->lock, accs->name, LOOKS))) {
		err = refusal(peer);
		if (!err)
			tt_acc_apply(peer->base + rest->offset, rest->local, rest->result, n,
				     rest->datatype, rest->op);
		if (!peer->read_only)
			tt_part_release(peer->lock);
	}
	tt_copy_end(mark);
	if (!err)
		advance(rest, n, n * size);
	return err;
}

static inline bool has_failed(const struct tutti_win *win)
{
	return atomic_load_explicit(&win->comm->failed, memory_order_relaxed);
}

int tt_win_accumulate(struct tutti_win *win, const struct tt_win_acc *acc)
{
	const struct tt_acc_peer *peer = &win->accs->peer[acc->rank];
	struct tt_win_acc rest = *acc;
	size_t bytes;

	/* while none is under way, no other thread changes the way to the rank */
	if (atomic_load_explicit(&win->pending[acc->rank], memory_order_acquire) || !peer->base)
		return tt_win_run(win, tt_win_acc_start, &rest);
	while (rest.count && !has_failed(win) &&
	       !combine_piece(win->accs, peer, peer->mark, false, &rest))
		if (!peer->read_only && is_wanted(peer->lock))
			give_way(peer->lock);
	bytes = rest.offset - acc->offset;
	if (acc->op != TUTTI_NO_OP)
		tt_win_count(&win->moved.put, bytes);
	if (acc->result)
		tt_win_count(&win->moved.got, bytes);
	return rest.count || !acc->count ? tt_win_run(win, tt_win_acc_start, &rest) : 0;
}

/* ---- under the wire lock, with which no thread waits for another process ---- */

/* Whether the owner of the part knows that a rank of this name can write there no more. */
static bool is_fenced(const struct tt_accs *accs, const struct tt_acc_peer *peer, int rank)
{
	return rank < accs->win->comm->size && tt_comm_dead(accs->win->comm, rank) >= 0 &&
	       peer == &accs->peer[accs->win->comm->rank];
}

/*
 * Takes the lock from a process that has had it for a while, and has ended; and frees it. A process
 * id is used again, so the owner of the part also takes it from a rank whose death is known: the
 * connection was closed before, with which its writing ended. True: only the owner can tell.
 */
static bool look_after_holder(struct tt_accs *accs, struct tt_acc_peer *peer)
{
	uint64_t holder = atomic_load_explicit(&peer->lock->holder, memory_order_relaxed);
	uint64_t now = tt_now_ns();
	pid_t pid = (pid_t)(uint32_t)holder;
	int rank = (int)(holder >> 32) - 1;

	if (holder != peer->holder) {
		peer->holder = holder;
		peer->probe_at = now + PROBE_NS;
		peer->probed = false;
	}
	if (!holder || now < peer->probe_at)
		return false;
	peer->probe_at = now + PROBE_NS;
	peer->probed = true;
	if (!tt_proc_gone(pid) && !is_fenced(accs, peer, rank))
		return rank < accs->win->comm->size && tt_comm_dead(accs->win->comm, rank) >= 0;
	if (!tt_part_take(peer->lock, holder, accs->name))
		return false;
	tt_part_release(peer->lock);
	tt_info("process %d ended while it combined in the window of rank %d", (int)pid,
		accs->win->comm->world[peer - accs->peer]);
	return false;
}

/* 0: rank's part is mapped; -EAGAIN: not known before there is a connection; -EOPNOTSUPP: not. */
static int find_way(struct tt_accs *accs, struct tt_acc_op *op)
{
	struct tutti_win *win = accs->win;
	int rank = op->acc.rank, err;
	struct tt_acc_peer *peer = &accs->peer[rank];
	const struct tt_way *way;

	if (peer->base && tt_win_is_open(&peer->open))
		return 0;
	if (!win->part[rank].pid || rank == win->comm->rank)
		return -EOPNOTSUPP;
	err = tt_wire_reach(win->comm->ctx->wire, win->comm->world[rank], &op->waits, &way);
	if (err) /* a message says why */
		return err == -EAGAIN ? err : -EOPNOTSUPP;
	return tt_win_map_locked(win, rank, peer) && tt_win_is_open(&peer->open) ? 0 : -EOPNOTSUPP;
}

/* As combine_piece. If another rank waits, the operation goes on later. */
static int combine_some(const struct tt_accs *accs, const struct tt_acc_peer *peer,
			struct tt_win_acc *rest)
{
	int i, err = 0;

	for (i = 0; !err && rest->count; i++)
		if (i == TT_ACC_AT_ONCE || (i && !peer->read_only && forget_wish(peer->lock)))
			err = -EAGAIN;
		else
			err = combine_piece(accs, peer, peer->held_mark, true, rest);
	return err;
}

int tt_acc_combine(struct tt_accs *accs, struct tt_acc_op *op)
{
	struct tt_acc_peer *peer = &accs->peer[op->acc.rank];
	struct tutti_context *ctx = accs->win->comm->ctx;
	uint64_t from = op->acc.offset;
	int err = find_way(accs, op);

	if (!err) {
		err = combine_some(accs, peer, &op->acc);
		if (err == -EAGAIN && !peer->read_only && look_after_holder(accs, peer))
			err = -EOPNOTSUPP; /* a message has the owner look */
	}
	ctx->refusals += err == -EAGAIN;
	ctx->moves += op->acc.offset != from;
	if (op->acc.op != TUTTI_NO_OP)
		tt_wire_stats(ctx->wire)->put_bytes += op->acc.offset - from;
	if (op->acc.result)
		tt_wire_stats(ctx->wire)->got_bytes += op->acc.offset - from;
	return err == -ENOTCONN ? -EOPNOTSUPP : err; /* a message says why */
}

bool tt_acc_lock_own(struct tt_accs *accs, bool claims)
{
	struct tt_acc_peer *own = &accs->peer[accs->win->comm->rank];

	if (!own->base || own->read_only ||
	    (claims ? claim_lock(own->lock, accs->name) : try_lock(own->lock, accs->name, 0)))
		return true;
	look_after_holder(accs, own);
	return false;
}

void tt_acc_unlock_own(struct tt_accs *accs)
{
	struct tt_acc_peer *own = &accs->peer[accs->win->comm->rank];

	if (own->base && !own->read_only)
		tt_part_release(own->lock);
}

void tt_acc_close_own(struct tt_accs *accs)
{
	struct tt_acc_peer *own = &accs->peer[accs->win->comm->rank];

	if (own->base)
		atomic_store_explicit(&own->lock->closed, 1, memory_order_release);
}

int tt_accs_holder(const struct tutti_win *win, int rank)
{
	const struct tt_accs *accs = win->accs;
	const struct tt_acc_peer *peer;
	struct tt_list *l, *tmp;
	int holder;

	if (!accs || rank < 0)
		return -1;
	peer = &accs->peer[rank];
	if (!peer->base || peer->read_only || !peer->probed ||
	    atomic_load_explicit(&peer->lock->holder, memory_order_relaxed) != peer->holder)
		return -1;
	holder = (int)(peer->holder >> 32) - 1;
	tt_list_each(l, tmp, &accs->waiting)
	{
		const struct tt_acc_op *op = tt_container(l, struct tt_acc_op, link);

		if (op->acc.rank == rank && !op->waits)
			return holder < win->comm->size ? holder : -1;
	}
	return -1;
}
