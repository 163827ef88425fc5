/* SPDX-License-Identifier: BSD-3-Clause */
/* "Did you mean ...": the nearest of a list of names, by edit distance. */
#include "lib/base/distance.h"
#include "perf/perf.h"

#include <string.h>

const char *perf_nearest(const char *word, const char *const *names)
{
	int best = (int)strlen(word) / 3 + 2, d;
	const char *nearest = NULL;

	for (; *names; names++) {
		d = tt_distance(word, *names);
		if (d < best && d < (int)strlen(*names)) {
			best = d;
			nearest = *names;
		}
	}
	return nearest;
}
