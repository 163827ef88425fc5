/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates a window: each rank opens its part, then all ranks exchange keys. */
#include "lib/rma/rma.h"

#include <errno.h>

#include "lib/engine/vote.h"

/* Opens this rank's part, and starts the thread that serves it while this rank makes no calls. */
static int open_part(struct tutti_comm *comm, void *base, size_t size, unsigned flags,
		     struct tutti_win **win, struct tt_win_part *mine)
{
	int err;

	tt_wire_open_rest(comm->ctx->wire, comm->world, comm->size);
	err = tt_win_open(comm, base, size, flags, win, mine);
	if (err || comm->size == 1)
		return err;
	err = tt_wire_auto_progress(comm->ctx->wire) ? tt_standby_start(comm->ctx)
						     : tt_thread_start(comm->ctx);
	if (err) {
		tt_win_close(*win);
		*win = NULL;
	}
	return err;
}

static int check_create(void *base, size_t size, unsigned flags, struct tutti_win **out)
{
	if (!out || (size && !base))
		return tt_fail(-EINVAL, "tutti_win_create: %s is NULL", out ? "base" : "win");
	if (flags & ~(TT_WIN_IDS | TUTTI_WIN_READ_ONLY))
		return tt_fail(-EINVAL, "tutti_win_create: unknown flags %#x", flags & ~TT_WIN_IDS);
	return 0;
}

int tt_win_make(struct tutti_comm *comm, struct tutti_comm *coll, void *base, size_t size,
		unsigned flags, struct tutti_win **out)
{
	struct tutti_win *win = NULL;
	struct tt_win_part mine;
	int err;

	err = check_create(base, size, flags, out);
	if (!err)
		err = open_part(comm, base, size, flags, &win, &mine);
	err = tt_agree(coll, "tutti_win_create", err);
	if (!err)
		err = tt_exchange(coll, &mine, win->part, sizeof(mine) / sizeof(uint64_t));
	if (err) {
		if (win)
			tt_win_close(win);
		return err;
	}
	tt_win_agree(win);
	tt_wire_lock(comm->ctx->wire);
	comm->windows++;
	tt_wire_unlock(comm->ctx->wire);
	*out = win;
	return 0;
}

void tt_win_drop(struct tutti_win *win)
{
	struct tutti_comm *comm = win->comm;

	tt_win_close(win);
	tt_wire_lock(comm->ctx->wire);
	comm->windows--;
	tt_wire_unlock(comm->ctx->wire);
}
