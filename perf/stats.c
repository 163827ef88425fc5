/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock, and what to say about many measured times. */
#include "perf/perf.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

uint64_t perf_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double perf_overlap(double alone, double computation, double together)
{
	double exposed = together - computation;

	if (alone <= 0 || exposed >= alone)
		return 0;
	return exposed <= 0 ? 100 : 100 * (1 - exposed / alone);
}

/* Nearest rank: the smallest value that at least the share p of all values do not exceed. */
static double percentile(const double *sorted, size_t n, double p)
{
	size_t rank = (size_t)ceil(p * (double)n);

	return sorted[rank ? rank - 1 : 0];
}

void perf_summarize(double *values, size_t n, struct perf_summary *sum)
{
	double square = 0, total = 0;
	size_t i;

	qsort(values, n, sizeof(*values), compare);
	for (i = 0; i < n; i++)
		total += values[i];
	sum->mean = total / (double)n;
	for (i = 0; i < n; i++)
		square += (values[i] - sum->mean) * (values[i] - sum->mean);
	sum->stdev = sqrt(square / (double)n);
	sum->min = values[0];
	sum->max = values[n - 1];
	sum->median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
	sum->p99 = percentile(values, n, 0.99);
	sum->p999 = percentile(values, n, 0.999);
}
