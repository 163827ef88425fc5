/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets. If the transport limits the length or the place of its operations, an operation
 * is split into pieces. Each piece starts when the previous piece is in place, so the
 * notification, which goes with the last piece, comes after all bytes. With checksums the
 * notification is a message after the last piece: the target compares before it counts, and the
 * operation ends with its reply.
 *
 * Once the caller has given a window a priority, the bytes of operations on its windows that are
 * under way to a peer are bounded. An operation without room waits among the stalled ones, which
 * are tried from the highest priority on. An operation of lower priority to this peer does not take
 * its room, nor does one of equal priority that comes later.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/rma/rma.h"

struct tt_win_op {
	struct tt_wr wr;
	struct tt_stalled stalled;
	struct tutti_win *win;
	struct tt_win_op *next;
	struct tt_win_access access;
	uint32_t age;
	size_t sent, piece; /* bytes in place, and bytes under way */
	int priority;
	bool waits;   /* for the connection */
	bool paced;   /* its bytes under way are bounded */
	bool refused; /* since its last piece, for lack of room */
	size_t held;  /* its bytes in win_under_way */
	struct tt_region *region, *head_region;
	struct tt_win_end *end;
	uint32_t token;
	bool summed; /* with a notification: the target compares this first */
	uint64_t sum;
	struct tt_atomic ring; /* that asks it to */
};

/* ---- bytes under way, with priorities ---- */

static void op_again(struct tt_stalled *stalled);

/* NULL: not an operation of this file. */
static struct tt_win_op *op_of(struct tt_list *link)
{
	struct tt_stalled *s = tt_container(link, struct tt_stalled, link);

	return s->again == op_again ? tt_container(s, struct tt_win_op, stalled) : NULL;
}

static size_t *under_way(const struct tt_win_op *op)
{
	const struct tutti_comm *comm = op->win->comm;

	return &comm->ctx->win_under_way[comm->world[op->access.rank]];
}

/* A retry takes all operations from the list; those behind op are not back in it yet. */
static bool is_outranked(const struct tt_win_op *op)
{
	struct tutti_context *ctx = op->win->comm->ctx;
	const struct tt_win_op *other;
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &ctx->stalled)
	{
		other = op_of(l);
		if (other && other->paced && under_way(other) == under_way(op) &&
		    (other->priority > op->priority ||
		     (other->priority == op->priority && other->refused)))
			return true;
	}
	return false;
}

/*
 * Shortens *most to what may go now. A long piece takes all of the window, so that no other one
 * slips in between it and the next. -EAGAIN: nothing may.
 */
static int limit(struct tt_win_op *op, const struct tt_way *way, size_t *most)
{
	struct tutti_context *ctx = op->win->comm->ctx;
	size_t window, want = op->access.len - op->sent;

	op->paced = ctx->win_under_way && want && op->win->flags & TT_WIN_IDS && !way->at_once;
	if (!op->paced)
		return 0;
	window = tt_wire_window(ctx->wire);
	window = window < TT_PIECE ? TT_PIECE : window;
	*most = *most < window ? *most : window;
	want = want < *most ? want : *most;
	if (*under_way(op) + want <= window && !is_outranked(op))
		return 0;
	op->refused = true;
	return -EAGAIN;
}

/* Returns the bytes that are under way then. */
static size_t hold(struct tt_win_op *op)
{
	op->held = op->piece;
	return *under_way(op) += op->held;
}

static void count_piece(struct tutti_context *ctx, bool cut, size_t held)
{
	struct tutti_stats *stats = tt_wire_stats(ctx->wire);

	stats->pieces += cut;
	if (held > stats->window_most)
		stats->window_most = held;
}

static void release(struct tt_win_op *op)
{
	if (op->held)
		*under_way(op) -= op->held;
	op->held = 0;
}

/* ---- the pieces of an operation ---- */

static void op_free(struct tt_win_op *op)
{
	tt_list_del(&op->stalled.link);
	tt_mem_return(op->region);
	tt_mem_return(op->head_region);
	op->next = op->win->free_ops;
	op->win->free_ops = op;
	tt_win_end(op->win, op->access.rank, op->age);
}

int tt_win_status(int status)
{
	switch (-status) {
	case 0:
	case EACCES:
	case EFAULT:
	case EINVAL:
	case EMFILE:
	case EMSGSIZE:
	case ENFILE:
	case ENOMEM:
	case EOPNOTSUPP:
	case ERANGE:
		return status;
	case TT_EFAULT_HERE:
		return -EFAULT;
	case EPERM: /* the peer lives, and the kernel keeps this process from its memory */
		return -TUTTI_ETRANSPORT;
	default:
		return -status >= TUTTI_EPEER ? status : -TUTTI_EPEER;
	}
}

