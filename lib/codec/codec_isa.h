/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Besides lib/reduce/isa.h: groups of 16 elements, which are 1, 2 or 4 vectors, their bytes and
 * their signs. The compiler alone makes poor code of these.
 */
#ifndef TT_CODEC_ISA_H
#define TT_CODEC_ISA_H

#include "lib/reduce/isa.h"

#include "lib/codec/codec_kernels.h"

#define GROUP TT_CODEC_LANES
#define WIDTH (TT_VEC / 4)   /* elements of a vector */
#define VECS (GROUP / WIDTH) /* vectors of a group */
#define EACH(i)                                                                                    \
	(i) = 0;                                                                                   \
	(i) < VECS;                                                                                \
	(i)++

typedef int32_t vec_i32 __attribute__((vector_size(TT_VEC)));

INLINE vec_f32 load_f32(const float *p)
{
	vec_f32 x;

	memcpy(&x, p, sizeof(x));
	return x;
}

INLINE void store_f32(float *p, vec_f32 x)
{
	memcpy(p, &x, sizeof(x));
}

/* Where the mask is set a, else b. */
INLINE vec_f32 pick(vec_i32 mask, vec_f32 a, vec_f32 b)
{
	return (vec_f32)((mask & (vec_i32)a) | (~mask & (vec_i32)b));
}

INLINE vec_i32 pick_int(vec_i32 mask, vec_i32 a, vec_i32 b)
{
	return (mask & a) | (~mask & b);
}

INLINE vec_i32 magnitudes(vec_f32 x)
{
	return (vec_i32)x & 0x7fffffff;
}

INLINE vec_f32 one_nan(vec_f32 x)
{
	return pick(x == x, x, (vec_f32)((vec_i32){0} + (int32_t)TT_CODEC_NAN));
}

/* x, or out + x */
INLINE void put_vec(float *out, vec_f32 x, const bool add)
{
	store_f32(out, add ? one_nan(load_f32(out) + x) : x);
}

#if TT_VEC == 64

/* The lowest bytes of a group; as signed numbers they are the elements. */
INLINE void pack_bytes(const vec_i32 *x, unsigned char *out)
{
	_mm_storeu_si128((__m128i *)(void *)out, _mm512_cvtepi32_epi8((__m512i)x[0]));
}

INLINE vec_i32 unpack_bytes(const unsigned char *in, int i)
{
	(void)i;
	return (vec_i32)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)in));
}

/* The highest bit of each element. */
INLINE unsigned sign_bits(const vec_i32 *x)
{
	return _mm512_movepi32_mask((__m512i)x[0]);
}

#elif TT_VEC == 32

INLINE void pack_bytes(const vec_i32 *x, unsigned char *out)
{
	__m256i w =
		_mm256_permute4x64_epi64(_mm256_packs_epi32((__m256i)x[0], (__m256i)x[1]), 0xd8);

	_mm_storeu_si128((__m128i *)(void *)out, _mm_packs_epi16(_mm256_castsi256_si128(w),
								 _mm256_extracti128_si256(w, 1)));
}

INLINE vec_i32 unpack_bytes(const unsigned char *in, int i)
{
	return (vec_i32)_mm256_cvtepi8_epi32(
		_mm_loadl_epi64((const __m128i *)(const void *)(in + 8 * i)));
}

INLINE unsigned sign_bits(const vec_i32 *x)
{
	return (unsigned)_mm256_movemask_ps((__m256)x[0]) |
	       (unsigned)_mm256_movemask_ps((__m256)x[1]) << 8;
}

#else

INLINE void pack_bytes(const vec_i32 *x, unsigned char *out)
{
#ifdef __SSE2__
	_mm_storeu_si128((__m128i *)(void *)out,
			 _mm_packs_epi16(_mm_packs_epi32((__m128i)x[0], (__m128i)x[1]),
					 _mm_packs_epi32((__m128i)x[2], (__m128i)x[3])));
#else
	int i;

	for (i = 0; i < GROUP; i++)
		out[i] = (unsigned char)x[i / WIDTH][i % WIDTH];
#endif
}

INLINE vec_i32 unpack_bytes(const unsigned char *in, int i)
{
	vec_i32 x;
	int k;

	in += WIDTH * i;
	for (k = 0; k < WIDTH; k++)
		x[k] = (int8_t)in[k];
	return x;
}

INLINE unsigned sign_bits(const vec_i32 *x)
{
	unsigned bits = 0;
	int i;

#ifdef __SSE2__
	for (EACH(i))
		bits |= (unsigned)_mm_movemask_ps((__m128)x[i]) << WIDTH * i;
#else
	for (i = 0; i < GROUP; i++)
		bits |= ((uint32_t)x[i / WIDTH][i % WIDTH] >> 31) << i;
#endif
	return bits;
}

#endif
#endif
