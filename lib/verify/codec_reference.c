/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of the codecs, one element at a time: the reference for all levels. */
#include <string.h>

#include "lib/codec/codec_kernels.h"

static uint32_t magnitude(float x)
{
	return tt_f32_bits(x) & 0x7fffffff;
}

static bool is_finite(float x)
{
	return magnitude(x) < TT_CODEC_INF;
}

static void put(float *out, float x, bool add)
{
	float sum = add ? *out + x : x;

	*out = add && sum != sum ? tt_f32_from_bits(TT_CODEC_NAN) : sum;
}

static float limit(float x, float most)
{
	return x > most ? most : x < -most ? -most : x;
}

static uint16_t narrow_fp16(float x)
{
	return tt_half_narrow(is_finite(x) ? limit(x, TT_FP16_MOST)
					   : tt_f32_from_bits(TT_CODEC_NAN));
}

static uint16_t narrow_bf16(float x)
{
	return tt_bfloat_narrow(is_finite(x) ? limit(x, TT_BF16_MOST)
					     : tt_f32_from_bits(TT_CODEC_NAN));
}

/*
 * To 8 bits with mbits of mantissa and the exponent's bias; the lowest normal number is normal.
 * Below it the numbers are multiples of 2^(1 - bias - mbits), which an addition rounds to.
 */
static uint8_t narrow_fp8(float x, uint32_t mbits, uint32_t bias, float most)
{
	uint32_t sign = tt_f32_bits(x) >> 24 & 0x80, mag;
	float low = tt_f32_from_bits((128 - bias) << 23),
	      grid = tt_f32_from_bits((151 - bias - mbits) << 23);

	x = limit(tt_f32_from_bits(magnitude(x)), most);
	if (x < low)
		mag = tt_f32_bits(x + grid) - tt_f32_bits(grid);
	else
		mag = tt_shift_round(tt_f32_bits(x), (int)(23 - mbits)) - ((127 - bias) << mbits);
	return (uint8_t)(sign | mag);
}

static uint8_t narrow_e4m3(float x)
{
	return is_finite(x) ? narrow_fp8(x, 3, 7, TT_E4M3_MOST) : TT_E4M3_NAN;
}

static uint8_t narrow_e5m2(float x)
{
	return is_finite(x) ? narrow_fp8(x, 2, 15, TT_E5M2_MOST) : TT_E5M2_NAN;
}

static float widen_e4m3(uint8_t b)
{
	uint32_t sign = (uint32_t)(b & 0x80) << 24, mag = b & 0x7f;

	if (mag == TT_E4M3_NAN)
		return tt_f32_from_bits(sign | TT_CODEC_NAN);
	if (mag < 8) /* a multiple of 2^-9 */
		return tt_f32_from_bits(sign | tt_f32_bits((float)mag * 0x1p-9f));
	return tt_f32_from_bits(sign | ((mag << 20) + (120u << 23)));
}

static float widen_e5m2(uint8_t b)
{
	return tt_half_widen((uint16_t)(b << 8));
}

/* narrow_all and widen_all for one format; TYPE is that of its elements. */
#define CAST(name, TYPE, narrow, widen)                                                            \
	static void narrow_all_##name(const float *in, float *residual, unsigned char *out,        \
				      size_t n)                                                    \
	{                                                                                          \
		size_t i;                                                                          \
                                                                                                   \
		for (i = 0; i < n; i++) {                                                          \
			float p = residual ? in[i] + residual[i] : in[i];                          \
			TYPE q = narrow(p);                                                        \
                                                                                                   \
			memcpy(out + i * sizeof(q), &q, sizeof(q));                                \
			if (residual && is_finite(p))                                              \
				residual[i] = p - widen(q);                                        \
		}                                                                                  \
	}                                                                                          \
	static void widen_all_##name(const unsigned char *in, float *out, size_t n, bool add)      \
	{                                                                                          \
		size_t i;                                                                          \
                                                                                                   \
		for (i = 0; i < n; i++) {                                                          \
			TYPE q;                                                                    \
                                                                                                   \
			memcpy(&q, in + i * sizeof(q), sizeof(q));                                 \
			put(&out[i], widen(q), add);                                               \
		}                                                                                  \
	}
CAST(fp16, uint16_t, narrow_fp16, tt_half_widen)
CAST(bf16, uint16_t, narrow_bf16, tt_bfloat_widen)
CAST(e4m3, uint8_t, narrow_e4m3, widen_e4m3)
CAST(e5m2, uint8_t, narrow_e5m2, widen_e5m2)