int tt_win_lost_status(int status)
{
	return status == -EACCES || status == -EINVAL ? -TUTTI_EPEER : tt_win_status(status);
}

static void op_over(struct tt_win_op *op, int status)
{
	struct tutti_win *win = op->win;
	struct tt_win_end *end = op->end;
	bool here = status == -TT_EFAULT_HERE;

	status = tt_win_status(status);
	if (!end)
		tt_win_keep_status(win, op->access.rank, here ? -TT_EFAULT_HERE : status);
	op_free(op);
	if (!end)
		return;
	end->here = here;
	end->over(end, status);
}

/* Registers memory that the transport cannot use directly, until the operation ends. */
static int register_part(struct tt_win_op *op, int tp, void *addr, size_t len,
			 struct tt_region **region)
{
	struct tt_wire *wire = op->win->comm->ctx->wire;
	int err;

	if (!*region)
		*region = tt_mem_borrow(tt_wire_memory(wire), addr, len);
	if (*region && (*region)->mr[tp])
		return 0;
	if (*region && (*region)->once)
		return tt_fail(-EINVAL,
			       "the local buffer can't be registered for the transport in use; "
			       "take it from tutti_alloc");
	tt_mem_return(*region);
	*region = NULL;
	err = tt_mem_register_once(tt_wire_memory(wire), addr, len, region);
	if (err == -EFAULT)
		return tt_fail(-TT_EFAULT_HERE, "%s", tt_fail_text(err));
	return err ? err : register_part(op, tp, addr, len, region);
}

static int register_local(struct tt_win_op *op, int tp)
{
	const struct tt_win_access *a = &op->access;
	int err = a->head_len ? register_part(op, tp, a->head, a->head_len, &op->head_region) : 0;

	return err ? err : register_part(op, tp, a->local, a->len - a->head_len, &op->region);
}

/*
 * Sets the length and the local start of the next piece; returns the registration of the memory at
 * rma->local.
 */
static struct tt_region *set_piece(struct tt_win_op *op, const struct tt_way *way, size_t most,
				   struct tt_rma *rma)
{
	const struct tt_win_access *a = &op->access;
	size_t head = op->sent < a->head_len ? a->head_len - op->sent : 0;

	op->piece = a->len - op->sent;
	if (op->piece > most)
		op->piece = most;
	if (head && head < op->piece && !way->get_head)
		op->piece = head;
	rma->len = op->piece;
	if (!head) {
		rma->local = (char *)a->local + (op->sent - a->head_len);
		return op->region;
	}
	rma->head = (char *)a->head + op->sent;
	if (head >= op->piece) {
		rma->local = rma->head;
		return op->head_region;
	}
	rma->head_len = head;
	rma->head_mr = op->head_region ? op->head_region->mr[way->index] : NULL;
	rma->local = a->local;
	return op->region;
}

/* Starts the next piece. 0: started; -EAGAIN: to be retried; else it failed. */
static int issue(struct tt_win_op *op)
{
	const struct tt_win_access *a = &op->access;
	struct tutti_win *win = op->win;
	struct tt_wire *wire = win->comm->ctx->wire;
	const struct tt_win_part *part = &win->part[a->rank];
	int peer = win->comm->world[a->rank], err;
	struct tt_region *region;
	const struct tt_way *way;
	struct tt_rma rma;
	size_t most = 0, held;
	bool cut;

	err = atomic_load_explicit(&win->comm->failed, memory_order_relaxed)
		      ? tt_comm_check(win->comm)
		      : tt_wire_reach(wire, peer, &op->waits, &way);
	if (!err) {
		most = way->most;
		err = limit(op, way, &most);
	}
	win->comm->ctx->refusals += err == -EAGAIN;
	if (!err && a->len > (a->get ? way->bare_get : way->bare_put))
		err = register_local(op, way->index);
	if (err)
		return err;
	if (a->len && !(part->has_key >> way->place & 1))
		return tt_fail(-EOPNOTSUPP,
			       "the window's memory at rank %d can't be reached "
			       "over the transport in use; take it from tutti_alloc",
			       a->rank);
	rma = (struct tt_rma){.remote = part->base + a->offset + op->sent,
			      .rkey = &part->rkey[way->place],
			      .note = op->token,
			      .flags = a->get || a->loose ? 0 : TT_RMA_REMOTE};
	region = set_piece(op, way, most, &rma);
	held = op->paced ? hold(op) : 0;
	cut = held && op->piece < a->len; /* op may end within the call */
	if (a->away)
		rma.flags |= TT_RMA_AWAY;
	if (a->note && !op->summed && op->sent + op->piece == a->len)
		rma.flags |= TT_RMA_NOTE;
	err = a->get ? tt_wire_get(wire, peer, &rma, region, &op->wr)
		     : tt_wire_put(wire, peer, &rma, region, &op->wr);
	if (err)
		release(op);
	else if (held)
		count_piece(win->comm->ctx, cut, held);
	win->comm->ctx->moves += !err;
	win->comm->ctx->refusals += err == -EAGAIN;
	return err;
}

