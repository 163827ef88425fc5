/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of all-reduces with codecs. The codecs here are lengths only. */
#ifndef TT_TEST_CODEC_PLANS_H
#define TT_TEST_CODEC_PLANS_H

#include "lib/plan/choose.h"

#define MAX_N 33
#define ELEM 4

/* As casts to 16 bits, */
static inline size_t half(const struct tutti_codec *codec, size_t count)
{
	return 2 * count;
}

/* bytes with a scale for every 8 elements, */
static inline size_t scaled(const struct tutti_codec *codec, size_t count)
{
	return count + 4 * ((count + 7) / 8);
}

/* bits with a scale for every 64, */
static inline size_t bits(const struct tutti_codec *codec, size_t count)
{
	return (count + 7) / 8 + 4 * ((count + 63) / 64);
}

/* and an encoding that is longer than the vector. */
static inline size_t longer(const struct tutti_codec *codec, size_t count)
{
	return count ? 6 * count + 3 : 0;
}

static const struct tt_plan_codec codecs[] = {
	{.bound = half, .align = 1},
	{.bound = scaled, .align = 8},
	{.bound = bits, .align = 64},
	{.bound = longer, .align = 3},
	{.bound = scaled, .varies = true, .sparse = true},
	{.bound = longer, .align = 1, .varies = true, .sparse = true},
	{.bound = scaled, .align = 5, .varies = true}};
#define CODECS (sizeof(codecs) / sizeof(codecs[0]))
#define FIXED 3 /* the first ones, as casts and the like: not longer than the vector */
#define LISTS 4 /* the first whose encodings vary in length */

static inline const struct tt_alg *direct(void)
{
	return tt_alg_find(TT_COLL_ALLREDUCE, "codec_direct");
}

static const char *way = "codec_gather"; /* of lists, which can be added */

static inline const struct tt_alg *alg_of(const struct tt_plan_args *a)
{
	const struct tt_alg *alg = tt_alg_find(TT_COLL_ALLREDUCE, way);

	if (!a->codec->varies)
		return a->hosts ? tt_alg_find(TT_COLL_ALLREDUCE, "hier_codec") : direct();
	return a->codec->sparse && tt_alg_can(alg, a)
		       ? alg
		       : tt_alg_find(TT_COLL_ALLREDUCE, "codec_gather");
}

static inline struct tt_plan_args args_of(int n, size_t count, const struct tt_plan_codec *codec)
{
	return (struct tt_plan_args){.coll = TT_COLL_ALLREDUCE,
				     .nranks = n,
				     .count = count,
				     .elem = ELEM,
				     .chunk = 1 << 20,
				     .lanes = 1,
				     .codec = codec};
}

#endif
