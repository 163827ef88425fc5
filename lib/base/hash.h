/* SPDX-License-Identifier: BSD-3-Clause */
/* Mixing of 64-bit words: message keys, fingerprints, seeded test randomness. */
#ifndef TT_HASH_H
#define TT_HASH_H

#include <stdint.h>

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection that spreads every bit. */
static inline uint64_t tt_mix64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static inline uint64_t tt_hash_add(uint64_t h, uint64_t v)
{
	return tt_mix64(h + 0x9e3779b97f4a7c15ull + v);
}

/* splitmix64: the next value of a seeded sequence. */
static inline uint64_t tt_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return tt_mix64(*state);
}

#endif
