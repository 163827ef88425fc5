/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The costs of codecs, with feedback and in pieces of 256 KiB, as all-reduces use them: measured by
 * tutti_explain codec in one and two processes with AVX-512. Choices that ranks must agree on
 * cannot depend on a measurement of each. Nor do the costs follow the speed of a copy in the tuning
 * table, which is that of bytes in the cache.
 */
#include <string.h>

#include "lib/codec/codec_kind.h"

static const struct {
	const char *name; /* a family, or a name that begins like this */
	struct tt_codec_cost cost;
} costs[] = {
	{"fp16", {0.13, 0.04}},	    {"bf16", {0.14, 0.04}}, {"fp8:e4m3", {0.20, 0.05}},
	{"fp8:e5m2", {0.26, 0.07}}, {"int8", {0.25, 0.04}}, {"qsgd", {0.55, 0.30}},
	{"onebit", {0.24, 0.03}},   {"topk", {0.35, 0.05}}, {"threshold", {0.35, 0.05}},
	{"randomk", {0.11, 0.03}},  {"dgc", {0.48, 0.04}},
};

struct tt_codec_cost tt_codec_cost(const struct tutti_codec *c)
{
	size_t i;

	for (i = 0; c->kind != &tt_codec_user && i < sizeof(costs) / sizeof(*costs); i++)
		if (!strncmp(c->name, costs[i].name, strlen(costs[i].name)))
			return costs[i].cost;
	return (struct tt_codec_cost){0, 0};
}
