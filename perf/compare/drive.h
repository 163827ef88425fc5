/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the drivers of perf/compare: the same measurement for every library. A driver
 * implements the few functions below with its library and calls drive().
 *
 *	DRIVER each|rate SECONDS BYTES...
 *
 * each: every all-reduce begins with a barrier and takes as long as its slowest rank; the median.
 * rate: back to back, without barriers, for SECONDS after a warm-up of a quarter of that; the mean
 * of the slowest rank. SECONDS bounds the time for a size in both cases. Rank 0 prints "BYTES
 * MICROSECONDS WRONG" for each size: float sums out of place, every element checked once.
 */
#ifndef DRIVE_H
#define DRIVE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct peer {
	int rank, ranks;
	/* Each returns 0, or an error that ends the run. */
	int (*allreduce)(const float *in, float *out, size_t count);
	int (*barrier)(void);
	int (*max)(double *values, size_t count); /* over ranks, in place */
	void *(*alloc)(size_t bytes);		  /* NULL: malloc */
};

/* The exit status. */
int drive(const struct peer *peer, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
