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

#define TT_CODEC_KEY 0x7fffffffu /* a key's upper half is this, less the magnitude */

/* qsgd: what its loops need. */
struct tt_qsgd {
	size_t block, first; /* the index of the first element */
	int levels, bits;    /* bits of an encoded element */
	uint64_t key;	     /* of the random bits */
	float shrink;	     /* with feedback, the factor of what is sent */
};

struct tt_codec_kernels {
	void (*narrow[TT_CASTS])(const float *in, float *residual, unsigned char *out, size_t n);
	void (*widen[TT_CASTS])(const unsigned char *in, float *out, size_t n, bool add);
	/* Blocks: a scale, then a byte for each element. */
	void (*int8_encode)(const float *in, float *residual, unsigned char *out, size_t n,
			    size_t block);
	void (*int8_decode)(const unsigned char *in, float *out, size_t n, size_t block, bool add);
	/* Blocks: a step, then bits for each element: the sign above the level. */
	void (*qsgd_encode)(const struct tt_qsgd *q, const float *in, float *residual,
			    unsigned char *out, size_t n);
	void (*qsgd_decode)(const struct tt_qsgd *q, const unsigned char *in, float *out, size_t n,
			    bool add);
	/* Blocks: a mean, then a bit for each element. */
	void (*onebit_encode)(const float *in, float *residual, unsigned char *out, size_t n,
			      size_t block);
	void (*onebit_decode)(const unsigned char *in, float *out, size_t n, size_t block,
			      bool add);
	/* Are all of in finite; or with v in + v; or with u, too, v + (m * u + in)? */
	bool (*finite)(const float *in, const float *v, const float *u, float m, size_t n);
	/* v += in; or with u: u = m * u + in, v += u. */
	void (*advance)(const float *in, float *v, float *u, float m, size_t n);
	/*
	 * Keys of the elements from index at to n whose magnitude, as bits, is at least least, in
	 * order; *got of them. Returns where it stopped: n, or where room ended, which is at least
	 * TT_CODEC_LANES.
	 */
	size_t (*gather)(const float *p, size_t at, size_t n, uint32_t least, uint64_t *keys,
			 size_t room, size_t *got);
};

/* The table of a file that defines these functions. */
#define TT_CODEC_KERNELS                                                                           \
	{                                                                                          \
		.narrow = {narrow_all_fp16, narrow_all_bf16, narrow_all_e4m3, narrow_all_e5m2},    \
		.widen = {widen_all_fp16, widen_all_bf16, widen_all_e4m3, widen_all_e5m2},         \
		.int8_encode = int8_encode, .int8_decode = int8_decode,                            \
		.qsgd_encode = qsgd_encode, .qsgd_decode = qsgd_decode,                            \
		.onebit_encode = onebit_encode, .onebit_decode = onebit_decode,                    \
		.finite = all_finite, .advance = advance, .gather = gather,                        \
	}

extern const struct tt_codec_kernels tt_codec_kernels_base;
extern const struct tt_codec_kernels tt_codec_kernels_avx2;   /* only with TT_HAVE_AVX2 */
extern const struct tt_codec_kernels tt_codec_kernels_avx512; /* only with TT_HAVE_AVX512 */

/* codec_levels.c: at the level that lib/reduce uses. */
const struct tt_codec_kernels *tt_codec_kernels(void);
/* lib/verify/codec_reference.c sets TT_REDUCE_TRUTH. */
extern const struct tt_codec_kernels *tt_codec_truth;
void tt_codec_add_reference(void);

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

/* The bytes of an encoded block of n elements. */
static inline size_t tt_qsgd_bytes(const struct tt_qsgd *q, size_t n)
{
	return sizeof(float) + (n * (size_t)q->bits + 7) / 8;
}

/* The step of a block whose squares have this sum, which is finite. */
static inline float tt_qsgd_step(const struct tt_qsgd *q, double squares)
{
	double norm = __builtin_sqrt(squares);

	return tt_codec_step(norm > FLT_MAX ? FLT_MAX : (float)norm, (float)q->levels);
}

/* Random bits: a key of what is the same for all elements, then 32 bits for each index. */
static inline uint64_t tt_codec_key(uint64_t seed, uint64_t call)
{
	return tt_hash_add(tt_hash_add(0, seed), call);
}

/*
 * The mixing of 32 bits by two multiplications, "lowbias32" of C. Wellons' hash-prospector (2018):
 * the random bits of index i are mix(mix(i + key) ^ key >> 32), modulo 2^32.
 */
#define TT_CODEC_MIX1 0x7feb352du
#define TT_CODEC_MIX2 0x846ca68bu

/* The key for indices with this upper half. */
static inline uint64_t tt_codec_key_at(uint64_t key, uint64_t index)
{
	return tt_hash_add(key, index >> 32);
}

static inline uint64_t tt_codec_sort_key(uint32_t magnitude, size_t index)
{
	return (uint64_t)(TT_CODEC_KEY - magnitude) << 32 | (uint32_t)index;
}

#endif