/* Before operations of lower priority; entries of other kinds have no place in this order. */
static void stall(struct tt_win_op *op)
{
	struct tutti_context *ctx = op->win->comm->ctx;
	struct tt_list *at = &ctx->stalled, *l;
	const struct tt_win_op *other;

	if (!tt_list_empty(&op->stalled.link))
		return;
	for (l = at->prev; ctx->win_under_way && l != &ctx->stalled; l = l->prev) {
		other = op_of(l);
		if (other && other->priority >= op->priority)
			break;
		if (other)
			at = l;
	}
	tt_list_add(at, &op->stalled.link);
}

/* Goes on, now or when there is room. */
static void go_on(struct tt_win_op *op)
{
	int err = issue(op);

	if (err == -EAGAIN)
		stall(op);
	else if (err)
		op_over(op, err);
}

static void op_again(struct tt_stalled *stalled)
{
	struct tt_win_op *op = tt_container(stalled, struct tt_win_op, stalled);

	tt_list_del(&stalled->link);
	go_on(op);
}

static void op_rung(struct tt_atomic *at, int status)
{
	op_over(tt_container(at, struct tt_win_op, ring), tt_win_status(status));
}

static int ask_to_ring(struct tt_win_op *op)
{
	struct tutti_win *win = op->win;
	int rank = op->access.rank;

	tt_win_wake_target(win, rank);
	op->ring =
		(struct tt_atomic){.bell = op->token, .offset = op->access.offset, .done = op_rung};
	return tt_wire_ring(win->comm->ctx->wire, win->comm->world[rank], &op->ring, op->access.len,
			    op->sum);
}

static void op_done(struct tt_wr *wr, int status)
{
	struct tt_win_op *op = tt_container(wr, struct tt_win_op, wr);
	const struct tt_win_access *a = &op->access;

	release(op);
	op->refused = false;
	op->sent += op->piece;
	if (op->summed && !status && op->sent == a->len) {
		status = ask_to_ring(op);
		if (!status)
			return;
	}
	if (status || op->sent == op->access.len)
		op_over(op, tt_is_fault(status) ? status : tt_win_lost_status(status));
	else /* not started here: a transport may have finished this piece within the call */
		stall(op);
}

static struct tt_win_op *op_alloc(struct tutti_win *win)
{
	struct tt_win_op *op = calloc(1, sizeof(*op));

	if (!op) {
		tt_fail(-ENOMEM, "no memory for a one-sided operation");
		tt_ctx_lacks(win->comm->ctx, -ENOMEM);
		return NULL;
	}
	op->win = win;
	op->wr.done = op_done;
	op->stalled.again = op_again;
	tt_list_init(&op->stalled.link);
	tt_wire_stats(win->comm->ctx->wire)->allocations++;
	return op;
}

static inline struct tt_win_op *op_new(struct tutti_win *win, const struct tt_win_access *access,
				       struct tt_win_end *end)
{
	struct tt_win_op *op = win->free_ops;

	if (op)
		win->free_ops = op->next;
	else if (!(op = op_alloc(win)))
		return NULL;
	op->access = *access;
	op->sent = op->piece = 0;
	op->priority = win->priority;
	op->waits = op->paced = op->refused = false;
	op->region = op->head_region = NULL; /* many need none: issue() decides */
	op->end = end;
	op->token = access->token
			    ? *access->token
			    : (uint32_t)win->part[access->rank].token + (uint32_t)win->comm->rank;
	op->summed = access->note && (!access->token || access->counted) && access->len &&
		     tt_wire_has_checksums(win->comm->ctx->wire);
	if (op->summed)
		op->sum = tt_sum(access->local, access->len);
	op->age = tt_win_begin(win, access->rank);
	return op;
}

