/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel of weighted sums of floats. Each product and each sum rounds by itself. */
#ifndef TT_VECTOR_WEIGH_H
#define TT_VECTOR_WEIGH_H

#include "lib/reduce/vector_float.h"

typedef vec times_fn(vec x, double weight);

struct weigh_ops {
	times_fn *times;
	op_fn *sum;
	end_fn *end;
};

INLINE vec times_f32(vec x, double weight)
{
	return (vec)((vec_f32)x * (float)weight);
}

INLINE vec times_f64(vec x, double weight)
{
	return (vec)((vec_f64)x * weight);
}

/*
 * n vectors at offset at of source k, whole units, times its weight; room: of the last unit, of
 * which only rest bytes are there.
 */
INLINE void weigh_source(const struct tt_weigh_job *job, const struct form *form, times_fn *times,
			 int k, size_t at, vec *x, const int n, char *room, size_t rest)
{
	const char *s = (const char *)job->src[k] + at;
	int i;

	if (room) {
		copy_rest(room, s, rest);
		s = room;
	}
#pragma GCC unroll 4
	for (i = 0; i < n; i++)
		x[i] = times(
			form->load(s + (size_t)(i / form->parts) * form->size, i % form->parts),
			job->weight[k]);
}

INLINE void weigh_block(const struct tt_weigh_job *job, const struct form *form,
			const struct weigh_ops *ops, size_t at, const int n, char *room,
			size_t rest)
{
	char *d = room ? room : (char *)job->dst + at;
	vec x[BLOCK], y[BLOCK];
	int i, k;

	weigh_source(job, form, ops->times, 0, at, x, n, room, rest);
	for (k = 1; k < job->n; k++) {
		weigh_source(job, form, ops->times, k, at, y, n, room, rest);
#pragma GCC unroll 4
		for (i = 0; i < n; i++)
			x[i] = ops->sum(x[i], y[i]);
	}
#pragma GCC unroll 4
	for (i = 0; i < n; i++)
		x[i] = ops->end(x[i], 0);
#pragma GCC unroll 4
	for (i = 0; i < n; i += form->parts)
		form->store(d + (size_t)(i / form->parts) * form->size, x + i);
}

INLINE void weigh(const struct tt_weigh_job *args, const struct form *form,
		  const struct weigh_ops *ops)
{
	const struct tt_weigh_job job = *args; /* which no store can change */
	size_t at = 0, block = (size_t)(BLOCK / form->parts) * form->size;
	char room[TT_VEC] = {0};

	for (; job.bytes - at >= block; at += block)
		weigh_block(&job, form, ops, at, BLOCK, NULL, 0);
	for (; job.bytes - at >= form->size; at += form->size)
		weigh_block(&job, form, ops, at, form->parts, NULL, 0);
	if (at == job.bytes)
		return;
	weigh_block(&job, form, ops, at, form->parts, room, job.bytes - at);
	copy_rest((char *)job.dst + at, room, job.bytes - at);
	leave_vectors();
}

static void weigh_any(const struct tt_weigh_job *job)
{
	static const struct form f16 = {TT_VEC / 2, 1, load_f16, store_f16, NULL},
				 bf16 = {TT_VEC, 2, load_bf16, store_bf16, NULL};
	static const struct weigh_ops weigh_f32 = {times_f32, sum_f32, end_f32},
				      weigh_f64 = {times_f64, sum_f64, end_f64};

	switch (job->datatype) {
	case TUTTI_FLOAT16:
		return weigh(job, &f16, &weigh_f32);
	case TUTTI_BFLOAT16:
		return weigh(job, &bf16, &weigh_f32);
	case TUTTI_FLOAT64:
		return weigh(job, &whole, &weigh_f64);
	default:
		return weigh(job, &whole, &weigh_f32);
	}
}

#endif
