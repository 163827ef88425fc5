/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of codecs: vectors of several kinds, and one encoding with all that follows.
 */
#ifndef TT_CODEC_HELP_H
#define TT_CODEC_HELP_H

#include <stdbool.h>

#include "lib/codec/codec.h"

/*
 * Kinds of vectors: most of one magnitude; not normal; near the greatest; zeros; in the middle
 * between two values of a short format; with values that are not finite.
 */
enum codec_data { NORMAL, SMALL, GREAT, ZEROS, TIES, SPECIAL, DATA };

double codec_uniform(uint64_t *seed); /* from 0 to less than 1 */
void codec_fill(float *x, size_t n, enum codec_data data, uint64_t seed);
struct tutti_codec *codec_make(const char *name);
/* Room for exactly n bytes, so that a sanitizer sees the next one. */
void *codec_room(size_t n);
bool codec_same(const void *a, const void *b, size_t bytes);

/* One encoding and what becomes of it. */
struct codec_result {
	unsigned char *out;
	float *state;	/* the vectors of state, one after the other */
	float *decoded; /* of decode */
	float *added;	/* of decode_add to the input */
	size_t len;
};

/*
 * Encodes n elements, with feedback unless state is NULL; every vector of state is as state before.
 * Then decodes.
 */
struct codec_result codec_run(const struct tutti_codec *codec, const float *in, const float *state,
			      size_t first, size_t n, uint64_t call);
void codec_free_result(struct codec_result *r);

#endif
