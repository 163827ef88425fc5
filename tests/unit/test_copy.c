/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of data: all lengths about each change of the way, and all distances within a line. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "tests/test.h"

#define PAGE 4096
#define ROOM ((size_t)1 << 20)
#define EDGE 64 /* bytes before and after a copy, which stay */

typedef void copy_fn(void *to, const void *from, size_t len);

static char *pages(size_t len)
{
	char *p = aligned_alloc(PAGE, (len + PAGE - 1) / PAGE * PAGE);
	size_t i;

	if (!p)
		abort();
	for (i = 0; i < len; i++)
		p[i] = (char)(i * 31 + i / 251);
	return p;
}

static bool is_filled(const char *p, size_t len, char with)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (p[i] != with)
			return false;
	return true;
}

static void check(copy_fn *copy, const char *in, char *out, size_t len)
{
	memset(out - EDGE, 7, len + 2 * EDGE);
	copy(out, in, len);
	TT_CHECK(!memcmp(out, in, len));
	TT_CHECK(is_filled(out - EDGE, EDGE, 7) && is_filled(out + len, EDGE, 7));
}

static void wrapped(void *to, const void *from, size_t len)
{
	tt_copy_data(to, from, len);
}

static void out_of(void *to, const void *from, size_t len)
{
	tt_copy_out(to, (void *)from, len);
}

static void at_length(void *to, const void *from, size_t len)
{
	tt_copy_long(to, from, len);
}

static void test_distances(void)
{
	static const size_t lens[] = {0,    1,	  31,	127,  128,   129,   2047,  2048,
				      2049, 2176, 4096, 4099, 65536, 65541, 524288};
	copy_fn *const copies[] = {wrapped, tt_copy_near, at_length, out_of, tt_copy_away};
	char *in = pages(ROOM), *out = pages(ROOM);
	size_t i, k, to, from;

	for (k = 0; k < sizeof(copies) / sizeof(copies[0]); k++)
		for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
			for (to = 0; to < (lens[i] < ROOM / 2 ? 66 : 34); to += 1 + to / 17)
				for (from = 0; from < 49; from += 16)
					check(copies[k], in + from, out + PAGE + to, lens[i]);
	free(in);
	free(out);
}

/* Half of any cache, and more. */
static void test_large(void)
{
	size_t len = ((size_t)40 << 20) + 5, distance;
	char *in = pages(len + PAGE), *out = pages(len + 2 * PAGE);

	for (distance = 0; distance <= 16; distance += 8)
		check(at_length, in, out + PAGE + distance, len);
	free(in);
	free(out);
}

/* To a lower address; the distance is also that of the slow copies. */
static void test_overlaps(void)
{
	static const size_t back[] = {1, 64, PAGE - 16, PAGE - 8, PAGE, 3 * PAGE - 4};
	char *in = pages(ROOM), *expected = pages(ROOM), *got = pages(ROOM);
	size_t i, len;

	for (i = 0; i < sizeof(back) / sizeof(back[0]); i++)
		for (len = 1000; len < 600000; len = len * 3 + 1) {
			memcpy(expected, in, ROOM);
			memcpy(got, in, ROOM);
			memmove(expected, expected + back[i], len);
			tt_copy_near(got, got + back[i], len);
			TT_CHECK(!memcmp(expected, got, ROOM));
			memmove(expected + back[i], expected, len);
			tt_copy_long(got + back[i], got, len);
			TT_CHECK(!memcmp(expected, got, ROOM));
			memmove(expected, expected + back[i], len);
			tt_copy_long(got, got + back[i], len);
			TT_CHECK(!memcmp(expected, got, ROOM));
		}
	free(in);
	free(expected);
	free(got);
}

static void test_lags(void)
{
	static char room[2 * PAGE];
	int distance;

	for (distance = 0; distance < PAGE; distance++)
		TT_CHECK(tt_copy_lags(room + distance, room) == (distance > 0 && distance < 32));
	TT_CHECK(tt_copy_lags(room, room + PAGE - 8) && !tt_copy_lags(room, room + 8));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"distances", test_distances},
					       {"large", test_large},
					       {"overlaps", test_overlaps},
					       {"lags", test_lags},
					       {NULL, NULL}};

	return tt_test_main("copy", tests, argc, argv);
}
