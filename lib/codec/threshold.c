/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threshold: the elements whose magnitude is at least the threshold. The number of entries follows
 * the data. A value that is not finite is sent as NaN. (Strom: Scalable Distributed DNN Training
 * Using Commodity GPU Cloud Computing, Interspeech 2015, with the values themselves.)
 */
#include "lib/codec/codec_kernels.h"
#include "lib/codec/sparse_list.h"
#include "lib/reduce/reduce.h"

#define PIECE 1024 /* elements, which stay in the nearest cache */

static size_t bound(const struct tutti_codec *c, size_t count)
{
	(void)c;
	return tt_codec_list_bound(count, count);
}

static bool is_finite(float x)
{
	return (tt_f32_bits(x) & 0x7fffffff) < TT_CODEC_INF;
}

/* n elements from the index first on. */
static void encode_piece(struct tt_list_writer *w, const float *in, float *residual, size_t first,
			 size_t n, uint32_t least)
{
	uint64_t keys[PIECE + TT_CODEC_LANES];
	const float *p = in;
	float sum[PIECE];
	size_t i, got, index;

	if (residual) {
		tt_reduce_sum(sum, in, residual, n);
		p = sum;
	}
	tt_codec_kernels()->gather(p, 0, n, least, keys, PIECE + TT_CODEC_LANES, &got);
	for (i = 0; i < got; i++) {
		bool finite;

		index = (uint32_t)keys[i];
		finite = is_finite(p[index]);
		tt_list_put(w, first + index, finite ? p[index] : tt_f32_from_bits(TT_CODEC_NAN));
		if (residual) /* what stays, as the rest does below */
			sum[index] = finite ? 0 : residual[index];
	}
	if (residual)
		memcpy(residual, sum, n * sizeof(*sum));
}

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	const uint32_t least = tt_f32_bits((float)c->opt.threshold);
	struct tt_list_writer w = tt_list_begin(out);
	float *residual = tt_codec_residual(job);
	size_t at, n;

	for (at = 0; at < job->count; at += n) {
		n = job->count - at < PIECE ? job->count - at : PIECE;
		encode_piece(&w, job->in + at, residual ? residual + at : NULL, at, n, least);
	}
	*len = tt_list_end(&w);
	return 0;
}

const struct tt_codec_kind tt_codec_threshold = {
	.name = "threshold",
	.form = "threshold:T",
	.about = "the elements of at least this magnitude, as (index, value)",
	.sparse = true,
	.states = 1,
	.option = {{.key = "",
		    .value = TT_CODEC_REAL,
		    .usual = "1e-3",
		    .at = offsetof(struct tt_codec_options, threshold),
		    .lo = 1e-20,
		    .hi = 1e20}},
	.bound = bound,
	.align = tt_codec_align_one,
	.encode = encode,
	.decode = tt_list_decode,
};
