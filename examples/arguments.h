/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers in the arguments of options, which getopt_long(3) leaves in optarg, and what is wrong
 * with them. All calls but a successful one print a text that begins with the program's name, and
 * return -EINVAL.
 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

int argument_wrong(const char *program, const char *option, const char *value, const char *why);
int argument_integer(const char *program, const char *option, int least, int most, int *to);
/* From 0 to most. */
int argument_real(const char *program, const char *option, double most, double *to);

#endif
