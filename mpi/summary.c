/* SPDX-License-Identifier: BSD-3-Clause */
/* TUTTI_MPI_SUMMARY=1: which calls were taken over, summed over all ranks. */
#include <stdatomic.h>
#include <stdio.h>

#include "mpi/preload.h"

bool tm_counting;

/* Of each row: taken, nanoseconds, then passed on by reason. */
#define COUNTS (2 + TM_WHYS)
static _Atomic uint64_t counted[TM_ROWS][COUNTS];

static void add(_Atomic uint64_t *to, uint64_t n)
{
	atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

void tm_count_passed(int row, enum tm_why why)
{
	add(&counted[row][2 + why], 1);
}

void tm_count_taken(enum tm_coll coll, uint64_t ns)
{
	add(&counted[coll][0], 1);
	add(&counted[coll][1], ns);
}

static void print_row(const char *name, const unsigned long long s[COUNTS])
{
	fprintf(stderr, "tutti_mpi: %-20s %12llu %12.6f %12llu %12llu %12llu %12llu %12llu\n", name,
		s[0], (double)s[1] / 1e9, s[2 + TM_SIZE], s[2 + TM_KIND], s[2 + TM_COMM],
		s[2 + TM_NONBLOCKING], s[2 + TM_LASTING]);
}

static double percent(unsigned long long part, unsigned long long all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

static void print(unsigned long long sum[TM_ROWS][COUNTS])
{
	unsigned long long total[COUNTS] = {0}, calls = 0;
	int i, k;

	fprintf(stderr, "tutti_mpi: calls of all %d ranks\n", tm_job.size);
	fprintf(stderr, "tutti_mpi: %-20s %12s %12s %12s %12s %12s %12s %12s\n", "collective",
		"taken", "seconds", "by size", "by type/op", "by comm", "nonblocking",
		"persistent");
	for (i = 0; i < TM_ROWS; i++) {
		unsigned long long row = 0;

		for (k = 0; k < COUNTS; k++) {
			total[k] += sum[i][k];
			row += k == 1 ? 0 : sum[i][k];
		}
		if (row)
			print_row(tm_coll_names[i], sum[i]);
		calls += row;
	}
	fprintf(stderr,
		"tutti_mpi: %llu calls: %.1f %% taken, %.1f %% blocking passed on, %.1f %% "
		"nonblocking, %.1f %% persistent\n",
		calls, percent(total[0], calls),
		percent(total[2 + TM_SIZE] + total[2 + TM_KIND] + total[2 + TM_COMM], calls),
		percent(total[2 + TM_NONBLOCKING], calls), percent(total[2 + TM_LASTING], calls));
}

/* Collective over the world. */
void tm_summary_print(void)
{
	unsigned long long mine[TM_ROWS][COUNTS], sum[TM_ROWS][COUNTS];
	int i, k;

	for (i = 0; i < TM_ROWS; i++)
		for (k = 0; k < COUNTS; k++)
			mine[i][k] = atomic_load(&counted[i][k]);
	if (!tm_real.Reduce(mine, sum, TM_ROWS * COUNTS, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0,
			    tm_job.own) &&
	    tm_job.rank == 0)
		print(sum);
}
