/* SPDX-License-Identifier: BSD-3-Clause */
/* Option parsing shared by the command-line tools. */
#ifndef TUTTI_CLI_H
#define TUTTI_CLI_H

#include <getopt.h>
#include <stdarg.h>

struct cli {
	const char *prog;
	const char *usage;	      /* what --help prints */
	const char *letters;	      /* of getopt_long, with ':' first or behind '+' */
	const struct option *options; /* --help is 'h' and --version 'V' */
	/* An option of the tool's own: 0, or negative and why is said. */
	int (*take)(void *into, int option, char *value);
	const char *command; /* the word whose options these are, such as "ps"; NULL: none */
};

/*
 * Passes all options to take, up to optind, and handles --help and --version. Returns 0; 1: the
 * program is done, but for cli_end; negative: an error was printed, such as "PROG: unknown option
 * WORD; did you mean --NEAREST?".
 */
int cli_options(const struct cli *cli, int argc, char **argv, void *into);

/* The error of a program whose command line is wrong, and its exit status. */
#define CLI_WRONG (-10000)
#define CLI_WRONG_STATUS 2
/*
 * The exit status, after writing out what was printed: 0, CLI_WRONG_STATUS for CLI_WRONG, or else
 * 1.
 */
int cli_end(const char *prog, int err);
/* The same after a parser has returned err: 1 is no error, and all others are of the options. */
int cli_end_parsing(const char *prog, int err);

struct option;
/*
 * After getopt_long has returned '?': the option that was given a value and takes none, or NULL.
 * Its val is then in optopt. A letter that is unknown is the val of none.
 */
const struct option *cli_given_value(const struct option *options);

/* Complains on stderr, in one write: ranks of a job write there at once. */
void cli_complain(const char *prog, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

/*
 * Writes out what was printed, before a program ends or waits. Returns 0; negative: some of it was
 * not written, and an error was printed.
 */
int cli_flush(const char *prog);

#endif
