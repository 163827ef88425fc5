/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the programs of one measurement each, which call nothing but public functions. */
#ifndef PERF_PROGRAM_H
#define PERF_PROGRAM_H

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>
#include <tutti/tutti.h>

#include "lib/base/number.h"

static inline double now(void) /* seconds */
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The whole number that an argument is; -1: it is none, or negative, or does not fit. */
static inline int whole_number(const char *text)
{
	uint64_t value = 0;
	const char *end = tt_number_digits(text, &value);

	return end && !*end && value <= INT_MAX ? (int)value : -1;
}

/* Says why a call has failed; returns err. */
static inline int fail(const char *call, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	tutti_last_error(&info);
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, call, info.text);
	return err;
}

#endif
