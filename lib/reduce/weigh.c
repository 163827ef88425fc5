/* SPDX-License-Identifier: BSD-3-Clause */
/* Weighted sums of vectors, in pieces that stay in the cache. */
#include <string.h>

#include "lib/reduce/half.h"
#include "lib/reduce/reduce.h"

#define PIECE 512 /* elements */

bool tt_reduce_weighs(enum tutti_datatype datatype)
{
	return datatype == TUTTI_FLOAT32 || datatype == TUTTI_FLOAT64 ||
	       datatype == TUTTI_FLOAT16 || datatype == TUTTI_BFLOAT16;
}

static void weigh_double(double *dst, const void *const *src, const double *weight, int n,
			 size_t from, size_t count)
{
	double sum[PIECE];
	size_t i;
	int k;

	for (k = 0; k < n; k++) {
		const double *x = (const double *)src[k] + from;

		for (i = 0; i < count; i++)
			sum[i] = k ? sum[i] + weight[k] * x[i] : weight[k] * x[i];
	}
	memcpy(dst + from, sum, count * sizeof(*sum));
}

static void widen(float *to, const void *src, size_t from, size_t count,
		  enum tutti_datatype datatype)
{
	const uint16_t *x = (const uint16_t *)src + from;
	size_t i;

	if (datatype == TUTTI_FLOAT32)
		memcpy(to, (const float *)src + from, count * sizeof(*to));
	else if (datatype == TUTTI_FLOAT16)
		for (i = 0; i < count; i++)
			to[i] = tt_half_widen(x[i]);
	else
		for (i = 0; i < count; i++)
			to[i] = tt_bfloat_widen(x[i]);
}

static void narrow(void *dst, const float *v, size_t from, size_t count,
		   enum tutti_datatype datatype)
{
	uint16_t *to = (uint16_t *)dst + from;
	size_t i;

	if (datatype == TUTTI_FLOAT32)
		memcpy((float *)dst + from, v, count * sizeof(*v));
	else if (datatype == TUTTI_FLOAT16)
		for (i = 0; i < count; i++)
			to[i] = tt_half_narrow(v[i]);
	else
		for (i = 0; i < count; i++)
			to[i] = tt_bfloat_narrow(v[i]);
}

static void weigh_float(void *dst, const void *const *src, const double *weight, int n, size_t from,
			size_t count, enum tutti_datatype datatype)
{
	float sum[PIECE], x[PIECE];
	size_t i;
	int k;

	for (k = 0; k < n; k++) {
		float w = (float)weight[k];

		widen(x, src[k], from, count, datatype);
		for (i = 0; i < count; i++)
			sum[i] = k ? sum[i] + w * x[i] : w * x[i];
	}
	narrow(dst, sum, from, count, datatype);
}

void tt_reduce_weigh(void *dst, const void *const *src, const double *weight, int n, size_t count,
		     enum tutti_datatype datatype)
{
	size_t from, len;

	for (from = 0; from < count; from += len) {
		len = count - from < PIECE ? count - from : PIECE;
		if (datatype == TUTTI_FLOAT64)
			weigh_double(dst, src, weight, n, from, len);
		else
			weigh_float(dst, src, weight, n, from, len, datatype);
	}
}
