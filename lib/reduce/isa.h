/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that C cannot express, for vectors of TT_VEC bytes (the build sets TT_VEC together
 * with the compiler's options): conversions, square roots, and non-temporal stores to
 * aligned addresses. A "half" vector has the same number of elements at half the element size.
 * AT_LEVEL names the functions built for each level.
 *
 * AVX512-BF16 is not used: its conversion treats subnormals as zero.
 */
#ifndef TT_ISA_H
#define TT_ISA_H

#include <stdint.h>
#include <string.h>

#if TT_VEC > 16
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#else
#include <math.h>
#endif

#include "lib/reduce/half.h"

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

typedef uint64_t vec __attribute__((vector_size(TT_VEC))); /* of anything */
typedef uint16_t half __attribute__((vector_size(TT_VEC / 2)));
typedef uint32_t vec_u32 __attribute__((vector_size(TT_VEC)));
typedef float vec_f32 __attribute__((vector_size(TT_VEC)));
typedef double vec_f64 __attribute__((vector_size(TT_VEC)));
typedef float low_f32 __attribute__((vector_size(TT_VEC / 2)));

#if TT_VEC == 64

#define AT_LEVEL(name) name##_avx512
#define CAN_STREAM 1

INLINE vec_f32 widen_f16(half h)
{
	return _mm512_cvtph_ps((__m256i)h);
}

INLINE half narrow_f16(vec_f32 x)
{
	return (half)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

INLINE vec_f64 widen_f32(low_f32 x)
{
	return (vec_f64)_mm512_cvtps_pd((__m256)x);
}

INLINE vec_f32 sqrt_vec_f32(vec_f32 x)
{
	return (vec_f32)_mm512_sqrt_ps((__m512)x);
}

INLINE vec_f64 sqrt_vec_f64(vec_f64 x)
{
	return (vec_f64)_mm512_sqrt_pd((__m512d)x);
}

INLINE void stream_vec(void *p, vec x)
{
	_mm512_stream_si512(p, (__m512i)x);
}

INLINE void stream_half(void *p, half h)
{
	_mm256_stream_si256(p, (__m256i)h);
}

INLINE void fence(void)
{
	_mm_sfence();
}

#elif TT_VEC == 32

#define AT_LEVEL(name) name##_avx2
#define CAN_STREAM 1

INLINE vec_f32 widen_f16(half h)
{
	return _mm256_cvtph_ps((__m128i)h);
}

INLINE half narrow_f16(vec_f32 x)
{
	return (half)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

INLINE vec_f64 widen_f32(low_f32 x)
{
	return (vec_f64)_mm256_cvtps_pd((__m128)x);
}

INLINE vec_f32 sqrt_vec_f32(vec_f32 x)
{
	return (vec_f32)_mm256_sqrt_ps((__m256)x);
}

INLINE vec_f64 sqrt_vec_f64(vec_f64 x)
{
	return (vec_f64)_mm256_sqrt_pd((__m256d)x);
}

INLINE void stream_vec(void *p, vec x)
{
	_mm256_stream_si256(p, (__m256i)x);
}

INLINE void stream_half(void *p, half h)
{
	_mm_stream_si128(p, (__m128i)h);
}

INLINE void fence(void)
{
	_mm_sfence();
}

#else /* whatever the compiler makes of vectors of 16 bytes, on every machine */

#define AT_LEVEL(name) name##_base
#define CAN_STREAM 0

typedef int32_t signed_vec __attribute__((vector_size(TT_VEC)));

INLINE vec_u32 where(signed_vec mask, vec_u32 a, vec_u32 b)
{
	return ((vec_u32)mask & a) | (~(vec_u32)mask & b);
}

/* As tt_half_widen and tt_half_narrow. A call costs little beside it; inlined it would be long. */
static NOINLINE __attribute__((unused)) vec_f32 widen_f16(half h)
{
	vec_u32 u = __builtin_convertvector(h, vec_u32), mag = u & 0x7fff, more = mag << 13;
	signed_vec m = (signed_vec)mag;
	vec_f32 small = __builtin_convertvector(m, vec_f32) * 0x1p-24f;

	more = where(m >= 0x7c00, more + (224u << 23), more + (112u << 23));
	more = where(m > 0x7c00, more | 0x400000, more);
	return (vec_f32)(where(m < 0x400, (vec_u32)small, more) | (u & 0x8000) << 16);
}

/* A sum with 0.5 has the bits of a subnormal, rounded, at its end. */
static NOINLINE __attribute__((unused)) half narrow_f16(vec_f32 x)
{
	vec_u32 u = (vec_u32)x, mag = u & 0x7fffffff, more = mag - (112u << 23);
	vec_u32 small = (vec_u32)((vec_f32)mag + 0.5f) - 0x3f000000;
	signed_vec m = (signed_vec)mag;

	more = (more + 0xfff + (more >> 13 & 1)) >> 13;
	more = where(m < 113 << 23, small, more);
	more = where(m >= 0x47800000, (vec_u32){0} + 0x7c00, more);
	more = where(m > 0x7f800000, 0x7e00 | (mag >> 13 & 0x3ff), more);
	return __builtin_convertvector(more | (u >> 16 & 0x8000), half);
}

INLINE vec_f64 widen_f32(low_f32 x)
{
	return (vec_f64){x[0], x[1]};
}

#ifdef __SSE2__
INLINE vec_f32 sqrt_vec_f32(vec_f32 x)
{
	return (vec_f32)_mm_sqrt_ps((__m128)x);
}

INLINE vec_f64 sqrt_vec_f64(vec_f64 x)
{
	return (vec_f64)_mm_sqrt_pd((__m128d)x);
}
#else
INLINE vec_f32 sqrt_vec_f32(vec_f32 x)
{
	size_t i;

	for (i = 0; i < sizeof(x) / sizeof(x[0]); i++)
		x[i] = sqrtf(x[i]);
	return x;
}

INLINE vec_f64 sqrt_vec_f64(vec_f64 x)
{
	size_t i;

	for (i = 0; i < sizeof(x) / sizeof(x[0]); i++)
		x[i] = sqrt(x[i]);
	return x;
}
#endif

INLINE void stream_vec(void *p, vec x)
{
	memcpy(p, &x, sizeof(x));
}

INLINE void stream_half(void *p, half h)
{
	memcpy(p, &h, sizeof(h));
}

INLINE void fence(void)
{
}

#endif

/*
 * At the end of a function that has called another one: the compiler believes that the other one
 * has done this, but not if it uses no vectors. Instructions of the base level would be slow.
 */
INLINE void leave_vectors(void)
{
#if TT_VEC > 16
	_mm256_zeroupper();
#endif
}

/* The first n bytes of a vector, a power of two from 4 to TT_VEC / 2; the others are 0. */
INLINE vec load_part(const void *p, const int n)
{
	uint32_t four;
	uint64_t word;

#if TT_VEC == 64
	if (n == 32)
		return (vec)_mm512_zextsi256_si512(_mm256_loadu_si256(p));
	if (n == 16)
		return (vec)_mm512_zextsi128_si512(_mm_loadu_si128(p));
#elif TT_VEC == 32
	if (n == 16)
		return (vec)_mm256_zextsi128_si256(_mm_loadu_si128(p));
#endif
	if (n == 4) {
		memcpy(&four, p, sizeof(four));
		return (vec)(vec_u32){four};
	}
	memcpy(&word, p, sizeof(word));
	return (vec){word};
}

INLINE void store_part(void *p, vec x, const int n)
{
	uint32_t four = ((vec_u32)x)[0];
	uint64_t word = x[0];

#if TT_VEC == 64
	if (n == 32)
		_mm256_storeu_si256(p, _mm512_castsi512_si256((__m512i)x));
	else if (n == 16)
		_mm_storeu_si128(p, _mm512_castsi512_si128((__m512i)x));
	else
#elif TT_VEC == 32
	if (n == 16)
		_mm_storeu_si128(p, _mm256_castsi256_si128((__m256i)x));
	else
#endif
		memcpy(p, n == 4 ? (const void *)&four : &word, (size_t)n);
}

INLINE half load_half(const void *p)
{
	half h;

	memcpy(&h, p, sizeof(h));
	return h;
}

INLINE void store_half(void *p, half h)
{
	memcpy(p, &h, sizeof(h));
}

INLINE vec_f32 widen_bf16(half h)
{
	return (vec_f32)(__builtin_convertvector(h, vec_u32) << 16);
}

/* To nearest even. Every NaN becomes the NaN whose lower bits are 0. */
INLINE half narrow_bf16(vec_f32 x)
{
	vec_u32 u = (vec_u32)x;

	return __builtin_convertvector((u + 0x7fff + (u >> 16 & 1)) >> 16, half);
}

#endif
