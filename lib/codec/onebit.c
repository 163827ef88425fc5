/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * onebit: blocks of opt.block elements; each element becomes the mean of the block's magnitudes
 * with the element's sign. A block is that mean as a float32, then a bit for each element, set for
 * negative ones: 1 + 32 / block bits for each. (Seide, Fu, Droppo, Li, Yu: 1-Bit Stochastic
 * Gradient Descent, Interspeech 2014; Karimireddy et al.: Error Feedback Fixes SignSGD, ICML 2019.)
 */
#include "lib/codec/codec_kernels.h"
#include "lib/codec/codec_kind.h"

static size_t bound(const struct tutti_codec *c, size_t count)
{
	size_t whole = count / c->opt.block, rest = count % c->opt.block;

	return whole * (sizeof(float) + c->opt.block / 8) +
	       (rest ? sizeof(float) + (rest + 7) / 8 : 0);
}

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	tt_codec_kernels()->onebit_encode(job->in, tt_codec_residual(job), out, job->count,
					  c->opt.block);
	*len = bound(c, job->count);
	return 0;
}

static int decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		  size_t count, float *out, bool add)
{
	int err = tt_codec_check_length(c, len, count);

	(void)first;
	if (!err)
		tt_codec_kernels()->onebit_decode(in, out, count, c->opt.block, add);
	return err;
}

const struct tt_codec_kind tt_codec_onebit = {
	.name = "onebit",
	.form = "onebit:block=N",
	.about = "the sign, times the mean magnitude of the block; needs feedback",
	.fixed = true,
	.joins = true,
	.states = 1,
	.option = {TT_CODEC_BLOCK_OPTION},
	.bound = bound,
	.align = tt_codec_align_block,
	.encode = encode,
	.decode = decode,
};
