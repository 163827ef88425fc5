/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of all kernels, as plain C. scalar.c and avx2.c each include this once; the compiler's
 * vectorizer turns the same source into code for the instruction set of the file, which is as fast as
 * hand-written intrinsics here (memory bound from the second level of cache on) and can't disagree
 * with the scalar code. The includer first defines widen_f16() and narrow_f16(), for which the
 * vectorizer finds no instruction, and afterwards its table with KERNELS.
 *
 * Same bits everywhere: no contraction to fma (there is none to make: each result is one operation),
 * and a float result that is NaN is always the one canonical quiet NaN, because which of two NaN
 * operands survives depends on how the compiler ordered them. min and max of equal operands give a.
 */
#include <stdint.h>

#include "lib/reduce/half.h"
#include "lib/reduce/kernels.h"

#if defined(__clang__)
#define LOOP_HINT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOOP_HINT _Pragma("GCC ivdep") /* dst is a, b or neither: nothing is carried over */
#endif

/* dst[i] = expr of x = a[i] and y = b[i] */
#define LOOP(name, type, expr) \
	static void name(void *dst, const void *a, const void *b, size_t count) \
	{ \
		const type *pa = a, *pb = b; \
		type *d = dst; \
		size_t i; \
\
		LOOP_HINT \
		for (i = 0; i < count; i++) { \
			type x = pa[i], y = pb[i]; \
\
			d[i] = (type)(expr); \
		} \
	}

#define LOOP_DIVIDE(name, type, divisor, expr) \
	static void name(void *dst, const void *src, size_t count, int n) \
	{ \
		const divisor y = (divisor)n; \
		const type *s = src; \
		type *d = dst; \
		size_t i; \
\
		LOOP_HINT \
		for (i = 0; i < count; i++) { \
			type x = s[i]; \
\
			d[i] = (type)(expr); \
		} \
	}

/* dst[i] = expr of x = src[i] and y = *scalar */
#define LOOP_SCALE(name, type, expr) \
	static void name(void *dst, const void *src, size_t count, const void *scalar) \
	{ \
		const type y = *(const type *)scalar; \
		const type *s = src; \
		type *d = dst; \
		size_t i; \
\
		LOOP_HINT \
		for (i = 0; i < count; i++) { \
			type x = s[i]; \
\
			d[i] = (type)(expr); \
		} \
	}

