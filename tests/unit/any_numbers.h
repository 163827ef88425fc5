/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers for loops over vectors: also NaNs, infinities, zeros and subnormal ones. */
#ifndef TT_UNIT_ANY_NUMBERS_H
#define TT_UNIT_ANY_NUMBERS_H

#include <math.h>
#include <string.h>

#include "lib/base/datatype.h"
#include "lib/base/hash.h"
#include "lib/reduce/half.h"

static inline double any_double(uint64_t *seed)
{
	static const double special[] = {0.0,  -0.0,   INFINITY, -INFINITY, NAN,
					 -NAN, 1e-310, 1e-42,	 3e-8};
	uint64_t r = tt_random(seed);

	return r % 8 ? ldexp((double)(int64_t)tt_random(seed), -60) : special[(r >> 32) % 9];
}

/*
 * An element of a type of 2, 4 or 8 bytes. A quarter of floats has any bits; the others are numbers
 * of which many add up without rounding to 0.
 */
static inline void any_element(enum tutti_datatype type, void *p, uint64_t *seed)
{
	uint64_t bits = tt_random(seed);
	double d = any_double(seed);
	float f = (float)d;
	uint16_t h = type == TUTTI_FLOAT16 ? tt_half_narrow(f) : tt_bfloat_narrow(f);
	size_t size = tutti_datatype_size(type);
	const void *number = size == 8 ? (const void *)&d : size == 4 ? (const void *)&f : &h;

	memcpy(p, bits >> 62 && type >= TUTTI_FLOAT16 ? number : &bits, size);
}

static inline void any_elements(enum tutti_datatype type, unsigned char *p, size_t count,
				uint64_t *seed)
{
	size_t i, size = tutti_datatype_size(type);

	for (i = 0; i < count; i++, p += size)
		any_element(type, p, seed);
}

#endif
