/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What vector.c can't say in C: for vectors of TT_VEC bytes, which the build sets together with the
 * compiler's options, the conversions of float16 and stores around the cache (to aligned
 * addresses). "Half" is a vector of as many elements of half the size.
 *
 * AVX512-BF16 has no part in this: its conversion takes subnormals for zero.
 */
#ifndef TT_ISA_H
#define TT_ISA_H

#include <stdint.h>
#include <string.h>

#if TT_VEC > 16
#include <immintrin.h>
#endif

#include "lib/reduce/half.h"

#define INLINE static inline __attribute__((always_inline))

typedef uint64_t vec __attribute__((vector_size(TT_VEC))); /* of anything */
typedef uint16_t half __attribute__((vector_size(TT_VEC / 2)));
typedef float vec_f32 __attribute__((vector_size(TT_VEC)));

#if TT_VEC == 64

#define KERNELS tt_kernels_avx512
#define CAN_STREAM 1

INLINE vec_f32 widen_f16(half h)
{
	return _mm512_cvtph_ps((__m256i)h);
}

INLINE half narrow_f16(vec_f32 x)
{
	return (half)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
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

#define KERNELS tt_kernels_avx2
#define CAN_STREAM 1

INLINE vec_f32 widen_f16(half h)
{
	return _mm256_cvtph_ps((__m128i)h);
}

INLINE half narrow_f16(vec_f32 x)
{
	return (half)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
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

#define KERNELS tt_kernels_base
#define CAN_STREAM 0

static vec_f32 widen_f16(half h)
{
	vec_f32 x = {0};
	size_t i;

	for (i = 0; i < sizeof(x) / sizeof(x[0]); i++)
		x[i] = tt_half_widen(h[i]);
	return x;
}

static half narrow_f16(vec_f32 x)
{
	half h = {0};
	size_t i;

	for (i = 0; i < sizeof(x) / sizeof(x[0]); i++)
		h[i] = tt_half_narrow(x[i]);
	return h;
}

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

#endif
