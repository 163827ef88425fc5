/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the programs of one measurement each, which call nothing but public functions. */
#ifndef PERF_PROGRAM_H
#define PERF_PROGRAM_H

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <tutti/tutti.h>

#include "perf/whole_number.h"

static inline double now(void) /* seconds */
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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
