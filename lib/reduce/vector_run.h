/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs one operator over the vectors of a job, in registers, a block of a few vectors at a time. */
#ifndef TT_VECTOR_RUN_H
#define TT_VECTOR_RUN_H

#include "lib/reduce/isa.h"
#include "lib/reduce/kernels.h"

#define BLOCK 4	  /* vectors */
#define AHEAD 512 /* bytes */

typedef int8_t vec_i8 __attribute__((vector_size(TT_VEC)));
typedef uint8_t vec_u8 __attribute__((vector_size(TT_VEC)));
typedef int16_t vec_i16 __attribute__((vector_size(TT_VEC)));
typedef uint16_t vec_u16 __attribute__((vector_size(TT_VEC)));
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

/*
 * The n bytes at `at`, the end of vectors that have no whole one. They use registers only, because
 * a vector load right after narrower stores stalls.
 */
INLINE void run_part(const struct tt_reduce_job *job, op_fn *op, end_fn *end, size_t at,
		     const int n)
{
	vec x = load_part((const char *)job->src[0] + at, n);
	int k;

	for (k = 1; k < job->nsrc; k++)
		x = op(x, load_part((const char *)job->src[k] + at, n));
	x = end(x, job->divide_by);
	for (k = 0; k < job->ndst; k++)
		store_part((char *)job->dst[k] + at, x, n);
}

/* Fewer bytes than a vector has. Not inlined, as the compiler makes long code of such a copy. */
static NOINLINE void copy_rest(void *to, const void *from, size_t len)
{
	if (len < TT_VEC)
		memcpy(to, from, len);
}

/* The last bytes, less than a vector. */
INLINE void run_rest(const struct tt_reduce_job *job, const struct form *form, op_fn *op,
		     end_fn *end, size_t at)
{
	size_t len = job->to - at;
	char room[TT_VEC] = {0};
	vec x[BLOCK];
	int i, k;

	copy_rest(room, (const char *)job->src[0] + at, len);
	for (i = 0; i < form->parts; i++)
		x[i] = form->load(room, i);
	for (k = 1; k < job->nsrc; k++) {
		copy_rest(room, (const char *)job->src[k] + at, len);
		for (i = 0; i < form->parts; i++)
			x[i] = op(x[i], form->load(room, i));
	}
	for (i = 0; i < form->parts; i++)
		x[i] = end(x[i], job->divide_by);
	form->store(room, x);
	for (k = 0; k < job->ndst; k++)
		copy_rest((char *)job->dst[k] + at, room, len);
	leave_vectors();
}

INLINE void run(const struct tt_reduce_job *args, const struct form *form, op_fn *op, end_fn *end)
{
	const struct tt_reduce_job job = *args; /* which no store can change */
	size_t at = job.from, block = (size_t)(BLOCK / form->parts) * form->size;
	size_t part;

	if (CAN_STREAM && job.stream) {
		for (; job.to - at >= block; at += block)
			run_block(&job, form, form->stream, op, end, at, BLOCK, block);
		fence();
	}
	for (; job.to - at >= block; at += block)
		run_block(&job, form, form->store, op, end, at, BLOCK, 0);
	for (; job.to - at >= form->size; at += form->size)
		run_block(&job, form, form->store, op, end, at, form->parts, 0);
	/* no element lies in two parts: it has 1, 2, 4, 8 or 16 bytes */
	if (form->size == TT_VEC && form->parts == 1) {
#pragma GCC unroll 4
		for (part = TT_VEC / 2; part >= 4; part /= 2)
			if ((job.to - at) & part) {
				run_part(&job, op, end, at, (int)part);
				at += part;
			}
	}
	if (at < job.to)
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

#endif
