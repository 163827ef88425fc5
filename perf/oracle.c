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
	[TUTTI_INT8] = 127,
	[TUTTI_UINT8] = 255,
	[TUTTI_INT16] = 32767,
	[TUTTI_UINT16] = 65535,
	[TUTTI_INT32] = 1 << 30,
	[TUTTI_UINT32] = 1 << 30,
	[TUTTI_INT64] = 1ll << 50,
	[TUTTI_UINT64] = 1ll << 50,
	[TUTTI_BOOL] = 1,
	[TUTTI_FLOAT16] = 1 << 11,
	[TUTTI_BFLOAT16] = 1 << 8,
	[TUTTI_FLOAT32] = 1 << 24,
	[TUTTI_FLOAT64] = 1ll << 50,
	[TUTTI_COMPLEX64] = 1 << 24,
	[TUTTI_COMPLEX128] = 1ll << 50,
	/* few values: many are equal, and the index decides */
	[TUTTI_INT32_INDEX] = 2,
	[TUTTI_INT64_INDEX] = 2,
	[TUTTI_FLOAT32_INDEX] = 2,
	[TUTTI_FLOAT64_INDEX] = 2,
};

/* A product of more twos than this would leave int8. */
#define MAX_TWOS 6

/* An element: its number, or its real part or value, and what belongs to that. */
struct element {
	int64_t value, second;
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static bool is_complex(int datatype)
{
	return datatype == TUTTI_COMPLEX64 || datatype == TUTTI_COMPLEX128;
}

static bool is_signed(int datatype)
{
	return datatype != TUTTI_UINT8 && datatype != TUTTI_UINT16 && datatype != TUTTI_UINT32 &&
	       datatype != TUTTI_UINT64 && datatype != TUTTI_BOOL;
}

static int64_t in_range(uint64_t hash, int64_t most, int datatype)
{
	if (is_signed(datatype))
		return (int64_t)(hash % (uint64_t)(2 * most + 1)) - most;
	return (int64_t)(hash % (uint64_t)(most + 1));
}

static int64_t draw(const struct perf_oracle *o, int rank, uint64_t hash)
{
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
	case TUTTI_LAND:
	case TUTTI_LOR:
	case TUTTI_LXOR:
		return hash & 3 ? in_range(hash >> 2, limit, o->datatype) : 0;
	case TUTTI_MIN:
	case TUTTI_MAX:
	case TUTTI_MINLOC:
	case TUTTI_MAXLOC:
		return in_range(hash, limit, o->datatype);
	default:
		return (int64_t)hash;
	}
}

/*
 * A factor of a complex product: 2 + i, turned by some right angles, of the first ranks, else 1. No
 * product of these has a part of 0, whose sign would depend on the order.
 */
static struct element factor(int rank, uint64_t hash)
{
	static const int64_t part[] = {2, 1, -2, -1};

	if (rank >= MAX_TWOS)
		return (struct element){1, 0};
	return (struct element){part[hash & 3], part[(hash + 1) & 3]};
}

/* The contribution of rank at index i. */
static struct element contribution(const struct perf_oracle *o, int rank, size_t i)
{
	uint64_t hash = mix(o->seed + mix(((uint64_t)rank << 32) + i + 1));
	struct element e = {draw(o, rank, hash), 0};

	if (o->op == TUTTI_MINLOC || o->op == TUTTI_MAXLOC)
		e.second = (int64_t)(mix(hash) % 1000);
	else if (is_complex(o->datatype) && o->op != TUTTI_PROD)
		e.second = draw(o, rank, mix(hash));
	else if (is_complex(o->datatype))
		e = factor(rank, mix(hash));
	return e;
}

