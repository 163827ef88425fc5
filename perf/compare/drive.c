/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop that measures the operations of operations.c, the same for every library. */
#include "perf/compare/drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "perf/whole_number.h"

#define MOST 2000 /* iterations with a barrier */
#define LEAST 5
#define BATCHES 5
#define PAGE 4096
#define LINE 16 /* floats of a cache line */

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

static int barrier(const struct peer *peer)
{
	return peer->meet ? peer->meet() : peer->call(DRIVE_BARRIER, NULL);
}

/* Whether this rank does anything in a unit. */
static int takes_part(const struct drive_run *run)
{
	if (run->op->collective)
		return 1;
	if (run->op->one_sided)
		return !run->peer->rank || drive_shared(run);
	return run->other >= 0;
}

/* COMPARE_TOUCH: as a code does, writes all lines that it sends, */
static void write_input(const struct drive_run *run)
{
	volatile float *in = run->in;
	size_t i;

	for (i = 0; run->touch && i < drive_in(run); i += LINE)
		in[i] = drive_input(run->peer->rank, i);
}

/* and reads those that it gets. */
static void read_result(const struct drive_run *run)
{
	const volatile float *out = run->out;
	size_t i;

	for (i = 0; run->touch && i < drive_out(run); i += LINE)
		(void)out[i];
}

static int timed_unit(const struct drive_run *run)
{
	int err;

	write_input(run);
	err = run->op->unit(run);
	read_result(run);
	return err;
}

/* n of them back to back; seconds each, of the slowest rank. */
static int batch(const struct drive_run *run, long n, double *each)
{
	double start;
	int err = barrier(run->peer);
	long i;

	start = now();
	for (i = 0; takes_part(run) && i < n && !err; i++)
		err = timed_unit(run);
	*each = (now() - start) / (double)n;
	return err ? err : run->peer->max(each, 1);
}

/* The number of calls that fills the time, the same on all ranks. */
static long fit(double seconds, double each, long least, long most)
{
	double n = seconds / each;

	return n < (double)least ? least : n > (double)most ? most : (long)n;
}

static int rate(const struct drive_run *run, double guess, double *each)
{
	int err = batch(run, fit(run->seconds / 4, guess, 1, 1000000), &guess);

	return err ? err : batch(run, fit(run->seconds, guess, 2, 10000000), each);
}

static int batches(const struct drive_run *run, double guess, double *each)
{
	long n = fit(run->seconds / BATCHES, guess, 1, 10000);
	double means[BATCHES];
	int i, err = batch(run, (n + 9) / 10, each);

	for (i = 0; i < BATCHES && !err; i++)
		err = batch(run, n, &means[i]);
	qsort(means, BATCHES, sizeof(means[0]), ascending);
	*each = means[BATCHES / 2];
	return err;
}

static int after_barriers(const struct drive_run *run, double guess, double *each)
{
	long n = fit(run->seconds, guess, LEAST, MOST), i;
	double *times = calloc((size_t)n, sizeof(*times)), start;
	int err = times ? 0 : -1;

	for (i = -n / 10; i < n && !err; i++) {
		write_input(run);
		err = barrier(run->peer);
		start = now();
		if (!err)
			err = run->op->unit(run);
		if (i >= 0)
			times[i] = now() - start;
		read_result(run);
	}
	if (!err)
		err = run->peer->max(times, (size_t)n);
	if (!err) {
		qsort(times, (size_t)n, sizeof(*times), ascending);
		*each = times[n / 2];
	}
	free(times);
	return err;
}

static int measure(const struct drive_run *run, int rates, double *us)
{
	double guess = 0, each = 0;
	int err = batch(run, 1, &guess); /* first uses of buffers and connections */

	if (!err)
		err = batch(run, 2, &guess);
	if (!err)
		err = rates		    ? rate(run, guess, &each)
		      : run->op->collective ? after_barriers(run, guess, &each)
					    : batches(run, guess, &each);
	*us = each * 1e6 / drive_messages(run);
	return err;
}

