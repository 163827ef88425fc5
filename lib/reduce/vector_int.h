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

INLINE vec sum_8(vec a, vec b)
{
	return (vec)((vec_u8)a + (vec_u8)b);
}

INLINE vec prod_8(vec a, vec b)
{
	return (vec)((vec_u8)a * (vec_u8)b);
}

INLINE vec sum_16(vec a, vec b)
{
	return (vec)((vec_u16)a + (vec_u16)b);
}

INLINE vec prod_16(vec a, vec b)
{
	return (vec)((vec_u16)a * (vec_u16)b);
}

INLINE vec sum_32(vec a, vec b)
{
	return (vec)((vec_u32)a + (vec_u32)b);
}

INLINE vec prod_32(vec a, vec b)
{
	return (vec)((vec_u32)a * (vec_u32)b);
}

INLINE vec sum_64(vec a, vec b)
{
	return a + b;
}

INLINE vec prod_64(vec a, vec b)
{
	return a * b;
}

INLINE vec min_i8(vec a, vec b)
{
	return pick((vec)((vec_i8)b < (vec_i8)a), b, a);
}

INLINE vec max_i8(vec a, vec b)
{
	return pick((vec)((vec_i8)b > (vec_i8)a), b, a);
}

static vec divide_i8(vec x, int n)
{
	int8_t e[TT_VEC / sizeof(int8_t)];
	size_t i;

	memcpy(e, &x, sizeof(e));
	for (i = 0; i < TT_VEC / sizeof(*e); i++)
		e[i] = (int8_t)(e[i] / n);
	return load_vec(e);
}

static void run_i8(const struct tt_reduce_job *job)
{
	static const struct int_ops ops = {sum_8,     prod_8, min_i8, max_i8,
					   divide_i8, land_8, lor_8,  lxor_8};

	run_int(job, &ops);
}

INLINE vec min_u8(vec a, vec b)
{
	return pick((vec)((vec_u8)b < (vec_u8)a), b, a);
}

INLINE vec max_u8(vec a, vec b)
{
	return pick((vec)((vec_u8)b > (vec_u8)a), b, a);
}

static vec divide_u8(vec x, int n)
{
	uint8_t e[TT_VEC / sizeof(uint8_t)];
	size_t i;

	memcpy(e, &x, sizeof(e));
	for (i = 0; i < TT_VEC / sizeof(*e); i++)
		e[i] = (uint8_t)(e[i] / n);
	return load_vec(e);
}

static void run_u8(const struct tt_reduce_job *job)
{
	static const struct int_ops ops = {sum_8,     prod_8, min_u8, max_u8,
					   divide_u8, land_8, lor_8,  lxor_8};

	run_int(job, &ops);
}

INLINE vec min_i16(vec a, vec b)
{
	return pick((vec)((vec_i16)b < (vec_i16)a), b, a);
}

INLINE vec max_i16(vec a, vec b)
{
	return pick((vec)((vec_i16)b > (vec_i16)a), b, a);
}

static vec divide_i16(vec x, int n)
{
	int16_t e[TT_VEC / sizeof(int16_t)];
	size_t i;

	memcpy(e, &x, sizeof(e));
	for (i = 0; i < TT_VEC / sizeof(*e); i++)
		e[i] = (int16_t)(e[i] / n);
	return load_vec(e);
}

static void run_i16(const struct tt_reduce_job *job)
{
	static const struct int_ops ops = {sum_16,     prod_16, min_i16, max_i16,
					   divide_i16, land_16, lor_16,	 lxor_16};

	run_int(job, &ops);
}

INLINE vec min_u16(vec a, vec b)
{
	return pick((vec)((vec_u16)b < (vec_u16)a), b, a);
}

INLINE vec max_u16(vec a, vec b)
{
	return pick((vec)((vec_u16)b > (vec_u16)a), b, a);
}

