/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * User-defined codecs. The callbacks know nothing of feedback: it is made here, by decoding what
 * was encoded.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/codec/codec_kernels.h"
#include "lib/codec/codec_kind.h"
#include "lib/reduce/reduce.h"

static size_t most_bytes(size_t count)
{
	return 64 * count + 4096;
}

int tt_codec_check_user(const struct tutti_codec *c, size_t count)
{
	size_t bytes = c->user.bound(count, c->user.arg);

	if (bytes && bytes <= most_bytes(count))
		return 0;
	return tt_fail(-EINVAL,
		       "codec '%s': its bound of %zu elements is %zu bytes; it must be from 1 to "
		       "%zu",
		       c->name, count, bytes, most_bytes(count));
}

/* A wrong one becomes one that can be calculated with: encode refuses it. */
static size_t bound(const struct tutti_codec *c, size_t count)
{
	size_t bytes = c->user.bound(count, c->user.arg);

	return bytes && bytes <= most_bytes(count) ? bytes : most_bytes(count);
}

static size_t align(const struct tutti_codec *c)
{
	return c->user.align;
}

static int failed(const struct tutti_codec *c, const char *what, int err)
{
	return tt_fail(err < 0 ? err : -EPROTO, "codec '%s': its %s returned %d", c->name, what,
		       err);
}

static int encode_plain(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
			size_t *len)
{
	size_t most = bound(c, job->count), bytes = 0;
	int err = tt_codec_check_user(c, job->count);

	if (err)
		return err;
	err = c->user.encode(job->in, job->count, job->first, job->call, out, &bytes, c->user.arg);
	if (err)
		return failed(c, "encode", err);
	if (bytes > most || (tt_codec_fixed(c) && bytes != most))
		return tt_fail(-EINVAL,
			       "codec '%s': its encode wrote %zu bytes of %zu elements; it must "
			       "write %s its bound, %zu",
			       c->name, bytes, job->count,
			       tt_codec_fixed(c) ? "exactly" : "at most", most);
	*len = bytes;
	return 0;
}

/* p: the input and the residual, added; d: what was encoded of them. */
static int encode_rest(const struct tutti_codec *c, const struct tt_codec_job *job, float *p,
		       float *d, void *out, size_t *len)
{
	struct tt_codec_job sum = *job;
	float *residual = job->state[0];
	size_t i, bytes;
	int err;

	tt_reduce_sum(p, job->in, residual, job->count);
	sum.in = p;
	err = encode_plain(c, &sum, out, &bytes);
	if (err)
		return err;
	err = c->user.decode(out, bytes, job->first, d, job->count, c->user.arg);
	if (err)
		return failed(c, "decode", err);
	for (i = 0; i < job->count; i++) {
		float rest = p[i] - d[i];

		if ((tt_f32_bits(rest) & 0x7fffffff) < TT_CODEC_INF)
			residual[i] = rest;
	}
	*len = bytes;
	return 0;
}

static int encode(const struct tutti_codec *c, const struct tt_codec_job *job, void *out,
		  size_t *len)
{
	float *p;
	int err;

	if (!job->state)
		return encode_plain(c, job, out, len);
	p = malloc(2 * job->count * sizeof(*p));
	if (!p)
		return tt_fail(-ENOMEM, "codec '%s': no memory for %zu elements", c->name,
			       2 * job->count);
	err = encode_rest(c, job, p, p + job->count, out, len);
	free(p);
	return err;
}

static int decode(const struct tutti_codec *c, const void *in, size_t len, size_t first,
		  size_t count, float *out, bool add)
{
	float *d = out;
	int err;

	if (len > bound(c, count) || (tt_codec_fixed(c) && len != bound(c, count)))
		return tt_codec_refuse(c, len, count, "the length is not within its bound");
	if (add)
		d = malloc(count * sizeof(*d));
	if (!d)
		return tt_fail(-ENOMEM, "codec '%s': no memory for %zu elements", c->name, count);
	err = c->user.decode(in, len, first, d, count, c->user.arg);
	if (add && !err)
		tt_reduce_sum(out, out, d, count);
	if (add)
		free(d);
	return err ? failed(c, "decode", err) : 0;
}

const struct tt_codec_kind tt_codec_user = {
	.name = "user",
	.form = "",
	.about = "user-defined",
	.states = 1,
	.bound = bound,
	.align = align,
	.encode = encode,
	.decode = decode,
};
