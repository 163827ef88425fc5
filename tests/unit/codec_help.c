/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/codec_help.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "tests/test.h"

static float bits(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

double codec_uniform(uint64_t *seed)
{
	return (double)(tt_random(seed) >> 11) * 0x1p-53;
}

/* Elements of about one magnitude, and one in eight of any. */
static float value(enum codec_data data, uint64_t *seed)
{
	double u = 2 * codec_uniform(seed) - 1;

	switch (data) {
	case NORMAL:
		return tt_random(seed) % 8 ? (float)u : (float)ldexp(u, (int)(40 * u));
	case SMALL: /* not normal, most of them */
		return (float)ldexp(u, -126 - (int)(tt_random(seed) % 24));
	case GREAT:
		return tt_random(seed) % 8 ? (float)ldexp(u, 128 - (int)(tt_random(seed) % 3))
					   : copysignf(FLT_MAX, (float)u);
	case TIES: /* in the middle between two of a format */
		return (float)ldexp(2 * (double)(tt_random(seed) % 512) + 1,
				    (int)(tt_random(seed) % 40) - 30);
	case SPECIAL:
		switch (tt_random(seed) % 64) {
		case 0:
			return bits(0x7f800001 | (uint32_t)(tt_random(seed) << 31));
		case 1:
			return INFINITY;
		case 2:
			return -INFINITY;
		case 3:
			return NAN;
		}
		return (float)u;
	default:
		return tt_random(seed) & 1 ? 0.0f : -0.0f;
	}
}

void codec_fill(float *x, size_t n, enum codec_data data, uint64_t seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		x[i] = value(data, &seed);
}

struct tutti_codec *codec_make(const char *name)
{
	struct tutti_codec *codec = NULL;

	CU_ASSERT_EQUAL_FATAL(tutti_codec_create(name, &codec), 0);
	return codec;
}

void *codec_room(size_t n)
{
	return malloc(n ? n : 1);
}

void codec_free_result(struct codec_result *r)
{
	free(r->out);
	free(r->state);
	free(r->decoded);
	free(r->added);
}

struct codec_result codec_run(const struct tutti_codec *codec, const float *in, const float *state,
			      size_t first, size_t n, uint64_t call)
{
	size_t states = (size_t)tt_codec_states(codec), k;
	struct codec_result r = {.out = codec_room(tt_codec_bound(codec, n)),
				 .state = codec_room(states * n * sizeof(float)),
				 .decoded = codec_room(n * sizeof(float)),
				 .added = codec_room(n * sizeof(float))};
	float *of[TT_CODEC_STATES];

	for (k = 0; k < states; k++) {
		of[k] = r.state + k * n;
		if (n)
			memcpy(of[k], state ? state : in, n * sizeof(float));
	}
	CU_ASSERT_EQUAL(
		tt_codec_encode(codec, in, state ? of : NULL, first, n, call, r.out, &r.len), 0);
	TT_CHECK(r.len <= tt_codec_bound(codec, n));
	TT_CHECK(!tt_codec_fixed(codec) || r.len == tt_codec_bound(codec, n));
	CU_ASSERT_EQUAL(tt_codec_decode(codec, r.out, r.len, first, n, r.decoded), 0);
	if (n)
		memcpy(r.added, in, n * sizeof(float));
	CU_ASSERT_EQUAL(tt_codec_decode_add(codec, r.out, r.len, first, n, r.added), 0);
	return r;
}

bool codec_same(const void *a, const void *b, size_t bytes)
{
	return !bytes || !memcmp(a, b, bytes);
}
