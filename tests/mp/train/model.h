/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of a made-up model for tests of libtutti_train. */
#ifndef TT_MP_MODEL_H
#define TT_MP_MODEL_H

#include <tutti/train.h>

#include "tests/mp/job.h"

#define SHM "TUTTI_TRANSPORT=shm "
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "
#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2,max_put=70001"

#define TENSORS 12
#define TOTAL 5403
/* Some with nothing, one element, an odd number, more than a bucket of the tests. */
static const size_t counts[TENSORS] = {70, 1, 0, 900, 33, 4096, 7, 128, 128, 0, 3, 37};

/* A value in (-1, 1) with many bits, and an integer in -8 .. 8: of any numbers. */
static inline uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t h = a * 0x9e3779b97f4a7c15u ^ b * 0xc2b2ae3d27d4eb4fu ^ c * 0x165667b19e3779f9u;

	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9u;
	return h ^ h >> 32;
}

static inline float noise(unsigned step, int rank, size_t i)
{
	return (float)((int)(mix(step, (uint64_t)rank, i) % 2000001) - 1000000) / 1000003.0f;
}

static inline float whole(unsigned step, int rank, size_t i)
{
	return (float)((int)(mix(step, (uint64_t)rank, i) % 17) - 8);
}

/* Pointers to the tensors: one vector without gaps, or with one element between them. */
static inline void tensors_of(void *base, size_t elem, size_t gap, void **tensor)
{
	size_t i, at = 0;

	for (i = 0; i < TENSORS; i++) {
		tensor[i] = (char *)base + at * elem;
		at += counts[i] + gap;
	}
}

/* An order of the tensors that depends on seed. */
static inline void shuffle(uint64_t seed, size_t *order)
{
	size_t i, j, t;

	for (i = 0; i < TENSORS; i++)
		order[i] = i;
	for (i = TENSORS - 1; i > 0; i--) {
		j = mix(seed, i, 7) % (i + 1);
		t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
}

#endif
