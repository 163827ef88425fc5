/* SPDX-License-Identifier: BSD-3-Clause */
/* XXH3 of 64 bits, by the kernel for this CPU: that of the system's library is for any CPU. */
#ifndef TT_XXH_H
#define TT_XXH_H

#include <stddef.h>
#include <stdint.h>

/* XXH3_64bits_withSeed; with the seed 0 XXH3_64bits. */
uint64_t tt_reduce_xxh(const void *data, size_t len, uint64_t seed);

#endif
