/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers and orders. */
#include "examples/random.h"

/* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

double random_uniform(uint64_t *state)
{
	return (double)(random_next(state) >> 11) / (double)(1ull << 53);
}

void shuffle(int *order, int n, uint64_t seed)
{
	int i, j, swap;

	for (i = n - 1; i > 0; i--) {
		j = (int)(random_next(&seed) % (uint64_t)(i + 1));
		swap = order[i];
		order[i] = order[j];
		order[j] = swap;
	}
}