/* The part of a vector that is one block. */
struct block {
	const float *in;
	float *residual;
	size_t n;
};

static struct block block_at(const float *in, float *residual, size_t n, size_t at, size_t block)
{
	return (struct block){in + at, residual ? residual + at : NULL,
			      n - at < block ? n - at : block};
}

static float element(const struct block *b, size_t i)
{
	return b->residual ? b->in[i] + b->residual[i] : b->in[i];
}

/* To the nearest whole number, even of two; |x| < 2^22. */
static float round_even(float x)
{
	return (x + 0x1.8p23f) - 0x1.8p23f;
}

static void int8_block(const struct block *b, unsigned char *out)
{
	uint32_t most = 0, m;
	float step, divisor, p, q;
	size_t i;

	for (i = 0; i < b->n; i++) {
		m = magnitude(element(b, i));
		most = m > most ? m : most;
	}
	step = tt_f32_from_bits(most < TT_CODEC_INF ? most : TT_CODEC_NAN);
	if (most < TT_CODEC_INF)
		step = tt_codec_step(step, 127);
	memcpy(out, &step, sizeof(step));
	memset(out + sizeof(step), 0, b->n);
	if (most >= TT_CODEC_INF)
		return;
	divisor = step > 0 ? step : 1;
	for (i = 0; i < b->n; i++) {
		p = element(b, i);
		q = limit(round_even(p / divisor), 127);
		out[sizeof(step) + i] = (unsigned char)(int8_t)q;
		if (b->residual)
			b->residual[i] = p - q * step;
	}
}

static void int8_encode(const float *in, float *residual, unsigned char *out, size_t n,
			size_t block)
{
	size_t at;

	for (at = 0; at < n; at += block) {
		struct block b = block_at(in, residual, n, at, block);

		int8_block(&b, out);
		out += sizeof(float) + b.n;
	}
}

static void int8_decode(const unsigned char *in, float *out, size_t n, size_t block, bool add)
{
	size_t at, i, len;
	float step;

	for (at = 0; at < n; at += block) {
		len = n - at < block ? n - at : block;
		memcpy(&step, in, sizeof(step));
		in += sizeof(step);
		for (i = 0; i < len; i++)
			put(&out[at + i], (float)(int8_t)in[i] * step, add);
		in += len;
	}
}

static uint32_t mix(uint32_t x)
{
	x = (x ^ x >> 16) * TT_CODEC_MIX1;
	x = (x ^ x >> 15) * TT_CODEC_MIX2;
	return x ^ x >> 16;
}

/* From 0 to less than 1. */
static float uniform(uint64_t key, uint64_t index)
{
	key = tt_codec_key_at(key, index);
	return (float)(mix(mix((uint32_t)index + (uint32_t)key) ^ (uint32_t)(key >> 32)) >> 8) *
	       0x1p-24f;
}

/* Of magnitudes or of their squares, in the order that all levels keep. */
static double add_lanes(const struct block *b, bool square)
{
	double lane[TT_CODEC_LANES] = {0}, x;
	size_t i, half;

	for (i = 0; i < b->n; i++) {
		x = (double)tt_f32_from_bits(magnitude(element(b, i)));
		lane[i % TT_CODEC_LANES] += square ? x * x : x;
	}
	for (half = TT_CODEC_LANES / 2; half; half /= 2)
		for (i = 0; i < half; i++)
			lane[i] += lane[i + half];
	return lane[0];
}

static bool sum_is_finite(double sum)
{
	return sum <= DBL_MAX;
}

/* Bit after bit, the lowest first. */
static void put_bits(unsigned char *out, size_t at, int bits, unsigned code)
{
	int k;

	for (k = 0; k < bits; k++, at++)
		out[at / 8] |= (unsigned char)((code >> k & 1) << at % 8);
}

static unsigned get_bits(const unsigned char *in, size_t at, int bits)
{
	unsigned code = 0;
	int k;

	for (k = 0; k < bits; k++, at++)
		code |= (unsigned)(in[at / 8] >> at % 8 & 1) << k;
	return code;
}

