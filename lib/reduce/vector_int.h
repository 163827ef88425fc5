/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of integers and bool. */
#ifndef TT_VECTOR_INT_H
#define TT_VECTOR_INT_H

#include "lib/reduce/vector_run.h"

/* Integers: nothing happens at the end but a division, for which vectors have no instruction. */

INLINE vec as_is(vec x, int n)
{
	return x;
}

INLINE vec band(vec a, vec b)
{
	return a & b;
}

INLINE vec bor(vec a, vec b)
{
	return a | b;
}

INLINE vec bxor(vec a, vec b)
{
	return a ^ b;
}

/* A loop; integer types share those that depend neither on the sign nor on the size. */
#define KERNEL(name, op, end)                                                                      \
	static NOINLINE void run_##name(const struct tt_reduce_job *job)                           \
	{                                                                                          \
		run(job, &whole, op, end);                                                         \
	}
KERNEL(band, band, as_is)
KERNEL(bor, bor, as_is)
KERNEL(bxor, bxor, as_is)

/* Of a size: these do not depend on the sign. */
#define SIZE(bits)                                                                                 \
	INLINE vec is_##bits(vec x)                                                                \
	{                                                                                          \
		return (vec)((vec_u##bits)((vec_u##bits)x != 0) & 1);                              \
	}                                                                                          \
	INLINE vec land_##bits(vec a, vec b)                                                       \
	{                                                                                          \
		return is_##bits(a) & is_##bits(b);                                                \
	}                                                                                          \
	INLINE vec lor_##bits(vec a, vec b)                                                        \
	{                                                                                          \
		return is_##bits(a | b);                                                           \
	}                                                                                          \
	INLINE vec lxor_##bits(vec a, vec b)                                                       \
	{                                                                                          \
		return is_##bits(a) ^ is_##bits(b);                                                \
	}                                                                                          \
	INLINE vec sum_##bits(vec a, vec b)                                                        \
	{                                                                                          \
		return (vec)((vec_u##bits)a + (vec_u##bits)b);                                     \
	}                                                                                          \
	INLINE vec prod_##bits(vec a, vec b)                                                       \
	{                                                                                          \
		return (vec)((vec_u##bits)a * (vec_u##bits)b);                                     \
	}                                                                                          \
	KERNEL(land_##bits, land_##bits, as_is)                                                    \
	KERNEL(lor_##bits, lor_##bits, as_is)                                                      \
	KERNEL(lxor_##bits, lxor_##bits, as_is)                                                    \
	KERNEL(sum_##bits, sum_##bits, as_is)                                                      \
	KERNEL(prod_##bits, prod_##bits, as_is)
SIZE(8)
SIZE(16)
SIZE(32)
SIZE(64)

/* name: as in run_NAME; by: the type in which elements are divided by the number of ranks. */
#define INTEGER(name, type, bits, by)                                                              \
	INLINE vec min_##name(vec a, vec b)                                                        \
	{                                                                                          \
		return pick((vec)((vec_##name)b < (vec_##name)a), b, a);                           \
	}                                                                                          \
	INLINE vec max_##name(vec a, vec b)                                                        \
	{                                                                                          \
		return pick((vec)((vec_##name)b > (vec_##name)a), b, a);                           \
	}                                                                                          \
	static vec divide_##name(vec x, int n)                                                     \
	{                                                                                          \
		type e[TT_VEC / sizeof(type)];                                                     \
		size_t i;                                                                          \
                                                                                                   \
		memcpy(e, &x, sizeof(e));                                                          \
		for (i = 0; i < TT_VEC / sizeof(*e); i++)                                          \
			e[i] = (type)(e[i] / (by)n);                                               \
		return load_vec(e);                                                                \
	}                                                                                          \
	KERNEL(min_##name, min_##name, as_is)                                                      \
	KERNEL(max_##name, max_##name, as_is)                                                      \
	KERNEL(mean_##name, sum_##bits, divide_##name)                                             \
	static void run_##name(const struct tt_reduce_job *job)                                    \
	{                                                                                          \
		switch (job->op) {                                                                 \
		case TUTTI_SUM:                                                                    \
		case TUTTI_AVG:                                                                    \
			return job->divide_by ? run_mean_##name(job) : run_sum_##bits(job);        \
		case TUTTI_PROD:                                                                   \
			return run_prod_##bits(job);                                               \
		case TUTTI_MIN:                                                                    \
			return run_min_##name(job);                                                \
		case TUTTI_MAX:                                                                    \
			return run_max_##name(job);                                                \
		case TUTTI_LAND:                                                                   \
			return run_land_##bits(job);                                               \
		case TUTTI_LOR:                                                                    \
			return run_lor_##bits(job);                                                \
		case TUTTI_LXOR:                                                                   \
			return run_lxor_##bits(job);                                               \
		case TUTTI_BAND:                                                                   \
			return run_band(job);                                                      \
		case TUTTI_BOR:                                                                    \
			return run_bor(job);                                                       \
		default:                                                                           \
			return run_bxor(job);                                                      \
		}                                                                                  \
	}
INTEGER(i8, int8_t, 8, int)
INTEGER(u8, uint8_t, 8, int)
INTEGER(i16, int16_t, 16, int)
INTEGER(u16, uint16_t, 16, int)
INTEGER(i32, int32_t, 32, int)
INTEGER(u32, uint32_t, 32, uint32_t)
INTEGER(i64, int64_t, 64, int)
INTEGER(u64, uint64_t, 64, uint64_t)

/* Only the logical operators: see tt_reduce_valid. */
static void run_bool(const struct tt_reduce_job *job)
{
	switch (job->op) {
	case TUTTI_LAND:
		return run_land_8(job);
	case TUTTI_LOR:
		return run_lor_8(job);
	default:
		return run_lxor_8(job);
	}
}

#endif
