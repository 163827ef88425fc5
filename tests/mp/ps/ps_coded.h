/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of encoded copies of published blocks: codecs, values, what copies decode to.
 */
#ifndef TT_PS_CODED_H
#define TT_PS_CODED_H

#include <stdint.h>
#include <stdlib.h>

#include "tests/mp/job.h"

#define SHM "TUTTI_TRANSPORT=shm "
#define COUNT 20000
#define BLOCK 4000 /* elements */

static const char *const codecs[] = {"fp16",	 "bf16",	  "fp8:e4m3",
				     "fp8:e5m2", "int8:block=64", "int8"};
#define CODECS ((int)(sizeof(codecs) / sizeof(codecs[0])))

struct how {
	int staleness;
	bool essp;
};

static inline float value(int w, int c, int i)
{
	uint32_t h = (uint32_t)c * 2654435761u + (uint32_t)w * 40503u + (uint32_t)i * 2246822519u;

	h ^= h >> 15;
	h *= 2246822519u;
	h ^= h >> 13;
	return ((float)(h % 20001) - 10000) / 1000.0f;
}

/* v becomes what the encoded copies of its blocks decode to; one server. */
static inline int through_blocks(const char *name, float *v, size_t count, size_t block)
{
	static char coded[8 * BLOCK];
	struct tutti_codec *codec;
	size_t at, n, len;

	TT_EXPECT(!tutti_codec_create(name, &codec));
	for (at = 0; at < count; at += n) {
		n = count - at < block ? count - at : block;
		TT_EXPECT(
			!tutti_codec_encode(codec, v + at, n, TUTTI_FLOAT32, NULL, 0, coded, &len));
		TT_EXPECT(!tutti_codec_decode(codec, coded, len, v + at, n, TUTTI_FLOAT32));
	}
	TT_EXPECT(!tutti_codec_free(codec));
	return 0;
}

/* ---- rows ---- */

#define ROWS 500
#define WIDTH 50
#define PER_BLOCK 20 /* rows */
#define FIRST 3.25f

static inline int make_rows(struct mp_job *job, struct tutti_ps *ps, const char *codec, bool essp,
			    struct tutti_ps_table **t)
{
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_CONSTANT,
				       .init_a = (double)FIRST,
				       .block = PER_BLOCK * WIDTH * sizeof(float),
				       .essp = essp};
	char name[32];

	MP_OK(tutti_codec_create(codec, &opt.publish));
	snprintf(name, sizeof(name), "rows %s", codec);
	MP_OK(tutti_ps_rows(ps, name, WIDTH, ROWS, TUTTI_FLOAT32, &opt, t));
	MP_OK(tutti_codec_free(opt.publish));
	return 0;
}

#endif
