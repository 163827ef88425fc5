/* SPDX-License-Identifier: BSD-3-Clause */
/* Averages that move vectors towards each other, by the kernels for this CPU. */
#include "lib/reduce/mix.h"

#include "lib/reduce/kernels.h"

void tt_reduce_differ(void *dst, const void *a, const void *b, double weight, size_t count,
		      enum tutti_datatype datatype)
{
	struct tt_mix_job job = {.what = TT_MIX_DIFFER,
				 .p = {dst, (void *)a, (void *)b},
				 .weight = weight,
				 .count = count,
				 .datatype = datatype};

	tt_reduce_kernels()->mix(&job);
}

void tt_reduce_exchange(void *x, void *center, const void *sum, double weight, size_t count,
			enum tutti_datatype datatype)
{
	struct tt_mix_job job = {.what = TT_MIX_EXCHANGE,
				 .p = {x, center, (void *)sum},
				 .weight = weight,
				 .count = count,
				 .datatype = datatype};

	tt_reduce_kernels()->mix(&job);
}

void tt_reduce_halve(void *low, void *high, size_t count, enum tutti_datatype datatype)
{
	struct tt_mix_job job = {
		.what = TT_MIX_HALVE, .p = {low, high, low}, .count = count, .datatype = datatype};

	tt_reduce_kernels()->mix(&job);
}

void tt_reduce_gather(void *x, double *sum, const void *s, double weight, size_t count,
		      enum tutti_datatype datatype, unsigned flags)
{
	struct tt_mix_job job = {.what = TT_MIX_GATHER,
				 .p = {x, sum, flags & TT_MIX_ADD ? (void *)s : x},
				 .weight = weight,
				 .count = count,
				 .datatype = datatype,
				 .flags = flags};

	tt_reduce_kernels()->mix(&job);
}
