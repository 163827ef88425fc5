/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The average of two vectors, in both. Integers: a + b = 2 (a & b) + (a ^ b), so the floor of half
 * of it is (a & b) + (a ^ b) / 2, which does not overflow, and the rest is one more if a ^ b is
 * odd.
 */
#include "lib/gossip/gossip.h"

static void average_i32(int32_t *low, int32_t *high, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		int32_t odd = (low[i] ^ high[i]) & 1;

		low[i] = (low[i] & high[i]) + ((low[i] ^ high[i]) >> 1);
		high[i] = low[i] + odd;
	}
}

static void average_i64(int64_t *low, int64_t *high, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		int64_t odd = (low[i] ^ high[i]) & 1;

		low[i] = (low[i] & high[i]) + ((low[i] ^ high[i]) >> 1);
		high[i] = low[i] + odd;
	}
}

static void average_f32(float *low, float *high, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		low[i] = high[i] = (low[i] + high[i]) * 0.5f;
}

static void average_f64(double *low, double *high, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		low[i] = high[i] = (low[i] + high[i]) * 0.5;
}

void tt_gossip_average(void *low, void *high, size_t count, enum tutti_datatype datatype)
{
	switch (datatype) {
	case TUTTI_INT32:
		average_i32(low, high, count);
		break;
	case TUTTI_INT64:
		average_i64(low, high, count);
		break;
	case TUTTI_FLOAT32:
		average_f32(low, high, count);
		break;
	default:
		average_f64(low, high, count);
	}
}
