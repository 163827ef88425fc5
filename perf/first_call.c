/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * first_call START [TIMES]: a job that ends after its first all-reduce. Rank 0 prints the seconds
 * since START (seconds since 1970, as "date +%s.%N" prints them), for each of TIMES starts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tutti/tutti.h>

#include "perf/whole_number.h"

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static int one_start(double start)
{
	struct tutti_context *ctx;
	struct tutti_comm *world;
	int64_t sum = 1;
	int err = tutti_init(NULL, &ctx), ended;

	if (err) {
		fprintf(stderr, "first_call: %s\n", tutti_strerror(err));
		return 1;
	}
	world = tutti_world(ctx);
	err = tutti_allreduce(TUTTI_IN_PLACE, &sum, 1, TUTTI_INT64, TUTTI_SUM, world);
	if (err)
		tutti_comm_perror(world, "first_call");
	else if (sum != tutti_comm_size(world))
		err = fprintf(stderr, "first_call: the sum is %lld\n", (long long)sum);
	else if (!tutti_comm_rank(world))
		printf("first all-reduce of %lld ranks after %.3f s\n", (long long)sum,
		       now() - start);
	ended = tutti_finalize(ctx);
	return err || ended;
}

int main(int argc, char **argv)
{
	int i, times = argc > 2 ? whole_number(argv[2]) : 1, err = 0;
	double start = argc > 1 ? seconds_of(argv[1]) : -1;

	if (argc > 3 || start < 0 || times < 1)
		return fprintf(stderr, "usage: first_call START [TIMES]\n"), 2;
	for (i = 0; i < times && !err; i++)
		err = one_start(start);
	return err;
}
