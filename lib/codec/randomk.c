/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * randomk: of every block of m elements one, at a place that (seed, call, block) decides; m is
 * the inverse of the fraction, rounded to nearest. Indices need not be sent: the encoding is the
 * call in 8 bytes and a float32 for each block. Without feedback values are multiplied by the
 * block's length, so that the mean of the decoded elements is the element: unbiased, with (m - 1)
 * |x|^2 of variance. With feedback they are not, for the residual would grow without bound. (Stich,
 * Cordonnier, Jaggi: Sparsified SGD with Memory, NeurIPS 2018; Wangni et al.: Gradient
 * Sparsification for Communication-Efficient Distributed Optimization, NeurIPS 2018.)
 */
#include <math.h>
#include <string.h>

#include "lib/codec/codec_kernels.h"
#include "lib/codec/codec_kind.h"

#define HEAD 8

static size_t block_of(const struct tutti_codec *c)
{
	return (size_t)((2ull * TT_CODEC_PARTS + c->opt.fraction) / (2 * c->opt.fraction));
}

static size_t bound(const struct tutti_codec *c, size_t count)
{
	size_t block = block_of(c);

	return HEAD + (count / block + !!(count % block)) * sizeof(float);
}

/* The place of the element that is sent, in a block of n. */
static size_t place(const struct tutti_codec *c, uint64_t call, uint64_t block, size_t n)
{
	uint64_t key = tt_hash_add(tt_codec_key(c->opt.seed, call), block);

	return (size_t)(((unsigned __int128)key * n) >> 64);
}

/* The value that stands for a block of n elements. */
static float encode_block(const float *in, float *residual, size_t n, size_t at)
{
	const struct tt_codec_kernels *kernels = tt_codec_kernels();
	float value;

	if (!kernels->finite(in, residual, NULL, 0, n))
		return tt_f32_from_bits(TT_CODEC_NAN);
	if (!residual) {
		value = in[at] * (float)n;
		return fabsf(value) > FLT_MAX ? copysignf(FLT_MAX, value) : value;
	}
	kernels->advance(in, residual, NULL, 0, n);
	value = residual[at];
	residual[at] = 0;
	return value;
}

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	const size_t block = block_of(c);
	float *residual = tt_codec_residual(job), value;
	unsigned char *to = out;
	size_t at, n;

	memcpy(to, &job->call, HEAD);
	to += HEAD;
	for (at = 0; at < job->count; at += n) {
		n = job->count - at < block ? job->count - at : block;
		value = encode_block(job->in + at, residual ? residual + at : NULL, n,
				     place(c, job->call, (job->first + at) / block, n));
		memcpy(to, &value, sizeof(value));
		to += sizeof(value);
	}
	*len = (size_t)(to - (unsigned char *)out);
	return 0;
}

static bool is_finite(float x)
{
	return (tt_f32_bits(x) & 0x7fffffff) < TT_CODEC_INF;
}

static void decode_block(float *out, size_t n, size_t at, float value, bool add)
{
	const float nan = tt_f32_from_bits(TT_CODEC_NAN);
	size_t i;

	if (!is_finite(value))
		for (i = 0; i < n; i++)
			out[i] = nan;
	else if (!add) {
		memset(out, 0, n * sizeof(*out));
		out[at] = value;
	} else {
		out[at] += value;
		if (out[at] != out[at])
			out[at] = nan;
	}
}

static int decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		  size_t count, float *out, bool add)
{
	const size_t block = block_of(c);
	const unsigned char *from = in;
	int err = tt_codec_check_length(c, len, count);
	uint64_t call;
	size_t at, n;
	float value;

	if (err)
		return err;
	memcpy(&call, from, HEAD);
	from += HEAD;
	for (at = 0; at < count; at += n) {
		n = count - at < block ? count - at : block;
		memcpy(&value, from, sizeof(value));
		from += sizeof(value);
		decode_block(out + at, n, place(c, call, (first + at) / block, n), value, add);
	}
	return 0;
}

const struct tt_codec_kind tt_codec_randomk = {
	.name = "randomk",
	.form = "randomk:P%,seed=S",
	.about = "one element of each block of 100 / P, at random; unbiased without feedback",
	.fixed = true,
	.draws = true,
	.states = 1,
	.option = {TT_CODEC_FRACTION_OPTION("1%"), TT_CODEC_SEED_OPTION},
	.bound = bound,
	.align = block_of,
	.encode = encode,
	.decode = decode,
};
