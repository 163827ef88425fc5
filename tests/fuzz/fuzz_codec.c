/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received encodings, of every codec: a decoder touches only the elements of its vector, and an
 * accepted encoding gives the same elements at every instruction level. Sums of lists: refused if a
 * part is. TT_FUZZ_CODEC=NAME: of this codec alone.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/codec/codec.h"
#include "lib/codec/codec_kernels.h"
#include "lib/reduce/reduce.h"
#include "tests/fuzz/fuzz.h"

#define MOST_COUNT 700

static const char *const names[] = {"fp16",
				    "bf16",
				    "fp8:e4m3",
				    "fp8:e5m2",
				    "int8:block=32",
				    "int8",
				    "qsgd:block=32",
				    "qsgd:levels=5,block=48",
				    "onebit:block=32",
				    "topk:1%",
				    "threshold:1",
				    "randomk:5%",
				    "dgc:10%"};
#define NAMES (sizeof(names) / sizeof(*names))

/*
 * The rest of the input in memory of exactly its length, so that a sanitizer sees what is beyond;
 * fitted: cut or filled up to the length that codecs with one length require.
 */
static void *take_encoding(struct fz *z, const struct tutti_codec *codec, size_t count, bool fitted,
			   size_t *len)
{
	unsigned char *in;

	*len = fitted && tt_codec_fixed(codec) ? tt_codec_bound(codec, count) : z->len;
	in = malloc(*len ? *len : 1);
	assert(in);
	if (*len)
		fz_fill(z, in, *len);
	return in;
}

/* Decodes at one level; added: to ones. Returns the code. */
static int decode(const struct tutti_codec *codec, enum tt_reduce_level level, const void *in,
		  size_t len, size_t first, size_t count, float *out, float *added)
{
	size_t i;
	int err, again;

	tt_reduce_use(level);
	for (i = 0; i < count; i++)
		added[i] = 1;
	err = tt_codec_decode(codec, in, len, first, count, out);
	again = tt_codec_decode_add(codec, in, len, first, count, added);
	assert(err == again);
	return err;
}

static void check(const struct tutti_codec *codec, const void *in, size_t len, size_t first,
		  size_t count)
{
	float *out[2], *added[2];
	int i, err[2];

	for (i = 0; i < 2; i++) {
		out[i] = malloc(count * sizeof(float) + 1);
		added[i] = malloc(count * sizeof(float) + 1);
		assert(out[i] && added[i]);
		err[i] = decode(codec, i ? tt_reduce_best() : TT_REDUCE_TRUTH, in, len, first,
				count, out[i], added[i]);
	}
	assert(err[0] == err[1]);
	assert(err[0] || !memcmp(out[0], out[1], count * sizeof(float)));
	assert(err[0] || !memcmp(added[0], added[1], count * sizeof(float)));
	for (i = 0; i < 2; i++) {
		free(out[i]);
		free(added[i]);
	}
}

/* Two sums, cut out of the input, lists or dense: their sum is refused as one of them is. */
static void check_sum(const struct tutti_codec *codec, const char *in, size_t len, size_t count,
		      unsigned how)
{
	size_t cut = len * (how >> 2 & 31) / 31, most = tt_codec_bound(codec, count);
	struct tt_codec_sum part[2] = {{in, cut, how & 1}, {NULL, len - cut, how & 2}}, sum;
	float *vector = malloc(count * sizeof(float) + 1);
	bool refused = false;
	char *b, *out;
	int i, err;

	most = most > count * sizeof(float) ? most : count * sizeof(float);
	out = malloc(most + 1);
	b = malloc(len - cut + 1);
	assert(vector && out && b);
	memcpy(b, in + cut, len - cut); /* aligned, as scratch is */
	part[1].at = b;
	for (i = 0; i < 2; i++)
		refused |= tt_codec_sum_decode(codec, &part[i], count, vector) != 0;
	err = tt_codec_sum_merge(codec, &part[0], &part[1], count, out, &sum);
	assert((err != 0) == refused);
	assert(err || (sum.len <= most && !tt_codec_sum_decode(codec, &sum, count, vector)));
	free(vector);
	free(out);
	free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fz z = {data, size};
	const char *only = getenv("TT_FUZZ_CODEC");
	size_t which = fz_u(&z, 1), count = fz_u(&z, 2) % (MOST_COUNT + 1), first, len;
	struct tutti_codec *codec;
	void *in;
	int err;

	tt_reduce_add_reference();
	tt_codec_add_reference();
	err = tt_codec_new(only ? only : names[which % NAMES], &codec);
	assert(!err);
	first = fz_u(&z, 1) * tt_codec_align(codec);
	in = take_encoding(&z, codec, count, which < 192, &len);
	check(codec, in, len, first, count);
	if (tt_codec_sparse(codec))
		check_sum(codec, in, len, count, (unsigned)(which ^ first));
	free(in);
	tt_codec_release(codec);
	return 0;
}
