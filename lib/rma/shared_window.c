/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared windows: each rank maps the pool memory of the other ranks' parts, which is a part of a
 * memfd of its owner. The mappings stay until the window is freed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/engine/vote.h"
#include "lib/rma/rma.h"
#include "lib/shm/segment.h"

struct tt_win_map {
	struct tt_shm_map part;
	char *base; /* of the part */
};

/* Where a rank's part is: told to the ranks of its host, in whole 64-bit words. */
struct place {
	uint64_t pid;
	struct tt_shm_place at;
};

static int find_place(const struct tutti_win *win, struct place *place)
{
	struct tt_region *region =
		tt_mem_find(tt_wire_memory(win->comm->ctx->wire), win->owned, win->size);
	unsigned access = win->part[win->comm->rank].flags & TUTTI_WIN_READ_ONLY
				  ? TT_ACCESS_READ
				  : TT_ACCESS_READ | TT_ACCESS_WRITE;
	struct tt_mem part;

	memset(place, 0, sizeof(*place));
	if (!win->size)
		return 0;
	if (!region || region->mem.memfd < 0)
		return tt_fail(-EOPNOTSUPP,
			       "the pool's memory cannot be mapped by other processes");
	part = region->mem;
	part.memfd_off += (uint64_t)((char *)win->owned - (char *)part.addr);
	part.len = win->size;
	place->pid = (uint64_t)getpid();
	return tt_shm_place(&part, access, &place->at);
}

static int map_part(struct tutti_win *win, int rank, const struct place *place)
{
	int world = win->comm->world[rank];
	struct tt_win_map *map = &win->maps[rank];
	int err = tt_shm_map((pid_t)place->pid, &place->at, &map->part);

	map->base = map->part.ptr;
	if (!err)
		return 0;
	err = tt_shm_refusal((pid_t)place->pid, err, "pool memory");
	if (err == -EPERM)
		return err;
	if (err == -ENOENT || err == -ESRCH)
		return tt_comm_blame_rank(win->comm, -TUTTI_EPEER, rank,
					  "rank %d has ended, or is in another process "
					  "namespace: its memory cannot be mapped",
					  world);
	return tt_comm_blame_rank(
		win->comm, err, rank,
		"%zu bytes of rank %d's memory cannot be mapped through /proc/%d/fd: "
		"%s; run the ranks as one user in one process namespace",
		(size_t)place->at.len, world, (int)place->pid, strerror(-err));
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

int tt_win_share(struct tutti_win *win)
{
	size_t n = (size_t)win->comm->size, words = sizeof(struct place) / sizeof(uint64_t);
	struct place mine, *all = calloc(n, sizeof(*all));
	int err, i;

	win->maps = calloc(n, sizeof(*win->maps));
	err = all && win->maps ? check_host(win) : tt_fail(-ENOMEM, "no memory for a window");
	if (!err)
		err = find_place(win, &mine);
	/* nobody may skip the exchange alone */
	err = tt_agree(win->comm, "tutti_win_allocate_shared", err);
	if (!err)
		err = tt_exchange(win->comm, &mine, all, words);
	for (i = 0; !err && i < win->comm->size; i++) {
		if (i == win->comm->rank)
			win->maps[i].base = win->base;
		else if (win->part[i].size)
			err = map_part(win, i, &all[i]);
	}
	free(all);
	return err;
}

void tt_win_unshare(struct tutti_win *win)
{
	int i;

	for (i = 0; win->maps && i < win->comm->size; i++)
		if (win->maps[i].part.addr)
			munmap(win->maps[i].part.addr, win->maps[i].part.len);
	free(win->maps);
	win->maps = NULL;
}

void *tt_win_shared_base(const struct tutti_win *win, int rank)
{
	return win->maps[rank].base;
}
