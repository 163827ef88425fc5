/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided access: checks arguments, then calls lib/rma. */
#include "lib/rma/rma.h"

#include <errno.h>

#include "lib/api/api.h"
#include "lib/engine/vote.h"

int tutti_win_create(struct tutti_comm *comm, void *base, size_t size, unsigned flags,
		     struct tutti_win **out)
{
	int err = tt_check_waiting(__func__, comm);

	if (flags & TT_WIN_IDS)
		flags |= TT_WIN_UNKNOWN;
	return err ? err : tt_win_make(comm, comm, base, size, flags | TT_WIN_IDS, out);
}

static int allocate(const char *call, struct tutti_comm *comm, size_t size, unsigned flags,
		    bool shared, void **base, struct tutti_win **out)
{
	int err = tt_check_comm(comm);

	if (!err)
		err = tt_group_refuse(call);
	if (flags & TT_WIN_IDS)
		flags |= TT_WIN_UNKNOWN;
	return err ? err : tt_win_allocate(comm, size, flags | TT_WIN_IDS, shared, base, out);
}

int tutti_win_allocate(struct tutti_comm *comm, size_t size, unsigned flags, void **base,
		       struct tutti_win **out)
{
	return allocate(__func__, comm, size, flags, false, base, out);
}

int tutti_win_allocate_shared(struct tutti_comm *comm, size_t size, unsigned flags, void **base,
			      struct tutti_win **out)
{
	return allocate(__func__, comm, size, flags, true, base, out);
}

int tutti_win_free(struct tutti_win *win)
{
	struct tutti_comm *comm;
	int err, requests;

	err = tt_check_win(__func__, win);
	if (!err)
		err = tt_group_refuse(__func__);
	if (err)
		return err;
	comm = win->comm;
	tt_wire_lock(comm->ctx->wire);
	requests = win->requests;
	tt_wire_unlock(comm->ctx->wire);
	if (requests)
		return tt_fail(-EBUSY, "tutti_win_free: %d requests have not been waited for",
			       requests);
	err = tt_win_wait(win, -1);
	if (!err) {
		err = comm->freed
			      ? tt_call_unchecked(comm, &(struct tt_call){.coll = TT_COLL_BARRIER})
			      : tutti_barrier(comm);
		tt_tell_unable(comm, __func__, err);
	}
	tt_accs_finish(win);
	if (err)
		tt_accs_tell_closed(win);
	win->abandoned = err;
	tt_win_drop(win);
	return err;
}

int tt_check_win(const char *call, const struct tutti_win *win)
{
	if (!win)
		return tt_fail(-EINVAL, "%s: win is NULL", call);
	if (win->magic == TT_WIN_FREED)
		return tt_fail(-EINVAL, "%s: the window has been freed", call);
	if (win->magic != TT_WIN_MAGIC)
		return tt_fail(-EINVAL, "%s: win is not a window", call);
	return 0;
}

/* Finds and reports the wrong argument of a call. */
int tt_check_access(const char *call, struct tutti_win *win, int rank, const void *local,
		    size_t len, uint64_t offset)
{
	uint64_t size;
	int err = tt_check_win(call, win);

	if (err)
		return err;
	if (rank < 0 || rank >= win->comm->size)
		return tt_fail(-EINVAL,
			       "%s: %d is not a rank of the window's communicator (0 to %d)", call,
			       rank, win->comm->size - 1);
	if (len && !local)
		return tt_fail(-EINVAL, "%s: local is NULL", call);
	size = win->part[rank].size;
	if (len > size || offset > size - len)
		return tt_comm_blame_rank(
			win->comm, -ERANGE, rank,
			"%s: bytes %llu to %llu are outside rank %d's window of %llu bytes", call,
			(unsigned long long)offset, (unsigned long long)(offset + len), rank,
			(unsigned long long)size);
	return 0;
}

int tutti_win_shared_query(struct tutti_win *win, int rank, void **base, size_t *size)
{
	int err = tt_check_access(__func__, win, rank, NULL, 0, 0);

	if (err)
		return err;
	if (!base || !size)
		return tt_fail(-EINVAL, "%s: %s is NULL", __func__, base ? "size" : "base");
	if (!win->shared)
		return tt_fail(-EINVAL, "%s: the window was not made by tutti_win_allocate_shared",
			       __func__);
	*base = win->maps[rank].part.ptr;
	*size = win->part[rank].size;
	return 0;
}

