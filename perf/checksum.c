/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the cost of TUTTI_CHECKSUM at each end of a message: the library's checksum function
 * and a copy of the same bytes, in turns; medians.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/reduce/xxh.h"

#define SAMPLE_BYTES (4u << 20) /* at least between two looks at the clock */

static const struct perf_column columns[] = {
	{"size", "size", "(B)", 13, 0, PERF_INT},
	{"time_us", "time", "(us)", 11, 0, PERF_USEC},
	{"sum_gbs", "sum", "(GB/s)", 8, 2, PERF_FIXED},
	{"copy_gbs", "copy", "(GB/s)", 8, 2, PERF_FIXED},
	{"percent", "sum", "(%copy)", 8, 1, PERF_FIXED},
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static double sample(const struct perf_buffer *bufs, size_t size, bool copy)
{
	uint64_t keep = 0;
	int reps = 1 + (int)(SAMPLE_BYTES / size), i;
	uint64_t start = cpu_ns();

	for (i = 0; i < reps; i++) {
		if (copy)
			memcpy(bufs[1].data, bufs[0].data, size);
		else
			keep = tt_reduce_xxh(bufs[0].data, size, 0);
		__asm__ volatile("" : : "r"(copy ? 0 : keep) : "memory"); /* or it is left out */
	}
	return (double)(cpu_ns() - start) / 1e3 / reps;
}

static int one_size(struct perf *perf, const struct perf_buffer *bufs, double *times, size_t size)
{
	const struct perf_options *opt = &perf->opt;
	struct perf_summary sum, copy;
	int i;

	for (i = -opt->warmup; i < opt->iters; i++) {
		double a = sample(bufs, size, false), b = sample(bufs, size, true);

		if (i >= 0) {
			times[i] = a;
			times[opt->iters + i] = b;
		}
	}
	perf_summarize(times, (size_t)opt->iters, &sum);
	perf_summarize(times + opt->iters, (size_t)opt->iters, &copy);
	if (perf->rank)
		return 0;
	return perf_table_row(&perf->table,
			      (struct perf_cell[]){{.number = (int64_t)size},
						   {.real = sum.median},
						   {.real = (double)size / sum.median / 1e3},
						   {.real = (double)size / copy.median / 1e3},
						   {.real = 100 * copy.median / sum.median}});
}

int perf_run_checksum(struct perf *perf)
{
	double *times = calloc((size_t)perf->opt.iters * 2, sizeof(*times));
	size_t size = perf->opt.minbytes;
	struct perf_buffer bufs[2];
	int err;

	if (!times)
		return perf_call_failed(perf, "making room for times", -ENOMEM);
	err = perf_buffers_get(perf, bufs, 2, perf->opt.maxbytes > 8 ? perf->opt.maxbytes : 8);
	if (err)
		goto free_times;
	memset(bufs[0].data, 0x5a, perf->opt.maxbytes);
	perf_table_begin(&perf->table, columns, sizeof(columns) / sizeof(*columns));
	if (!perf->rank)
		perf_table_heading(&perf->table);
	size = size ? size : 1;
	do
		err = one_size(perf, bufs, times, size);
	while (!err && (size = perf_next_size(&perf->opt, size, size + 1)));
	perf_buffers_put(bufs, 2);
free_times:
	free(times);
	return err;
}
