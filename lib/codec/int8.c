/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * int8: blocks of opt.block elements. step = max|x| / 127; each element is the nearest multiple of
 * step, of which a byte has the number: the error is at most step / 2. A block is its step as a
 * float32 and a byte for each element: 8 + 32 / block bits for each. (Dettmers: 8-Bit
 * Approximations for Parallelism in Deep Learning, ICLR 2016, has the method for collectives.)
 */
#include "lib/codec/codec_kernels.h"
#include "lib/codec/codec_kind.h"

static size_t bound(const struct tutti_codec *c, size_t count)
{
	size_t blocks = (count + c->opt.block - 1) / c->opt.block;

	return count + blocks * sizeof(float);
}

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	tt_codec_kernels()->int8_encode(job->in, tt_codec_residual(job), out, job->count,
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
		tt_codec_kernels()->int8_decode(in, out, count, c->opt.block, add);
	return err;
}

const struct tt_codec_kind tt_codec_int8 = {
	.name = "int8",
	.form = "int8:block=N",
	.about = "blocks of bytes with the scale max|x| / 127",
	.fixed = true,
	.joins = true,
	.states = 1,
	.option = {TT_CODEC_BLOCK_OPTION},
	.bound = bound,
	.align = tt_codec_align_block,
	.encode = encode,
	.decode = decode,
};
