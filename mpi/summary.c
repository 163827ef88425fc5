/* SPDX-License-Identifier: BSD-3-Clause */
/* TUTTI_MPI_SUMMARY=1: which calls were taken over, summed over all ranks. */
#include <stdatomic.h>
#include <stdio.h>

#include "mpi/preload.h"

bool tm_counting;

/* Of each collective: taken, nanoseconds, then passed on by reason. */
#define COUNTS (2 + TM_WHYS)
static _Atomic uint64_t counted[TM_NUM_COLLS][COUNTS];

static void add(_Atomic uint64_t *to, uint64_t n)
{
	atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

void tm_count_passed(enum tm_coll coll, enum tm_why why)
{
	add(&counted[coll][2 + why], 1);
}

void tm_count_taken(enum tm_coll coll, uint64_t ns)
{
	add(&counted[coll][0], 1);
	add(&counted[coll][1], ns);
}

static void print(unsigned long long sum[TM_NUM_COLLS][COUNTS])
{
	int i;

	fprintf(stderr, "tutti_mpi: calls of all %d ranks\n", tm_job.size);
	fprintf(stderr, "tutti_mpi: %-20s %12s %12s %12s %12s %12s\n", "collective", "taken",
		"seconds", "by size", "by type/op", "by comm");
	for (i = 0; i < TM_NUM_COLLS; i++) {
		unsigned long long *s = sum[i];

		if (s[0] + s[2] + s[3] + s[4])
			fprintf(stderr, "tutti_mpi: %-20s %12llu %12.6f %12llu %12llu %12llu\n",
				tm_coll_names[i], s[0], (double)s[1] / 1e9, s[2], s[3], s[4]);
	}
}

/* Collective over the world. */
void tm_summary_print(void)
{
	unsigned long long mine[TM_NUM_COLLS][COUNTS], sum[TM_NUM_COLLS][COUNTS];
	int i, k;

	for (i = 0; i < TM_NUM_COLLS; i++)
		for (k = 0; k < COUNTS; k++)
			mine[i][k] = atomic_load(&counted[i][k]);
	if (!tm_real.Reduce(mine, sum, TM_NUM_COLLS * COUNTS, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0,
			    tm_job.own) &&
	    tm_job.rank == 0)
		print(sum);
}
