/* SPDX-License-Identifier: BSD-3-Clause */
/* Complaints about unknown options, with the nearest known one. */
#include "tools/cli.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/distance.h"

#define MAX_WORD (TT_WORD_MAX + 1)

static const char *nearest(const char *word, const struct option *options)
{
	int best = (int)strlen(word) / 2 + 1, d;
	const char *name = NULL;

	for (; options->name; options++) {
		d = tt_distance(word, options->name);
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