/* Sums, products and bits wrap and so do not depend on the sign: the unsigned loop serves both. */
#define LOOPS_BITS(t, type) \
	LOOP(t##_sum, type, x + y) \
	LOOP(t##_prod, type, x * y) \
	LOOP(t##_band, type, x & y) \
	LOOP(t##_bor, type, x | y) \
	LOOP(t##_bxor, type, x ^ y) \
	LOOP_SCALE(t##_scale, type, x * y)
#define LOOPS_INT(t, type, divisor) \
	LOOP(t##_min, type, y < x ? y : x) \
	LOOP(t##_max, type, y > x ? y : x) \
	LOOP_DIVIDE(t##_divide, type, divisor, x / y)
#define LOOPS_FLOAT(t, type) \
	LOOP(t##_sum, type, canon_##t(x + y)) \
	LOOP(t##_prod, type, canon_##t(x * y)) \
	LOOP(t##_min, type, canon2_##t(x, y, y < x ? y : x)) \
	LOOP(t##_max, type, canon2_##t(x, y, y > x ? y : x)) \
	LOOP_DIVIDE(t##_divide, type, type, canon_##t(x / y)) \
	LOOP_SCALE(t##_scale, type, canon_##t(x * y))

static inline float canon_f32(float r)
{
	return r == r ? r : __builtin_nanf("");
}

static inline float canon2_f32(float x, float y, float r)
{
	return x == x && y == y ? r : __builtin_nanf("");
}

static inline double canon_f64(double r)
{
	return r == r ? r : __builtin_nan("");
}

static inline double canon2_f64(double x, double y, double r)
{
	return x == x && y == y ? r : __builtin_nan("");
}

LOOPS_BITS(u8, uint8_t)
LOOPS_BITS(u32, uint32_t)
LOOPS_BITS(u64, uint64_t)
LOOPS_INT(i8, int8_t, int)
LOOPS_INT(u8, uint8_t, int)
LOOPS_INT(i32, int32_t, int32_t)
LOOPS_INT(u32, uint32_t, uint32_t)
LOOPS_INT(i64, int64_t, int64_t)
LOOPS_INT(u64, uint64_t, uint64_t)
LOOPS_FLOAT(f32, float)
LOOPS_FLOAT(f64, double)

/*
 * The 16-bit floats go through float32 in blocks that stay in the first level of cache, so that the
 * conversions are the only thing they add.
 */
#define HALF_BLOCK 512

typedef void widen_fn(float *dst, const uint16_t *src, size_t count);
typedef void narrow_fn(uint16_t *dst, const float *src, size_t count);

static void widen_bf16(float *dst, const uint16_t *src, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		dst[i] = tt_bfloat_widen(src[i]);
}

static void narrow_bf16(uint16_t *dst, const float *src, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		dst[i] = tt_bfloat_narrow(src[i]);
}

static inline void half_reduce(uint16_t *d, const uint16_t *a, const uint16_t *b, size_t count,
			       tt_reduce_fn *op, widen_fn *widen, narrow_fn *narrow)
{
	float x[HALF_BLOCK], y[HALF_BLOCK];
	size_t k;

	for (; count; count -= k, d += k, a += k, b += k) {
		k = count < HALF_BLOCK ? count : HALF_BLOCK;
		widen(x, a, k);
		widen(y, b, k);
		op(x, x, y, k);
		narrow(d, x, k);
	}
}

static inline void half_divide(uint16_t *d, const uint16_t *s, size_t count, int n,
			       widen_fn *widen, narrow_fn *narrow)
{
	float x[HALF_BLOCK];
	size_t k;

	for (; count; count -= k, d += k, s += k) {
		k = count < HALF_BLOCK ? count : HALF_BLOCK;
		widen(x, s, k);
		f32_divide(x, x, k, n);
		narrow(d, x, k);
	}
}

static inline void half_scale(uint16_t *d, const uint16_t *s, size_t count, const uint16_t *scalar,
			      widen_fn *widen, narrow_fn *narrow)
{
	float x[HALF_BLOCK], y;
	size_t k;

	widen(&y, scalar, 1);
	for (; count; count -= k, d += k, s += k) {
		k = count < HALF_BLOCK ? count : HALF_BLOCK;
		widen(x, s, k);
		f32_scale(x, x, k, &y);
		narrow(d, x, k);
	}
}

#define HALF(t, op) \
	static void t##_##op(void *dst, const void *a, const void *b, size_t count) \
	{ \
		half_reduce(dst, a, b, count, f32_##op, widen_##t, narrow_##t); \
	}
#define LOOPS_HALF(t) \
	HALF(t, sum) \
	HALF(t, prod) \
	HALF(t, min) \
	HALF(t, max) \
	static void t##_divide(void *dst, const void *src, size_t count, int n) \
	{ \
		half_divide(dst, src, count, n, widen_##t, narrow_##t); \
	} \
	static void t##_scale(void *dst, const void *src, size_t count, const void *scalar) \
	{ \
		half_scale(dst, src, count, scalar, widen_##t, narrow_##t); \
	}

LOOPS_HALF(f16)
LOOPS_HALF(bf16)

/* In the order of enum tutti_op; TUTTI_AVG is the sum. w: the loops that ignore the sign. */
#define INT_OPS(t, w) {w##_sum, w##_prod, t##_min, t##_max, w##_sum, w##_band, w##_bor, w##_bxor}
#define FLOAT_OPS(t) {t##_sum, t##_prod, t##_min, t##_max, t##_sum, NULL, NULL, NULL}
#define KERNELS \
	{ \
		.op = {[TUTTI_INT8] = INT_OPS(i8, u8), [TUTTI_UINT8] = INT_OPS(u8, u8), \
		       [TUTTI_INT32] = INT_OPS(i32, u32), [TUTTI_UINT32] = INT_OPS(u32, u32), \
		       [TUTTI_INT64] = INT_OPS(i64, u64), [TUTTI_UINT64] = INT_OPS(u64, u64), \
		       [TUTTI_FLOAT16] = FLOAT_OPS(f16), [TUTTI_BFLOAT16] = FLOAT_OPS(bf16), \
		       [TUTTI_FLOAT32] = FLOAT_OPS(f32), [TUTTI_FLOAT64] = FLOAT_OPS(f64)}, \
		.divide = {i8_divide, u8_divide, i32_divide, u32_divide, i64_divide, \
			   u64_divide, f16_divide, bf16_divide, f32_divide, f64_divide}, \
		.scale = {u8_scale, u8_scale, u32_scale, u32_scale, u64_scale, u64_scale, f16_scale, \
			  bf16_scale, f32_scale, f64_scale}, \
	}
