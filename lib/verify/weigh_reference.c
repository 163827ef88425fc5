/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference for weighted sums: one element at a time. */
#include "lib/reduce/half.h"
#include "lib/reduce/kernels.h"

static double weigh_double(const struct tt_weigh_job *job, size_t i)
{
	double sum = job->weight[0] * ((const double *)job->src[0])[i];
	int k;

	for (k = 1; k < job->n; k++)
		sum += job->weight[k] * ((const double *)job->src[k])[i];
	return sum == sum ? sum : __builtin_nan("");
}

static float load(enum tutti_datatype t, const void *p, size_t i)
{
	if (t == TUTTI_FLOAT16)
		return tt_half_widen(((const uint16_t *)p)[i]);
	return t == TUTTI_BFLOAT16 ? tt_bfloat_widen(((const uint16_t *)p)[i])
				   : ((const float *)p)[i];
}

static float weigh_float(const struct tt_weigh_job *job, size_t i)
{
	float sum = (float)job->weight[0] * load(job->datatype, job->src[0], i);
	int k;

	for (k = 1; k < job->n; k++)
		sum += (float)job->weight[k] * load(job->datatype, job->src[k], i);
	return sum == sum ? sum : __builtin_nanf("");
}

void tt_weigh_reference(const struct tt_weigh_job *job)
{
	enum tutti_datatype t = job->datatype;
	size_t i, count = job->bytes / tutti_datatype_size(t);

	for (i = 0; i < count; i++)
		if (t == TUTTI_FLOAT64)
			((double *)job->dst)[i] = weigh_double(job, i);
		else if (t == TUTTI_FLOAT32)
			((float *)job->dst)[i] = weigh_float(job, i);
		else if (t == TUTTI_FLOAT16)
			((uint16_t *)job->dst)[i] = tt_half_narrow(weigh_float(job, i));
		else
			((uint16_t *)job->dst)[i] = tt_bfloat_narrow(weigh_float(job, i));
}
