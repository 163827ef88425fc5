/* SPDX-License-Identifier: BSD-3-Clause */
/* A backward pass over the gradients of ResNet-50, for backward.c and sharded.c. */
#ifndef PERF_PASS_H
#define PERF_PASS_H

#include "perf/program.h"

#define TENSORS 161
#define REPEATS_MAX 50
#define FIRST_KIB 1024 /* the reducer's defaults */
#define BUCKET_KIB (25 * 1024)
#define KIB ((size_t)1024)

struct pass {
	int backward_ms, divisor, mbit, mtu, bucket_kib, repeats; /* options */
	size_t counts[TENSORS], total;				  /* elements */
	float *gradients;					  /* all of them, in the pool */
	void *tensor[TENSORS];
};

/*
 * Runs measure(ctx, p), which returns 0 or an error code, in a job with the options of all programs
 * of this kind: [-t BACKWARD_MS] [-d DIVISOR] [-l MBIT] [-m MTU] [-b BUCKET_KIB] [-r REPEATS].
 * Returns the program's exit status.
 */
int pass_main(int argc, char **argv, int (*measure)(struct tutti_context *ctx, struct pass *p));

/* Sleeps until tensor i of the backward pass that began at start (now()) is ready. */
void pass_compute(const struct pass *p, double start, size_t i);
/* Of n values, which are sorted. */
double pass_median(double *values, int n);

#endif
