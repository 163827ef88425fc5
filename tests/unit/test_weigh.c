/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Weighted sums: every level has the bits of the reference, for all types, lengths, addresses and
 * numbers of vectors, in place, with NaNs and infinities. The reference has those of sums by hand.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/reduce/reduce.h"
#include "tests/test.h"
#include "tests/unit/any_numbers.h"

#define MOST 9	  /* vectors */
#define ROOM 2560 /* bytes of each: elements are aligned */

static const enum tutti_datatype types[] = {TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT32,
					    TUTTI_FLOAT64};

struct trial {
	enum tutti_datatype type;
	int n, in_place; /* -1: not in place */
	size_t count, bytes, off[MOST], to;
	double weight[MOST];
};

static struct trial any_trial(enum tutti_datatype type, uint64_t *seed)
{
	struct trial x = {.type = type, .n = 1 + (int)(tt_random(seed) % MOST), .in_place = -1};
	size_t size = tutti_datatype_size(type);
	int k;

	x.count = tt_random(seed) % (tt_random(seed) % 2 ? 70 : 300);
	x.bytes = x.count * size;
	x.to = tt_random(seed) % 8 * size;
	for (k = 0; k < x.n; k++) {
		x.off[k] = tt_random(seed) % 8 * size;
		x.weight[k] = tt_random(seed) % 4 ? 1.0 / (double)(k + 3) : any_double(seed);
	}
	if (tt_random(seed) % 2)
		x.in_place = (int)(tt_random(seed) % (uint64_t)x.n);
	return x;
}

/* out includes the bytes around the result. */
static void run_trial(const struct trial *x, enum tt_reduce_level level,
		      unsigned char in[MOST][ROOM], unsigned char out[ROOM])
{
	const void *src[MOST];
	int k;

	memset(out, 0x5a, ROOM);
	for (k = 0; k < x->n; k++)
		src[k] = in[k] + x->off[k];
	if (x->in_place >= 0)
		src[x->in_place] = memcpy(out + x->to, src[x->in_place], x->bytes);
	TT_CHECK(tt_reduce_use(level));
	tt_reduce_weigh(out + x->to, src, x->weight, x->n, x->count, x->type);
}

static void test_levels(void)
{
	static _Alignas(64) unsigned char in[MOST][ROOM], want[ROOM], got[ROOM];
	uint64_t seed = 7;
	struct trial x;
	int i, k, level;

	for (i = 0; i < 4000; i++) {
		x = any_trial(types[i % 4], &seed);
		for (k = 0; k < x.n; k++)
			any_elements(x.type, in[k] + x.off[k], x.count, &seed);
		run_trial(&x, TT_REDUCE_TRUTH, in, want);
		TT_CHECK(want[x.to + x.bytes] == 0x5a);
		for (level = TT_REDUCE_BASE; level <= (int)tt_reduce_best(); level++) {
			run_trial(&x, level, in, got);
			if (!memcmp(got, want, ROOM))
				continue;
			printf("  %s at level %d: %d vectors of %zu elements, in place %d\n",
			       tt_datatype_name(x.type), level, x.n, x.count, x.in_place);
			TT_CHECK(false);
		}
	}
}

/* At all levels: dst = sum of the first n of w * x, and what it must be. */
static void check_sum(enum tutti_datatype type, const void *x, int n, const double *w,
		      const void *want)
{
	size_t size = tutti_datatype_size(type);
	const void *src[MOST];
	unsigned char got[8];
	int k, level;

	for (k = 0; k < n; k++)
		src[k] = (const char *)x + (size_t)k * size;
	for (level = 0; level <= (int)tt_reduce_best(); level++) {
		TT_CHECK(tt_reduce_use(level));
		tt_reduce_weigh(got, src, w, n, 1, type);
		TT_CHECK(!memcmp(got, want, size));
	}
}

/* Sums that another order, one rounding less, or another precision would give another value. */
static void test_by_hand(void)
{
	const double w[] = {1, 1, 1}, third[] = {1, 1.0 / 3};
	const double d[] = {1e16, 1, -1e16}, zero = 0;
	const float f[] = {1e8f, 1, -1e8f}, f_zero = 0;
	const uint16_t half[] = {0x6800, 0x3c00, 0xe7ff}; /* 2048, 1, -2047 */
	const uint16_t half_two = 0x4000, bf[] = {0x4380, 0x3f80, 0xc380}, bf_one = 0x3f80;
	/* a product that is rounded, and the same with the other sign: 0, but not by fma */
	const double e[] = {-(1.0 / 3 * 0.1), 0.1};
	const float g[] = {-((float)(1.0 / 3) * 0.1f), 0.1f};

	check_sum(TUTTI_FLOAT64, d, 3, w, &zero);
	check_sum(TUTTI_FLOAT32, f, 3, w, &f_zero);
	check_sum(TUTTI_FLOAT16, half, 3, w, &half_two);
	check_sum(TUTTI_BFLOAT16, bf, 3, w, &bf_one);
	check_sum(TUTTI_FLOAT64, e, 2, third, &zero);
	check_sum(TUTTI_FLOAT32, g, 2, third, &f_zero);
}

/* Every float16, also after it was made smaller and rounded, is as at the other levels. */
static void test_every_half(void)
{
	static const double weights[] = {1, 1.0 / 3, 0x1p-5, 0x1.8p-13, 0x1.001p0, 0x1p-30};
	static uint16_t in[65536], want[65536], got[65536];
	const void *src = in;
	int i, level;

	for (i = 0; i < 65536; i++)
		in[i] = (uint16_t)i;
	for (i = 0; i < (int)(sizeof(weights) / sizeof(*weights)); i++) {
		TT_CHECK(tt_reduce_use(TT_REDUCE_TRUTH));
		tt_reduce_weigh(want, &src, &weights[i], 1, 65536, TUTTI_FLOAT16);
		for (level = TT_REDUCE_BASE; level <= (int)tt_reduce_best(); level++) {
			TT_CHECK(tt_reduce_use(level));
			tt_reduce_weigh(got, &src, &weights[i], 1, 65536, TUTTI_FLOAT16);
			TT_CHECK(!memcmp(got, want, sizeof(got)));
		}
	}
}

static void test_types(void)
{
	int t;

	for (t = 0; t < TUTTI_NUM_DATATYPES; t++)
		TT_CHECK(tt_reduce_weighs(t) == (t >= TUTTI_FLOAT16 && t <= TUTTI_FLOAT64));
}

static const struct tt_test tests[] = {
	{"levels", test_levels},
	{"by_hand", test_by_hand},
	{"every_half", test_every_half},
	{"types", test_types},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	tt_reduce_add_reference();
	return tt_test_main("weigh", tests, argc, argv);
}
