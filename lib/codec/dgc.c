/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dgc: topk with momentum correction, for training whose optimizer on the result has no momentum of
 * its own. u = momentum * u + in; v = v + u; the elements of the greatest magnitudes in v are sent
 * and cleared in u and v. So what waits for its turn carries the momentum of all its steps, and an
 * element that was sent does not run on in an old direction. Without feedback it is topk. (Lin,
 * Han, Mao, Wang, Dally: Deep Gradient Compression, ICLR 2018.)
 */
#include "lib/codec/sparse_list.h"

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	return tt_topk_run(c, job, job->state ? job->state[1] : NULL, (float)c->opt.momentum, out,
			   len);
}

const struct tt_codec_kind tt_codec_dgc = {
	.name = "dgc",
	.form = "dgc:P%,momentum=M",
	.about = "topk with momentum correction; needs feedback",
	.sparse = true,
	.states = 2,
	.most = UINT32_MAX,
	.option = {TT_CODEC_FRACTION_OPTION("0.1%"),
		   {.key = "momentum",
		    .value = TT_CODEC_REAL,
		    .usual = "0.9",
		    .at = offsetof(struct tt_codec_options, momentum),
		    .lo = 0,
		    .hi = 0.9999}},
	.bound = tt_topk_bound,
	.align = tt_topk_align,
	.encode = encode,
	.decode = tt_list_decode,
};