void tt_win_free_ops(struct tutti_win *win)
{
	struct tt_win_op *op;

	while ((op = win->free_ops)) {
		win->free_ops = op->next;
		free(op);
	}
}

void tt_win_drop_stalled(struct tutti_win *win, int rank, int status)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &win->comm->ctx->stalled)
	{
		struct tt_stalled *s = tt_container(l, struct tt_stalled, link);
		struct tt_win_op *op = tt_container(s, struct tt_win_op, stalled);

		if (s->again == op_again && op->win == win && (rank < 0 || op->access.rank == rank))
			op_over(op, status);
	}
}

int tt_win_refused(struct tutti_win *win, int rank, int err)
{
	int status = tt_win_judged(win, rank, tt_win_status(err));
	char why[200];

	if (status == -TUTTI_EPEER && atomic_load(&win->comm->failed))
		return tt_comm_check(win->comm);
	if (status == err && err != -EFAULT) {
		tt_ctx_lacks(win->comm->ctx, err);
		return err;
	}
	snprintf(why, sizeof(why), "%s", tt_fail_text(err));
	if (err == -EFAULT)
		return tt_comm_blame_rank(win->comm, err, rank,
					  "rank %d's window is not mapped any more: %s", rank, why);
	if (err == -TT_EFAULT_HERE)
		return tt_comm_blame_rank(win->comm, status, win->comm->rank,
					  "the local memory is not mapped: %s; check address and "
					  "length",
					  why);
	return tt_comm_blame_rank(win->comm, status, rank, "rank %d's window can't be reached: %s",
				  rank, why);
}

bool tt_win_gets_head(struct tutti_win *win, int rank)
{
	const struct tt_way *way = tt_wire_open_way(win->comm->ctx->wire, win->comm->world[rank]);

	return way && way->get_head;
}

int tt_win_op_start(struct tutti_win *win, const struct tt_win_access *access,
		    struct tt_win_end *end)
{
	return tt_win_op_start_at(win, win->priority, access, end);
}

int tt_win_op_start_at(struct tutti_win *win, int priority, const struct tt_win_access *access,
		       struct tt_win_end *end)
{
	struct tt_win_op *op = op_new(win, access, end);
	int err;

	end->here = false;
	if (!op)
		return -ENOMEM;
	op->priority = priority;
	err = issue(op);
	if (err == -EAGAIN)
		stall(op);
	else if (err)
		op_free(op);
	if (err == -TT_EFAULT_HERE)
		end->here = true;
	return err == -EAGAIN ? 0 : tt_win_refused(win, access->rank, err);
}

/* As issue. With priorities an operation that waits for room is started: it goes on by itself. */
static int start_or_wait(struct tt_win_op *op)
{
	struct tutti_context *ctx = op->win->comm->ctx;
	int err = issue(op);

	if (err != -EAGAIN || !op->paced)
		return err;
	stall(op);
	if (ctx->thread_runs)
		tt_wire_started(ctx->wire);
	return 0;
}

/* A blocking call whose operation has not started its first piece yet. */
struct attempt {
	struct tt_stalled stalled; /* while it has no room */
	struct tt_win_op *op;
	bool over;
	int result;
};

/* A wait may call this again after success: the operation must not start twice. */
static bool try_start(void *arg)
{
	struct attempt *a = arg;

	if (!a->over) {
		a->result = start_or_wait(a->op);
		a->over = a->result != -EAGAIN;
		if (a->over)
			tt_list_del(&a->stalled.link);
	}
	return a->over;
}

/* Under the lock, which it releases: op could not start, because of err. */
static int start_later(struct tt_win_op *op, int err)
{
	struct attempt a = {.stalled.again = tt_stalled_wait, .op = op, .result = err};
	struct tutti_win *win = op->win;
	struct tutti_context *ctx = win->comm->ctx;
	int rank = op->access.rank;
	bool late = false;

	tt_list_init(&a.stalled.link);
	if (err == -EAGAIN) {
		tt_list_add(&ctx->stalled, &a.stalled.link);
		tt_wire_unlock(ctx->wire);
		late = tt_engine_wait(ctx, try_start, &a, tt_deadline_ms(ctx->env.timeout.number));
		if (!late && !a.result)
			return 0;
		tt_wire_lock(ctx->wire);
		tt_list_del(&a.stalled.link);
	}
	op_free(op);
	if (!late)
		err = tt_win_refused(win, rank, a.result);
	tt_wire_unlock(ctx->wire);
	if (!late)
		return tt_win_lost(win, rank, err);
	return tt_comm_blame_rank(win->comm, -ETIMEDOUT, rank,
				  "a one-sided operation on rank %d could not be started within "
				  "%lld ms (TUTTI_TIMEOUT)",
				  rank, (long long)ctx->env.timeout.number);
}

