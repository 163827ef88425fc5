/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Casts: each element to a shorter float, to nearest even. A greater value than the format's
 * greatest becomes that, so that a finite value stays finite and feedback can send the rest later.
 * A value that is not finite becomes NaN. fp16 is IEEE binary16, bf16 the upper half of a float32,
 * fp8 the two formats of the OCP 8-bit Floating Point Specification 1.0 (2023): e4m3 to 448,
 * without infinities, and e5m2 to 57344.
 */
#include "lib/codec/codec_kernels.h"
#include "lib/codec/codec_kind.h"

static enum tt_cast cast_of(const struct tutti_codec *c)
{
	if (c->kind == &tt_codec_fp8)
		return TT_CAST_E4M3 + (enum tt_cast)c->opt.variant;
	return c->kind == &tt_codec_fp16 ? TT_CAST_FP16 : TT_CAST_BF16;
}

static size_t bound(const struct tutti_codec *c, size_t count)
{
	return c->kind == &tt_codec_fp8 ? count : 2 * count;
}

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	tt_codec_kernels()->narrow[cast_of(c)](job->in, tt_codec_residual(job), out, job->count);
	*len = bound(c, job->count);
	return 0;
}

static int decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		  size_t count, float *out, bool add)
{
	int err = tt_codec_check_length(c, len, count);

	(void)first;
	if (!err)
		tt_codec_kernels()->widen[cast_of(c)](in, out, count, add);
	return err;
}

#define CAST                                                                                       \
	.fixed = true, .states = 1, .bound = bound, .align = tt_codec_align_one, .encode = encode, \
	.decode = decode

const struct tt_codec_kind tt_codec_fp16 = {
	.name = "fp16",
	.form = "fp16",
	.about = "IEEE binary16, to nearest even; beyond 65504 is 65504",
	CAST,
};

const struct tt_codec_kind tt_codec_bf16 = {
	.name = "bf16",
	.form = "bf16",
	.about = "the upper half of a float32, to nearest even",
	CAST,
};

static const char *const formats[] = {"e4m3", "e5m2", NULL};

const struct tt_codec_kind tt_codec_fp8 = {
	.name = "fp8",
	.form = "fp8:e4m3 | fp8:e5m2",
	.about = "8-bit floats of OCP, to nearest even; e4m3 to 448, e5m2 to 57344",
	.option = {{.key = "",
		    .value = TT_CODEC_WORD,
		    .usual = "e4m3",
		    .at = offsetof(struct tt_codec_options, variant),
		    .words = formats}},
	CAST,
};
