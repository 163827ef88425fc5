/* SPDX-License-Identifier: BSD-3-Clause */
/* Process grids: checks of arguments, and queries. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/api.h"
#include "lib/engine/vote.h"
#include "lib/job/grid.h"

static int check_grid(const char *call, const struct tutti_grid *grid)
{
	if (grid && grid->magic == TT_GRID_MAGIC)
		return 0;
	return tt_fail(-EINVAL, "%s: %s", call, grid ? "not a grid" : "the grid is NULL");
}

static int check_axis(const char *call, const struct tutti_grid *grid, int axis)
{
	if (axis >= 0 && axis < grid->ndims)
		return 0;
	return tt_fail(-EINVAL, "%s: %d is not an axis of the grid (0 to %d)", call, axis,
		       grid->ndims - 1);
}

static bool printable(const char *name)
{
	size_t i;

	for (i = 0; name[i] >= ' ' && name[i] <= '~' && i <= TUTTI_COMM_NAME_MAX; i++)
		;
	return i && i <= TUTTI_COMM_NAME_MAX && !name[i];
}

static int set_names(struct tutti_grid *grid, const char *const *names)
{
	static const char call[] = "tutti_grid_create";
	int i, j;

	for (i = 0; i < grid->ndims; i++) {
		if (!names)
			snprintf(grid->names[i], sizeof(grid->names[i]), "axis %d", i);
		else if (names[i] && printable(names[i]))
			strcpy(grid->names[i], names[i]);
		else
			return tt_fail(-EINVAL,
				       "%s: the name of axis %d must have 1 to %d printable ASCII "
				       "characters",
				       call, i, TUTTI_COMM_NAME_MAX);
		for (j = 0; j < i; j++)
			if (!strcmp(grid->names[i], grid->names[j]))
				return tt_fail(-EINVAL, "%s: axes %d and %d have the same name, %s",
					       call, j, i, grid->names[i]);
	}
	return 0;
}

/* "data 2 x pipeline 3" */
static const char *sizes_text(const struct tutti_grid *grid, char *text, size_t size)
{
	size_t len = 0;
	int i;

	for (i = 0; i < grid->ndims && len < size; i++)
		len += (size_t)snprintf(text + len, size - len, "%s%s %d", i ? " x " : "",
					grid->names[i], grid->dims[i]);
	return text;
}

/* Sets the size that is 0. */
static int set_rest(struct tutti_grid *grid, int ranks)
{
	static const char call[] = "tutti_grid_create";
	int i, rest = -1;
	int64_t product = 1;
	char text[256];

	for (i = 0; i < grid->ndims; i++) {
		if (grid->dims[i] < 0 || (!grid->dims[i] && rest >= 0))
			return tt_fail(-EINVAL, "%s: %s: sizes are 1 or more, and one may be 0",
				       call, sizes_text(grid, text, sizeof(text)));
		if (!grid->dims[i])
			rest = i;
		else if (product <= INT_MAX)
			product *= grid->dims[i];
	}
	if (rest >= 0 && product <= ranks && ranks % product == 0)
		grid->dims[rest] = ranks / (int)product;
	else if (rest >= 0)
		return tt_fail(-EINVAL,
			       "%s: %s: the communicator's %d ranks are no multiple of %lld; "
			       "change a size",
			       call, sizes_text(grid, text, sizeof(text)), ranks,
			       (long long)product);
	else if (product != ranks)
		return tt_fail(-EINVAL,
			       "%s: %s is %s%lld ranks, but the communicator has %d; change a "
			       "size, or set one to 0",
			       call, sizes_text(grid, text, sizeof(text)),
			       product > INT_MAX ? "at least " : "", (long long)product, ranks);
	return 0;
}

