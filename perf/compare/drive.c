/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/compare/drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 2000 /* iterations with a barrier */
#define LEAST 7

struct run {
	const struct peer *peer;
	float *in, *out;
	size_t count;
	double seconds;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* n of them back to back; seconds each, of the slowest rank. */
static int batch(const struct run *run, long n, double *each)
{
	double start = now();
	int err = 0;
	long i;

	for (i = 0; i < n && !err; i++)
		err = run->peer->allreduce(run->in, run->out, run->count);
	*each = (now() - start) / (double)n;
	return err ? err : run->peer->max(each, 1);
}

/* The number of calls that fills the time, the same on all ranks. */
static long fit(double seconds, double each, long least, long most)
{
	double n = seconds / each;

	return n < (double)least ? least : n > (double)most ? most : (long)n;
}

static int rate(const struct run *run, double guess, double *us)
{
	int err = batch(run, fit(run->seconds / 4, guess, 1, 1000000), &guess);

	if (!err)
		err = batch(run, fit(run->seconds, guess, 2, 10000000), us);
	*us *= 1e6;
	return err;
}

static int median(const struct run *run, double guess, double *us)
{
	long n = fit(run->seconds, guess, LEAST, MOST), i;
	double *times = calloc((size_t)n, sizeof(*times)), start;
	int err = times ? 0 : -1;

	for (i = -n / 10; i < n && !err; i++) {
		err = run->peer->barrier();
		start = now();
		if (!err)
			err = run->peer->allreduce(run->in, run->out, run->count);
		if (i >= 0)
			times[i] = now() - start;
	}
	if (!err)
		err = run->peer->max(times, (size_t)n);
	if (!err) {
		qsort(times, (size_t)n, sizeof(*times), ascending);
		*us = times[n / 2] * 1e6;
	}
	free(times);
	return err;
}

static int wrong(const struct run *run, double *n)
{
	float right = (float)(run->peer->ranks * (run->peer->ranks + 1) / 2);
	size_t i;

	for (i = 0, *n = 0; i < run->count; i++)
		*n += run->out[i] != right;
	return run->peer->max(n, 1);
}

static int one_size(const struct run *run, int (*measure)(const struct run *, double, double *))
{
	double guess = 0, us = 0, bad = 0;
	int err;

	memset(run->out, 0, run->count * sizeof(float));
	err = batch(run, 3,
		    &guess); /* for the first size others may still be filling their buffers */
	if (!err)
		err = batch(run, 3, &guess);
	if (!err)
		err = measure(run, guess, &us);
	if (!err)
		err = wrong(run, &bad);
	if (!err && !run->peer->rank) {
		printf("%zu %.3f %.0f\n", run->count * sizeof(float), us, bad);
		fflush(stdout);
	}
	return err;
}

int drive(const struct peer *peer, int argc, char **argv)
{
	struct run run = {.peer = peer};
	size_t largest = 0, i;
	int k, err = 0;

	if (argc < 4 || (strcmp(argv[1], "each") && strcmp(argv[1], "rate")))
		return fprintf(stderr, "usage: %s each|rate SECONDS BYTES...\n", argv[0]), 2;
	run.seconds = atof(argv[2]);
	for (k = 3; k < argc; k++)
		largest =
			strtoul(argv[k], NULL, 10) > largest ? strtoul(argv[k], NULL, 10) : largest;
	run.in = peer->alloc ? peer->alloc(largest) : malloc(largest);
	run.out = peer->alloc ? peer->alloc(largest) : malloc(largest);
	if (!run.in || !run.out)
		return fprintf(stderr, "%s: no memory\n", argv[0]), 1;
	for (i = 0; i < largest / sizeof(float); i++)
		run.in[i] = (float)(peer->rank + 1);
	for (k = 3; k < argc && !err; k++) {
		run.count = strtoul(argv[k], NULL, 10) / sizeof(float);
		err = one_size(&run, strcmp(argv[1], "rate") ? median : rate);
	}
	if (err)
		fprintf(stderr, "%s: an operation failed: %d\n", argv[0], err);
	return err != 0;
}
