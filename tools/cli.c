/* SPDX-License-Identifier: BSD-3-Clause */
/* Complaints about unknown options, with the nearest known one. */
#include "tools/cli.h"

#include <stdio.h>
#include <string.h>

#define MAX_WORD 48

static int min(int a, int b)
{
	return a < b ? a : b;
}

/* Levenshtein distance of a and b, both shorter than MAX_WORD. */
static int distance(const char *a, const char *b)
{
	int la = (int)strlen(a), lb = (int)strlen(b), i, j, diag, up;
	int row[MAX_WORD];

	for (j = 0; j <= lb; j++)
		row[j] = j;
	for (i = 1; i <= la; i++) {
		diag = row[0];
		row[0] = i;
		for (j = 1; j <= lb; j++) {
			up = row[j];
			row[j] = min(min(up, row[j - 1]) + 1, diag + (a[i - 1] != b[j - 1]));
			diag = up;
		}
	}
	return row[lb];
}

static const char *nearest(const char *word, const struct option *options)
{
	int best = (int)strlen(word) / 2 + 1, d;
	const char *name = NULL;

	for (; options->name; options++) {
		d = strlen(options->name) < MAX_WORD ? distance(word, options->name) : best;
		if (d < best) {
			best = d;
			name = options->name;
		}
	}
	return name;
}

void cli_bad_option(const char *prog, const struct option *options, int what, char **argv)
{
	const char *arg = argv[optind - 1], *near;
	const struct option *o;
	char word[MAX_WORD];

	if (what == ':') {
		fprintf(stderr, "%s: %s needs a value\n", prog, arg);
		return;
	}
	if (optopt && !strchr(arg, '=')) {
		fprintf(stderr, "%s: unknown option -%c; %s --help lists them\n", prog, optopt, prog);
		return;
	}
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	for (o = options; o->name; o++)
		if (!strcmp(o->name, word)) {
			fprintf(stderr, "%s: --%s takes no value\n", prog, word);
			return;
		}
	near = nearest(word, options);
	if (near)
		fprintf(stderr, "%s: unknown option --%s; did you mean --%s?\n", prog, word, near);
	else
		fprintf(stderr, "%s: unknown option --%s; %s --help lists them\n", prog, word, prog);
}
