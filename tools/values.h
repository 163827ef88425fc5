/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values on the command lines of tools that link the plan code. An error text gives the valid
 * range.
 */
#ifndef TUTTI_VALUES_H
#define TUTTI_VALUES_H

#include <stddef.h>

#include "lib/plan/plan.h"

extern const char cli_prog[]; /* the tool's name, which it defines */

/* Print "PROG: ..." to standard error; returns -1. */
int cli_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same of the command line or a variable; returns CLI_WRONG. */
int cli_wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* All return 0, or -1 after printing the error; what is the option's name. */
int cli_integer(const char *what, const char *text, long lo, long hi, int *value);
int cli_number(const char *what, const char *text, double lo, double hi, double *value);
int cli_bytes(const char *what, const char *text, size_t lo, size_t hi, size_t *value);
/* Up to n numbers with sep between them; *given: how many there were. */
int cli_numbers(const char *what, char *text, const char *sep, double lo, double hi, double *value,
		int n, int *given);
/* The collective of that name. */
int cli_coll(const char *word, enum tt_coll *coll);

#endif