/* Fast path for valid arguments: the same checks without a call. */
static inline int check(const char *call, struct tutti_win *win, int rank, const void *local,
			size_t len, uint64_t offset)
{
	if (win && win->magic == TT_WIN_MAGIC && rank >= 0 && rank < win->comm->size &&
	    (local || !len) && len <= win->part[rank].size && offset <= win->part[rank].size - len)
		return 0;
	return tt_check_access(call, win, rank, local, len, offset);
}

static inline int check_write(const char *call, struct tutti_win *win, int rank, const void *local,
			      size_t len, uint64_t offset)
{
	int err = check(call, win, rank, local, len, offset);

	if (!err && len && win->part[rank].flags & TUTTI_WIN_READ_ONLY)
		err = tt_comm_blame_rank(win->comm, -EACCES, rank,
					 "%s: rank %d's window is read-only", call, rank);
	return err;
}

int tutti_put(struct tutti_win *win, int rank, const void *local, size_t len, uint64_t offset)
{
	struct tt_win_access a = {
		.rank = rank, .local = (void *)local, .len = len, .offset = offset};
	int err = check_write(__func__, win, rank, local, len, offset);

	return err ? err : tt_win_op(win, &a);
}

int tutti_put_notify(struct tutti_win *win, int rank, const void *local, size_t len,
		     uint64_t offset)
{
	struct tt_win_access a = {
		.rank = rank, .local = (void *)local, .len = len, .offset = offset, .note = true};
	int err = check_write(__func__, win, rank, local, len, offset);

	return err ? err : tt_win_op(win, &a);
}

/* The token of an id in *token, and what is wrong with it. */
static int check_id(const char *call, const struct tutti_win *win, int rank, int id,
		    uint32_t *token)
{
	if (id < 0 || id >= TUTTI_NOTIFY_IDS)
		return tt_fail(-EINVAL, "%s: %d is not a notification id (0 to %d)", call, id,
			       TUTTI_NOTIFY_IDS - 1);
	*token = tt_win_id_token(win, rank, id);
	return 0;
}

static int put_id(const char *call, struct tutti_win *win, int rank, const void *local, size_t len,
		  uint64_t offset, int id, struct tt_win_access *a, uint32_t *token)
{
	int err = check_write(call, win, rank, local, len, offset);

	*a = (struct tt_win_access){.rank = rank,
				    .local = (void *)local,
				    .len = len,
				    .offset = offset,
				    .note = true,
				    .counted = true,
				    .token = token};
	return err ? err : check_id(call, win, rank, id, token);
}

int tutti_put_notify_id(struct tutti_win *win, int rank, const void *local, size_t len,
			uint64_t offset, int id)
{
	uint32_t token;
	struct tt_win_access a;
	int err = put_id(__func__, win, rank, local, len, offset, id, &a, &token);

	return err ? err : tt_win_op(win, &a);
}

int tutti_get(struct tutti_win *win, int rank, void *local, size_t len, uint64_t offset)
{
	struct tt_win_access a = {
		.rank = rank, .local = local, .len = len, .offset = offset, .get = true};
	int err = check(__func__, win, rank, local, len, offset);

	return err ? err : tt_win_op(win, &a);
}

static int check_atomic(const char *call, struct tutti_win *win, int rank, uint64_t offset,
			const uint64_t *old)
{
	int err = check_write(call, win, rank, call, sizeof(*old), offset);

	if (err)
		return err;
	if (!old)
		return tt_fail(-EINVAL, "%s: old is NULL", call);
	if (win->flags & TUTTI_WIN_ACCUMULATE)
		return tt_fail(-EINVAL,
			       "%s: the window was made with TUTTI_WIN_ACCUMULATE; use "
			       "tutti_get_accumulate, or another window",
			       call);
	if (offset % sizeof(*old))
		return tt_fail(-EINVAL, "%s: offset %llu is not a multiple of 8", call,
			       (unsigned long long)offset);
	if (win->part[rank].base % sizeof(*old))
		return tt_comm_blame_rank(win->comm, -EINVAL, rank,
					  "%s: rank %d's window does not begin at a multiple of 8",
					  call, rank);
	return 0;
}

int tutti_fetch_add(struct tutti_win *win, int rank, uint64_t value, uint64_t offset, uint64_t *old)
{
	int err = check_atomic(__func__, win, rank, offset, old);

	return err ? err : tt_win_atomic(win, rank, TT_AMO_ADD, value, 0, offset, old);
}

int tutti_compare_swap(struct tutti_win *win, int rank, uint64_t compare, uint64_t value,
		       uint64_t offset, uint64_t *old)
{
	int err = check_atomic(__func__, win, rank, offset, old);

	return err ? err : tt_win_atomic(win, rank, TT_AMO_CAS, value, compare, offset, old);
}

