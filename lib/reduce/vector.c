/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels, in the compiler's vectors of TT_VEC bytes, built once per instruction level
 * (local.mk). Everything is inlined into ten functions, one per datatype, with a loop for each
 * operator.
 *
 * A block of a few vectors is combined over all sources in registers and then stored. So each
 * source byte is read once and each result byte written once, whatever the number of sources. All
 * levels give the same bits: each step is one operation with its own rounding (no fma), and a NaN
 * result is always the same quiet NaN, because instructions differ in which NaN operand they pass
 * on.
 */
#include "lib/reduce/isa.h"
#include "lib/reduce/kernels.h"

#define BLOCK 4	  /* vectors */
#define AHEAD 512 /* bytes */

typedef int8_t vec_i8 __attribute__((vector_size(TT_VEC)));
typedef uint8_t vec_u8 __attribute__((vector_size(TT_VEC)));
typedef int32_t vec_i32 __attribute__((vector_size(TT_VEC)));
typedef int64_t vec_i64 __attribute__((vector_size(TT_VEC)));
typedef uint64_t vec_u64 __attribute__((vector_size(TT_VEC)));

typedef void store_fn(void *p, const vec *x);
typedef vec op_fn(vec a, vec b);
typedef vec end_fn(vec x, int divide_by); /* applied to the combination of all sources */

/* How elements lie in memory: in units, each of which becomes one vector or several. */
struct form {
	size_t size; /* of a unit */
	int parts;   /* vectors of it */
	vec (*load)(const void *p, int part);
	store_fn *store, *stream; /* of all parts */
};

/* Prefetches a source into the second level of the cache. */
INLINE void fetch(const char *s, const size_t len)
{
	size_t i;

#pragma GCC unroll 4
	for (i = 0; i < len; i += TT_REDUCE_LINE)
		__builtin_prefetch(s + AHEAD + i, 0, 2);
}

/* n vectors, whole units, at offset at; len is 0 or how many bytes of each source to fetch ahead */
INLINE void run_block(const struct tt_reduce_job *job, const struct form *form, store_fn *store,
		      op_fn *op, end_fn *end, size_t at, const int n, const size_t len)
{
	const char *s = (const char *)job->src[0] + at;
	vec x[BLOCK];
	char *d;
	int i, k;

	fetch(s, len);
#pragma GCC unroll 4
	for (i = 0; i < n; i++)
		x[i] = form->load(s + (size_t)(i / form->parts) * form->size, i % form->parts);
	for (k = 1; k < job->nsrc; k++) {
		s = (const char *)job->src[k] + at;
		fetch(s, len);
#pragma GCC unroll 4
		for (i = 0; i < n; i++)
			x[i] = op(x[i], form->load(s + (size_t)(i / form->parts) * form->size,
						   i % form->parts));
	}
#pragma GCC unroll 4
	for (i = 0; i < n; i++)
		x[i] = end(x[i], job->divide_by);
	for (k = 0; k < job->ndst; k++) {
		d = (char *)job->dst[k] + at;
#pragma GCC unroll 4
		for (i = 0; i < n; i += form->parts)
			store(d + (size_t)(i / form->parts) * form->size, x + i);
	}
}

INLINE vec load_word(const void *p)
{
	uint64_t word;
	vec x = {0};

	memcpy(&word, p, sizeof(word));
	x[0] = word;
	return x;
}

/*
 * Vectors of eight bytes are common. They use registers only, because a vector load right after
 * narrower stores stalls.
 */
INLINE void run_word(const struct tt_reduce_job *job, op_fn *op, end_fn *end, size_t at)
{
	vec x = load_word((const char *)job->src[0] + at);
	uint64_t word;
	int k;

	for (k = 1; k < job->nsrc; k++)
		x = op(x, load_word((const char *)job->src[k] + at));
	word = end(x, job->divide_by)[0];
	for (k = 0; k < job->ndst; k++)
		memcpy((char *)job->dst[k] + at, &word, sizeof(word));
}

/* The last bytes, less than a vector. */
INLINE void run_rest(const struct tt_reduce_job *job, const struct form *form, op_fn *op,
		     end_fn *end, size_t at)
{
	size_t len = job->to - at;
	char room[TT_VEC] = {0};
	vec x[BLOCK];
	int i, k;

	memcpy(room, (const char *)job->src[0] + at, len);
	for (i = 0; i < form->parts; i++)
		x[i] = form->load(room, i);
	for (k = 1; k < job->nsrc; k++) {
		memcpy(room, (const char *)job->src[k] + at, len);
		for (i = 0; i < form->parts; i++)
			x[i] = op(x[i], form->load(room, i));
	}
	for (i = 0; i < form->parts; i++)
		x[i] = end(x[i], job->divide_by);
	form->store(room, x);
	for (k = 0; k < job->ndst; k++)
		memcpy((char *)job->dst[k] + at, room, len);
}

