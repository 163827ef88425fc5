/* SPDX-License-Identifier: BSD-3-Clause */
/* What the command-line tools share: complaints about unknown options. */
#ifndef TUTTI_CLI_H
#define TUTTI_CLI_H

#include <getopt.h>

/*
 * Print "PROG: unknown option WORD; did you mean --NEAREST?" (or what else getopt_long refused)
 * to standard error. Call it when getopt_long, given opterr = 0 and ':' first, returns '?' or ':'.
 */
void cli_bad_option(const char *prog, const struct option *options, int what, char **argv);

#endif
