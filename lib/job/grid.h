/* SPDX-License-Identifier: BSD-3-Clause */
/* Process grids; arguments have been checked by lib/api. */
#ifndef TT_GRID_H
#define TT_GRID_H

#include <stdint.h>
#include <tutti/grid.h>

#define TT_GRID_MAGIC 0x54754764u

struct tutti_grid {
	volatile uint32_t magic; /* also when it is freed */
	int ndims, rank;	 /* rank in the communicator of all axes */
	int dims[TUTTI_GRID_MAX];
	char names[TUTTI_GRID_MAX][TUTTI_COMM_NAME_MAX + 1];
	struct tutti_comm *comms[1 << TUTTI_GRID_MAX]; /* by set of axes; NULL: not made yet */
};

/* The set of all axes. */
static inline unsigned tt_grid_all(const struct tutti_grid *grid)
{
	return (1u << grid->ndims) - 1;
}

/* Collective. grid has its axes, with sizes that multiply to the ranks, and nothing else yet. */
int tt_grid_make(struct tutti_comm *comm, struct tutti_grid *grid);
/* Collective over the grid: the communicators of a set of axes. */
int tt_grid_split(const char *call, struct tutti_grid *grid, unsigned axes);
void tt_grid_free(struct tutti_grid *grid);

#endif
