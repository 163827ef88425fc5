/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qsgd: blocks of opt.block elements on the levels 0, step ... s * step, with step = |x|_2 / s and
 * s = opt.levels. Of the two levels around |x_i| one is chosen at random, so that its mean is
 * |x_i|: unbiased, with a variance of at most min(d / s^2, sqrt(d) / s) |x|_2^2 for a block of d.
 * With feedback that is w |x|_2^2, w = min(d / (4 s^2), sqrt(d) / s), and the decoded values are
 * divided by 1 + w: the error is then at most w / (1 + w) |x|_2^2, so the residual cannot grow
 * without bound, as it would without the factor if w is above 1. (Horvath, Richtarik: A Better
 * Alternative to Error Feedback, ICLR 2021, has the lemma.)
 * The random bits depend on (seed, call, index). A block is its step as a float32, then for each
 * element a sign and the number of its level in 1 + log2(s + 1) bits, rounded up. (Alistarh,
 * Grubic, Li, Tomioka, Vojnovic: QSGD, NIPS 2017.)
 */
#include <math.h>

#include "lib/codec/codec_kernels.h"
#include "lib/codec/codec_kind.h"

static float shrink(double d, double s)
{
	double w = fmin(d / (4 * s * s), sqrt(d) / s);

	return (float)(1 / (1 + w));
}

static struct tt_qsgd parameters(const struct tutti_codec *c, size_t first, uint64_t call)
{
	return (struct tt_qsgd){.block = c->opt.block,
				.levels = (int)c->opt.levels,
				.bits = 33 - __builtin_clz((unsigned)c->opt.levels),
				.first = first,
				.key = tt_codec_key(c->opt.seed, call),
				.shrink = shrink((double)c->opt.block, (double)c->opt.levels)};
}

static size_t bound(const struct tutti_codec *c, size_t count)
{
	const struct tt_qsgd q = parameters(c, 0, 0);
	size_t whole = count / q.block, rest = count % q.block;

	return whole * tt_qsgd_bytes(&q, q.block) + (rest ? tt_qsgd_bytes(&q, rest) : 0);
}

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	const struct tt_qsgd q = parameters(c, job->first, job->call);

	tt_codec_kernels()->qsgd_encode(&q, job->in, tt_codec_residual(job), out, job->count);
	*len = bound(c, job->count);
	return 0;
}

static int decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		  size_t count, float *out, bool add)
{
	const struct tt_qsgd q = parameters(c, first, 0);
	int err = tt_codec_check_length(c, len, count);

	if (!err)
		tt_codec_kernels()->qsgd_decode(&q, in, out, count, add);
	return err;
}

const struct tt_codec_kind tt_codec_qsgd = {
	.name = "qsgd",
	.form = "qsgd:levels=S,block=N,seed=S",
	.about = "blocks on S levels of their norm, rounded at random: unbiased",
	.fixed = true,
	.states = 1,
	.option = {{.key = "levels",
		    .value = TT_CODEC_WHOLE,
		    .usual = "15",
		    .at = offsetof(struct tt_codec_options, levels),
		    .lo = 1,
		    .hi = 127,
		    .step = 1},
		   TT_CODEC_BLOCK_OPTION,
		   TT_CODEC_SEED_OPTION},
	.bound = bound,
	.align = tt_codec_align_block,
	.encode = encode,
	.decode = decode,
};