static struct element combine_number(int op, int64_t a, int64_t b)
{
	switch (op) {
	case TUTTI_PROD:
		return (struct element){a * b, 0};
	case TUTTI_MIN:
		return (struct element){a < b ? a : b, 0};
	case TUTTI_MAX:
		return (struct element){a > b ? a : b, 0};
	case TUTTI_BAND:
		return (struct element){a & b, 0};
	case TUTTI_BOR:
		return (struct element){a | b, 0};
	case TUTTI_BXOR:
		return (struct element){a ^ b, 0};
	case TUTTI_LAND:
		return (struct element){a && b, 0};
	case TUTTI_LOR:
		return (struct element){a || b, 0};
	default:
		return (struct element){!a != !b, 0};
	}
}

static struct element combine(const struct perf_oracle *o, struct element a, struct element b)
{
	if (o->op == TUTTI_SUM || o->op == TUTTI_AVG)
		return (struct element){a.value + b.value, a.second + b.second};
	if (o->op == TUTTI_PROD && is_complex(o->datatype))
		return (struct element){a.value * b.value - a.second * b.second,
					a.value * b.second + a.second * b.value};
	if (o->op != TUTTI_MINLOC && o->op != TUTTI_MAXLOC)
		return combine_number(o->op, a.value, b.value);
	if (a.value == b.value)
		return a.second <= b.second ? a : b;
	return (a.value < b.value) == (o->op == TUTTI_MINLOC) ? a : b;
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

/* Complex numbers and pairs, whose two halves are elements 2 i and 2 i + 1 of their type. */
static void store_two(void *dst, size_t i, int datatype, struct element e, int divisor)
{
	switch (datatype) {
	case TUTTI_COMPLEX64:
		((float *)dst)[i] = (float)e.value / (float)divisor;
		((float *)dst)[i + 1] = (float)e.second / (float)divisor;
		break;
	case TUTTI_COMPLEX128:
		((double *)dst)[i] = (double)e.value / divisor;
		((double *)dst)[i + 1] = (double)e.second / divisor;
		break;
	case TUTTI_FLOAT32_INDEX:
		((float *)dst)[i] = (float)e.value;
		((int32_t *)dst)[i + 1] = (int32_t)e.second;
		break;
	case TUTTI_INT32_INDEX:
		((int32_t *)dst)[i] = (int32_t)e.value;
		((int32_t *)dst)[i + 1] = (int32_t)e.second;
		break;
	case TUTTI_FLOAT64_INDEX:
		((double *)dst)[i] = (double)e.value;
		((int64_t *)dst)[i + 1] = e.second;
		break;
	default:
		((int64_t *)dst)[i] = e.value;
		((int64_t *)dst)[i + 1] = e.second;
	}
}

/* Store e / divisor as element i of dst; integers truncate toward zero. */
static void store(void *dst, size_t i, int datatype, struct element e, int divisor)
{
	float quotient = (float)e.value / (float)divisor;

	switch (datatype) {
	case TUTTI_INT8:
	case TUTTI_UINT8:
	case TUTTI_BOOL:
		((uint8_t *)dst)[i] = (uint8_t)(e.value / divisor);
		break;
	case TUTTI_INT16:
	case TUTTI_UINT16:
		((uint16_t *)dst)[i] = (uint16_t)(e.value / divisor);
		break;
	case TUTTI_INT32:
	case TUTTI_UINT32:
		((uint32_t *)dst)[i] = (uint32_t)(e.value / divisor);
		break;
	case TUTTI_INT64:
	case TUTTI_UINT64:
		((uint64_t *)dst)[i] = (uint64_t)(e.value / divisor);
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
	case TUTTI_FLOAT64:
		((double *)dst)[i] = (double)e.value / divisor;
		break;
	default:
		store_two(dst, 2 * i, datatype, e, divisor);
	}
}

int perf_oracle_init(struct perf_oracle *oracle)
{
	oracle->input = malloc(PERF_PERIOD * sizeof(struct element));
	oracle->expected = malloc(PERF_PERIOD * sizeof(struct element));
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
	struct element result;
	size_t i;

	set_period(oracle, count);
	for (i = 0; i < oracle->period; i++) {
		result = contribution(oracle, 0, i);
		for (rank = 1; rank <= last; rank++)
			result = combine(oracle, result, contribution(oracle, rank, i));
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
