/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The costs of codecs, in times of a copy of the vector: the table of tutti_codec(7), measured by
 * tutti_perf codec with 64 MiB in one thread with AVX-512. Choices that ranks must agree on cannot
 * depend on a measurement of each; the copy is that of the tuning table, which all have.
 */
#include <string.h>

#include "lib/codec/codec_kind.h"

static const struct {
	const char *name; /* a family, or a name that begins like this */
	struct tt_codec_cost cost;
} costs[] = {
	{"fp16", {0.6, 1.1, 0.7}},     {"bf16", {0.7, 1.2, 0.9}}, {"fp8:e4m3", {0.8, 1.4, 0.5}},
	{"fp8:e5m2", {0.8, 1.9, 0.6}}, {"int8", {0.9, 2.0, 0.7}}, {"qsgd", {2.3, 3.4, 2.4}},
	{"onebit", {0.5, 1.9, 0.4}},   {"topk", {1.7, 3.0, 0.9}}, {"threshold", {1.7, 3.0, 0.9}},
	{"randomk", {0.5, 0.9, 0.5}},  {"dgc", {1.1, 3.0, 0.5}},
};

struct tt_codec_cost tt_codec_cost(const struct tutti_codec *c)
{
	size_t i;

	for (i = 0; c->kind != &tt_codec_user && i < sizeof(costs) / sizeof(*costs); i++)
		if (!strncmp(c->name, costs[i].name, strlen(costs[i].name)))
			return costs[i].cost;
	return (struct tt_codec_cost){0, 0, 0};
}
