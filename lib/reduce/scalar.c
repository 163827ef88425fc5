/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels every machine has, and the truth for all others. */
#include <stddef.h>

#include "lib/reduce/half.h"

static void widen_f16(float *dst, const uint16_t *src, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		dst[i] = tt_half_widen(src[i]);
}

static void narrow_f16(uint16_t *dst, const float *src, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		dst[i] = tt_half_narrow(src[i]);
}

#include "lib/reduce/loops.h"

const struct tt_kernels tt_kernels_scalar = KERNELS;