static vec divide_u16(vec x, int n)
{
	uint16_t e[TT_VEC / sizeof(uint16_t)];
	size_t i;

	memcpy(e, &x, sizeof(e));
	for (i = 0; i < TT_VEC / sizeof(*e); i++)
		e[i] = (uint16_t)(e[i] / n);
	return load_vec(e);
}

static void run_u16(const struct tt_reduce_job *job)
{
	static const struct int_ops ops = {sum_16,     prod_16, min_u16, max_u16,
					   divide_u16, land_16, lor_16,	 lxor_16};

	run_int(job, &ops);
}

INLINE vec min_i32(vec a, vec b)
{
	return pick((vec)((vec_i32)b < (vec_i32)a), b, a);
}

INLINE vec max_i32(vec a, vec b)
{
	return pick((vec)((vec_i32)b > (vec_i32)a), b, a);
}

static vec divide_i32(vec x, int n)
{
	int32_t e[TT_VEC / sizeof(int32_t)];
	size_t i;

	memcpy(e, &x, sizeof(e));
	for (i = 0; i < TT_VEC / sizeof(*e); i++)
		e[i] = e[i] / n;
	return load_vec(e);
}

static void run_i32(const struct tt_reduce_job *job)
{
	static const struct int_ops ops = {sum_32,     prod_32, min_i32, max_i32,
					   divide_i32, land_32, lor_32,	 lxor_32};

	run_int(job, &ops);
}

INLINE vec min_u32(vec a, vec b)
{
	return pick((vec)((vec_u32)b < (vec_u32)a), b, a);
}

INLINE vec max_u32(vec a, vec b)
{
	return pick((vec)((vec_u32)b > (vec_u32)a), b, a);
}

static vec divide_u32(vec x, int n)
{
	uint32_t e[TT_VEC / sizeof(uint32_t)];
	size_t i;

	memcpy(e, &x, sizeof(e));
	for (i = 0; i < TT_VEC / sizeof(*e); i++)
		e[i] = e[i] / (uint32_t)n;
	return load_vec(e);
}

static void run_u32(const struct tt_reduce_job *job)
{
	static const struct int_ops ops = {sum_32,     prod_32, min_u32, max_u32,
					   divide_u32, land_32, lor_32,	 lxor_32};

	run_int(job, &ops);
}

INLINE vec min_i64(vec a, vec b)
{
	return pick((vec)((vec_i64)b < (vec_i64)a), b, a);
}

INLINE vec max_i64(vec a, vec b)
{
	return pick((vec)((vec_i64)b > (vec_i64)a), b, a);
}

static vec divide_i64(vec x, int n)
{
	int64_t e[TT_VEC / sizeof(int64_t)];
	size_t i;

	memcpy(e, &x, sizeof(e));
	for (i = 0; i < TT_VEC / sizeof(*e); i++)
		e[i] = e[i] / n;
	return load_vec(e);
}

static void run_i64(const struct tt_reduce_job *job)
{
	static const struct int_ops ops = {sum_64,     prod_64, min_i64, max_i64,
					   divide_i64, land_64, lor_64,	 lxor_64};

	run_int(job, &ops);
}

INLINE vec min_u64(vec a, vec b)
{
	return pick((vec)((vec_u64)b < (vec_u64)a), b, a);
}

INLINE vec max_u64(vec a, vec b)
{
	return pick((vec)((vec_u64)b > (vec_u64)a), b, a);
}

static vec divide_u64(vec x, int n)
{
	uint64_t e[TT_VEC / sizeof(uint64_t)];
	size_t i;

	memcpy(e, &x, sizeof(e));
	for (i = 0; i < TT_VEC / sizeof(*e); i++)
		e[i] = e[i] / (uint64_t)n;
	return load_vec(e);
}

static void run_u64(const struct tt_reduce_job *job)
{
	static const struct int_ops ops = {sum_64,     prod_64, min_u64, max_u64,
					   divide_u64, land_64, lor_64,	 lxor_64};

	run_int(job, &ops);
}

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