static int open_window(struct drive_run *run)
{
	size_t i;
	/* MPICH 4.0.2 has wrong results in windows of 8 bytes */
	int err = run->peer->expose(run->bytes < PAGE ? PAGE : run->bytes, drive_shared(run),
				    run->op->accumulates, &run->exposed);

	for (i = 0; !err && i < run->bytes / sizeof(float); i++)
		((float *)run->exposed)[i] = drive_input(run->peer->rank, i);
	if (!err && drive_counts(run))
		*(uint64_t *)run->exposed = 0;
	return err ? err : barrier(run->peer);
}

static int one_cell(struct drive_run *run, int rates)
{
	double us = 0, wrong = 0;
	int err = 0;

	if (!drive_prepare(run))
		return 0;
	memset(run->out, 0, drive_out(run) * sizeof(float));
	if (run->op->one_sided)
		err = open_window(run);
	if (!err)
		err = measure(run, rates, &us);
	if (!err && run->op->one_sided)
		err = run->peer->close();
	if (!err)
		err = barrier(run->peer);
	if (!err) {
		wrong = drive_wrong(run);
		err = run->peer->max(&wrong, 1);
	}
	if (!err && run->op->one_sided)
		err = run->peer->conceal();
	if (!err && !run->peer->rank) {
		printf("%s %zu %.4f %.0f\n", run->op->name, run->bytes, us, wrong);
		fflush(stdout);
	}
	return err;
}

/* OPERATION:BYTES */
static int parse(struct drive_run *run, const char *cell)
{
	const char *colon = strchr(cell, ':');
	long long bytes;

	if (!colon)
		return -1;
	run->op = drive_op(cell, (size_t)(colon - cell));
	bytes = whole_up_to(colon + 1, LONG_MAX);
	run->bytes = (size_t)bytes;
	return run->op && bytes >= 0 ? 0 : -1;
}

/* COMPARE_SHIFT: results begin so many bytes after a multiple of 16, as parts of arrays do. */
static size_t shift(void)
{
	long long bytes = whole_number(getenv("COMPARE_SHIFT"));

	return bytes > 0 ? (size_t)bytes / sizeof(float) * sizeof(float) : 0;
}

/* The buffers that the largest cell needs. */
static int allocate(struct drive_run *run, int n, char **cells)
{
	size_t in = 1, out = 1, i;
	int k;

	for (k = 0; k < n; k++) {
		if (parse(run, cells[k]))
			return fprintf(stderr, "compare: no OPERATION:BYTES: %s\n", cells[k]), 2;
		in = drive_in(run) > in ? drive_in(run) : in;
		out = drive_out(run) > out ? drive_out(run) : out;
	}
	in *= sizeof(float);
	out = out * sizeof(float) + shift();
	run->in = run->peer->alloc ? run->peer->alloc(in) : malloc(in);
	run->out = run->peer->alloc ? run->peer->alloc(out) : malloc(out);
	if (!run->in || !run->out)
		return fprintf(stderr, "compare: no memory\n"), 1;
	run->out += shift() / sizeof(float);
	for (i = 0; i < in / sizeof(float); i++)
		run->in[i] = drive_input(run->peer->rank, i);
	return 0;
}

int drive(const struct peer *peer, int argc, char **argv)
{
	struct drive_run run = {.peer = peer};
	int k, err = 0;

	if (argc < 4 || (strcmp(argv[1], "each") && strcmp(argv[1], "rate")) ||
	    peer->ranks > DRIVE_RANKS || (run.seconds = seconds_of(argv[2])) <= 0)
		return fprintf(stderr, "usage: %s each|rate SECONDS OPERATION:BYTES...\n", argv[0]),
		       2;
	run.touch = getenv("COMPARE_TOUCH") != NULL;
	err = allocate(&run, argc - 3, argv + 3);
	if (err)
		return err;
	for (k = 3; k < argc && !err; k++) {
		parse(&run, argv[k]);
		err = one_cell(&run, !strcmp(argv[1], "rate"));
	}
	if (err)
		fprintf(stderr, "%s: an operation failed: %d\n", argv[0], err);
	return err != 0;
}
