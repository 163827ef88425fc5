/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of pushes that travel encoded: a table, values, and a serial oracle. */
#ifndef TT_PS_CODEC_TABLE_H
#define TT_PS_CODEC_TABLE_H

#include <stdint.h>
#include <stdlib.h>

#include "tests/mp/job.h"

#define SHM "TUTTI_TRANSPORT=shm "
#ifndef COUNT
#define COUNT 3000
#endif
#define BLOCK 1024 /* elements */
#define EXACT 8	   /* from this codec on: values themselves, so sums of integers are exact */

static inline float value(int codec, int w, int c, int i)
{
	uint32_t h = (uint32_t)c * 2654435761u + (uint32_t)(w + 7 * codec) * 40503u +
		     (uint32_t)i * 2246822519u;

	h ^= h >> 15;
	h *= 2246822519u;
	h ^= h >> 13;
	return codec >= EXACT ? (float)(h % 2001) - 1000 : ((float)(h % 20001) - 10000) / 1000.0f;
}

static inline int make(struct mp_job *job, struct tutti_ps *ps, const char *codec, const char *name,
		       struct tutti_ps_options opt, struct tutti_ps_table **t)
{
	opt.size = sizeof(opt);
	opt.init = opt.init ? opt.init : TUTTI_PS_ZERO;
	opt.block = BLOCK * sizeof(float);
	MP_OK(tutti_codec_create(codec, &opt.codec));
	MP_OK(tutti_ps_dense(ps, name, COUNT, TUTTI_FLOAT32, &opt, t));
	MP_OK(tutti_codec_free(opt.codec));
	return 0;
}

struct oracle {
	struct tutti_codec *codec;
	float value[COUNT], state[2][COUNT];
};

/* One message: elements from `at` on, within a block. */
static inline int apply_one(struct oracle *o, const float *u, int at, int n)
{
	int states = tutti_codec_states(o->codec), s, i;
	size_t bound = tutti_codec_bound(o->codec, (size_t)n), len;
	float state[2 * BLOCK], d[BLOCK];
	char *coded = malloc(bound);

	for (s = 0; s < states; s++)
		memcpy(state + s * n, o->state[s] + at, (size_t)n * sizeof(float));
	TT_EXPECT(
		!tutti_codec_encode(o->codec, u, (size_t)n, TUTTI_FLOAT32, state, 0, coded, &len));
	for (s = 0; s < states; s++)
		memcpy(o->state[s] + at, state + s * n, (size_t)n * sizeof(float));
	TT_EXPECT(!tutti_codec_decode(o->codec, coded, len, d, (size_t)n, TUTTI_FLOAT32));
	for (i = 0; i < n; i++)
		o->value[at + i] += d[i];
	free(coded);
	return 0;
}

static inline int apply_range(struct oracle *o, const float *u, int from, int n)
{
	int at, end;

	for (at = from; at < from + n; at = end) {
		end = (at / BLOCK + 1) * BLOCK;
		end = end < from + n ? end : from + n;
		TT_EXPECT(!apply_one(o, u + at - from, at, end - at));
	}
	return 0;
}

#endif
