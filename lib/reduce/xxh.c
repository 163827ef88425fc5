/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums of long data. */
#include "lib/reduce/xxh.h"

#include "lib/reduce/kernels.h"

uint64_t tt_reduce_xxh(const void *data, size_t len, uint64_t seed)
{
	return tt_reduce_kernels()->xxh(data, len, seed);
}
