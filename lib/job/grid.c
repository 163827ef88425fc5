/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Process grids, composed of public collectives. After each of them the ranks agree that none lacks
 * memory: a rank whose communicators are there would wait for it in the next one.
 *
 * The ranks of a grid are numbered row by row: the last axis is innermost, so a row is a run of
 * consecutive numbers. A row of t ranks lies within a host if the order of numbers lists hosts one
 * after the other and each has a multiple of t ranks. A host with n ranks can hold n/t rows at
 * most (rounded down). The order is comm's if it reaches that number on all hosts; else whole rows
 * come first, host by host, then the ranks that are left, in the same order.
 */
#include "lib/job/grid.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/coll.h>
#include <tutti/extend.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/engine/vote.h"

static const char create[] = "tutti_grid_create";

/* The message of a rank to all others. */
struct told {
	uint64_t axes; /* a hash of the grid's axes */
	int64_t host;  /* the lowest rank of its host */
};

static uint64_t hash_axes(const struct tutti_grid *grid)
{
	uint64_t h = (uint64_t)grid->ndims;
	const char *c;
	int i;

	for (i = 0; i < grid->ndims; i++) {
		h = tt_hash_add(h, (uint64_t)grid->dims[i]);
		for (c = grid->names[i]; *c; c++)
			h = tt_hash_add(h, (unsigned char)*c);
		h = tt_hash_add(h, 0);
	}
	return h;
}

/* Whether all ranks of comm have made their part of a new communicator; err: of this rank. */
static int agree(const char *call, struct tutti_comm *comm, const struct tutti_comm *made, int err)
{
	tt_wire_lock(comm->ctx->wire);
	if (!err && atomic_load(&made->failed))
		err = tt_comm_failure(made, call, 0, "", 0);
	tt_wire_unlock(comm->ctx->wire);
	return tt_agree(comm, call, err);
}

static int exchange(struct tutti_comm *comm, const struct tutti_grid *grid, struct told *told)
{
	struct told mine = {.axes = hash_axes(grid), .host = tutti_comm_rank(comm)};
	struct tutti_comm *host = NULL;
	int err = tutti_comm_split_host(comm, 0, &host), made = !err;

	if (made)
		err = tt_tell_unable(host, create,
				     tutti_bcast(&mine.host, 1, TUTTI_INT64, 0, host));
	err = agree(create, comm, host, err);
	if (made)
		tutti_comm_free(host);
	if (err)
		return err;
	err = tutti_allgather(&mine, told, sizeof(mine) / sizeof(uint64_t), TUTTI_INT64, comm);
	return tt_tell_unable(comm, create, err);
}

static int compare(const struct told *told, int n)
{
	int r;

	for (r = 1; r < n; r++)
		if (told[r].axes != told[0].axes)
			return tt_fail(-TUTTI_EMISMATCH,
				       "tutti_grid_create: rank %d passed other dims or names than "
				       "rank 0",
				       r);
	return 0;
}

/* Whether comm's own order puts as many rows of len ranks within hosts as there can be. */
static bool fits(const struct told *told, int n, int len, int *ranks_of)
{
	int r, i, rows = 0, most = 0;

	memset(ranks_of, 0, (size_t)n * sizeof(*ranks_of));
	for (r = 0; r < n; r++)
		ranks_of[told[r].host]++;
	for (r = 0; r < n; r++)
		most += ranks_of[r] / len;
	for (r = 0; r < n; r += len) {
		for (i = 1; i < len && told[r + i].host == told[r].host; i++)
			;
		rows += i == len;
	}
	return rows == most;
}

/* The number of this rank in the grid. ranks_of: by host, its ranks. */
static int place(const struct told *told, int n, int len, const int *ranks_of, int rank)
{
	int host = (int)told[rank].host, nth = 0, before = 0, rest = 0, all = 0, h, r, whole;

	for (r = 0; r < rank; r++)
		nth += told[r].host == host;
	for (h = 0; h < n; h++) {
		whole = ranks_of[h] / len * len;
		all += whole;
		before += h < host ? whole : 0;
		rest += h < host ? ranks_of[h] - whole : 0;
	}
	whole = ranks_of[host] / len * len;
	return nth < whole ? before + nth : all + rest + nth - whole;
}

int tt_grid_split(const char *call, struct tutti_grid *grid, unsigned axes)
{
	struct tutti_comm *whole = grid->comms[tt_grid_all(grid)], *made = NULL;
	int coords[TUTTI_GRID_MAX], color = 0, key = 0, i, err, bad;
	char name[TUTTI_COMM_NAME_MAX + 1] = "";
	size_t len = 0;

	tutti_grid_coords(grid, TUTTI_UNDEFINED, coords);
	for (i = 0; i < grid->ndims; i++) {
		int *to = axes & TUTTI_AXIS(i) ? &key : &color;

		*to = *to * grid->dims[i] + coords[i];
		if (axes & TUTTI_AXIS(i) && len < sizeof(name))
			len += (size_t)snprintf(name + len, sizeof(name) - len, "%s%s",
						len ? " x " : "", grid->names[i]);
	}
	err = tutti_comm_split(whole, color, key, &made);
	bad = agree(call, whole, made, err);
	if (bad && !err)
		tutti_comm_free(made);
	if (bad)
		return bad;
	made->in_grid = true;
	grid->comms[axes] = made;
	return tutti_comm_set_name(made, name);
}

static int split_axes(struct tutti_grid *grid)
{
	unsigned all = tt_grid_all(grid);
	int i, err = tutti_comm_set_name(grid->comms[all], "grid");

	grid->comms[all]->in_grid = true;
	if (!err)
		err = tutti_comm_set_owner(grid->comms[all], "a grid", "tutti_grid_free");
	for (i = 0; i < grid->ndims && !err; i++)
		if (TUTTI_AXIS(i) != all)
			err = tt_grid_split(create, grid, TUTTI_AXIS(i));
	return err;
}

int tt_grid_make(struct tutti_comm *comm, struct tutti_grid *grid)
{
	int n = tutti_comm_size(comm), rank = tutti_comm_rank(comm);
	int len = grid->dims[grid->ndims - 1], err;
	struct told *told = calloc((size_t)n, sizeof(*told));
	int *ranks_of = calloc((size_t)n, sizeof(*ranks_of));

	err = tt_agree(
		comm, create,
		told && ranks_of ? 0 : tt_fail(-ENOMEM, "%s: no memory for %d ranks", create, n));
	if (!err)
		err = exchange(comm, grid, told);
	if (!err)
		err = compare(told, n);
	if (!err) {
		grid->rank =
			fits(told, n, len, ranks_of) ? rank : place(told, n, len, ranks_of, rank);
		err = tutti_comm_split(comm, 0, grid->rank, &grid->comms[tt_grid_all(grid)]);
		err = agree(create, comm, grid->comms[tt_grid_all(grid)], err);
	}
	free(ranks_of);
	free(told);
	return err ? err : split_axes(grid);
}

void tt_grid_free(struct tutti_grid *grid)
{
	unsigned set;

	for (set = 0; set <= tt_grid_all(grid); set++)
		if (grid->comms[set]) {
			grid->comms[set]->in_grid = false;
			tutti_comm_free(grid->comms[set]);
		}
	grid->magic = 0;
	free(grid);
}
