/* SPDX-License-Identifier: BSD-3-Clause */
/* A generator of random numbers that is the same everywhere; *state is the seed. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stdint.h>

uint64_t random_next(uint64_t *state);
double random_uniform(uint64_t *state); /* in [0, 1) */

/* Put order[0..n) into random order. */
void shuffle(int *order, int n, uint64_t seed);

#endif
