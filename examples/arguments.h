/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers in the arguments of options, and what is wrong with them. Numbers are decimal: strtol(3)
 * and strtod(3) alone would also take spaces, 0x10, inf and nan.
 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdint.h>

/* 0; -1: text is no such number. */
int parse_integer(const char *text, int least, int most, int *to);
int parse_real(const char *text, double least, double most, double *to);
int parse_seed(const char *text, uint64_t *to);

/*
 * Of the argument that getopt_long(3) leaves in optarg. All calls but a successful one print a text
 * that begins with the program's name, and return -EINVAL.
 */
int argument_wrong(const char *program, const char *option, const char *value, const char *why);
int argument_integer(const char *program, const char *option, int least, int most, int *to);
/* From 0 to most. */
int argument_real(const char *program, const char *option, double most, double *to);

#endif
