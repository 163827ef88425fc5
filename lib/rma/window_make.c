/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates a window: each rank opens its part, then all ranks exchange keys. */
#include "lib/rma/rma.h"

#include <errno.h>
#include <string.h>

#include "lib/engine/vote.h"
#include "lib/rma/part_lock.h"

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

static int check_create(const char *call, size_t size, const void *base, unsigned flags,
			const void *out)
{
	if (!out || (size && !base))
		return tt_fail(-EINVAL, "%s: %s is NULL", call, out ? "base" : "win");
	if (flags & ~(TT_WIN_IDS | TUTTI_WIN_READ_ONLY | TUTTI_WIN_ACCUMULATE))
		return tt_fail(-EINVAL, "%s: unknown flags %#x", call, flags & ~TT_WIN_IDS);
	return 0;
}

/* The same error on all ranks. */
static int check_flags(const struct tutti_win *win, const char *call)
{
	const struct tt_win_part *part = win->part;
	const int *world = win->comm->world;
	int i;

	for (i = 1; i < win->comm->size; i++)
		if ((part[i].flags ^ part[0].flags) & TUTTI_WIN_ACCUMULATE)
			return tt_comm_blame_rank(
				win->comm, -EINVAL, i,
				"%s: rank %d passes TUTTI_WIN_ACCUMULATE and rank %d does not",
				call, world[part[0].flags & TUTTI_WIN_ACCUMULATE ? 0 : i],
				world[part[0].flags & TUTTI_WIN_ACCUMULATE ? i : 0]);
	return 0;
}

/* The arguments of a call. */
struct win_args {
	const char *call;
	void *base;
	size_t size;
	unsigned flags;
	bool owned; /* base is memory of the pool that is freed with the window */
};

/* err: why this rank cannot make a window, which then fails on all ranks, and owned memory goes. */
static int make(struct tutti_comm *comm, struct tutti_comm *coll, const struct win_args *args,
		int err, struct tutti_win **out)
{
	struct tutti_win *win = NULL;
	struct tt_win_part mine;

	if (!err)
		err = open_part(comm, args->base, args->size, args->flags, &win, &mine);
	if (win && args->owned) {
		win->owned = args->base;
		tt_win_place(win, &mine);
	} else if (args->owned && args->base) {
		tt_mem_free(tt_wire_memory(comm->ctx->wire), args->base);
	}
	if (win)
		tt_accs_name(win, coll);
	err = tt_agree(coll, args->call, err);
	if (!err) {
		err = tt_exchange(coll, &mine, win->part, sizeof(mine) / sizeof(uint64_t));
		win->abandoned = err; /* other ranks may have the window */
	}
	if (win && win->abandoned)
		tt_accs_tell_closed(win);
	if (!err)
		err = check_flags(win, args->call);
	if (err) {
		if (win)
			tt_win_close(win);
		return err;
	}
	tt_win_agree(win);
	tt_wire_lock(comm->ctx->wire);
	comm->windows++;
	if (win->accs)
		tt_accs_open(win);
	tt_wire_unlock(comm->ctx->wire);
	*out = win;
	return 0;
}

int tt_win_make(struct tutti_comm *comm, struct tutti_comm *coll, void *base, size_t size,
		unsigned flags, struct tutti_win **out)
{
	const struct win_args args = {
		.call = "tutti_win_create", .base = base, .size = size, .flags = flags};
	int err = check_create(args.call, size, base, flags, out);

	return make(comm, coll, &args, err, out);
}

int tt_win_allocate(struct tutti_comm *comm, size_t size, unsigned flags, bool shared, void **base,
		    struct tutti_win **out)
{
	const char *call = shared ? "tutti_win_allocate_shared" : "tutti_win_allocate";
	struct win_args args = {.call = call, .size = size, .flags = flags, .owned = true};
	struct tt_memory *memory = tt_wire_memory(comm->ctx->wire);
	size_t page = shared ? 4096 : 1; /* peers map whole pages */
	size_t all = size;
	struct tutti_win *win;
	int err = check_create(call, 1, base, flags, out);

	if (!err && size > SIZE_MAX - 2 * TT_PART_LINE - page)
		err = tt_fail(-ENOMEM, "%s: no memory for %zu bytes", call, size);
	if (flags & TUTTI_WIN_ACCUMULATE)
		all = tt_part_lock_at(size) + sizeof(struct tt_part_lock);
	if (!err && size)
		err = tt_mem_alloc(memory, (all + page - 1) / page * page, &args.base, NULL);
	if (args.base)
		memset(args.base, 0, all);
	err = make(comm, comm, &args, err, &win);
	if (err)
		return err;
	tt_wire_lock(comm->ctx->wire);
	tt_wire_moved_open(comm->ctx->wire, &win->moved);
	tt_wire_unlock(comm->ctx->wire);
	win->kept = true;
	err = shared ? tt_agree(comm, call, tt_win_share(win)) : 0;
	if (err) {
		tt_wire_lock(comm->ctx->wire);
		win->abandoned = atomic_load(&comm->failed) || comm->ndead;
		tt_wire_unlock(comm->ctx->wire);
		tt_win_drop(win);
		return err;
	}
	*base = args.base;
	*out = win;
	return 0;
}

void tt_win_drop(struct tutti_win *win)
{
	struct tutti_comm *comm = win->comm;

	tt_win_close(win);
	tt_wire_lock(comm->ctx->wire);
	if (!--comm->windows && comm->freed)
		comm->ctx->reap(comm->ctx);
	tt_wire_unlock(comm->ctx->wire);
}