INLINE void run(const struct tt_reduce_job *args, const struct form *form, op_fn *op, end_fn *end)
{
	const struct tt_reduce_job job = *args; /* which no store can change */
	size_t at = job.from, block = (size_t)(BLOCK / form->parts) * form->size;

	if (CAN_STREAM && job.stream) {
		for (; job.to - at >= block; at += block)
			run_block(&job, form, form->stream, op, end, at, BLOCK, block);
		fence();
	}
	for (; job.to - at >= block; at += block)
		run_block(&job, form, form->store, op, end, at, BLOCK, 0);
	for (; job.to - at >= form->size; at += form->size)
		run_block(&job, form, form->store, op, end, at, form->parts, 0);
	if (form->size == TT_VEC && form->parts == 1 && job.to - at == sizeof(uint64_t))
		run_word(&job, op, end, at);
	else if (at < job.to)
		run_rest(&job, form, op, end, at);
}

INLINE vec load_vec(const void *p)
{
	vec x;

	memcpy(&x, p, sizeof(x));
	return x;
}

INLINE vec load_whole(const void *p, int part)
{
	return load_vec(p);
}

INLINE void store_whole(void *p, const vec *x)
{
	memcpy(p, x, sizeof(*x));
}

INLINE void stream_whole(void *p, const vec *x)
{
	stream_vec(p, *x);
}

static const struct form whole = {TT_VEC, 1, load_whole, store_whole, stream_whole};

/* The bits of a where those of mask are set, and those of b elsewhere. */
INLINE vec pick(vec mask, vec a, vec b)
{
	return (mask & a) | (~mask & b);
}

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

/* An operator of each kind for an integer type; sum and prod do not depend on the sign. */
struct int_ops {
	op_fn *sum, *prod, *min, *max;
	end_fn *divide;
};

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
	static const struct int_ops ops = {sum_8, prod_8, min_i8, max_i8, divide_i8};

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
	static const struct int_ops ops = {sum_8, prod_8, min_u8, max_u8, divide_u8};

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
	static const struct int_ops ops = {sum_32, prod_32, min_i32, max_i32, divide_i32};

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
	static const struct int_ops ops = {sum_32, prod_32, min_u32, max_u32, divide_u32};

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
	static const struct int_ops ops = {sum_64, prod_64, min_i64, max_i64, divide_i64};

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
	static const struct int_ops ops = {sum_64, prod_64, min_u64, max_u64, divide_u64};

	run_int(job, &ops);
}

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

INLINE vec sum_f32(vec a, vec b)
{
	return (vec)((vec_f32)a + (vec_f32)b);
}

INLINE vec prod_f32(vec a, vec b)
{
	return (vec)((vec_f32)a * (vec_f32)b);
}

INLINE vec min_f32(vec a, vec b)
{
	vec_f32 x = (vec_f32)a, y = (vec_f32)b;

	return pick((vec)((y < x) | (y != y)), b, a);
}

INLINE vec max_f32(vec a, vec b)
{
	vec_f32 x = (vec_f32)a, y = (vec_f32)b;

	return pick((vec)((y > x) | (y != y)), b, a);
}

INLINE vec end_f32(vec a, int n)
{
	vec_f32 x = (vec_f32)a, nan = (vec_f32){0} + __builtin_nanf("");

	return pick((vec)(x == x), a, (vec)nan);
}

INLINE vec divide_f32(vec a, int n)
{
	return end_f32((vec)((vec_f32)a / (float)n), n);
}

static const struct float_ops f32_ops = {sum_f32, prod_f32, min_f32, max_f32, end_f32, divide_f32};

static void run_f32(const struct tt_reduce_job *job)
{
	run_float(job, &whole, &f32_ops);
}

INLINE vec sum_f64(vec a, vec b)
{
	return (vec)((vec_f64)a + (vec_f64)b);
}

INLINE vec prod_f64(vec a, vec b)
{
	return (vec)((vec_f64)a * (vec_f64)b);
}

INLINE vec min_f64(vec a, vec b)
{
	vec_f64 x = (vec_f64)a, y = (vec_f64)b;

	return pick((vec)((y < x) | (y != y)), b, a);
}

INLINE vec max_f64(vec a, vec b)
{
	vec_f64 x = (vec_f64)a, y = (vec_f64)b;

	return pick((vec)((y > x) | (y != y)), b, a);
}

INLINE vec end_f64(vec a, int n)
{
	vec_f64 x = (vec_f64)a, nan = (vec_f64){0} + __builtin_nan("");

	return pick((vec)(x == x), a, (vec)nan);
}

INLINE vec divide_f64(vec a, int n)
{
	return end_f64((vec)((vec_f64)a / (double)n), n);
}

static const struct float_ops f64_ops = {sum_f64, prod_f64, min_f64, max_f64, end_f64, divide_f64};

static void run_f64(const struct tt_reduce_job *job)
{
	run_float(job, &whole, &f64_ops);
}

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

const struct tt_kernels AT_LEVEL(tt_kernels) = {
	{run_i8, run_u8, run_i32, run_u32, run_i64, run_u64, run_f16, run_bf16, run_f32, run_f64}};
