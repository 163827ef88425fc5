/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses options; an unknown option is reported with the nearest known one. Reports output that
 * could not be written.
 */
#include "tools/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <tutti/error.h>

#include "lib/base/distance.h"

#define MAX_WORD (TT_WORD_MAX + 3) /* with the dashes */

void cli_complain(const char *prog, const char *fmt, va_list ap)
{
	char text[2048];

	vsnprintf(text, sizeof(text), fmt, ap);
	fprintf(stderr, "%s: %s\n", prog, text);
}

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

static int unknown_option(const struct cli *cli, const char *word)
{
	fprintf(stderr, "%s: unknown option %s; %s%s%s --help lists them\n", cli->prog, word,
		cli->prog, cli->command ? " " : "", cli->command ? cli->command : "");
	return -1;
}

const struct option *cli_given_value(const struct option *o)
{
	for (; o->name; o++)
		if (o->has_arg == no_argument && o->val == optopt)
			return o;
	return NULL;
}

static int bad_option(const struct cli *cli, int what, char **argv)
{
	const char *arg = argv[optind - 1], *prog = cli->prog, *near;
	const struct option *o;
	char word[MAX_WORD];

	if (what == ':') {
		fprintf(stderr, "%s: %s needs a value\n", prog, arg);
		return -1;
	}
	o = optopt ? cli_given_value(cli->options) : NULL;
	if (o) {
		fprintf(stderr, "%s: --%s takes no value\n", prog, o->name);
		return -1;
	}
	if (optopt) {
		snprintf(word, sizeof(word), "-%c", optopt);
		return unknown_option(cli, word);
	}
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(arg, "="), arg);
	near = nearest(word + 2, cli->options);
	if (!near)
		return unknown_option(cli, word);
	fprintf(stderr, "%s: unknown option %s; did you mean --%s?\n", prog, word, near);
	return -1;
}

int cli_options(const struct cli *cli, int argc, char **argv, void *into)
{
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, cli->letters, cli->options, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(cli->usage, stdout);
			return 1;
		case 'V':
			printf("%s %s\n", cli->prog, TUTTI_VERSION_STRING);
			return 1;
		case '?':
		case ':':
			return bad_option(cli, c, argv);
		default:
			if (cli->take(into, c, optarg))
				return -1;
		}
	}
	return 0;
}

int cli_end(const char *prog, int err)
{
	if (err)
		return err == CLI_WRONG ? CLI_WRONG_STATUS : 1;
	return cli_flush(prog) ? 1 : 0;
}

int cli_end_parsing(const char *prog, int err)
{
	return cli_end(prog, err < 0 ? CLI_WRONG : 0);
}

int cli_flush(const char *prog)
{
	int err;

	errno = 0;
	err = fflush(stdout) ? errno : 0;
	if (!err && !ferror(stdout))
		return 0;
	fprintf(stderr, "%s: cannot write to standard output%s%s\n", prog, err ? ": " : "",
		err ? strerror(err) : "");
	return -1;
}
