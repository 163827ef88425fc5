/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test data with a known result. Every value is an integer small enough that each partial sum and
 * product is exact in the datatype, whatever the order of the operands; so results are compared bit
 * by bit, floats included. Nothing here uses the library: it must not vouch for itself.
 */
#include "perf/perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The largest integer up to which the type holds every integer (or enough of them). */
static const int64_t exact_limit[TUTTI_NUM_DATATYPES] = {
	[TUTTI_INT8] = 127,	     [TUTTI_UINT8] = 255,	[TUTTI_INT32] = 1 << 30,
	[TUTTI_UINT32] = 1 << 30,    [TUTTI_INT64] = 1ll << 50, [TUTTI_UINT64] = 1ll << 50,
	[TUTTI_FLOAT16] = 1 << 11,   [TUTTI_BFLOAT16] = 1 << 8, [TUTTI_FLOAT32] = 1 << 24,
	[TUTTI_FLOAT64] = 1ll << 50,
};

/* A product of more twos than this would leave int8. */
#define MAX_TWOS 6

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static bool is_signed(int datatype)
{
	return datatype != TUTTI_UINT8 && datatype != TUTTI_UINT32 && datatype != TUTTI_UINT64;
}

static int64_t in_range(uint64_t hash, int64_t most, int datatype)
{
	if (is_signed(datatype))
		return (int64_t)(hash % (uint64_t)(2 * most + 1)) - most;
	return (int64_t)(hash % (uint64_t)(most + 1));
}

/* The contribution of rank at index i. */
static int64_t contribution(const struct perf_oracle *o, int rank, size_t i)
{
	uint64_t hash = mix(o->seed + mix(((uint64_t)rank << 32) + i + 1));
	int64_t limit = exact_limit[o->datatype];

	switch (o->op) {
	case TUTTI_SUM:
	case TUTTI_AVG:
		if (rank >= limit)
			return 0;
		return in_range(hash, limit > o->nranks ? limit / o->nranks : 1, o->datatype);
	case TUTTI_PROD:
		limit = rank < MAX_TWOS ? 1 + (int64_t)(hash >> 32 & 1) : 1;
		return is_signed(o->datatype) && hash & 1 ? -limit : limit;
	case TUTTI_MIN:
	case TUTTI_MAX:
		return in_range(hash, limit, o->datatype);
	default:
		return (int64_t)hash;
	}
}

static int64_t combine(int op, int64_t a, int64_t b)
{
	switch (op) {
	case TUTTI_SUM:
	case TUTTI_AVG:
		return a + b;
	case TUTTI_PROD:
		return a * b;
	case TUTTI_MIN:
		return a < b ? a : b;
	case TUTTI_MAX:
		return a > b ? a : b;
	case TUTTI_BAND:
		return a & b;
	case TUTTI_BOR:
		return a | b;
	default:
		return a ^ b;
	}
}

/* Round to nearest even; the value is 0 or in the range of normal numbers. */
static uint16_t to_float16(float value)
{
	uint32_t bits, half, rest;

	memcpy(&bits, &value, sizeof(bits));
	half = bits >> 16 & 0x8000;
	bits &= 0x7fffffff;
	if (!bits)
		return (uint16_t)half;
	bits -= (127 - 15) << 23;
	rest = bits & 0x1fff;
	half |= bits >> 13;
	return (uint16_t)(half + (rest > 0x1000 || (rest == 0x1000 && (half & 1))));
}

static uint16_t to_bfloat16(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Store value / divisor as element i of dst; integers truncate toward zero. */
static void store(void *dst, size_t i, int datatype, int64_t value, int divisor)
{
	float quotient = (float)value / (float)divisor;

	switch (datatype) {
	case TUTTI_INT8:
	case TUTTI_UINT8:
		((uint8_t *)dst)[i] = (uint8_t)(value / divisor);
		break;
	case TUTTI_INT32:
	case TUTTI_UINT32:
		((uint32_t *)dst)[i] = (uint32_t)(value / divisor);
		break;
	case TUTTI_INT64:
	case TUTTI_UINT64:
		((uint64_t *)dst)[i] = (uint64_t)(value / divisor);
		break;
	case TUTTI_FLOAT16:
		((uint16_t *)dst)[i] = to_float16(quotient);
		break;
	case TUTTI_BFLOAT16:
		((uint16_t *)dst)[i] = to_bfloat16(quotient);
		break;
	case TUTTI_FLOAT32:
		((float *)dst)[i] = quotient;
		break;
	default:
		((double *)dst)[i] = (double)value / divisor;
	}
}

int perf_oracle_init(struct perf_oracle *oracle)
{
	oracle->input = malloc(PERF_PERIOD * sizeof(uint64_t));
	oracle->expected = malloc(PERF_PERIOD * sizeof(uint64_t));
	if (oracle->input && oracle->expected)
		return 0;
	perf_oracle_free(oracle);
	return -ENOMEM;
}

void perf_oracle_free(struct perf_oracle *oracle)
{
	free(oracle->input);
	free(oracle->expected);
	oracle->input = oracle->expected = NULL;
}

static void set_period(struct perf_oracle *oracle, size_t count)
{
	oracle->period = count < PERF_PERIOD ? count : PERF_PERIOD;
}

void perf_oracle_given(struct perf_oracle *oracle, size_t count, int rank)
{
	size_t i;

	set_period(oracle, count);
	for (i = 0; i < oracle->period; i++)
		store(oracle->input, i, oracle->datatype, contribution(oracle, rank, i), 1);
}

void perf_oracle_reduce(struct perf_oracle *oracle, size_t count, int last)
{
	int divisor = oracle->op == TUTTI_AVG ? oracle->nranks : 1, rank;
	int64_t result;
	size_t i;

	set_period(oracle, count);
	for (i = 0; i < oracle->period; i++) {
		result = contribution(oracle, 0, i);
		for (rank = 1; rank <= last; rank++)
			result = combine(oracle->op, result, contribution(oracle, rank, i));
		store(oracle->expected, i, oracle->datatype, result, divisor);
	}
}

void perf_repeat(void *dst, const void *block, size_t period, size_t count, size_t size)
{
	size_t done = period * size, total = count * size, len;

	if (!total)
		return;
	memcpy(dst, block, done);
	while (done < total) { /* done stays a multiple of the period until the last round */
		len = done < total - done ? done : total - done;
		memcpy((char *)dst + done, dst, len);
		done += len;
	}
}

size_t perf_count_wrong(const void *buf, const void *block, size_t period, size_t count,
			size_t size)
{
	const char *at = buf, *expected = block;
	size_t wrong = 0, n, i;

	for (; count; count -= n, at += n * size) {
		n = count < period ? count : period;
		if (!memcmp(at, block, n * size))
			continue;
		for (i = 0; i < n; i++)
			wrong += memcmp(at + i * size, expected + i * size, size) != 0;
	}
	return wrong;
}
