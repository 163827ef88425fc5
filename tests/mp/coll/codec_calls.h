/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of all-reduces with a codec: transports, values and calls. */
#ifndef TT_CODEC_CALLS_H
#define TT_CODEC_CALLS_H

#include <stdint.h>

#include "tests/mp/job.h"

#define SHM "TUTTI_TRANSPORT=shm "
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "
#define VERBS "TUTTI_TRANSPORT=verbs"
#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2,max_put=70001"
#define MAX_N 8
#define MERGE "TUTTI_ALGO=allreduce:codec_merge:0-inf "
#define HIER "TUTTI_HOST_ID=h%h TUTTI_ALGO=allreduce:hier_codec:0-inf "
#define LONG 100000

static inline float value(unsigned seed, int rank, size_t i)
{
	uint32_t h = seed * 2654435761u + (uint32_t)rank * 40503u + (uint32_t)i * 2246822519u;

	h ^= h >> 15;
	h *= 2246822519u;
	h ^= h >> 13;
	return ((float)(h % 20001) - 10000) / (h % 7 ? 1000.0f : 30.0f);
}

static inline void fill(float *v, unsigned seed, int rank, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		v[i] = value(seed, rank, i);
}

static inline struct tutti_call call_of(const void *in, void *out, size_t count,
					struct tutti_codec *codec, struct tutti_feedback *feedback)
{
	return (struct tutti_call){.size = sizeof(struct tutti_call),
				   .coll = TUTTI_COLL_ALLREDUCE,
				   .sendbuf = in,
				   .recvbuf = out,
				   .count = count,
				   .datatype = TUTTI_FLOAT32,
				   .op = TUTTI_SUM,
				   .codec = codec,
				   .feedback = feedback};
}

#endif
