/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls store their results around the cache, and copies that do or do not. */
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include "lib/base/copy.h"
#include "lib/base/env.h"
#include "lib/node/stores.h"
#include "lib/reduce/reduce.h"
#include "tests/test.h"
#include "tools/tune/fit.h"

#define MIB ((size_t)1 << 20)

static char buf[64];

/* How many of so many calls, on n buffers in turn, store around the cache after the first n. */
static int streamed(size_t cache, int n, size_t bytes, int calls)
{
	struct tt_stores s = {.cache = cache};
	int i, count = 0;

	for (i = 0; i < n + calls; i++)
		count += tt_stores_flags(&s, &buf[i % n], bytes) == TT_REDUCE_STREAM && i >= n;
	return count;
}

static void test_reuse(void)
{
	/* The same buffers: as long as they fit. */
	TT_CHECK(streamed(16 * MIB, 1, 8 * MIB, 10) == 0);
	TT_CHECK(streamed(16 * MIB, 1, 16 * MIB, 10) == 10);
	TT_CHECK(streamed(16 * MIB, 4, 3 * MIB, 10) == 0);
	TT_CHECK(streamed(16 * MIB, 4, 4 * MIB, 10) == 10);
	TT_CHECK(streamed(16 * MIB, 16, MIB, 40) == 40);
	/* More buffers than are kept: those before the oldest count as just before it. */
	TT_CHECK(streamed(16 * MIB, 40, MIB, 80) == 80);
	TT_CHECK(streamed(16 * MIB, 40, MIB / 8, 80) == 0);
}

static void test_first(void)
{
	struct tt_stores s = {.cache = 16 * MIB};
	int i;

	/* A buffer that is not known, and does not fit. */
	TT_CHECK(tt_stores_flags(&s, &buf[0], 17 * MIB) == TT_REDUCE_STREAM);
	TT_CHECK(tt_stores_flags(&s, &buf[1], 2 * MIB) == 0);
	/* The first call has driven it out; the second has brought it back. */
	TT_CHECK(tt_stores_flags(&s, &buf[0], 2 * MIB) == TT_REDUCE_STREAM);
	TT_CHECK(tt_stores_flags(&s, &buf[0], 2 * MIB) == 0);
	for (i = 0; i < 100; i++)
		TT_CHECK(tt_stores_flags(&s, &buf[2 + i % 3], MIB) == 0);
	TT_CHECK(tt_stores_flags(&s, &buf[0], 2 * MIB) == TT_REDUCE_STREAM);
}

static void test_share(void)
{
	TT_CHECK(tt_stores_cache(32 * MIB, 2, 2, 2) == 16 * MIB);
	TT_CHECK(tt_stores_cache(32 * MIB, 2, 2, 1) == 32 * MIB);
	TT_CHECK(tt_stores_cache(32 * MIB, 8, 64, 64) == 4 * MIB);
	TT_CHECK(tt_stores_cache(32 * MIB, 8, 64, 4) == 32 * MIB); /* one each */
	TT_CHECK(tt_stores_cache(32 * MIB, 8, 64, 9) == 16 * MIB);
	TT_CHECK(tt_stores_cache(32 * MIB, 8, 4, 2) == 16 * MIB);
	TT_CHECK(tt_stores_cache(0, 1, 4, 2) > 0);
	TT_CHECK(tt_stores_cache(0, 1, 1, 0) > 0);
}

static void test_measured(void)
{
	struct tt_env env = {0};
	size_t share = tt_stores_share(&env, 48 * MIB, 3);

	TT_CHECK(share && 48 * MIB % share == 0);
	TT_CHECK(tt_stores_whole(share, 3) == 48 * MIB);
	TT_CHECK(tt_stores_share(&env, 48 * MIB, 1) == 48 * MIB);
	TT_CHECK(tt_stores_share(&env, tt_stores_whole(5 * MIB, 4), 4) == 5 * MIB);
	env.cache.number = 7 * (long long)MIB; /* set by the user: it counts */
	TT_CHECK(tt_stores_share(&env, 48 * MIB, 3) == 7 * MIB);
}

#define CELLS 9

/*
 * Times on a machine where stores around the cache gain from some bytes on, and cost as much below:
 * 0: never. One cell in three is disturbed by noise, a factor.
 */
