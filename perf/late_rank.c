/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of all ranks with one rank that is late in every step: what the others wait for in a full
 * all-reduce, and in partial ones by quorum and by cutoff. perf/decentralized runs it.
 *
 *	late_rank [-b BYTES] [-l LATE_MS] [-c CUTOFF_US] [-s SECONDS] [-r REPEATS]
 *
 * The settings take turns. A step is a sleep of 1 ms, as a computation that needs no core, and a
 * call. The times are those of the calls of all ranks but the last one, which is the late one: of
 * the slowest of these ranks.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "perf/program.h"

#define STEPS 20000 /* of a setting at most */
#define STEP_MS 1

static struct options {
	size_t bytes;
	int late_ms, cutoff_us, seconds, repeats;
} opt = {.bytes = 65536, .late_ms = 100, .cutoff_us = 5000, .seconds = 2, .repeats = 3};

struct setting {
	const char *name;
	bool full, late;
	int quorum, cutoff; /* quorum: of so many ranks fewer than all */
};

static const struct setting settings[] = {
	{"all-reduce", true, false, 0, 0},   {"all-reduce, late", true, true, 0, 0},
	{"partial", false, false, 0, 0},     {"quorum n-1, late", false, true, 1, 0},
	{"cutoff, late", false, true, 0, 1},
};
#define SETTINGS ((int)(sizeof(settings) / sizeof(settings[0])))

static double times[SETTINGS][STEPS];
static int taken[SETTINGS];

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* All ranks make as many full all-reduces: rank 0 says when it is the last one. */
static int full_steps(const struct setting *s, int which, struct tutti_comm *world, float *v,
		      size_t n)
{
	bool slow = tutti_comm_rank(world) == tutti_comm_size(world) - 1;
	double end = now() + opt.seconds, start;
	int err = 0;

	for (v[0] = 0; !err && v[0] == 0;) {
		sleep_ms(s->late && slow ? STEP_MS + opt.late_ms : STEP_MS);
		v[0] = tutti_comm_rank(world) == 0 && now() > end;
		start = now();
		err = tutti_allreduce(TUTTI_IN_PLACE, v, n, TUTTI_FLOAT32, TUTTI_SUM, world);
		if (taken[which] < STEPS)
			times[which][taken[which]++] = now() - start;
	}
	return err ? fail("tutti_allreduce", err) : 0;
}

static int partial_steps(const struct setting *s, int which, struct tutti_comm *world, float *v,
			 size_t n)
{
	int size = tutti_comm_size(world), err;
	bool slow = tutti_comm_rank(world) == size - 1;
	struct tutti_partial_config config = {.size = sizeof(config),
					      .quorum = s->quorum ? size - s->quorum : 0,
					      .cutoff_us = s->cutoff ? opt.cutoff_us : 0};
	struct tutti_partial *p;
	double end, start;
	uint64_t round;

	err = tutti_partial_create(world, n, TUTTI_FLOAT32, TUTTI_SUM, &config, &p);
	if (err)
		return fail("tutti_partial_create", err);
	err = tutti_barrier(world);
	for (end = now() + opt.seconds; !err && now() < end;) {
		sleep_ms(s->late && slow ? STEP_MS + opt.late_ms : STEP_MS);
		start = now();
		err = tutti_partial_allreduce(p, TUTTI_IN_PLACE, v, NULL, NULL, NULL);
		if (err == -ESTALE) /* rounds have gone on without it */
			err = tutti_partial_resync(p, &round);
		if (taken[which] < STEPS)
			times[which][taken[which]++] = now() - start;
	}
	if (err)
		return fail("tutti_partial_allreduce", err);
	while ((err = tutti_partial_drain(p, v, NULL, NULL, NULL)) == -ESTALE)
		if (tutti_partial_resync(p, &round))
			break;
	return err ? fail("tutti_partial_drain", err) : tutti_partial_free(p);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median and the 99th percentile, of the slowest rank but the last one. */
static int show(struct tutti_comm *world)
{
	double result[SETTINGS][2];
	bool slow = tutti_comm_rank(world) == tutti_comm_size(world) - 1;
	int i, n, err;

	for (i = 0; i < SETTINGS; i++) {
		n = taken[i];
		qsort(times[i], (size_t)n, sizeof(times[i][0]), by_value);
		result[i][0] = slow || !n ? 0 : times[i][n / 2] * 1e6;
		result[i][1] = slow || !n ? 0 : times[i][n * 99 / 100] * 1e6;
	}
	err = tutti_allreduce(TUTTI_IN_PLACE, result, (size_t)SETTINGS * 2, TUTTI_FLOAT64,
			      TUTTI_MAX, world);
	if (err || tutti_comm_rank(world))
		return err;
	printf("# %d ranks, the last one %d ms late, %zu bytes, cutoff %d us\n",
	       tutti_comm_size(world), opt.late_ms, opt.bytes, opt.cutoff_us);
	printf("# %-18s %8s %12s %12s %12s\n", "setting", "steps", "median(us)", "p99(us)",
	       "to partial");
	for (i = 0; i < SETTINGS; i++)
		printf("  %-18s %8d %12.0f %12.0f %12.2f\n", settings[i].name, taken[i],
		       result[i][0], result[i][1], result[i][0] / result[2][0]);
	return 0;
}

static int measure(struct tutti_comm *world)
{
	size_t n = opt.bytes / sizeof(float);
	float *v = calloc(n, sizeof(*v));
	int i, k, err = v ? 0 : -1;

	for (k = 0; k < opt.repeats; k++)
		for (i = 0; i < SETTINGS && !err; i++)
			err = settings[i].full ? full_steps(&settings[i], i, world, v, n)
					       : partial_steps(&settings[i], i, world, v, n);
	free(v);
	return err ? err : show(world);
}

static bool parse(int argc, char **argv)
{
	int option, value;

	while ((option = getopt(argc, argv, "b:l:c:s:r:")) != -1) {
		value = option == '?' ? 0 : whole_number(optarg);
		if (value < 1 || value > 1 << 30)
			return false;
		if (option == 'b')
			opt.bytes = (size_t)value;
		else
			*(option == 'l'	  ? &opt.late_ms
			  : option == 'c' ? &opt.cutoff_us
			  : option == 's' ? &opt.seconds
					  : &opt.repeats) = value;
	}
	return optind == argc && opt.bytes >= sizeof(float);
}

int main(int argc, char **argv)
{
	struct tutti_context *ctx;
	int err;

	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: late_rank [-b BYTES] [-l LATE_MS] [-c CUTOFF_US] "
				"[-s SECONDS] [-r REPEATS]\n");
		return 2;
	}
	err = tutti_init(NULL, &ctx);
	if (err)
		return fail("tutti_init", err) != 0;
	err = measure(tutti_world(ctx));
	return tutti_finalize(ctx) || err;
}
