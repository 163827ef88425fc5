/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the reduction kernels with a copy of the same traffic, which reads the same buffers and
 * writes one byte for each byte of one source. A plain copy is no reference, because it writes
 * half of its bytes, and a core writes three times as fast as it reads out of the cache. The
 * difference is therefore the kernel's cost, not the memory's. The kernels are the library's own,
 * linked in.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "lib/reduce/reduce.h"

#define MOST_SOURCES 16
#define LINE 64
#define SAMPLE_BYTES (4u << 20) /* moved at least between two looks at the clock */

_Static_assert((int)PERF_LEVELS == (int)TT_REDUCE_LEVELS, "a name for every level");
const char *const perf_level_names[] = {"scalar", "base", "avx2", "avx512", NULL};
const char *const perf_store_names[] = {"auto", "plain", "stream", NULL};

/* The three things that are timed. */
enum what { KERNEL, PLAIN_COPY, STREAMED_COPY, WHATS };

struct kernel_job {
	struct perf *perf;
	struct perf_buffer *bufs; /* the sources, then the destination */
	struct perf_oracle *oracle;
	double *times[WHATS];
	size_t size, count;
	int datatype, op, level, nsrc, reps;
	unsigned flags;
};

static const struct perf_column columns[] = {
	{"size", "size", "(B)", 13, 0, PERF_INT},
	{"type", "type", "", 9, 0, PERF_TEXT},
	{"redop", "redop", "", 6, 0, PERF_TEXT},
	{"sources", "sources", "", 8, 0, PERF_INT},
	{"level", "level", "", 7, 0, PERF_TEXT},
	{"stores", "stores", "", 7, 0, PERF_TEXT},
	{"time_us", "time", "(us)", 11, 0, PERF_USEC},
	{"traffic_gbs", "traffic", "(GB/s)", 8, 2, PERF_FIXED},
	{"copy_gbs", "copy", "(GB/s)", 8, 2, PERF_FIXED},
	{"percent", "kernel", "(%copy)", 8, 1, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

static size_t traffic(const struct kernel_job *job)
{
	return job->size * (size_t)(job->nsrc + 1);
}

/* The last level's, as far as the C library knows it. */
static size_t cache_size(void)
{
	long size = sysconf(_SC_LEVEL3_CACHE_SIZE);

	return size > 0 ? (size_t)size : (size_t)8 << 20;
}

static void reduce(const struct kernel_job *job)
{
	const void *src[MOST_SOURCES];
	void *dst = job->bufs[job->nsrc].data;
	int k;

	for (k = 0; k < job->nsrc; k++)
		src[k] = job->bufs[k].data;
	tt_reduce_multi(&dst, 1, src, job->nsrc, job->count, job->datatype, job->op,
			job->op == TUTTI_AVG ? job->nsrc : 0, job->flags);
}

/* A line of the cache, in as few registers as the processor has it in. */
typedef uint64_t line __attribute__((vector_size(LINE)));
typedef line loose_line __attribute__((aligned(1), may_alias));
typedef void put_fn(void *dst, const line *x);

#define INLINE static inline __attribute__((always_inline))

/*
 * Writes a line for each group of lines read, one from each source in turn, in four streams side
 * by side, which is faster than one. The remainder is copied from each source.
 */
INLINE void copy_lines(const struct kernel_job *job, put_fn *put)
{
	size_t quarter = job->size / 4 / LINE * LINE, at;
	unsigned char *dst = job->bufs[job->nsrc].data, *rest = dst + 4 * quarter;
	line x = {0};
	const unsigned char *src;
	int k, part, taken = 0;

	for (k = 0; k < job->nsrc; k++) {
		src = job->bufs[k].data;
		for (at = 0; at < quarter; at += LINE)
#pragma GCC unroll 4
			for (part = 0; part < 4; part++) {
				x |= *(const loose_line *)(const void *)(src +
									 (size_t)part * quarter +
									 at);
				if (++taken < job->nsrc)
					continue;
				put(dst, &x);
				dst += LINE;
				taken = 0;
			}
		memcpy(rest, src + 4 * quarter, job->size - 4 * quarter);
	}
}

INLINE void put_plain(void *dst, const line *x)
{
	memcpy(dst, x, LINE);
}

#ifdef __x86_64__
INLINE void put_128(void *dst, const line *x)
{
	int i;

	for (i = 0; i < 4; i++)
		_mm_stream_si128((__m128i *)dst + i, ((const __m128i *)x)[i]);
}

INLINE __attribute__((target("avx2"))) void put_256(void *dst, const line *x)
{
	_mm256_stream_si256(dst, ((const __m256i *)x)[0]);
	_mm256_stream_si256((__m256i *)dst + 1, ((const __m256i *)x)[1]);
}

INLINE __attribute__((target("avx512f"))) void put_512(void *dst, const line *x)
{
	_mm512_stream_si512(dst, *(const __m512i *)x);
}

static __attribute__((target("avx2"))) void copy_256(const struct kernel_job *job, enum what what)
{
	copy_lines(job, what == PLAIN_COPY ? put_plain : put_256);
}

static __attribute__((target("avx512f"))) void copy_512(const struct kernel_job *job,
							enum what what)
{
	copy_lines(job, what == PLAIN_COPY ? put_plain : put_512);
}

/* By the widest registers that there are. */
static void copy(const struct kernel_job *job, enum what what)
{
	if (__builtin_cpu_supports("avx512f"))
		copy_512(job, what);
	else if (__builtin_cpu_supports("avx2"))
		copy_256(job, what);
	else
		copy_lines(job, what == PLAIN_COPY ? put_plain : put_128);
	_mm_sfence();
}
#else
static void copy(const struct kernel_job *job, enum what what)
{
	(void)what;
	copy_lines(job, put_plain);
}
#endif

/* A kernel never waits, so what counts is the time that this thread has had a CPU. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Microseconds of one, at this rank; all begin together. */
static int sample(const struct kernel_job *job, enum what what, double *usec)
{
	uint64_t start;
	int i, err;

	err = tutti_barrier(job->perf->world);
	if (err)
		return perf_call_failed(job->perf, "barrier", err);
	start = cpu_ns();
	for (i = 0; i < job->reps; i++)
		what == KERNEL ? reduce(job) : copy(job, what);
	*usec = (double)(cpu_ns() - start) / 1e3 / job->reps;
	return 0;
}

static void fill(const struct kernel_job *job)
{
	struct perf_oracle *oracle = job->oracle;
	size_t elem = job->size / job->count;
	int k;

	for (k = 0; k < job->nsrc; k++) {
		perf_oracle_given(oracle, job->count, k);
		perf_repeat(job->bufs[k].data, oracle->input, oracle->period, job->count, elem);
	}
	perf_oracle_reduce(oracle, job->count, job->nsrc - 1);
	memset(job->bufs[job->nsrc].data, 0x5a, job->size);
}

/* Kernel and copies in turn, so that what disturbs one disturbs all; medians of the slowest ranks.
 */
static int measure(const struct kernel_job *job, struct perf_summary sums[WHATS])
{
	const struct perf_options *opt = &job->perf->opt;
	int i, what, err = 0;
	double none;

	for (i = -opt->warmup; i < opt->iters; i++)
		for (what = 0; what < WHATS && !err; what++) {
			err = sample(job, what, i < 0 ? &none : &job->times[what][i]);
			perf_progress(job->perf, "measuring");
		}
	for (what = 0; what < WHATS && !err; what++) {
		err = tutti_allreduce(TUTTI_IN_PLACE, job->times[what], (size_t)opt->iters,
				      TUTTI_FLOAT64, TUTTI_MAX, job->perf->world);
		if (err)
			return perf_call_failed(job->perf, "allreduce", err);
		perf_summarize(job->times[what], (size_t)opt->iters, &sums[what]);
	}
	return err;
}

static int check(const struct kernel_job *job, double *wrong)
{
	const struct perf_oracle *oracle = job->oracle;
	int i;

	*wrong = 0;
	for (i = 0; i < job->perf->opt.check; i++) {
		job->oracle->seed = (uint64_t)i;
		fill(job);
		reduce(job);
		*wrong += (double)perf_count_wrong(job->bufs[job->nsrc].data, oracle->expected,
						   oracle->period, job->count,
						   job->size / job->count);
	}
	return perf_agree_found(job->perf, wrong, 0);
}

static int one_row(struct kernel_job *job)
{
	struct perf *perf = job->perf;
	struct perf_summary sums[WHATS];
	double wrong, gbs, copy_gbs;
	int err;

	perf_progress_row(perf, job->size);
	fill(job);
	err = measure(job, sums);
	if (!err)
		err = check(job, &wrong);
	if (err)
		return err;
	gbs = (double)traffic(job) / sums[KERNEL].median / 1e3;
	copy_gbs =
		(double)traffic(job) / 1e3 /
		(sums[PLAIN_COPY].median < sums[STREAMED_COPY].median ? sums[PLAIN_COPY].median
								      : sums[STREAMED_COPY].median);
	if (perf->rank)
		return 0;
	return perf_table_row(&perf->table,
			      (struct perf_cell[]){{.number = (int64_t)job->size},
						   {.text = perf_type_name(job->datatype)},
						   {.text = perf_op_name(job->op)},
						   {.number = job->nsrc},
						   {.text = perf_level_names[job->level]},
						   {.text = job->flags ? "stream" : "plain"},
						   {.real = sums[KERNEL].median},
						   {.real = gbs},
						   {.real = copy_gbs},
						   {.real = 100 * gbs / copy_gbs},
						   {.number = (int64_t)wrong}});
}

/* The size that was asked for, or the next below that is whole elements and not nothing. */
static int one_size(struct kernel_job *job, size_t size)
{
	const struct perf_options *opt = &job->perf->opt;
	size_t elem = tutti_datatype_size(job->datatype);

	job->count = size / elem ? size / elem : 1;
	job->size = job->count * elem;
	job->reps = 1 + (int)(SAMPLE_BYTES / traffic(job));
	job->flags = opt->stores ? (opt->stores == PERF_STREAM ? TT_REDUCE_STREAM : 0)
				 : (traffic(job) >= cache_size() ? TT_REDUCE_STREAM : 0);
	return one_row(job);
}

static int all_sizes(struct kernel_job *job)
{
	const struct perf_options *opt = &job->perf->opt;
	size_t size = opt->minbytes;
	int err;

	job->oracle->datatype = job->datatype;
	job->oracle->op = job->op;
	job->oracle->nranks = job->nsrc;
	do
		err = one_size(job, size);
	while (!err && (size = perf_next_size(opt, size, job->size + job->size / job->count)));
	return err;
}

static int all_sources(struct kernel_job *job)
{
	static const int usual[] = {2, 3, 4, 8};
	int i, err = 0;

	job->nsrc = job->perf->opt.sources;
	if (job->nsrc)
		return all_sizes(job);
	for (i = 0; i < 4 && !err; i++) {
		job->nsrc = usual[i];
		err = all_sizes(job);
	}
	return err;
}

static int all_levels(struct kernel_job *job)
{
	int level = job->perf->opt.level, best = (int)tt_reduce_best(), err = 0;

	for (job->level = 0; job->level < PERF_LEVELS && !err; job->level++)
		if (job->level == (level == PERF_BEST ? best : level) || level == PERF_ALL)
			err = tt_reduce_use((enum tt_reduce_level)job->level) ? all_sources(job)
									      : 0;
	return err;
}

static int all_types(struct kernel_job *job)
{
	const struct perf_options *opt = &job->perf->opt;
	int err = 0;

	for (job->datatype = 0; job->datatype < TUTTI_NUM_DATATYPES && !err; job->datatype++)
		for (job->op = 0; job->op < TUTTI_NUM_OPS && !err; job->op++)
			if ((opt->datatype == PERF_ALL || opt->datatype == job->datatype) &&
			    (opt->op == PERF_ALL || opt->op == job->op) &&
			    perf_op_fits(job->datatype, job->op))
				err = all_levels(job);
	return err;
}

/* A level that is asked for by name has to be there, on all ranks. */
static int check_level(struct perf *perf)
{
	int level = perf->opt.level;
	double missing = level >= 0 && !tt_reduce_use((enum tt_reduce_level)level);
	int err = perf_agree(perf, &missing, TUTTI_SUM);

	if (err || !missing)
		return err;
	if (!perf->rank)
		fprintf(stderr, "tutti_perf: --level %s is not for the CPU of %.0f of %d ranks\n",
			perf_level_names[level], missing, perf->nranks);
	return -ENOTSUP;
}

int perf_run_kernel(struct perf *perf)
{
	int nbufs = 1 + (perf->opt.sources ? perf->opt.sources : 8), err, i;
	struct perf_buffer bufs[MOST_SOURCES + 1];
	struct perf_oracle oracle = {0};
	struct kernel_job job = {.perf = perf, .bufs = bufs, .oracle = &oracle};
	double *times;

	tt_reduce_add_reference();
	err = check_level(perf);
	if (err)
		return err;
	times = calloc((size_t)perf->opt.iters * WHATS, sizeof(*times));
	err = times ? perf_oracle_init(&oracle) : -ENOMEM;
	if (err) {
		perf_call_failed(perf, "making room for times and results", err);
		goto free_times;
	}
	for (i = 0; i < WHATS; i++)
		job.times[i] = times + i * perf->opt.iters;
	err = perf_buffers_get(perf, bufs, nbufs, perf->opt.maxbytes > 8 ? perf->opt.maxbytes : 8);
	if (err)
		goto free_oracle;
	perf_table_begin(&perf->table, columns, sizeof(columns) / sizeof(*columns));
	if (!perf->rank)
		perf_table_heading(&perf->table);
	err = all_types(&job);
	perf_buffers_put(bufs, nbufs);
free_oracle:
	perf_oracle_free(&oracle);
free_times:
	free(times);
	return err;
}
