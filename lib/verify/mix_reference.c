/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference for the kernels of mix.h: one element at a time, in the order of their text. */
#include <stdint.h>

#include "lib/reduce/kernels.h"
#include "lib/reduce/mix.h"

#define MIX(type, nan)                                                                             \
	static type one_##type(type x)                                                             \
	{                                                                                          \
		return x == x ? x : nan;                                                           \
	}                                                                                          \
	static void mix_##type(const struct tt_mix_job *job, size_t i)                             \
	{                                                                                          \
		type *p = (type *)job->p[0] + i, *q = (type *)job->p[1] + i,                       \
		     *r = (type *)job->p[2] + i, w = (type)job->weight, x = *p, c = *q;            \
                                                                                                   \
		if (job->what == TT_MIX_DIFFER) {                                                  \
			*p = one_##type(w * (c - *r));                                             \
		} else if (job->what == TT_MIX_EXCHANGE) {                                         \
			*p = one_##type(x - w * (x - c));                                          \
			*q = one_##type(c + *r);                                                   \
		} else {                                                                           \
			*p = *q = one_##type((x + c) / 2);                                         \
		}                                                                                  \
	}
MIX(float, __builtin_nanf(""))
MIX(double, __builtin_nan(""))

static void gather(const struct tt_mix_job *job, size_t i)
{
	bool wide = job->datatype == TUTTI_FLOAT64;
	double x = wide ? ((double *)job->p[0])[i] : (double)((float *)job->p[0])[i];
	double s = wide ? ((double *)job->p[2])[i] : (double)((float *)job->p[2])[i];
	double *at = (double *)job->p[1] + i, sum = job->flags & TT_MIX_FIRST ? 0 : *at;

	if (job->flags & TT_MIX_ADD)
		sum += job->weight * (s - x);
	x = one_double(x + sum);
	if (!(job->flags & TT_MIX_LAST))
		*at = sum;
	else if (wide)
		((double *)job->p[0])[i] = x;
	else
		((float *)job->p[0])[i] = (float)x;
}

/* The floor of half of the sum, and the rest of the sum. */
static void halve(const struct tt_mix_job *job, size_t i)
{
	int32_t *a = (int32_t *)job->p[0] + i, *b = (int32_t *)job->p[1] + i;
	int64_t *c = (int64_t *)job->p[0] + i, *d = (int64_t *)job->p[1] + i;
	__int128 sum = job->datatype == TUTTI_INT32 ? (__int128)*a + *b : (__int128)*c + *d,
		 low = sum / 2 - (sum % 2 < 0);

	if (job->datatype == TUTTI_INT32) {
		*a = (int32_t)low;
		*b = (int32_t)(sum - low);
	} else {
		*c = (int64_t)low;
		*d = (int64_t)(sum - low);
	}
}

void tt_mix_reference(const struct tt_mix_job *job)
{
	size_t i;

	for (i = 0; i < job->count; i++)
		if (job->datatype == TUTTI_INT32 || job->datatype == TUTTI_INT64)
			halve(job, i);
		else if (job->what == TT_MIX_GATHER)
			gather(job, i);
		else if (job->datatype == TUTTI_FLOAT32)
			mix_float(job, i);
		else
			mix_double(job, i);
}
