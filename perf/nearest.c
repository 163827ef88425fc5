/* SPDX-License-Identifier: BSD-3-Clause */
/* "Did you mean ...": the nearest of a list of names, by edit distance. */
#include "perf/perf.h"

#include <string.h>

#define LONGEST 32

/* Levenshtein distance; words longer than LONGEST are far from everything. */
static size_t distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b), row[LONGEST + 1], i, j, diagonal, above, best;

	if (la > LONGEST || lb > LONGEST)
		return LONGEST;
	for (j = 0; j <= lb; j++)
		row[j] = j;
	for (i = 1; i <= la; i++) {
		diagonal = row[0];
		row[0] = i;
		for (j = 1; j <= lb; j++) {
			above = row[j];
			best = diagonal + (a[i - 1] != b[j - 1]);
			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
			diagonal = above;
		}
	}
	return row[lb];
}

const char *perf_nearest(const char *word, const char *const *names)
{
	size_t best = strlen(word) / 3 + 2, d;
	const char *nearest = NULL;

	for (; *names; names++) {
		d = distance(word, *names);
		if (d < best && d < strlen(*names)) {
			best = d;
			nearest = *names;
		}
	}
	return nearest;
}
