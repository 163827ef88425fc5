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

/* Operations that depend neither on sign nor on size. */
INLINE void run_bits(const struct tt_reduce_job *job)
{
	switch (job->op) {
	case TUTTI_BAND:
		return run(job, &whole, band, as_is);
	case TUTTI_BOR:
		return run(job, &whole, bor, as_is);
	default:
		return run(job, &whole, bxor, as_is);
	}
}

/*
 * An operator of each kind for an integer type; sum, prod and the logical ones do not depend on the
 * sign.
 */
struct int_ops {
	op_fn *sum, *prod, *min, *max;
	end_fn *divide;
	op_fn *land, *lor, *lxor;
};

#define LOGIC(bits)                                                                                \
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
	}
LOGIC(8)
LOGIC(16)
LOGIC(32)
LOGIC(64)

INLINE void run_int(const struct tt_reduce_job *job, const struct int_ops *ops)
{
	switch (job->op) {
	case TUTTI_SUM:
	case TUTTI_AVG:
		if (job->divide_by)
			return run(job, &whole, ops->sum, ops->divide);
		return run(job, &whole, ops->sum, as_is);
	case TUTTI_PROD:
		return run(job, &whole, ops->prod, as_is);
	case TUTTI_MIN:
		return run(job, &whole, ops->min, as_is);
	case TUTTI_MAX:
		return run(job, &whole, ops->max, as_is);
	case TUTTI_LAND:
		return run(job, &whole, ops->land, as_is);
	case TUTTI_LOR:
		return run(job, &whole, ops->lor, as_is);
	case TUTTI_LXOR:
		return run(job, &whole, ops->lxor, as_is);
	default:
		return run_bits(job);
	}
}

#define WRAPPING(bits)                                                                             \
	INLINE vec sum_##bits(vec a, vec b)                                                        \
	{                                                                                          \
		return (vec)((vec_u##bits)a + (vec_u##bits)b);                                     \
	}                                                                                          \
	INLINE vec prod_##bits(vec a, vec b)                                                       \
	{                                                                                          \
		return (vec)((vec_u##bits)a * (vec_u##bits)b);                                     \
	}
WRAPPING(8)
WRAPPING(16)
WRAPPING(32)
WRAPPING(64)

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
	static void run_##name(const struct tt_reduce_job *job)                                    \
	{                                                                                          \
		static const struct int_ops ops = {                                                \
			.sum = sum_##bits,                                                         \
			.prod = prod_##bits,                                                       \
			.min = min_##name,                                                         \
			.max = max_##name,                                                         \
			.divide = divide_##name,                                                   \
			.land = land_##bits,                                                       \
			.lor = lor_##bits,                                                         \
			.lxor = lxor_##bits,                                                       \
		};                                                                                 \
                                                                                                   \
		run_int(job, &ops);                                                                \
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
		return run(job, &whole, land_8, as_is);
	case TUTTI_LOR:
		return run(job, &whole, lor_8, as_is);
	default:
		return run(job, &whole, lxor_8, as_is);
	}
}

#endif
