/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of averages that move vectors towards each other (mix.h). */
#ifndef TT_VECTOR_MIX_H
#define TT_VECTOR_MIX_H

#include "lib/reduce/mix.h"
#include "lib/reduce/vector_float.h"

/* One step: a vector, or half of one, of each operand. */
typedef void step_fn(const struct tt_mix_job *job, char *const *p);

/* Of a step: its elements, the bytes of an element of each operand; the first `out` are results. */
struct mix_form {
	size_t count, size[3];
	int out;
};

/* The last elements, fewer than a step has: a step of them and of zeros. */
INLINE void mix_rest(const struct tt_mix_job *job, const struct mix_form *form, step_fn *step,
		     char *const *p, size_t n)
{
	char room[3][TT_VEC] = {{0}}, *r[3] = {room[0], room[1], room[2]};
	int k;

	for (k = 0; k < 3; k++)
		copy_rest(r[k], p[k], n * form->size[k]);
	step(job, r);
	for (k = 0; k < form->out; k++)
		copy_rest(p[k], r[k], n * form->size[k]);
	leave_vectors();
}

INLINE void mix(const struct tt_mix_job *args, const struct mix_form *form, step_fn *step)
{
	const struct tt_mix_job job = *args; /* which no store can change */
	char *p[3] = {job.p[0], job.p[1], job.p[2]};
	size_t left;
	int k;

	for (left = job.count; left >= form->count; left -= form->count) {
		step(&job, p);
#pragma GCC unroll 3
		for (k = 0; k < 3; k++)
			p[k] += form->count * form->size[k];
	}
	if (left)
		mix_rest(&job, form, step, p, left);
}

INLINE void put_vec(char *p, vec x)
{
	memcpy(p, &x, sizeof(x));
}

#define MIX(name, type)                                                                            \
	INLINE void differ_##name(const struct tt_mix_job *job, char *const *p)                    \
	{                                                                                          \
		vec_##name a = (vec_##name)load_vec(p[1]), b = (vec_##name)load_vec(p[2]);         \
                                                                                                   \
		put_vec(p[0], end_##name((vec)((type)job->weight * (a - b)), 0));                  \
	}                                                                                          \
	INLINE void exchange_##name(const struct tt_mix_job *job, char *const *p)                  \
	{                                                                                          \
		vec_##name x = (vec_##name)load_vec(p[0]), c = (vec_##name)load_vec(p[1]),         \
			   s = (vec_##name)load_vec(p[2]);                                         \
                                                                                                   \
		put_vec(p[0], end_##name((vec)(x - (type)job->weight * (x - c)), 0));              \
		put_vec(p[1], end_##name((vec)(c + s), 0));                                        \
	}                                                                                          \
	INLINE void halve_##name(const struct tt_mix_job *job, char *const *p)                     \
	{                                                                                          \
		vec_##name a = (vec_##name)load_vec(p[0]), b = (vec_##name)load_vec(p[1]);         \
		vec x = end_##name((vec)((a + b) * (type)0.5), 0);                                 \
                                                                                                   \
		put_vec(p[0], x);                                                                  \
		put_vec(p[1], x);                                                                  \
	}
MIX(f32, float)
MIX(f64, double)
#undef MIX

/*
 * a + b = 2 (a & b) + (a ^ b), so the floor of half of it is (a & b) + (a ^ b) / 2, which does not
 * overflow, and the rest is one more if a ^ b is odd.
 */
#define HALVE(name)                                                                                \
	INLINE void halve_##name(const struct tt_mix_job *job, char *const *p)                     \
	{                                                                                          \
		vec_##name a = (vec_##name)load_vec(p[0]), b = (vec_##name)load_vec(p[1]),         \
			   low = (a & b) + ((a ^ b) >> 1);                                         \
                                                                                                   \
		put_vec(p[0], (vec)low);                                                           \
		put_vec(p[1], (vec)(low + ((a ^ b) & 1)));                                         \
	}
HALVE(i32)
HALVE(i64)
#undef HALVE

typedef vec_f64 wide_fn(const char *p);

INLINE vec_f64 wide_f32(const char *p)
{
	low_f32 x;

	memcpy(&x, p, sizeof(x));
	return widen_f32(x);
}

INLINE vec_f64 wide_f64(const char *p)
{
	return (vec_f64)load_vec(p);
}

/* x, the sum in float64, a neighbour's; whether x has changed. */
INLINE bool gather(const struct tt_mix_job *job, char *const *p, wide_fn *wide, vec_f64 *x)
{
	vec_f64 sum = job->flags & TT_MIX_FIRST ? (vec_f64){0} : (vec_f64)load_vec(p[1]);

	*x = wide(p[0]);
	if (job->flags & TT_MIX_ADD)
		sum += job->weight * (wide(p[2]) - *x);
	if (job->flags & TT_MIX_LAST)
		*x = (vec_f64)end_f64((vec)(*x + sum), 0);
	else
		put_vec(p[1], (vec)sum);
	return job->flags & TT_MIX_LAST;
}

INLINE void gather_f32(const struct tt_mix_job *job, char *const *p)
{
	low_f32 narrow;
	vec_f64 x;

	if (!gather(job, p, wide_f32, &x))
		return;
	narrow = __builtin_convertvector(x, low_f32);
	memcpy(p[0], &narrow, sizeof(narrow));
}

INLINE void gather_f64(const struct tt_mix_job *job, char *const *p)
{
	vec_f64 x;

	if (gather(job, p, wide_f64, &x))
		put_vec(p[0], (vec)x);
}

static void mix_f32(const struct tt_mix_job *job)
{
	static const struct mix_form differ = {TT_VEC / 4, {4, 4, 4}, 1},
				     exchange = {TT_VEC / 4, {4, 4, 4}, 2},
				     halve = {TT_VEC / 4, {4, 4, 0}, 2},
				     wide = {TT_VEC / 8, {4, 8, 4}, 2};

	switch (job->what) {
	case TT_MIX_DIFFER:
		return mix(job, &differ, differ_f32);
	case TT_MIX_EXCHANGE:
		return mix(job, &exchange, exchange_f32);
	case TT_MIX_HALVE:
		return mix(job, &halve, halve_f32);
	default:
		return mix(job, &wide, gather_f32);
	}
}

static void mix_f64(const struct tt_mix_job *job)
{
	static const struct mix_form differ = {TT_VEC / 8, {8, 8, 8}, 1},
				     other = {TT_VEC / 8, {8, 8, 8}, 2},
				     halve = {TT_VEC / 8, {8, 8, 0}, 2};

	switch (job->what) {
	case TT_MIX_DIFFER:
		return mix(job, &differ, differ_f64);
	case TT_MIX_EXCHANGE:
		return mix(job, &other, exchange_f64);
	case TT_MIX_HALVE:
		return mix(job, &halve, halve_f64);
	default:
		return mix(job, &other, gather_f64);
	}
}

static void mix_any(const struct tt_mix_job *job)
{
	static const struct mix_form i32 = {TT_VEC / 4, {4, 4, 0}, 2},
				     i64 = {TT_VEC / 8, {8, 8, 0}, 2};

	switch (job->datatype) {
	case TUTTI_FLOAT32:
		return mix_f32(job);
	case TUTTI_FLOAT64:
		return mix_f64(job);
	case TUTTI_INT32:
		return mix(job, &i32, halve_i32);
	default:
		return mix(job, &i64, halve_i64);
	}
}

#endif