static size_t fitted(size_t assumed, double from, double gain, double noise)
{
	struct tune_cell cells[CELLS];
	int i;

	for (i = 0; i < CELLS; i++) {
		double bytes = (double)(16 * MIB) * pow(2, (i - CELLS / 2) / 2.0);

		cells[i] =
			(struct tune_cell){.bytes = (size_t)bytes,
					   .plain = 100 * (from > 0 && bytes >= from ? gain : 1),
					   .stream = 100 * (from > 0 && bytes >= from ? 1 : gain)};
		if (i % 3 == 1)
			cells[i].stream *= noise;
	}
	return tune_fit(cells, CELLS, assumed);
}

static bool between(size_t value, double low, double high)
{
	return (double)value > low * (double)MIB && (double)value <= high * (double)MIB;
}

static void test_fit(void)
{
	/* As assumed: it stays to the byte. */
	TT_CHECK(fitted(15 * MIB, 16.0 * MIB, 1.3, 1) == 15 * MIB);
	/* Other machines: the caches are shared with others, or are larger than they say. */
	TT_CHECK(between(fitted(16 * MIB, 8.0 * MIB, 1.3, 1), 5.6, 8));
	TT_CHECK(between(fitted(16 * MIB, 45.0 * MIB, 1.3, 1), 32, 45.3));
	TT_CHECK(between(fitted(16 * MIB, 8.0 * MIB, 1.5, 1.1), 5.6, 8));
	/* Always, or never. */
	TT_CHECK(fitted(16 * MIB, 1.0, 1.3, 1) < 4 * MIB);
	TT_CHECK(fitted(16 * MIB, 0, 1.3, 1) > 64 * MIB);
	/* No difference that counts. */
	TT_CHECK(fitted(16 * MIB, 8.0 * MIB, 1.002, 1) == 16 * MIB);
}

/* Copies in pieces, also down over a part of what is copied. */
static void test_copies(void)
{
	static const size_t lens[] = {0, 1, 131071, 131072, 262145, 524288, 700001};
	static const size_t downs[] = {1, 4096, 131072, 700001};
	static unsigned char from[1500000], to[1500000];
	size_t i, k, at;

	for (i = 0; i < 7; i++)
		for (k = 0; k < 4; k++) {
			for (at = 0; at < sizeof(from); at++)
				from[at] = to[at] = (unsigned char)(at * 7 % 251);
			tt_copy_near(to, to + downs[k], lens[i]);
			TT_CHECK(!memcmp(to, from + downs[k], lens[i]));
			TT_CHECK(to[lens[i]] == from[lens[i]]);
			tt_copy_near(to + 1, from, lens[i]);
			TT_CHECK(!memcmp(to + 1, from, lens[i]));
			tt_copy_long(to, from + 1, lens[i]);
			TT_CHECK(!memcmp(to, from + 1, lens[i]));
			tt_copy_long(to + 3, to, lens[i]);
			TT_CHECK(!memcmp(to + 3, from + 1, lens[i]));
		}
}

#define EDGE 70 /* more than a line */

static bool is_left(const unsigned char *mem, size_t len, unsigned char value)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (mem[i] != value)
			return false;
	return true;
}

/* At any place of a line: the source stays as it is, and so does all beside the copy. */
static void test_out(void)
{
	static const size_t lens[] = {0, 1, 63, 64, 65, 200, 8192, 131073};
	static unsigned char from[140000], was[140000], to[140000];
	size_t i, k, at, len;

	for (at = 0; at < sizeof(from); at++)
		was[at] = from[at] = (unsigned char)(at * 7 % 251);
	for (i = 0; i < 8; i++)
		for (k = 0; k <= EDGE; k++) {
			len = lens[i];
			memset(to, 255, sizeof(to));
			tt_copy_out(to + EDGE - k, from + k, len);
			TT_CHECK(!memcmp(to + EDGE - k, was + k, len));
			TT_CHECK(is_left(to, EDGE - k, 255));
			TT_CHECK(is_left(to + EDGE - k + len, EDGE, 255));
			tt_hand_back(from + k, len);
			TT_CHECK(!memcmp(from, was, sizeof(from)));
		}
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"reuse", test_reuse}, {"first", test_first},
					       {"share", test_share}, {"measured", test_measured},
					       {"fit", test_fit},     {"copies", test_copies},
					       {"out", test_out},     {NULL, NULL}};

	return tt_test_main("stores", tests, argc, argv);
}