/* This rank's arguments, made into a grid without communicators. */
static int read_grid(const struct tutti_comm *comm, int ndims, const int *dims,
		     const char *const *names, struct tutti_grid **out)
{
	static const char call[] = "tutti_grid_create";
	struct tutti_grid *grid;
	int err;

	if (ndims < 1 || ndims > TUTTI_GRID_MAX)
		return tt_fail(-EINVAL, "%s: ndims is %d; it must be 1 to %d", call, ndims,
			       TUTTI_GRID_MAX);
	if (!dims)
		return tt_fail(-EINVAL, "%s: dims is NULL", call);
	grid = calloc(1, sizeof(*grid));
	if (!grid)
		return tt_fail(-ENOMEM, "%s: no memory for a grid", call);
	grid->magic = TT_GRID_MAGIC;
	grid->ndims = ndims;
	memcpy(grid->dims, dims, (size_t)ndims * sizeof(*dims));
	err = set_names(grid, names);
	if (!err)
		err = set_rest(grid, comm->size);
	if (err)
		tt_grid_free(grid);
	else
		*out = grid;
	return err;
}

int tutti_grid_create(struct tutti_comm *comm, int ndims, const int *dims, const char *const *names,
		      struct tutti_grid **out)
{
	struct tutti_grid *grid = NULL;
	int err = tt_check_waiting(__func__, comm), mine;

	if (err)
		return err;
	mine = out ? read_grid(comm, ndims, dims, names, &grid)
		   : tt_fail(-EINVAL, "%s: grid is NULL", __func__);
	err = tt_agree(comm, __func__, mine);
	if (!err)
		err = tt_grid_make(comm, grid);
	if (!err)
		*out = grid;
	else if (!mine)
		tt_grid_free(grid);
	return err;
}

int tutti_grid_free(struct tutti_grid *grid)
{
	int err = grid ? check_grid(__func__, grid) : 0;

	if (grid && !err)
		tt_grid_free(grid);
	return err;
}

int tutti_grid_axis(const struct tutti_grid *grid, const char *name)
{
	int i, err = check_grid(__func__, grid);

	if (err)
		return err;
	if (!name)
		return tt_fail(-EINVAL, "%s: name is NULL", __func__);
	for (i = 0; i < grid->ndims; i++)
		if (!strcmp(grid->names[i], name))
			return i;
	return tt_fail(-ENOENT, "%s: the grid has no axis %s", __func__, name);
}

int tutti_grid_size(const struct tutti_grid *grid, int axis)
{
	int err = check_grid(__func__, grid);

	if (!err)
		err = check_axis(__func__, grid, axis);
	return err ? err : grid->dims[axis];
}

int tutti_grid_comm(struct tutti_grid *grid, unsigned axes, struct tutti_comm **comm)
{
	int err = check_grid(__func__, grid);

	if (!err)
		err = tt_group_refuse(__func__);
	if (err)
		return err;
	if (!comm)
		return tt_fail(-EINVAL, "%s: comm is NULL", __func__);
	if (axes & ~tt_grid_all(grid))
		return tt_fail(-EINVAL, "%s: axes is 0x%x; the grid has %d axes", __func__, axes,
			       grid->ndims);
	if (!grid->comms[axes])
		err = tt_grid_split(__func__, grid, axes);
	if (!err)
		*comm = grid->comms[axes];
	return err;
}

int tutti_grid_coords(const struct tutti_grid *grid, int rank, int *coords)
{
	int i, n = 1, err = check_grid(__func__, grid);

	if (err)
		return err;
	if (!coords)
		return tt_fail(-EINVAL, "%s: coords is NULL", __func__);
	for (i = 0; i < grid->ndims; i++)
		n *= grid->dims[i];
	if (rank == TUTTI_UNDEFINED)
		rank = grid->rank;
	if (rank < 0 || rank >= n)
		return tt_fail(-EINVAL, "%s: %d is not a rank of the grid (0 to %d)", __func__,
			       rank, n - 1);
	for (i = grid->ndims - 1; i >= 0; i--) {
		coords[i] = rank % grid->dims[i];
		rank /= grid->dims[i];
	}
	return 0;
}

int tutti_grid_rank(const struct tutti_grid *grid, const int *coords)
{
	int i, rank = 0, err = check_grid(__func__, grid);

	if (err)
		return err;
	if (!coords)
		return tt_fail(-EINVAL, "%s: coords is NULL", __func__);
	for (i = 0; i < grid->ndims; i++) {
		if (coords[i] < 0 || coords[i] >= grid->dims[i])
			return tt_fail(-EINVAL, "%s: coordinate %d of axis %s is not 0 to %d",
				       __func__, coords[i], grid->names[i], grid->dims[i] - 1);
		rank = rank * grid->dims[i] + coords[i];
	}
	return rank;
}