/* ---- the same as requests ---- */

int tt_check_request(const char *call, struct tutti_request **request)
{
	return request ? 0 : tt_fail(-EINVAL, "%s: request is NULL", call);
}

int tt_win_request(const char *call, struct tutti_win *win, int rank, tt_win_start_fn *start,
		   const void *what, struct tutti_request **request)
{
	int err = tt_check_request(call, request);

	return err ? err : tt_win_irun(win, rank, tt_short_name(call), start, what, request);
}

/* err: what the call's checks found. */
static int start(const char *call, struct tutti_win *win, const struct tt_win_access *a, int err,
		 struct tutti_request **request)
{
	if (!err)
		err = tt_check_request(call, request);
	return err ? err : tt_win_iop(win, a, tt_short_name(call), request);
}

int tutti_iput(struct tutti_win *win, int rank, const void *local, size_t len, uint64_t offset,
	       struct tutti_request **request)
{
	struct tt_win_access a = {
		.rank = rank, .local = (void *)local, .len = len, .offset = offset};

	return start(__func__, win, &a, check_write(__func__, win, rank, local, len, offset),
		     request);
}

int tutti_iput_notify(struct tutti_win *win, int rank, const void *local, size_t len,
		      uint64_t offset, struct tutti_request **request)
{
	struct tt_win_access a = {
		.rank = rank, .local = (void *)local, .len = len, .offset = offset, .note = true};

	return start(__func__, win, &a, check_write(__func__, win, rank, local, len, offset),
		     request);
}

int tutti_iput_notify_id(struct tutti_win *win, int rank, const void *local, size_t len,
			 uint64_t offset, int id, struct tutti_request **request)
{
	uint32_t token;
	struct tt_win_access a;
	int err = put_id(__func__, win, rank, local, len, offset, id, &a, &token);

	return start(__func__, win, &a, err, request);
}

int tutti_iget(struct tutti_win *win, int rank, void *local, size_t len, uint64_t offset,
	       struct tutti_request **request)
{
	struct tt_win_access a = {
		.rank = rank, .local = local, .len = len, .offset = offset, .get = true};

	return start(__func__, win, &a, check(__func__, win, rank, local, len, offset), request);
}

static int start_atomic(const char *call, struct tutti_win *win, int rank, enum tt_amo_op op,
			uint64_t value, uint64_t compare, uint64_t offset, uint64_t *old,
			struct tutti_request **request)
{
	int err = check_atomic(call, win, rank, offset, old);

	if (!err)
		err = tt_check_request(call, request);
	return err ? err
		   : tt_win_iatomic(win, rank, op, value, compare, offset, old, tt_short_name(call),
				    request);
}

int tutti_ifetch_add(struct tutti_win *win, int rank, uint64_t value, uint64_t offset,
		     uint64_t *old, struct tutti_request **request)
{
	return start_atomic(__func__, win, rank, TT_AMO_ADD, value, 0, offset, old, request);
}

int tutti_icompare_swap(struct tutti_win *win, int rank, uint64_t compare, uint64_t value,
			uint64_t offset, uint64_t *old, struct tutti_request **request)
{
	return start_atomic(__func__, win, rank, TT_AMO_CAS, value, compare, offset, old, request);
}

int tutti_win_flush(struct tutti_win *win, int rank)
{
	int err = check(__func__, win, rank, NULL, 0, 0);

	return err ? err : tt_win_wait(win, rank);
}

int tutti_win_flush_all(struct tutti_win *win)
{
	int err = check(__func__, win, 0, NULL, 0, 0);

	return err ? err : tt_win_wait(win, -1);
}

int tutti_win_iflush(struct tutti_win *win, int rank, struct tutti_request **request)
{
	int err = check(__func__, win, rank, NULL, 0, 0);

	if (!err)
		err = tt_check_request(__func__, request);
	return err ? err : tt_win_iflush(win, rank, tt_short_name(__func__), request);
}

int tutti_win_iflush_all(struct tutti_win *win, struct tutti_request **request)
{
	int err = check(__func__, win, 0, NULL, 0, 0);

	if (!err)
		err = tt_check_request(__func__, request);
	return err ? err : tt_win_iflush(win, -1, tt_short_name(__func__), request);
}

int tutti_win_set_priority(struct tutti_win *win, int priority)
{
	int err = tt_check_win(__func__, win);

	return err ? err : tt_win_set_priority(win, priority);
}
