/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels for AVX2 and F16C: the loops of loops.h compiled with these instructions, and the
 * conversions of float16 in hardware, 8 at a time. Only called after asking the CPU (reduce.c).
 */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static void widen_f16(float *dst, const uint16_t *src, size_t count)
{
	uint16_t in[8] = {0};
	float out[8];
	size_t i;

	for (i = 0; i + 8 <= count; i += 8)
		_mm256_storeu_ps(dst + i,
				 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
	if (i == count)
		return;
	memcpy(in, src + i, (count - i) * sizeof(*in));
	_mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)in)));
	memcpy(dst + i, out, (count - i) * sizeof(*out));
}

static inline __m128i narrow8(const float *src)
{
	return _mm256_cvtps_ph(_mm256_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static void narrow_f16(uint16_t *dst, const float *src, size_t count)
{
	float in[8] = {0};
	uint16_t out[8];
	size_t i;

	for (i = 0; i + 8 <= count; i += 8)
		_mm_storeu_si128((__m128i *)(dst + i), narrow8(src + i));
	if (i == count)
		return;
	memcpy(in, src + i, (count - i) * sizeof(*in));
	_mm_storeu_si128((__m128i *)out, narrow8(in));
	memcpy(dst + i, out, (count - i) * sizeof(*out));
}

#include "lib/reduce/loops.h"

const struct tt_kernels tt_kernels_avx2 = KERNELS;