/*
 * Makes a put or a get that ends within the call, without an operation that the window remembers.
 * false: it is not one, or it failed. It can be made again.
 */
static inline bool move_at_once(struct tutti_win *win, const struct tt_win_access *a)
{
	struct tt_wire *wire = win->comm->ctx->wire;
	const struct tt_win_part *part = &win->part[a->rank];
	int peer = win->comm->world[a->rank];
	const struct tt_way *way = tt_wire_open_way(wire, peer);
	struct tt_rma rma;

	if (a->note || a->head_len || !a->len ||
	    atomic_load_explicit(&win->comm->failed, memory_order_relaxed) || !way ||
	    !way->at_once || a->len > way->most || !(part->has_key >> way->place & 1))
		return false;
	rma = (struct tt_rma){.remote = part->base + a->offset,
			      .rkey = &part->rkey[way->place],
			      .local = a->local,
			      .len = a->len,
			      .flags = a->away ? TT_RMA_AWAY : 0};
	if (tt_wire_move(wire, peer, &rma, a->get))
		return false;
	win->comm->ctx->moves++;
	return true;
}

/* Whether no transport has to act, if the memory is mapped here. */
static inline bool may_copy(const struct tutti_win *win, const struct tt_win_access *a)
{
	return win->kept && !a->note && !a->head_len &&
	       !atomic_load_explicit(&win->comm->failed, memory_order_relaxed);
}

/* A put into mapped memory, while the peer sees that this process writes. */
static inline bool put_mapped(const struct tt_win_map *map, const struct tt_win_access *a)
{
	bool open;

	tt_copy_begin(map->mark, &map->open);
	open = tt_win_is_open(&map->open);
	if (open)
		tt_copy_long(map->part.ptr + a->offset, a->local, a->len);
	tt_copy_end(map->mark);
	return open;
}

/* Makes an access in memory that is mapped here; false: it has to go through the transport. */
static inline bool copy_mapped(struct tutti_win *win, const struct tt_win_access *a)
{
	const struct tt_win_map *map = &win->maps[a->rank];

	if (!map->reached || !a->len || !may_copy(win, a))
		return false;
	if (!a->get) {
		if (!put_mapped(map, a))
			return false;
		tt_win_count(&win->moved.put, a->len);
		return true;
	}
	if (!tt_win_is_open(&map->open))
		return false;
	tt_copy_long(a->local, map->part.ptr + a->offset, a->len);
	tt_win_count(&win->moved.got, a->len);
	return true;
}

/* Apart from tt_win_op, so that a copy in mapped memory saves no registers for it. */
static __attribute__((noinline)) int op_by_wire(struct tutti_win *win,
						const struct tt_win_access *access)
{
	struct tt_wire *wire = win->comm->ctx->wire;
	struct tt_win_op *op;
	bool mapped;
	int err;

	tt_wire_lock(wire);
	mapped = may_copy(win, access) && tt_win_map(win, access->rank);
	if (mapped)
		tt_wire_unlock(wire);
	if (mapped && copy_mapped(win, access))
		return 0;
	if (mapped)
		tt_wire_lock(wire);
	if (move_at_once(win, access)) {
		tt_wire_unlock(wire);
		return 0;
	}
	op = op_new(win, access, NULL);
	err = op ? start_or_wait(op) : -ENOMEM;
	if (err && op)
		return start_later(op, err);
	tt_wire_unlock(wire);
	return err;
}

int tt_win_op(struct tutti_win *win, const struct tt_win_access *access)
{
	return copy_mapped(win, access) ? 0 : op_by_wire(win, access);
}

int tt_win_set_priority(struct tutti_win *win, int priority)
{
	struct tutti_context *ctx = win->comm->ctx;
	size_t **under_way = &ctx->win_under_way;
	int err = 0;

	tt_wire_lock(ctx->wire);
	if (priority && !*under_way) {
		*under_way = calloc((size_t)ctx->boot_params.nranks, sizeof(**under_way));
		err = *under_way ? 0 : tt_fail(-ENOMEM, "no memory to count bytes under way");
	}
	if (!err)
		win->priority = priority;
	if (!err && priority)
		tt_wire_pace(ctx->wire);
	tt_wire_unlock(ctx->wire);
	return err;
}
