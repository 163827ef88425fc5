/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of value-index pairs. */
#ifndef TT_VECTOR_PAIR_H
#define TT_VECTOR_PAIR_H

#include "lib/reduce/vector_float.h"

/*
 * Value-index pairs. first: where b's value is before a's; same: where they are equal. A NaN is
 * before every number. Of equal values, the lower index stays.
 */

#define LOW ((vec){0} + 0xffffffff)

INLINE vec pick_32(vec first, vec same, vec a, vec b)
{
	vec lower = (vec)((vec_i32)b < (vec_i32)a) >> 32, take = (first | (same & lower)) & LOW;

	return pick(take | take << 32, b, a);
}

INLINE vec minloc_i32(vec a, vec b)
{
	return pick_32((vec)((vec_i32)b < (vec_i32)a), (vec)((vec_i32)b == (vec_i32)a), a, b);
}

INLINE vec maxloc_i32(vec a, vec b)
{
	return pick_32((vec)((vec_i32)b > (vec_i32)a), (vec)((vec_i32)b == (vec_i32)a), a, b);
}

static void run_i32_index(const struct tt_reduce_job *job)
{
	if (job->op == TUTTI_MINLOC)
		return run(job, &whole, minloc_i32, as_is);
	run(job, &whole, maxloc_i32, as_is);
}

INLINE vec minloc_f32(vec a, vec b)
{
	vec_f32 x = (vec_f32)a, y = (vec_f32)b;

	return pick_32((vec)((y < x) | ((y != y) & (x == x))),
		       (vec)((y == x) | ((y != y) & (x != x))), a, b);
}

INLINE vec maxloc_f32(vec a, vec b)
{
	vec_f32 x = (vec_f32)a, y = (vec_f32)b;

	return pick_32((vec)((y > x) | ((y != y) & (x == x))),
		       (vec)((y == x) | ((y != y) & (x != x))), a, b);
}

/* The one NaN, in the values only. */
INLINE vec end_f32_index(vec a, int n)
{
	return pick(LOW, end_f32(a, n), a);
}

static void run_f32_index(const struct tt_reduce_job *job)
{
	if (job->op == TUTTI_MINLOC)
		return run(job, &whole, minloc_f32, end_f32_index);
	run(job, &whole, maxloc_f32, end_f32_index);
}

/* Pairs of 16 bytes, element by element. */
#define PAIRS_64(name, type, vec_type, before)                                                     \
	static vec name(vec a, vec b)                                                              \
	{                                                                                          \
		vec_type values_a = (vec_type)a, values_b = (vec_type)b;                           \
		vec_i64 index_a = (vec_i64)a, index_b = (vec_i64)b;                                \
		size_t i;                                                                          \
                                                                                                   \
		for (i = 0; i < TT_VEC / sizeof(type); i += 2) {                                   \
			type x = values_a[i], y = values_b[i];                                     \
			bool both = x == y || (x != x && y != y);                                  \
                                                                                                   \
			if (y before x || (y != y && x == x) ||                                    \
			    (both && index_b[i + 1] < index_a[i + 1])) {                           \
				a[i] = b[i];                                                       \
				a[i + 1] = b[i + 1];                                               \
			}                                                                          \
		}                                                                                  \
		return a;                                                                          \
	}
PAIRS_64(minloc_i64, int64_t, vec_i64, <)
PAIRS_64(maxloc_i64, int64_t, vec_i64, >)
PAIRS_64(minloc_f64, double, vec_f64, <)
PAIRS_64(maxloc_f64, double, vec_f64, >)

static void run_i64_index(const struct tt_reduce_job *job)
{
	if (job->op == TUTTI_MINLOC)
		return run(job, &whole, minloc_i64, as_is);
	run(job, &whole, maxloc_i64, as_is);
}

static vec end_f64_index(vec a, int n)
{
	vec ended = end_f64(a, n);
	size_t i;

	for (i = 0; i < TT_VEC / sizeof(double); i += 2)
		a[i] = ended[i];
	return a;
}

static void run_f64_index(const struct tt_reduce_job *job)
{
	if (job->op == TUTTI_MINLOC)
		return run(job, &whole, minloc_f64, end_f64_index);
	run(job, &whole, maxloc_f64, end_f64_index);
}

#endif
