/* SPDX-License-Identifier: BSD-3-Clause */
/* Weighted sums of vectors, by the kernels for this CPU. */
#include "lib/reduce/kernels.h"

bool tt_reduce_weighs(enum tutti_datatype datatype)
{
	return datatype == TUTTI_FLOAT32 || datatype == TUTTI_FLOAT64 ||
	       datatype == TUTTI_FLOAT16 || datatype == TUTTI_BFLOAT16;
}

void tt_reduce_weigh(void *dst, const void *const *src, const double *weight, int n, size_t count,
		     enum tutti_datatype datatype)
{
	struct tt_weigh_job job = {.dst = dst,
				   .src = src,
				   .weight = weight,
				   .n = n,
				   .bytes = count * tutti_datatype_size(datatype),
				   .datatype = datatype};

	tt_reduce_kernels()->weigh(&job);
}
