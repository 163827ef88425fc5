/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of the floats, and of complex numbers. */
#ifndef TT_VECTOR_FLOAT_H
#define TT_VECTOR_FLOAT_H

#include "lib/reduce/vector_run.h"

/* Floats. A NaN on either side of min and max stays; of equal operands they give the left one. */

struct float_ops {
	op_fn *sum, *prod, *min, *max;
	end_fn *end, *divide;
};

INLINE void run_float(const struct tt_reduce_job *job, const struct form *form,
		      const struct float_ops *ops)
{
	switch (job->op) {
	case TUTTI_PROD:
		return run(job, form, ops->prod, ops->end);
	case TUTTI_MIN:
		return run(job, form, ops->min, ops->end);
	case TUTTI_MAX:
		return run(job, form, ops->max, ops->end);
	default:
		if (job->divide_by)
			return run(job, form, ops->sum, ops->divide);
		return run(job, form, ops->sum, ops->end);
	}
}

#define FLOAT(name, type, nan)                                                                     \
	INLINE vec sum_##name(vec a, vec b)                                                        \
	{                                                                                          \
		return (vec)((vec_##name)a + (vec_##name)b);                                       \
	}                                                                                          \
	INLINE vec prod_##name(vec a, vec b)                                                       \
	{                                                                                          \
		return (vec)((vec_##name)a * (vec_##name)b);                                       \
	}                                                                                          \
	INLINE vec min_##name(vec a, vec b)                                                        \
	{                                                                                          \
		vec_##name x = (vec_##name)a, y = (vec_##name)b;                                   \
                                                                                                   \
		return pick((vec)((y < x) | (y != y)), b, a);                                      \
	}                                                                                          \
	INLINE vec max_##name(vec a, vec b)                                                        \
	{                                                                                          \
		vec_##name x = (vec_##name)a, y = (vec_##name)b;                                   \
                                                                                                   \
		return pick((vec)((y > x) | (y != y)), b, a);                                      \
	}                                                                                          \
	INLINE vec end_##name(vec a, int n)                                                        \
	{                                                                                          \
		vec_##name x = (vec_##name)a;                                                      \
                                                                                                   \
		return pick((vec)(x == x), a, (vec)((vec_##name){0} + (nan)));                     \
	}                                                                                          \
	INLINE vec divide_##name(vec a, int n)                                                     \
	{                                                                                          \
		return end_##name((vec)((vec_##name)a / (type)n), n);                              \
	}                                                                                          \
	static const struct float_ops name##_ops = {                                               \
		.sum = sum_##name,                                                                 \
		.prod = prod_##name,                                                               \
		.min = min_##name,                                                                 \
		.max = max_##name,                                                                 \
		.end = end_##name,                                                                 \
		.divide = divide_##name,                                                           \
	};                                                                                         \
	static void run_##name(const struct tt_reduce_job *job)                                    \
	{                                                                                          \
		run_float(job, &whole, &name##_ops);                                               \
	}
FLOAT(f32, float, __builtin_nanf(""))
FLOAT(f64, double, __builtin_nan(""))

/* The 16-bit floats are float32s in registers. */

INLINE vec load_f16(const void *p, int part)
{
	return (vec)widen_f16(load_half(p));
}

INLINE void store_f16(void *p, const vec *x)
{
	store_half(p, narrow_f16((vec_f32)*x));
}

INLINE void stream_f16(void *p, const vec *x)
{
	stream_half(p, narrow_f16((vec_f32)*x));
}

static void run_f16(const struct tt_reduce_job *job)
{
	static const struct form form = {TT_VEC / 2, 1, load_f16, store_f16, stream_f16};

	run_float(job, &form, &f32_ops);
}

/*
 * Of 32 bits in memory the lower element is in one vector, the upper one in another: no element
 * changes its place in a register.
 */
INLINE vec load_bf16(const void *p, int part)
{
	vec_u32 both = (vec_u32)load_vec(p);

	return (vec)(part ? both & 0xffff0000 : both << 16);
}

/* To nearest even, in the upper half. Every NaN becomes the NaN whose lower bits are 0. */
INLINE vec_u32 round_bf16(vec x)
{
	vec_u32 u = (vec_u32)x;

	return u + 0x7fff + (u >> 16 & 1);
}

INLINE vec pair_bf16(const vec *x)
{
	return (vec)(round_bf16(x[0]) >> 16 | (round_bf16(x[1]) & 0xffff0000));
}

INLINE void store_bf16(void *p, const vec *x)
{
	vec both = pair_bf16(x);

	memcpy(p, &both, sizeof(both));
}

INLINE void stream_bf16(void *p, const vec *x)
{
	stream_vec(p, pair_bf16(x));
}

static void run_bf16(const struct tt_reduce_job *job)
{
	static const struct form form = {TT_VEC, 2, load_bf16, store_bf16, stream_bf16};

	run_float(job, &form, &f32_ops);
}

/* Complex numbers: all but the product is that of their parts. */

INLINE vec prod_c64(vec a, vec b)
{
	const vec low = (vec){0} + 0xffffffff;
	vec re = (a & low) | a << 32, im = (a & ~low) | a >> 32, swapped = b << 32 | b >> 32;
	vec sign = (vec){0} + 0x80000000; /* of the real parts: their second term is subtracted */
	vec_f32 first = (vec_f32)re * (vec_f32)b, second = (vec_f32)im * (vec_f32)swapped;

	return (vec)(first + (vec_f32)((vec)second ^ sign));
}

static void run_c64(const struct tt_reduce_job *job)
{
	if (job->op == TUTTI_PROD)
		return run(job, &whole, prod_c64, end_f32);
	run_f32(job);
}

static vec prod_c128(vec a, vec b)
{
	vec_f64 x = (vec_f64)a, y = (vec_f64)b, r;
	size_t i;

	for (i = 0; i < TT_VEC / sizeof(double); i += 2) {
		r[i] = x[i] * y[i] - x[i + 1] * y[i + 1];
		r[i + 1] = x[i] * y[i + 1] + x[i + 1] * y[i];
	}
	return (vec)r;
}

static void run_c128(const struct tt_reduce_job *job)
{
	if (job->op == TUTTI_PROD)
		return run(job, &whole, prod_c128, end_f64);
	run_f64(job);
}

#endif
