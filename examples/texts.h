/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts with a label of 0 or 1, in the ARFF files of the Reuters collection. */
#ifndef TEXTS_H
#define TEXTS_H

#include <stddef.h>
#include <stdint.h>

/* A text: the keys of its words, each once. */
struct text {
	uint64_t *key;
	int keys, label;
};

struct texts {
	struct text *text;
	int n;
};

/* Adds the texts of a file. 0, or -1 after printing the error. */
int texts_load(const char *path, struct texts *texts);
void texts_free(struct texts *texts);

/* For qsort and bsearch of keys. */
int texts_by_key(const void *a, const void *b);
/* Sorts keys and keeps each once; returns how many are left. */
size_t texts_unique(uint64_t *key, size_t n);

#endif
