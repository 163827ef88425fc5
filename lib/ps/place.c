/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which server keeps what. A dense table is cut into one range for each server such that the bytes of all
 * tables so far become level, as water fills a vessel: the emptier a server, the more it gets. So
 * largest/mean stays near 1 whatever the sizes; what is too small to be worth cutting goes to the emptiest.
 * Rows go by a hash of their key.
 */
#include <math.h>

#include "lib/base/hash.h"
#include "lib/ps/ps.h"

#define WHOLE 4096 /* bytes up to which a table stays in one piece */

static int emptiest(const uint64_t *load, const uint64_t *more, int n)
{
	int i, best = 0;

	for (i = 1; i < n; i++)
		if (load[i] + more[i] < load[best] + more[best])
			best = i;
	return best;
}

/* The level at which all that are below it hold `bytes` more. */
static uint64_t level(const uint64_t *load, int n, uint64_t bytes)
{
	uint64_t now = UINT64_MAX, sum, below;
	int i;

	for (;;) {
		sum = bytes;
		below = 0;
		for (i = 0; i < n; i++)
			if (load[i] < now) {
				sum += load[i];
				below++;
			}
		if (sum / below == now)
			return now;
		now = sum / below; /* falls each time, as whoever is left out was above */
	}
}

void tt_ps_place(const uint64_t *load, int n, uint64_t count, uint64_t bytes, uint64_t *begin)
{
	uint64_t to, left = count, more, at = 0;
	int i, k;

	for (i = 0; i <= n; i++)
		begin[i] = 0;
	to = count * bytes > WHOLE ? level(load, n, count * bytes) : 0;
	/* begin[i + 1]: bytes of i for now */
	for (i = 0; i < n; i++) {
		more = to > load[i] ? (to - load[i]) / bytes : 0;
		if (more > left)
			more = left;
		begin[i + 1] = more * bytes;
		left -= more;
	}
	if (count * bytes <= WHOLE) {
		begin[emptiest(load, begin + 1, n) + 1] = count * bytes;
		left = 0;
	}
	for (; left; left--) { /* rounding: less than n units */
		k = emptiest(load, begin + 1, n);
		begin[k + 1] += bytes;
	}
	for (i = 0; i < n; i++) {
		at += begin[i + 1] / bytes;
		begin[i + 1] = at;
	}
}

int tt_ps_key_server(uint64_t key, int n)
{
	return (int)((tt_mix64(key + 0x9e3779b97f4a7c15ull) >> 32) * (uint64_t)n >> 32);
}

/* Six standard deviations above the mean. */
uint64_t tt_ps_key_room(uint64_t rows, int n)
{
	double mean = (double)rows / n;
	uint64_t room = (uint64_t)(mean + 6 * sqrt(mean)) + 16;

	return room < rows ? room : rows;
}
