/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Initial values. Random ones are a function of (seed, which element), so they do not depend on
 * how many servers there are, who touches a row first, or when.
 */
#include <math.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/ps/ps.h"
#include "lib/reduce/half.h"

/* The tail of a normal distribution may be beyond what an integer holds. */
static double clamp(double v, double low, double high)
{
	return v < low ? low : v > high ? high : v;
}

static void store(enum tutti_datatype type, void *at, size_t i, double v)
{
	switch (type) {
	case TUTTI_INT8:
		((int8_t *)at)[i] = (int8_t)clamp(v, INT8_MIN, INT8_MAX);
		break;
	case TUTTI_UINT8:
		((uint8_t *)at)[i] = (uint8_t)clamp(v, 0, UINT8_MAX);
		break;
	case TUTTI_INT32:
		((int32_t *)at)[i] = (int32_t)clamp(v, INT32_MIN, INT32_MAX);
		break;
	case TUTTI_UINT32:
		((uint32_t *)at)[i] = (uint32_t)clamp(v, 0, UINT32_MAX);
		break;
	case TUTTI_INT64:
		((int64_t *)at)[i] = (int64_t)clamp(v, -0x1p63, 0x1.fffffffffffffp62);
		break;
	case TUTTI_UINT64:
		((uint64_t *)at)[i] = (uint64_t)clamp(v, 0, 0x1.fffffffffffffp63);
		break;
	case TUTTI_FLOAT16:
		((uint16_t *)at)[i] = tt_half_narrow((float)v);
		break;
	case TUTTI_BFLOAT16:
		((uint16_t *)at)[i] = tt_bfloat_narrow((float)v);
		break;
	case TUTTI_FLOAT32:
		((float *)at)[i] = (float)v;
		break;
	default:
		((double *)at)[i] = v;
	}
}

/* In [0, 1). */
static double uniform(uint64_t *state)
{
	return (double)(tt_random(state) >> 11) * 0x1p-53;
}

/* Box and Muller's. */
static double normal(uint64_t *state)
{
	double u = 1 - uniform(state), v = uniform(state);

	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void tt_ps_fill(const struct tutti_ps_table *t, void *value, uint64_t first, size_t count)
{
	const struct tutti_ps_options *o = &t->opt;
	uint64_t state;
	double v;
	size_t i;

	if (o->init == TUTTI_PS_FILL) {
		o->fill(value, first, count, t->datatype, o->arg);
		return;
	}
	if (o->init == TUTTI_PS_ZERO || o->init == TUTTI_PS_UNSET) {
		memset(value, 0, count * t->elem);
		return;
	}
	for (i = 0; i < count; i++) {
		state = t->rows ? tt_hash_add(tt_hash_add(o->seed, first), i)
				: tt_hash_add(o->seed, first + i);
		v = o->init_a;
		if (o->init == TUTTI_PS_UNIFORM)
			v += (o->init_b - o->init_a) * uniform(&state);
		else if (o->init == TUTTI_PS_NORMAL)
			v += o->init_b * normal(&state);
		store(t->datatype, value, i, v);
	}
}
