/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Process grids: the ranks of a communicator as a grid of several axes, such as data x pipeline x
 * tensor, and communicators of the ranks along an axis or a set of axes.
 */
#ifndef TUTTI_GRID_H
#define TUTTI_GRID_H

#include <tutti/comm.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_grid;

#define TUTTI_GRID_MAX 8		/* most axes of a grid */
#define TUTTI_AXIS(axis) (1u << (axis)) /* a set of axes: the OR of these */

/**
 * tutti_grid_create - arrange the ranks of comm as a grid of ndims axes, the last one innermost.
 * Collective: all ranks pass the same values. One of dims may be 0: the ranks divided by all other
 * sizes. names: of the axes, for texts and tutti_grid_axis; NULL: "axis 0", "axis 1", ...
 *
 * Neighbours along the innermost axis are ranks of one host wherever hosts have enough ranks; ranks
 * are reordered for it. comm may be freed afterwards.
 */
int tutti_grid_create(struct tutti_comm *comm, int ndims, const int *dims, const char *const *names,
		      struct tutti_grid **grid);
/**
 * tutti_grid_free - free a grid and all its communicators, before its context ends. Local. NULL is
 * no error.
 */
int tutti_grid_free(struct tutti_grid *grid);

/** tutti_grid_axis - the number of the axis of that name, or -ENOENT. */
int tutti_grid_axis(const struct tutti_grid *grid, const char *name);
/** tutti_grid_size - the number of ranks along an axis, or a negative code. */
int tutti_grid_size(const struct tutti_grid *grid, int axis);

/**
 * tutti_grid_comm - the communicator of this rank and all ranks that differ from it in axes alone,
 * in the order of their coordinates. The grid owns it. axes: an OR of TUTTI_AXIS. All axes, and
 * each single axis: local. Other sets: the first call is collective over the grid.
 */
int tutti_grid_comm(struct tutti_grid *grid, unsigned axes, struct tutti_comm **comm);
/**
 * tutti_grid_coords - the coordinates of a rank of the communicator of all axes; rank
 * TUTTI_UNDEFINED: of this rank.
 */
int tutti_grid_coords(const struct tutti_grid *grid, int rank, int *coords);
/** tutti_grid_rank - the rank at these coordinates, in the communicator of all axes. */
int tutti_grid_rank(const struct tutti_grid *grid, const int *coords);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
