/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums at every level are those of the system's library, of all lengths and at any address. */
#include <stdlib.h>
#include <xxhash.h>

#include "lib/base/hash.h"
#include "lib/reduce/reduce.h"
#include "lib/reduce/xxh.h"
#include "tests/test.h"

#define MOST ((size_t)70000)

static void check_level(const unsigned char *data)
{
	uint64_t seed = 3, by;
	size_t len, off;
	int i;

	for (i = 0; i < 2000; i++) {
		len = i < 600 ? (size_t)i : tt_random(&seed) % (i < 1900 ? 5000 : MOST);
		off = tt_random(&seed) % 64;
		by = i % 3 ? tt_random(&seed) : 0;
		TT_CHECK(tt_reduce_xxh(data + off, len, by) ==
			 XXH3_64bits_withSeed(data + off, len, by));
		TT_CHECK(tt_reduce_xxh(data + off, len, 0) == XXH3_64bits(data + off, len));
	}
}

static void test_levels(void)
{
	unsigned char *data = malloc(MOST + 64);
	uint64_t seed = 1;
	size_t i;
	int level;

	TT_REQUIRE(data != NULL);
	for (i = 0; i < MOST + 64; i++)
		data[i] = (unsigned char)tt_random(&seed);
	for (level = 0; level <= (int)tt_reduce_best(); level++) {
		TT_CHECK(tt_reduce_use(level));
		check_level(data);
	}
	free(data);
}

static const struct tt_test tests[] = {
	{"levels", test_levels},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	tt_reduce_add_reference();
	return tt_test_main("xxh", tests, argc, argv);
}
