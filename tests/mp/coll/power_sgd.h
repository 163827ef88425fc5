/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of PowerSGD: transports, values, matrices, and what all ranks must share. */
#ifndef TT_TEST_POWER_SGD_H
#define TT_TEST_POWER_SGD_H

#include <stdint.h>
#include <string.h>

#include "lib/base/hash.h"
#include "tests/mp/job.h"

#define SHM "TUTTI_TRANSPORT=shm "
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "
#define VERBS "TUTTI_TRANSPORT=verbs"
#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2,max_put=70001"
#define MAX_N 5

static inline float value(unsigned seed, int rank, size_t i)
{
	uint64_t h = tt_hash_add(tt_hash_add(seed, (uint64_t)rank), i);

	return (float)((int)(h % 20001) - 10000) / (h >> 40 & 7 ? 1000.0f : 30.0f);
}

static inline struct tutti_power_sgd_config config_of(size_t n, const size_t *rows,
						      const size_t *cols, int rank)
{
	return (struct tutti_power_sgd_config){.size = sizeof(struct tutti_power_sgd_config),
					       .n = n,
					       .rows = rows,
					       .cols = cols,
					       .rank = rank,
					       .seed = 7};
}

#define N 7
#define R 3
/* Two that are approximated, vectors, one that gains nothing, one with nothing, one more. */
static const size_t rows[N] = {20, 1, 64, 40, 4, 0, 9}, cols[N] = {30, 17, 48, 1, 5, 3, 200};
static const bool low[N] = {true, false, true, false, false, false, true};
#define CELLS(i) (rows[i] * cols[i])

/* One matrix. */
#define TALL 24
#define WIDE 20
#define KEPT (TALL * WIDE)

/* All ranks have the same bits; *hash is added to. */
static inline int same_bits(struct mp_job *job, const float *v, size_t n, uint64_t *hash)
{
	uint64_t own = 0, all[MAX_N];
	uint32_t bits;
	size_t x;
	int r;

	for (x = 0; x < n; x++) {
		memcpy(&bits, v + x, 4);
		own = tt_hash_add(own, bits);
	}
	MP_OK(tutti_allgather(&own, all, 1, TUTTI_UINT64, job->world));
	for (r = 0; r < job->n; r++)
		TT_EXPECT(all[r] == own);
	*hash = tt_hash_add(*hash, own);
	return 0;
}

static inline void fill(float **g, int rank, unsigned t)
{
	size_t x;
	int i;

	for (i = 0; i < N; i++)
		for (x = 0; x < CELLS(i); x++)
			g[i][x] = value(t * 10 + (unsigned)i, rank, x);
}

#endif
