/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls store their results around the cache. */
#include <stdlib.h>
#include <string.h>

#include "lib/node/stores.h"
#include "lib/reduce/reduce.h"
#include "tests/test.h"

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

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"reuse", test_reuse}, {"first", test_first}, {"share", test_share}, {NULL, NULL}};

	return tt_test_main("stores", tests, argc, argv);
}
