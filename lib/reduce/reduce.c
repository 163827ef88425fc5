/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the kernels for this CPU; names of datatypes and operators. */
#include "config.h"
#include "lib/reduce/reduce.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "lib/reduce/kernels.h"

#define SCALE_BLOCK 4096 /* bytes */

static const struct tt_kernels *const kernels[TT_REDUCE_LEVELS] = {
	[TT_REDUCE_BASE] = &tt_kernels_base,
#ifdef TT_HAVE_AVX2
	[TT_REDUCE_AVX2] = &tt_kernels_avx2,
#endif
#ifdef TT_HAVE_AVX512
	[TT_REDUCE_AVX512] = &tt_kernels_avx512,
#endif
};

tt_reduce_truth_fn *tt_reduce_truth;
const struct tt_kernels *tt_kernels_truth;

static atomic_int chosen = -1; /* an enum tt_reduce_level */

static bool cpu_has(enum tt_reduce_level level)
{
	switch (level) {
	case TT_REDUCE_TRUTH:
		return tt_reduce_truth != NULL;
	case TT_REDUCE_BASE:
		return true;
#ifdef TT_HAVE_AVX2
	case TT_REDUCE_AVX2:
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
#endif
#ifdef TT_HAVE_AVX512
	case TT_REDUCE_AVX512:
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
	default:
		return false;
	}
}

enum tt_reduce_level tt_reduce_best(void)
{
	enum tt_reduce_level level = TT_REDUCE_LEVELS - 1;

	while (!cpu_has(level))
		level--;
	return level;
}

bool tt_reduce_use(enum tt_reduce_level level)
{
	if (!cpu_has(level))
		return false;
	atomic_store_explicit(&chosen, (int)level, memory_order_relaxed);
	return true;
}

enum tt_reduce_level tt_reduce_level(void)
{
	int level = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (level < 0) { /* several threads may find the same */
		level = (int)tt_reduce_best();
		atomic_store_explicit(&chosen, level, memory_order_relaxed);
	}
	return (enum tt_reduce_level)level;
}

const struct tt_kernels *tt_reduce_kernels(void)
{
	enum tt_reduce_level level = tt_reduce_level();

	return level == TT_REDUCE_TRUTH ? tt_kernels_truth : kernels[level];
}

static void run(const struct tt_reduce_job *job, enum tutti_datatype datatype)
{
	enum tt_reduce_level level = tt_reduce_level();

	if (level == TT_REDUCE_TRUTH)
		tt_reduce_truth(job, datatype);
	else
		kernels[level]->of[datatype](job);
}

/*
 * How many bytes to do plainly before the result is where a line of the cache begins, for all dst;
 * or all of them, when that is nowhere, or a dst is a src.
 */
static size_t before_stream(const struct tt_reduce_job *job, size_t elem)
{
	size_t off = (uintptr_t)job->dst[0] % TT_REDUCE_LINE,
	       before = (TT_REDUCE_LINE - off) % TT_REDUCE_LINE;
	int i, k;

	for (i = 0; i < job->ndst; i++) {
		if ((uintptr_t)job->dst[i] % TT_REDUCE_LINE != off)
			return job->to;
		for (k = 0; k < job->nsrc; k++)
			if (job->dst[i] == job->src[k])
				return job->to;
	}
	return before % elem || before > job->to ? job->to : before;
}

void tt_reduce_multi(void *const *dst, int ndst, const void *const *src, int nsrc, size_t count,
		     enum tutti_datatype datatype, enum tutti_op op, int divide_by, unsigned flags)
{
	size_t elem = tutti_datatype_size(datatype);
	struct tt_reduce_job job = {.dst = dst,
				    .src = src,
				    .ndst = ndst,
				    .nsrc = nsrc,
				    .to = count * elem,
				    .op = op,
				    .divide_by = divide_by};

	if (flags & TT_REDUCE_STREAM) {
		job.to = before_stream(&job, elem);
		run(&job, datatype);
		job.from = job.to;
		job.to = count * elem;
		job.stream = true;
	}
	if (job.from < job.to)
		run(&job, datatype);
}

void tt_reduce_sum(float *dst, const void *a, const void *b, size_t count)
{
	const void *both[] = {a, b};
	void *to = dst;

	tt_reduce_multi(&to, 1, both, 2, count, TUTTI_FLOAT32, TUTTI_SUM, 0, 0);
}

/* A product of two sources, one of which is the scalar over and over. */
void tt_reduce_scale(void *dst, const void *src, size_t count, enum tutti_datatype datatype,
		     const void *scalar)
{
	size_t elem = tutti_datatype_size(datatype), per = SCALE_BLOCK / elem, i, n;
	char block[SCALE_BLOCK];
	const void *both[] = {src, block};

	for (i = 0; i < per && i < count; i++)
		memcpy(block + i * elem, scalar, elem);
	for (i = 0; i < count; i += n) {
		n = count - i < per ? count - i : per;
		tt_reduce_multi(&dst, 1, both, 2, n, datatype, TUTTI_PROD, 0, 0);
		dst = (char *)dst + n * elem;
		both[0] = (const char *)both[0] + n * elem;
	}
}

bool tt_reduce_valid(enum tutti_datatype datatype, enum tutti_op op)
{
	static const unsigned order = 1u << TUTTI_MIN | 1u << TUTTI_MAX;
	static const unsigned sums = 1u << TUTTI_SUM | 1u << TUTTI_PROD | 1u << TUTTI_AVG;
	static const unsigned bits = 1u << TUTTI_BAND | 1u << TUTTI_BOR | 1u << TUTTI_BXOR;
	static const unsigned logic = 1u << TUTTI_LAND | 1u << TUTTI_LOR | 1u << TUTTI_LXOR;
	static const unsigned index = 1u << TUTTI_MINLOC | 1u << TUTTI_MAXLOC;
	unsigned has;

	if ((unsigned)datatype >= TUTTI_NUM_DATATYPES || (unsigned)op >= TUTTI_NUM_OPS)
		return false;
	if (datatype < TUTTI_BOOL)
		has = sums | order | bits | logic;
	else if (datatype == TUTTI_BOOL)
		has = logic;
	else if (datatype < TUTTI_COMPLEX64)
		has = sums | order;
	else
		has = datatype < TUTTI_INT32_INDEX ? sums : index;
	return has >> op & 1;
}
