/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * int8 and onebit: blocks of opt.block elements. A block is one scale as a float32, then the same
 * number of bits for each element.
 *
 * int8: the scale is the step max|x| / 127; each element is the nearest multiple of step, of which
 * a byte has the number: the error is at most step / 2. 8 + 32 / block bits for each. (Dettmers:
 * 8-Bit Approximations for Parallelism in Deep Learning, ICLR 2016, has the method for
 * collectives.)
 *
 * onebit: the scale is the mean of the block's magnitudes; each element becomes that mean with the
 * element's sign, a bit that is set for negative ones: 1 + 32 / block bits for each. (Seide, Fu,
 * Droppo, Li, Yu: 1-Bit Stochastic Gradient Descent, Interspeech 2014; Karimireddy et al.: Error
 * Feedback Fixes SignSGD, ICML 2019.)
 */
#include "lib/codec/codec_kernels.h"
#include "lib/codec/codec_kind.h"

static bool is_onebit(const struct tutti_codec *c)
{
	return c->kind == &tt_codec_onebit;
}

static size_t block_bytes(const struct tutti_codec *c, size_t n)
{
	return sizeof(float) + (is_onebit(c) ? (n + 7) / 8 : n);
}

static size_t bound(const struct tutti_codec *c, size_t count)
{
	size_t whole = count / c->opt.block, rest = count % c->opt.block;

	return whole * block_bytes(c, c->opt.block) + (rest ? block_bytes(c, rest) : 0);
}

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	const struct tt_codec_kernels *k = tt_codec_kernels();

	(is_onebit(c) ? k->onebit_encode : k->int8_encode)(job->in, tt_codec_residual(job), out,
							   job->count, c->opt.block);
	*len = bound(c, job->count);
	return 0;
}

static int decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		  size_t count, float *out, bool add)
{
	const struct tt_codec_kernels *k = tt_codec_kernels();
	int err = tt_codec_check_length(c, len, count);

	(void)first;
	if (!err)
		(is_onebit(c) ? k->onebit_decode : k->int8_decode)(in, out, count, c->opt.block,
								   add);
	return err;
}

#define SCALED_BLOCKS                                                                              \
	.fixed = true, .states = 1, .option = {TT_CODEC_BLOCK_OPTION}, .bound = bound,             \
	.align = tt_codec_align_block, .encode = encode, .decode = decode

const struct tt_codec_kind tt_codec_int8 = {
	.name = "int8",
	.form = "int8:block=N",
	.about = "blocks of bytes with the scale max|x| / 127",
	SCALED_BLOCKS,
};

const struct tt_codec_kind tt_codec_onebit = {
	.name = "onebit",
	.form = "onebit:block=N",
	.about = "the sign, times the mean magnitude of the block; needs feedback",
	SCALED_BLOCKS,
};
