/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows in memory of the pool, which is a part of a memfd of its owner: ranks of its host map it.
 * Of a shared window each rank maps all parts when it is made; of other windows that the library
 * allocated, a part when it is first accessed over shared memory. The mappings stay until the
 * window is freed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/engine/vote.h"
#include "lib/rma/win_accumulate.h"
#include "lib/shm/segment.h"

_Atomic uint32_t tt_win_unseen;

/*
 * Tells the other ranks where the pool memory of this rank's part is; nowhere if it has none. The
 * lock of accumulates follows the part.
 */
void tt_win_place(struct tutti_win *win, struct tt_win_part *mine)
{
	unsigned access = win->flags & TUTTI_WIN_READ_ONLY ? TT_ACCESS_READ
							   : TT_ACCESS_READ | TT_ACCESS_WRITE;
	struct tt_mem mem;

	if (!win->region || win->region->mem.memfd < 0)
		return;
	mem = win->region->mem;
	mem.memfd_off += (uint64_t)(win->base - (char *)mem.addr);
	mem.len = win->size;
	if (win->accs)
		mem.len = tt_part_lock_at(win->size) + sizeof(struct tt_part_lock);
	if (tt_shm_place(&mem, access, &mine->place))
		return;
	mine->pid = (uint64_t)getpid();
	if (win->accs)
		tt_accs_place(win->accs);
}

static int map_part(struct tutti_win *win, int rank)
{
	const struct tt_win_part *part = &win->part[rank];
	struct tt_shm_map *map = &win->maps[rank].part;

	if (rank == win->comm->rank) {
		map->ptr = win->base;
		return 0;
	}
	return part->pid ? tt_shm_map((pid_t)part->pid, &part->place, map) : -EOPNOTSUPP;
}

static const char *advice(int err)
{
	switch (-err) {
	case EMFILE:
		return "raise the limit of descriptors (ulimit -n)";
	case ENFILE:
		return "the host has no descriptors left (fs.file-max)";
	case ENOMEM:
		return "the process has no memory, address space (ulimit -v) or mappings "
		       "(vm.max_map_count) left";
	default:
		return "run the ranks as one user in one process namespace";
	}
}

static int share_part(struct tutti_win *win, int rank)
{
	const struct tt_win_part *part = &win->part[rank];
	int world = win->comm->world[rank];
	int err = part->size ? map_part(win, rank) : 0;

	if (!err)
		return 0;
	err = tt_shm_refusal((pid_t)part->pid, err, "pool memory");
	if (err == -EPERM)
		return tt_comm_blame_rank(win->comm, err, rank, "rank %d: %s", world,
					  tt_fail_text(err));
	if (err == -ENOENT || err == -ESRCH)
		return tt_comm_blame_rank(win->comm, -TUTTI_EPEER, rank,
					  "rank %d has ended, or is in another process "
					  "namespace: its memory cannot be mapped",
					  world);
	return tt_comm_blame_rank(
		win->comm, err, rank,
		"%zu bytes of rank %d's memory cannot be mapped through /proc/%d/fd: "
		"%s; %s",
		(size_t)part->size, world, (int)part->pid, strerror(-err), advice(err));
}

static int check_host(const struct tutti_win *win)
{
	const struct tutti_comm *comm = win->comm;
	char why[160];
	int i;

	for (i = 0; i < comm->size; i++)
		if (i != comm->rank &&
		    !tt_wire_same_host(comm->ctx->wire, comm->world[i], why, sizeof(why)))
			return tt_comm_blame_rank(
				comm, -EINVAL, i,
				"rank %d is not on the host of rank %d: %s; use a "
				"communicator of tutti_comm_split_host",
				comm->world[i], comm->world[comm->rank], why);
	return 0;
}

static int check_mine(const struct tutti_win *win)
{
	if (!win->size || win->part[win->comm->rank].pid)
		return 0;
	return tt_fail(-EOPNOTSUPP, "the pool's memory cannot be mapped by other processes");
}

int tt_win_share(struct tutti_win *win)
{
	int err = check_host(win), i;

	if (!err)
		err = check_mine(win);
	/* a rank that cannot take part says so before the others map its part */
	err = tt_agree(win->comm, "tutti_win_allocate_shared", err);
	for (i = 0; !err && i < win->comm->size; i++)
		err = share_part(win, i);
	win->shared = !err;
	return err;
}

/*
 * A window has a mark of its own, as one thread at a time uses it: two that share one would hide
 * each other. The first mark, which is in use from the start, is that of what is done under the
 * lock, in any thread. NULL: all are in use.
 */
static _Atomic uint32_t *own_mark(struct tutti_win *win, _Atomic uint32_t *marks)
{
	uint64_t *used = win->comm->ctx->win_marks;
	int i = 0;

	if (!marks)
		return &tt_win_unseen;
	if (win->mark)
		return &marks[win->mark - 1];
	while (i < TT_TP_COPYING / 64 && !~used[i])
		i++;
	if (i == TT_TP_COPYING / 64)
		return NULL;
	win->mark = 64 * i + __builtin_ctzll(~used[i]) + 1;
	used[i] |= ~used[i] & (used[i] + 1);
	return &marks[win->mark - 1];
}

void tt_win_unmark(struct tutti_win *win)
{
	int i = win->mark - 1;

	if (win->mark)
		win->comm->ctx->win_marks[i / 64] &= ~(1ull << i % 64);
	win->mark = 0;
}

/* Whether the part is reached over shared memory. */
static bool is_near(const struct tutti_win *win, int rank)
{
	const struct tt_way *way = tt_wire_open_way(win->comm->ctx->wire, win->comm->world[rank]);

	return !win->maps[rank].refused && win->part[rank].size && way && way->at_once;
}

bool tt_win_map(struct tutti_win *win, int rank)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct tt_win_map *map = &win->maps[rank];

	if (!is_near(win, rank))
		return false;
	map->open = tt_wire_open_word(ctx->wire, win->comm->world[rank]);
	map->mark = own_mark(win, map->open.copying);
	map->refused = !map->mark || (!map->part.ptr && map_part(win, rank));
	map->reached = !map->refused;
	return map->reached;
}

/* In any thread, while another one may put there: it leaves alone what a put reads. */
bool tt_win_map_locked(struct tutti_win *win, int rank, struct tt_acc_peer *peer)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct tt_win_map *map = &win->maps[rank];

	if (!is_near(win, rank))
		return false;
	peer->open = tt_wire_open_word(ctx->wire, win->comm->world[rank]);
	peer->mark = own_mark(win, peer->open.copying);
	peer->held_mark = peer->open.copying ? &peer->open.copying[TT_HELD_MARK - 1] : peer->mark;
	map->refused = !peer->mark || (!map->part.ptr && map_part(win, rank));
	if (map->refused)
		return false;
	peer->read_only = win->part[rank].flags & TUTTI_WIN_READ_ONLY;
	peer->base = map->part.ptr;
	peer->lock = (struct tt_part_lock *)(peer->base + tt_part_lock_at(win->part[rank].size));
	return true;
}

void tt_win_unmap(struct tutti_win *win)
{
	int i;

	for (i = 0; win->maps && i < win->comm->size; i++)
		if (win->maps[i].part.addr)
			munmap(win->maps[i].part.addr, win->maps[i].part.len);
	free(win->maps);
	win->maps = NULL;
}
