/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of lists of (index, value): lists while they are shorter than the vector, then the vector.
 *
 * The list of a + b has at most as many bytes as those of a and b together, less one count: each of
 * its entries is one of a or b, after a gap that is not longer than there.
 */
#include "lib/codec/codec_kernels.h"
#include "lib/codec/sparse_list.h"
#include "lib/reduce/reduce.h"

static int check_dense(const struct tutti_codec *c, const struct tt_codec_sum *s, size_t count)
{
	return s->len == count * sizeof(float)
		       ? 0
		       : tt_codec_refuse(c, s->len, count, "a vector has another length");
}

int tt_codec_sum_decode(const struct tutti_codec *c, const struct tt_codec_sum *s, size_t count,
			float *out)
{
	int err;

	if (!s->dense)
		return tt_codec_decode(c, s->at, s->len, 0, count, out);
	err = check_dense(c, s, count);
	if (!err)
		memcpy(out, s->at, s->len);
	return err;
}

int tt_codec_sum_merge(const struct tutti_codec *c, const struct tt_codec_sum *a,
		       const struct tt_codec_sum *b, size_t count, void *out,
		       struct tt_codec_sum *sum)
{
	size_t vector = count * sizeof(float);
	int err;

	*sum = (struct tt_codec_sum){.at = out, .len = vector, .dense = true};
	if (!a->dense && !b->dense && a->len <= vector && b->len <= vector &&
	    a->len + b->len <= vector + TT_LIST_HEAD) {
		sum->dense = false;
		return tt_codec_merge(c, a->at, a->len, b->at, b->len, count, out, &sum->len);
	}
	err = tt_codec_sum_decode(c, a, count, out);
	if (!err && !b->dense)
		return tt_codec_decode_add(c, b->at, b->len, 0, count, out);
	if (!err)
		err = check_dense(c, b, count);
	if (!err)
		tt_reduce_sum(out, out, b->at, count);
	return err;
}
