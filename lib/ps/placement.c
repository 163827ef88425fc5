/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places data on servers. A dense table is cut into one range for each server (water-filling): the
 * fewer bytes of earlier tables a server holds, the more it gets. So largest/mean stays near 1 for
 * any sizes; a table too small to cut goes to the server with the fewest bytes. Rows are placed by
 * a hash of their key. A server of weight w counts as w servers; upto has the prefix sums of the
 * weights.
 */
#include <math.h>

#include "lib/base/hash.h"
#include "lib/ps/ps.h"

#define WHOLE 4096 /* bytes up to which a table stays in one piece */

static uint64_t weight_of(const uint32_t *upto, int i)
{
	return i ? upto[i] - upto[i - 1] : upto[0];
}

static int emptiest(const uint64_t *load, const uint64_t *more, const uint32_t *upto, int n)
{
	double least = HUGE_VAL, now;
	int i, best = 0;

	for (i = 0; i < n; i++) {
		now = (double)(load[i] + more[i]) / (double)weight_of(upto, i);
		if (now < least) {
			least = now;
			best = i;
		}
	}
	return best;
}

/* A fill level: bytes for so much weight. */
struct level {
	uint64_t bytes, weight;
};

static uint64_t share(const struct level *l, const uint32_t *upto, int i)
{
	uint64_t w = weight_of(upto, i);

	return l->bytes / l->weight * w + l->bytes % l->weight * w / l->weight;
}

/* The level at which all servers below it hold `bytes` more. */
static struct level find_level(const uint64_t *load, const uint32_t *upto, int n, uint64_t bytes)
{
	struct level now = {UINT64_MAX, 1}, next;
	int i, round;

	for (round = 0; round <= n;
	     round++) { /* each round but the last leaves out servers above the level */
		next = (struct level){bytes, 0};
		for (i = 0; i < n; i++)
			if (!round || load[i] < share(&now, upto, i)) {
				next.bytes += load[i];
				next.weight += weight_of(upto, i);
			}
		if (!next.weight || (next.bytes == now.bytes && next.weight == now.weight))
			break; /* none is below: less than a byte for each */
		now = next;
	}
	return now;
}

void tt_ps_place(const uint64_t *load, const uint32_t *upto, int n, uint64_t count, uint64_t bytes,
		 uint64_t *begin)
{
	struct level level = find_level(load, upto, n, count * bytes);
	uint64_t left = count, more, at = 0;
	int i, k;

	for (i = 0; i <= n; i++)
		begin[i] = 0;
	/* begin[i + 1]: bytes of server i for now */
	for (i = 0; i < n && count * bytes > WHOLE; i++) {
		more = share(&level, upto, i);
		more = more > load[i] ? (more - load[i]) / bytes : 0;
		if (more > left)
			more = left;
		begin[i + 1] = more * bytes;
		left -= more;
	}
	if (count * bytes <= WHOLE) {
		begin[emptiest(load, begin + 1, upto, n) + 1] = count * bytes;
		left = 0;
	}
	for (; left; left--) { /* rounding: a few units for each server */
		k = emptiest(load, begin + 1, upto, n);
		begin[k + 1] += bytes;
	}
	for (i = 0; i < n; i++) {
		at += begin[i + 1] / bytes;
		begin[i + 1] = at;
	}
}

int tt_ps_key_server(const uint32_t *upto, int n, uint64_t key)
{
	uint64_t at = (tt_mix64(key + 0x9e3779b97f4a7c15ull) >> 32) * (uint64_t)upto[n - 1] >> 32;
	int lo = 0, hi = n - 1, mid;

	if (upto[n - 1] == (uint32_t)n) /* all have weight 1 */
		return (int)at;
	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (at < upto[mid])
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* The mean and six standard deviations. */
uint64_t tt_ps_key_room(const uint32_t *upto, int n, int server, uint64_t rows)
{
	double mean = (double)rows * (double)weight_of(upto, server) / (double)upto[n - 1];
	uint64_t room = (uint64_t)(mean + 6 * sqrt(mean)) + 16;

	return room < rows ? room : rows;
}
