/* SPDX-License-Identifier: BSD-3-Clause */
/* The options, ways and medians of urgent and urgent_ps. */
#ifndef PERF_URGENT_H
#define PERF_URGENT_H

#include <getopt.h>
#include <stdlib.h>

#include "perf/program.h"

#define REPEATS_MAX 50

static struct options {
	int long_kib, short_kib, repeats;
} opt = {.long_kib = 65536, .short_kib = 4096, .repeats = 5};

enum way { ALONE, EQUAL, URGENT, WAYS };
static const char *const names[WAYS] = {"alone", "equal priority", "high priority"};

static inline int read_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "l:s:r:")) != -1) {
		if (c == 'l')
			opt.long_kib = whole_number(optarg);
		else if (c == 's')
			opt.short_kib = whole_number(optarg);
		else if (c == 'r')
			opt.repeats = whole_number(optarg);
		else
			return 1;
	}
	return opt.long_kib < 1 || opt.short_kib < 1 || opt.repeats < 1 ||
	       opt.repeats > REPEATS_MAX || optind < argc;
}

static inline int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of as many values as there are repeats, which it sorts. */
static inline double median_of(double *values)
{
	qsort(values, (size_t)opt.repeats, sizeof(double), compare);
	return values[opt.repeats / 2];
}

#endif
