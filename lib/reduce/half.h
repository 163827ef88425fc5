/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversions between float32 and the two 16-bit formats, in integer arithmetic so that they give
 * the same bits everywhere: nearest even, subnormals kept, overflow to infinity, a NaN stays a
 * quiet NaN with the upper bits of its payload. For binary16 these are the bits of x86's F16C.
 */
#ifndef TT_HALF_H
#define TT_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t tt_f32_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline float tt_f32_from_bits(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static inline float tt_half_widen(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, man = h & 0x3ff;

	if (exp == 31)
		return tt_f32_from_bits(sign | 0x7f800000 | man << 13 | (man ? 0x400000 : 0));
	if (exp)
		return tt_f32_from_bits(sign | (exp + 112) << 23 | man << 13);
	/* zero or subnormal: man * 2^-24, exact in float32 */
	return tt_f32_from_bits(sign | tt_f32_bits((float)man * 0x1p-24f));
}

/* v >> shift, rounded to nearest even; 0 < shift < 32. */
static inline uint32_t tt_shift_round(uint32_t v, int shift)
{
	return (v + (1u << (shift - 1)) - 1 + (v >> shift & 1)) >> shift;
}

static inline uint16_t tt_half_narrow(float f)
{
	uint32_t u = tt_f32_bits(f), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
	int exp = (int)(mag >> 23);

	if (mag > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
	if (mag >= 0x47800000) /* 2^16 and more; values in between round up to infinity below */
		return (uint16_t)(sign | 0x7c00);
	if (exp >= 113) /* normal: a carry out of the mantissa steps the exponent, as it should */
		return (uint16_t)(sign | tt_shift_round(mag - (112u << 23), 13));
	if (exp < 102) /* below half of the smallest subnormal */
		return (uint16_t)sign;
	return (uint16_t)(sign | tt_shift_round((mag & 0x7fffff) | 0x800000, 126 - exp));
}

static inline float tt_bfloat_widen(uint16_t h)
{
	uint32_t u = (uint32_t)h << 16;

	return tt_f32_from_bits((u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : u);
}

static inline uint16_t tt_bfloat_narrow(float f)
{
	uint32_t u = tt_f32_bits(f), round = (u + 0x7fff + (u >> 16 & 1)) >> 16;

	return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : round);
}

#endif
