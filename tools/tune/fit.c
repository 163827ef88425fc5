/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the limit from which stores around the cache are faster; see fit.h. */
#include "tools/tune/fit.h"

#include <math.h>

#define WORTH 0.01 /* a cell: less is noise */
#define BEYOND 1.2 /* times the last cell's bytes: none of them */

/* The logarithms of how many times as long as with the better way, added up. */
static double loss(const struct tune_cell *cells, int n, size_t limit)
{
	const struct tune_cell *c;
	double sum = 0;

	for (c = cells; c < cells + n; c++)
		sum += log((c->bytes >= limit ? c->stream : c->plain) / fmin(c->plain, c->stream));
	return sum;
}

/* Halfway between a cell's bytes and the next fewer; or a bit fewer. */
static size_t limit_at(const struct tune_cell *cells, int n, size_t bytes)
{
	size_t fewer = 0;
	int i;

	for (i = 0; i < n; i++)
		if (cells[i].bytes < bytes && cells[i].bytes > fewer)
			fewer = cells[i].bytes;
	return fewer ? (size_t)sqrt((double)fewer * (double)bytes)
		     : (size_t)((double)bytes / BEYOND);
}

size_t tune_fit(const struct tune_cell *cells, int n, size_t assumed)
{
	size_t best = assumed, limit, most = 0;
	double least = loss(cells, n, assumed) - WORTH * n, l;
	int i;

	for (i = 0; i < n; i++)
		most = cells[i].bytes > most ? cells[i].bytes : most;
	for (i = 0; i <= n; i++) {
		limit = i < n ? limit_at(cells, n, cells[i].bytes)
			      : (size_t)((double)most * BEYOND);
		l = loss(cells, n, limit);
		if (l < least) {
			least = l;
			best = limit;
		}
	}
	return best;
}
