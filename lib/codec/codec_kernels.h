/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of the codecs, one set for each instruction level of lib/reduce, all with the same
 * bits: every step is one IEEE operation, rounded separately, or integer arithmetic. Sums have a
 * fixed order: TT_CODEC_LANES partial sums, lane j of elements j, j + TT_CODEC_LANES ..., combined
 * in halves.
 *
 * residual may be NULL; else it is added to the input and gets what the encoding leaves out.
 */
#ifndef TT_CODEC_KERNELS_H
#define TT_CODEC_KERNELS_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/hash.h"
#include "lib/reduce/half.h"

#define TT_CODEC_LANES 16

enum tt_cast { TT_CAST_FP16, TT_CAST_BF16, TT_CAST_E4M3, TT_CAST_E5M2, TT_CASTS };

#define TT_CODEC_NAN 0x7fc00000u /* every NaN that a codec makes */
#define TT_CODEC_INF 0x7f800000u /* magnitudes from here on are not finite */

/* The greatest finite value of a cast; greater ones become it. */
#define TT_FP16_MOST 65504.0f
#define TT_BF16_MOST 0x1.fep127f
#define TT_E4M3_MOST 448.0f
#define TT_E5M2_MOST 57344.0f
/* NaN in 8 bits. */
#define TT_E4M3_NAN 0x7f
#define TT_E5M2_NAN 0x7e

struct tt_codec_kernels {
	void (*narrow[TT_CASTS])(const float *in, float *residual, unsigned char *out, size_t n);
	void (*widen[TT_CASTS])(const unsigned char *in, float *out, size_t n, bool add);
	/* Blocks: a scale, then a byte for each element. */
	void (*int8_encode)(const float *in, float *residual, unsigned char *out, size_t n,
			    size_t block);
	void (*int8_decode)(const unsigned char *in, float *out, size_t n, size_t block, bool add);
};

extern const struct tt_codec_kernels tt_codec_kernels_reference; /* codec_reference.c */
extern const struct tt_codec_kernels tt_codec_kernels_base;
extern const struct tt_codec_kernels tt_codec_kernels_avx2;   /* only with TT_HAVE_AVX2 */
extern const struct tt_codec_kernels tt_codec_kernels_avx512; /* only with TT_HAVE_AVX512 */

/* codec_levels.c: at the level that lib/reduce uses. */
const struct tt_codec_kernels *tt_codec_kernels(void);

/*
 * The step between levels -levels ... levels that reach most: most / levels. A step below the
 * normal numbers is rounded up, or the greatest value would be beyond the last level; a step whose
 * last level is beyond the finite numbers is the next lower one.
 */
static inline float tt_codec_step(float most, float levels)
{
	float step = most / levels;

	if (step < FLT_MIN && step * levels < most)
		return tt_f32_from_bits(tt_f32_bits(step) + 1);
	if (step * levels > FLT_MAX)
		return tt_f32_from_bits(tt_f32_bits(step) - 1);
	return step;
}

#endif
