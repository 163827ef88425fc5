/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Averages that move vectors towards each other: every level has the bits of the reference, for all
 * functions, types, lengths and addresses, in place, with NaNs and infinities. The reference has
 * those of sums by hand.
 */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/reduce/mix.h"
#include "lib/reduce/reduce.h"
#include "tests/test.h"
#include "tests/unit/any_numbers.h"

#define ROOM 2600 /* bytes of each vector */

enum what { DIFFER, EXCHANGE, HALVE, GATHER, WHATS };

static const char *const names[] = {"differ", "exchange", "halve", "gather"};
static const enum tutti_datatype types[] = {TUTTI_FLOAT32, TUTTI_FLOAT64, TUTTI_INT32, TUTTI_INT64};

struct trial {
	enum what what;
	enum tutti_datatype type;
	size_t count, off[3];
	double weight;
	unsigned flags;
	int in_place; /* differ: which operand is the result, 0: none */
};

static struct trial any_trial(uint64_t *seed)
{
	struct trial x = {.what = (enum what)(tt_random(seed) % WHATS)};
	size_t size;
	int k;

	x.type = types[tt_random(seed) % (x.what == HALVE ? 4 : 2)];
	size = tutti_datatype_size(x.type);
	x.count = tt_random(seed) % (tt_random(seed) % 2 ? 40 : 300);
	for (k = 0; k < 3; k++)
		x.off[k] = tt_random(seed) % 8 * (x.what == GATHER ? 8 : size);
	x.weight = tt_random(seed) % 4 ? 1.0 / 3 : any_double(seed);
	x.flags = (unsigned)(tt_random(seed) % 8);
	x.in_place = (int)(tt_random(seed) % 3);
	return x;
}

/* v includes the bytes around each vector. */
static void run_trial(const struct trial *x, enum tt_reduce_level level, unsigned char v[3][ROOM])
{
	void *p[] = {v[0] + x->off[0], v[1] + x->off[1], v[2] + x->off[2]};

	TT_CHECK(tt_reduce_use(level));
	switch (x->what) {
	case DIFFER:
		tt_reduce_differ(p[x->in_place], p[1], p[2], x->weight, x->count, x->type);
		break;
	case EXCHANGE:
		tt_reduce_exchange(p[0], p[1], p[2], x->weight, x->count, x->type);
		break;
	case HALVE:
		tt_reduce_halve(p[0], p[1], x->count, x->type);
		break;
	default:
		tt_reduce_gather(p[0], p[1], x->flags & TT_MIX_ADD ? p[2] : NULL, x->weight,
				 x->count, x->type, x->flags);
	}
}

/* A sum in float64 that stays is no result: it may hold any NaN. */
static bool same(const struct trial *x, unsigned char a[3][ROOM], unsigned char b[3][ROOM])
{
	double *u = (double *)(void *)(a[1] + x->off[1]), *v = (double *)(void *)(b[1] + x->off[1]);
	size_t i;

	for (i = 0; x->what == GATHER && i < x->count; i++)
		if (isnan(u[i]) && isnan(v[i]))
			u[i] = v[i];
	return !memcmp(a, b, 3 * ROOM);
}

static void test_levels(void)
{
	static _Alignas(64) unsigned char in[3][ROOM], want[3][ROOM], got[3][ROOM];
	uint64_t seed = 5;
	struct trial x;
	int i, k, level;

	for (i = 0; i < 8000; i++) {
		x = any_trial(&seed);
		memset(in, 0x5a, sizeof(in));
		for (k = 0; k < 3; k++)
			any_elements(x.what == GATHER && k == 1 ? TUTTI_FLOAT64 : x.type,
				     in[k] + x.off[k], x.count, &seed);
		memcpy(want, in, sizeof(in));
		run_trial(&x, TT_REDUCE_TRUTH, want);
		for (level = TT_REDUCE_BASE; level <= (int)tt_reduce_best(); level++) {
			memcpy(got, in, sizeof(in));
			run_trial(&x, level, got);
			if (same(&x, got, want))
				continue;
			printf("  %s of %s at level %d: %zu elements, flags %u, in place %d\n",
			       names[x.what], tt_datatype_name(x.type), level, x.count, x.flags,
			       x.in_place);
			TT_CHECK(false);
		}
	}
}

