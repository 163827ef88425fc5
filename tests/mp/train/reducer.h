/* SPDX-License-Identifier: BSD-3-Clause */
/* Reducers of the made-up model. */
#ifndef TT_MP_REDUCER_H
#define TT_MP_REDUCER_H

#include "tests/mp/train/model.h"

static inline struct tutti_reducer_config config_of(void *const *tensor)
{
	return (struct tutti_reducer_config){.size = sizeof(struct tutti_reducer_config),
					     .n = TENSORS,
					     .counts = counts,
					     .gradients = tensor,
					     .datatype = TUTTI_FLOAT32,
					     .first_bytes = 200,
					     .bucket_bytes = 3000};
}

static inline void fill(float *const *g, unsigned step, int rank,
			float (*value)(unsigned, int, size_t))
{
	size_t i, k;

	for (i = 0; i < TENSORS; i++)
		for (k = 0; k < counts[i]; k++)
			g[i][k] = value(step, rank, i * 10000 + k);
}

#endif
