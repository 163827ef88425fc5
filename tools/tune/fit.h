/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of the cache that explain measured times best. */
#ifndef TUTTI_TUNE_FIT_H
#define TUTTI_TUNE_FIT_H

#include <stddef.h>

/* Times of calls on buffers of a rank of so many bytes in all, in turn. */
struct tune_cell {
	size_t bytes;
	double plain, stream; /* stored through the cache, around it */
};

/*
 * The bytes from which storing around the cache is better: with this limit the cells together lose
 * least. The assumed limit stays if no other is better by a percent a cell. n > 0.
 */
size_t tune_fit(const struct tune_cell *cells, int n, size_t assumed);

#endif
