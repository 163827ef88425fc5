/* SPDX-License-Identifier: BSD-3-Clause */
/* XXH3 of 64 bits; built once for each level of instructions (local.mk), with the same values. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/reduce/isa.h"
#include "lib/reduce/kernels.h"

uint64_t AT_LEVEL(tt_xxh)(const void *data, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, len, seed);
}
