/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads texts and hashes their words. */
#define _POSIX_C_SOURCE 200809L
#include "examples/texts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int texts_by_key(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

size_t texts_unique(uint64_t *key, size_t n)
{
	size_t i, kept = 0;

	qsort(key, n, sizeof(*key), texts_by_key);
	for (i = 0; i < n; i++)
		if (!i || key[i] != key[i - 1])
			key[kept++] = key[i];
	return kept;
}

/* FNV-1a: the same on all machines. The hash of the empty word stands for the bias. */
static uint64_t hash(const char *word, size_t len)
{
	uint64_t h = 14695981039346656037u;

	while (len--)
		h = (h ^ (unsigned char)tolower((unsigned char)*word++)) * 1099511628211u;
	return h;
}

/* A line of the data: 'text',label with \' and \n in the text. */
static int parse(const char *line, struct text *t)
{
	size_t len = strlen(line), words = 1, start;
	const char *end = strrchr(line, ','), *p = line;

	if (line[0] != '\'' || !end || end < line + 2 || (end[1] != '0' && end[1] != '1'))
		return -1;
	t->label = end[1] == '1';
	t->key = malloc((len / 2 + 2) * sizeof(*t->key));
	if (!t->key)
		return -1;
	t->key[0] = hash("", 0);
	while (p < end) {
		if (*p == '\\') /* including escapes */
			p += 2;
		for (start = 0; p + start < end && isalpha((unsigned char)p[start]); start++)
			;
		if (start > 1)
			t->key[words++] = hash(p, start);
		p += start ? start : p < end && *p != '\\';
	}
	t->keys = (int)texts_unique(t->key, words);
	return 0;
}

int texts_load(const char *path, struct texts *texts)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;
	int data = 0, err = 0;

	if (!f)
		return perror(path), -1;
	while (!err && getline(&line, &room, f) >= 0) {
		struct text *more;

		if (!data || line[0] != '\'') {
			data = data || !strncasecmp(line, "@data", 5);
			continue;
		}
		more = realloc(texts->text, (size_t)(texts->n + 1) * sizeof(*more));
		if (more)
			texts->text = more;
		err = !more || parse(line, &texts->text[texts->n]);
		texts->n += !err;
	}
	free(line);
	fclose(f);
	if (!err && texts->n)
		return 0;
	fprintf(stderr, "logreg: %s: text %d is not a quoted string and a 0 or 1\n", path,
		texts->n + 1);
	return -1;
}

void texts_free(struct texts *texts)
{
	int i;

	for (i = 0; i < texts->n; i++)
		free(texts->text[i].key);
	free(texts->text);
}