static void qsgd_block(const struct tt_qsgd *q, uint64_t first, const struct block *b,
		       unsigned char *out)
{
	double squares = add_lanes(b, true);
	float step = tt_f32_from_bits(TT_CODEC_NAN), sent, divisor, a, p, low;
	size_t i;

	if (sum_is_finite(squares))
		step = tt_qsgd_step(q, squares);
	sent = b->residual ? step * q->shrink : step;
	memset(out, 0, tt_qsgd_bytes(q, b->n));
	memcpy(out, &sent, sizeof(sent));
	if (!sum_is_finite(squares))
		return;
	divisor = step > 0 ? step : 1;
	for (i = 0; i < b->n; i++) {
		int level;

		p = element(b, i);
		a = tt_f32_from_bits(magnitude(p)) / divisor;
		low = (float)(int)a;
		level = (int)low + (uniform(q->key, first + i) < a - low);
		level = level > q->levels ? q->levels : level;
		put_bits(out + sizeof(step), i * (size_t)q->bits, q->bits,
			 (unsigned)level | (p < 0 && level ? 1u : 0) << (q->bits - 1));
		if (b->residual)
			b->residual[i] = p - (float)(p < 0 ? -level : level) * sent;
	}
}

static void qsgd_encode(const struct tt_qsgd *q, const float *in, float *residual,
			unsigned char *out, size_t n)
{
	size_t at;

	for (at = 0; at < n; at += q->block) {
		struct block b = block_at(in, residual, n, at, q->block);

		qsgd_block(q, q->first + at, &b, out);
		out += tt_qsgd_bytes(q, b.n);
	}
}

static void qsgd_decode(const struct tt_qsgd *q, const unsigned char *in, float *out, size_t n,
			bool add)
{
	size_t at, i, len;
	float step;

	for (at = 0; at < n; at += q->block) {
		len = n - at < q->block ? n - at : q->block;
		memcpy(&step, in, sizeof(step));
		for (i = 0; i < len; i++) {
			unsigned code = get_bits(in + sizeof(step), i * (size_t)q->bits, q->bits),
				 sign = 1u << (q->bits - 1);
			int level = (int)(code & (sign - 1));

			put(&out[at + i], (float)(code & sign ? -level : level) * step, add);
		}
		in += tt_qsgd_bytes(q, len);
	}
}

static void onebit_block(const struct block *b, unsigned char *out)
{
	double sum = add_lanes(b, false);
	float mean = (float)(sum / (double)b->n), p;
	bool negative;
	size_t i;

	if (!sum_is_finite(sum))
		mean = tt_f32_from_bits(TT_CODEC_NAN);
	memcpy(out, &mean, sizeof(mean));
	out += sizeof(mean);
	memset(out, 0, (b->n + 7) / 8);
	for (i = 0; i < b->n && sum_is_finite(sum); i++) {
		p = element(b, i);
		negative = tt_f32_bits(p) >> 31;
		put_bits(out, i, 1, negative);
		if (b->residual)
			b->residual[i] = p - (negative ? -mean : mean);
	}
}

static size_t onebit_bytes(size_t n)
{
	return sizeof(float) + (n + 7) / 8;
}

static void onebit_encode(const float *in, float *residual, unsigned char *out, size_t n,
			  size_t block)
{
	size_t at;

	for (at = 0; at < n; at += block) {
		struct block b = block_at(in, residual, n, at, block);

		onebit_block(&b, out);
		out += onebit_bytes(b.n);
	}
}

static void onebit_decode(const unsigned char *in, float *out, size_t n, size_t block, bool add)
{
	size_t at, i, len;
	float mean;

	for (at = 0; at < n; at += block) {
		len = n - at < block ? n - at : block;
		memcpy(&mean, in, sizeof(mean));
		for (i = 0; i < len; i++)
			put(&out[at + i],
			    get_bits(in + sizeof(mean), i, 1)
				    ? tt_f32_from_bits(tt_f32_bits(mean) ^ 0x80000000)
				    : mean,
			    add);
		in += onebit_bytes(len);
	}
}

static bool all_finite(const float *in, const float *v, const float *u, float m, size_t n)
{
	size_t i;
	float p;

	for (i = 0; i < n; i++) {
		p = u ? m * u[i] + in[i] : in[i];
		if (!is_finite(v ? v[i] + p : p))
			return false;
	}
	return true;
}

static void advance(const float *in, float *v, float *u, float m, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (u)
			u[i] = m * u[i] + in[i];
		v[i] += u ? u[i] : in[i];
	}
}

static size_t gather(const float *p, size_t at, size_t n, uint32_t least, uint64_t *keys,
		     size_t room, size_t *got)
{
	size_t k = 0;

	for (; at < n && k < room; at++)
		if (magnitude(p[at]) >= least)
			keys[k++] = tt_codec_sort_key(magnitude(p[at]), at);
	*got = k;
	return at;
}

void tt_codec_add_reference(void)
{
	static const struct tt_codec_kernels reference = TT_CODEC_KERNELS;

	tt_codec_truth = &reference;
}