#define N 19 /* no whole number of vectors */

static void by_hand_f64(void)
{
	double x[N], c[N], s[N], d[N];
	int i;

	for (i = 0; i < N; i++) {
		x[i] = 8 + i;
		c[i] = 4;
		s[i] = 0.5;
	}
	tt_reduce_differ(d, x, c, 0.25, N, TUTTI_FLOAT64);
	tt_reduce_exchange(x, c, s, 0.25, N, TUTTI_FLOAT64);
	for (i = 0; i < N; i++)
		TT_CHECK(d[i] == (4 + i) * 0.25 && x[i] == 8 + i - d[i] && c[i] == 4.5 &&
			 s[i] == 0.5);
	tt_reduce_halve(x, c, N, TUTTI_FLOAT64);
	for (i = 0; i < N; i++)
		TT_CHECK(x[i] == (8 + i - d[i] + 4.5) / 2 && c[i] == x[i]);
}

/* x = 1: (2^30 - x) / 2 and (-2^30 - x) / 2 leave x - 1 only if they are added in float64. */
static void by_hand_gather(void)
{
	float x[N], big[N], small[N];
	double sum[N];
	int i;

	for (i = 0; i < N; i++) {
		x[i] = 1;
		big[i] = 0x1p30f;
		small[i] = -0x1p30f;
		sum[i] = NAN;
	}
	tt_reduce_gather(x, sum, big, 0.5, N, TUTTI_FLOAT32, TT_MIX_FIRST | TT_MIX_ADD);
	TT_CHECK(x[0] == 1 && sum[N - 1] == 0x1p29 - 0.5);
	tt_reduce_gather(x, sum, small, 0.5, N, TUTTI_FLOAT32, TT_MIX_ADD);
	for (i = 0; i < N; i++)
		TT_CHECK(x[i] == 1 && sum[i] == -1);
	tt_reduce_gather(x, sum, NULL, 0.5, N, TUTTI_FLOAT32, TT_MIX_LAST);
	for (i = 0; i < N; i++)
		TT_CHECK(x[i] == 0 && sum[i] == -1);
}

static void by_hand_halve(void)
{
	static const int32_t pair[][4] = {{3, 4, 3, 4},
					  {-3, -4, -4, -3},
					  {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX},
					  {INT32_MIN, INT32_MAX, -1, 0},
					  {INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN}};
	int64_t low64, high64;
	int32_t low, high;
	size_t i;

	for (i = 0; i < sizeof(pair) / sizeof(*pair); i++) {
		low = pair[i][0];
		high = pair[i][1];
		low64 = low;
		high64 = high;
		tt_reduce_halve(&low, &high, 1, TUTTI_INT32);
		tt_reduce_halve(&low64, &high64, 1, TUTTI_INT64);
		TT_CHECK(low == pair[i][2] && high == pair[i][3]);
		TT_CHECK(low64 == pair[i][2] && high64 == pair[i][3]);
	}
	low64 = high64 = INT64_MAX;
	tt_reduce_halve(&low64, &high64, 1, TUTTI_INT64);
	TT_CHECK(low64 == INT64_MAX && high64 == INT64_MAX);
}

static void test_by_hand(void)
{
	int level;

	for (level = 0; level <= (int)tt_reduce_best(); level++) {
		TT_CHECK(tt_reduce_use(level));
		by_hand_f64();
		by_hand_gather();
		by_hand_halve();
	}
}

static const struct tt_test tests[] = {
	{"levels", test_levels},
	{"by_hand", test_by_hand},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	tt_reduce_add_reference();
	return tt_test_main("mix", tests, argc, argv);
}
