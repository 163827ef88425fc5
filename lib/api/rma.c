/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided access: arguments and the exchange of keys; the rest is lib/rma. */
#include "lib/rma/rma.h"

#include <errno.h>
#include <string.h>

#include "lib/api/api.h"

/* Every rank fills its own place of a zeroed vector; the sum is everybody's. */
static int exchange(struct tutti_comm *comm, const struct tt_win_part *mine,
		    struct tt_win_part *parts)
{
	size_t words = sizeof(*mine) / sizeof(uint64_t) * (size_t)comm->size;

	memset(parts, 0, sizeof(*mine) * (size_t)comm->size);
	parts[comm->rank] = *mine;
	return tutti_allreduce(TUTTI_IN_PLACE, parts, words, TUTTI_UINT64, TUTTI_SUM, comm);
}

int tutti_win_create(struct tutti_comm *comm, void *base, size_t size, struct tutti_win **out)
{
	struct tt_win_part mine;
	struct tutti_win *win;
	int err;

	err = tt_check_comm(comm);
	if (!err)
		err = tt_group_refuse("tutti_win_create");
	if (err)
		return err;
	if (!out || (size && !base))
		return tt_fail(-EINVAL, "tutti_win_create: %s is NULL", out ? "base" : "win");
	err = tt_win_open(comm, base, size, &win, &mine);
	if (err)
		return err;
	err = exchange(comm, &mine, win->part);
	/* A target that makes no calls needs somebody to move its bytes where the device can't. */
	if (!err && comm->size > 1 && !tt_wire_auto_progress(comm->ctx->wire))
		err = tt_thread_start(comm->ctx);
	if (err) {
		tt_win_close(win);
		return err;
	}
	tt_wire_lock(comm->ctx->wire);
	comm->windows++;
	tt_wire_unlock(comm->ctx->wire);
	*out = win;
	return 0;
}

int tutti_win_free(struct tutti_win *win)
{
	struct tutti_comm *comm;
	int err;

	if (!win)
		return tt_fail(-EINVAL, "tutti_win_free: win is NULL");
	err = tt_group_refuse("tutti_win_free");
	if (err)
		return err;
	comm = win->comm;
	err = tt_win_wait(win, -1);
	if (!err)
		err = tutti_barrier(comm);
	tt_win_close(win);
	tt_wire_lock(comm->ctx->wire);
	comm->windows--;
	tt_wire_unlock(comm->ctx->wire);
	return err;
}

static int check(const char *call, struct tutti_win *win, int rank, const void *local, size_t len,
		 uint64_t offset)
{
	uint64_t size;

	if (!win)
		return tt_fail(-EINVAL, "%s: win is NULL", call);
	if (rank < 0 || rank >= win->comm->size)
		return tt_fail(-EINVAL, "%s: %d is not a rank of the window's communicator (0 to %d)",
			       call, rank, win->comm->size - 1);
	if (len && !local)
		return tt_fail(-EINVAL, "%s: local is NULL", call);
	size = win->part[rank].size;
	if (len > size || offset > size - len)
		return tt_fail_rank(-ERANGE, rank, NULL,
				    "%s: bytes %llu to %llu are outside rank %d's window of %llu bytes",
				    call, (unsigned long long)offset,
				    (unsigned long long)(offset + len), rank,
				    (unsigned long long)size);
	return 0;
}

int tutti_put(struct tutti_win *win, int rank, const void *local, size_t len, uint64_t offset)
{
	int err = check("tutti_put", win, rank, local, len, offset);

	return err ? err : tt_win_op(win, rank, (void *)local, len, offset, false, false);
}

int tutti_put_notify(struct tutti_win *win, int rank, const void *local, size_t len,
		     uint64_t offset)
{
	int err = check("tutti_put_notify", win, rank, local, len, offset);

	return err ? err : tt_win_op(win, rank, (void *)local, len, offset, false, true);
}

int tutti_get(struct tutti_win *win, int rank, void *local, size_t len, uint64_t offset)
{
	int err = check("tutti_get", win, rank, local, len, offset);

	return err ? err : tt_win_op(win, rank, local, len, offset, true, false);
}

static int check_atomic(const char *call, struct tutti_win *win, int rank, uint64_t offset,
			const uint64_t *old)
{
	int err = check(call, win, rank, call, sizeof(*old), offset);

	if (err)
		return err;
	if (!old)
		return tt_fail(-EINVAL, "%s: old is NULL", call);
	if (offset % sizeof(*old))
		return tt_fail(-EINVAL, "%s: offset %llu is not a multiple of 8", call,
			       (unsigned long long)offset);
	if (win->part[rank].base % sizeof(*old))
		return tt_fail_rank(-EINVAL, rank, NULL,
				    "%s: rank %d's window does not begin at a multiple of 8", call,
				    rank);
	return 0;
}

int tutti_fetch_add(struct tutti_win *win, int rank, uint64_t value, uint64_t offset, uint64_t *old)
{
	int err = check_atomic("tutti_fetch_add", win, rank, offset, old);

	return err ? err : tt_win_atomic(win, rank, TT_AMO_ADD, value, 0, offset, old);
}

int tutti_compare_swap(struct tutti_win *win, int rank, uint64_t compare, uint64_t value,
		       uint64_t offset, uint64_t *old)
{
	int err = check_atomic("tutti_compare_swap", win, rank, offset, old);

	return err ? err : tt_win_atomic(win, rank, TT_AMO_CAS, value, compare, offset, old);
}

int tutti_win_wait_notify(struct tutti_win *win, int rank, uint64_t count)
{
	int err = check("tutti_win_wait_notify", win, rank, NULL, 0, 0);

	return err ? err : tt_win_wait_bell(win, rank, count);
}

int tutti_win_flush(struct tutti_win *win, int rank)
{
	int err = check("tutti_win_flush", win, rank, NULL, 0, 0);

	return err ? err : tt_win_wait(win, rank);
}

int tutti_win_flush_all(struct tutti_win *win)
{
	int err = check("tutti_win_flush_all", win, 0, NULL, 0, 0);

	return err ? err : tt_win_wait(win, -1);
}
