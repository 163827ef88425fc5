/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Levenshtein distance of two words, for "did you mean ...?". Case does not count. Header only, so
 * that tools can use it without the library.
 */
#ifndef TT_DISTANCE_H
#define TT_DISTANCE_H

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define TT_WORD_MAX 63

static inline bool tt_same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Longer words are far from everything. */
static inline int tt_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b), i, j;
	int row[TT_WORD_MAX + 1], diagonal, above, best;

	if (la > TT_WORD_MAX || lb > TT_WORD_MAX)
		return TT_WORD_MAX;
	for (j = 0; j <= lb; j++)
		row[j] = (int)j;
	for (i = 1; i <= la; i++) {
		diagonal = row[0];
		row[0] = (int)i;
		for (j = 1; j <= lb; j++) {
			above = row[j];
			best = diagonal + !tt_same_letter(a[i - 1], b[j - 1]);
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

#endif
