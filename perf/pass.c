/* SPDX-License-Identifier: BSD-3-Clause */
/* A backward pass over the gradients of ResNet-50, as sleeps: see pass.h. */
#include "perf/pass.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MTU 1500
#define HOUR_MS 3600000

/* ---- the model ---- */

static size_t *convolution(size_t *at, size_t in, size_t out, size_t side)
{
	*at++ = in * out * side * side;
	*at++ = out; /* batch norm */
	*at++ = out;
	return at;
}

static void resnet50(struct pass *p)
{
	static const size_t blocks[] = {3, 4, 6, 3};
	size_t *at = convolution(p->counts, 3, 64, 7), in = 64, plane, s, b, i;

	for (s = 0; s < 4; s++) {
		plane = (size_t)64 << s;
		for (b = 0; b < blocks[s]; b++) {
			at = convolution(at, in, plane, 1);
			at = convolution(at, plane, plane, 3);
			at = convolution(at, plane, 4 * plane, 1);
			if (!b)
				at = convolution(at, in, 4 * plane, 1);
			in = 4 * plane;
		}
	}
	*at++ = in * 1000;
	*at++ = 1000;
	for (i = 0; i < TENSORS; i++) {
		p->counts[i] = (p->counts[i] + (size_t)p->divisor - 1) / (size_t)p->divisor;
		p->total += p->counts[i];
	}
}

/* Allocates the gradients. */
static int allocate(struct tutti_context *ctx, struct pass *p)
{
	int err = tutti_alloc(ctx, p->total * sizeof(float), (void **)&p->gradients);
	size_t i, at = 0;

	if (err)
		return fail("tutti_alloc", err);
	memset(p->gradients, 0, p->total * sizeof(float));
	for (i = 0; i < TENSORS; at += p->counts[i++])
		p->tensor[i] = p->gradients + at;
	return 0;
}

void pass_compute(const struct pass *p, double start, size_t i)
{
	double until = start + p->backward_ms / 1e3 * (double)(TENSORS - i) / TENSORS;
	double left = until - now();

	if (left > 0)
		nanosleep(
			&(struct timespec){.tv_sec = (time_t)left,
					   .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)},
			NULL);
}

/* ---- a program ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double pass_median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(double), compare);
	return values[n / 2];
}

static bool read_options(struct pass *p, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "t:d:l:m:b:r:")) != -1) {
		if (c == 't')
			p->backward_ms = whole_number(optarg);
		else if (c == 'd')
			p->divisor = whole_number(optarg);
		else if (c == 'l')
			p->mbit = whole_number(optarg);
		else if (c == 'm')
			p->mtu = whole_number(optarg);
		else if (c == 'b')
			p->bucket_kib = whole_number(optarg);
		else if (c == 'r')
			p->repeats = whole_number(optarg);
		else
			return false;
	}
	return p->backward_ms > 0 && p->backward_ms <= HOUR_MS && p->divisor > 0 &&
	       p->divisor <= FIRST_KIB && p->mbit >= 0 && p->mtu >= 576 && p->bucket_kib > 0 &&
	       p->repeats > 0 && p->repeats <= REPEATS_MAX && optind == argc;
}

int pass_main(int argc, char **argv, int (*measure)(struct tutti_context *ctx, struct pass *p))
{
	static struct pass pass = {.backward_ms = 1000,
				   .divisor = 1,
				   .mtu = MTU,
				   .bucket_kib = BUCKET_KIB,
				   .repeats = 3};
	struct tutti_context *ctx;
	int err;

	if (!read_options(&pass, argc, argv)) {
		fprintf(stderr,
			"usage: %s [-t BACKWARD_MS] [-d DIVISOR] [-l MBIT] [-m MTU] "
			"[-b BUCKET_KIB] [-r 1 to 50]\n",
			program_invocation_short_name);
		return 2;
	}
	resnet50(&pass);
	err = tutti_init(NULL, &ctx);
	if (err)
		return fail("tutti_init", err) != 0;
	err = allocate(ctx, &pass);
	if (err)
		return 1;
	err = measure(ctx, &pass);
	tutti_free(pass.gradients);
	return err != 0 || tutti_finalize(ctx) != 0;
}
