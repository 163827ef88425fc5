/* SPDX-License-Identifier: BSD-3-Clause */
/* See seconds.h. */
#define _POSIX_C_SOURCE 200809L
#include "examples/seconds.h"

#include <time.h>

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void sleep_ms(double ms)
{
	struct timespec ts = {.tv_sec = (time_t)(ms / 1e3),
			      .tv_nsec = (long)(ms * 1e6) % 1000000000};

	nanosleep(&ts, NULL);
}
