/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduction kernels against an oracle that shares nothing with them: integers in 128 bits, floats
 * in double, 16-bit floats found by search in a table made with ldexp.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/reduce/half.h"
#include "lib/reduce/reduce.h"
#include "tests/test.h"

#define MAX_COUNT 1037
#define MAX_BYTES (MAX_COUNT * 16)

static const size_t counts[] = {0, 1, 3, 7, 8, 9, 17, 31, 511, 513, 1000, MAX_COUNT};
static const int sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 1, 2, 2, 4, 8, 8, 16, 8, 16, 8, 16};

/* The magnitudes of a 16-bit format: sign, ebits of exponent, mbits of mantissa. */
static double magnitude(int ebits, int mbits, unsigned h)
{
	int bias = (1 << (ebits - 1)) - 1, exp = (int)(h >> mbits),
	    man = (int)(h & ((1u << mbits) - 1));

	if (exp == (1 << ebits) - 1)
		return man ? NAN : INFINITY;
	return exp ? ldexp((1 << mbits) + man, exp - bias - mbits) : ldexp(man, 1 - bias - mbits);
}

static double widen(int ebits, uint16_t h)
{
	return copysign(magnitude(ebits, 15 - ebits, h & 0x7fff), h & 0x8000 ? -1 : 1);
}

/* Nearest even by bisection over the magnitudes, which grow with their bits. */
static uint16_t narrow(int ebits, double d)
{
	unsigned sign = signbit(d) ? 0x8000 : 0, mbits = 15 - (unsigned)ebits, lo = 0;
	unsigned hi = ((1u << ebits) - 1) << mbits, inf = hi, mid;
	double m = fabs(d), step, below, above;

	if (m == INFINITY)
		return (uint16_t)(sign | inf);
	while (hi - lo > 1) {
		mid = (lo + hi) / 2;
		if (magnitude(ebits, (int)mbits, mid) <= m)
			lo = mid;
		else
			hi = mid;
	}
	below = magnitude(ebits, (int)mbits, lo);
	step = below - magnitude(ebits, (int)mbits, lo - 1);
	above = hi == inf ? below + step : magnitude(ebits, (int)mbits, hi);
	if (m - below > above - m || (m - below == above - m && (lo & 1)))
		lo = hi;
	return (uint16_t)(sign | lo);
}

static bool is_float(int t)
{
	return t >= TUTTI_FLOAT16 && t <= TUTTI_FLOAT64;
}

/* Complex numbers and value-index pairs: of two halves. */
static bool is_two(int t)
{
	return t >= TUTTI_COMPLEX64;
}

static int half_of(int t, bool second)
{
	switch (t) {
	case TUTTI_COMPLEX64:
		return TUTTI_FLOAT32;
	case TUTTI_COMPLEX128:
		return TUTTI_FLOAT64;
	case TUTTI_FLOAT32_INDEX:
		return second ? TUTTI_INT32 : TUTTI_FLOAT32;
	case TUTTI_FLOAT64_INDEX:
		return second ? TUTTI_INT64 : TUTTI_FLOAT64;
	}
	return t == TUTTI_INT32_INDEX ? TUTTI_INT32 : TUTTI_INT64;
}

static double load_float(int t, const void *p)
{
	uint16_t h;
	float f;
	double d;

	memcpy(&h, p, 2);
	if (t == TUTTI_FLOAT16)
		return widen(5, h);
	if (t == TUTTI_BFLOAT16)
		return widen(8, h);
	if (t == TUTTI_FLOAT32)
		return memcpy(&f, p, 4), f;
	return memcpy(&d, p, 8), d;
}

static __int128 load_int(int t, const void *p)
{
	uint64_t u = 0;

	memcpy(&u, p, (size_t)sizes[t]); /* little endian, as everything the kernels run on */
	switch (t) {
	case TUTTI_INT8:
		return (int8_t)u;
	case TUTTI_INT16:
		return (int16_t)u;
	case TUTTI_INT32:
		return (int32_t)u;
	case TUTTI_INT64:
		return (int64_t)u;
	}
	return u;
}

static double float_op(int op, double x, double y)
{
	if (isnan(x) || isnan(y))
		return NAN;
	switch (op) {
	case TUTTI_PROD:
		return x * y;
	case TUTTI_MIN:
		return y < x ? y : x;
	case TUTTI_MAX:
		return y > x ? y : x;
	}
	return x + y;
}

static __int128 int_op(int op, __int128 x, __int128 y)
{
	switch (op) {
	case TUTTI_PROD:
		return (__int128)((unsigned __int128)x * (unsigned __int128)y);
	case TUTTI_MIN:
		return y < x ? y : x;
	case TUTTI_MAX:
		return y > x ? y : x;
	case TUTTI_BAND:
		return x & y;
	case TUTTI_BOR:
		return x | y;
	case TUTTI_BXOR:
		return x ^ y;
	case TUTTI_LAND:
		return x && y;
	case TUTTI_LOR:
		return x || y;
	case TUTTI_LXOR:
		return (x != 0) ^ (y != 0);
	}
	return x + y;
}

/* Is *got what r rounds to in type t? Any NaN stands for a NaN. */
static bool same_float(int t, const void *got, double r)
{
	unsigned char want[8];
	uint16_t h;
	float f = (float)r;

	if (isnan(r))
		return isnan(load_float(t, got));
	h = narrow(t == TUTTI_FLOAT16 ? 5 : 8, f);
	if (t == TUTTI_FLOAT64)
		memcpy(want, &r, 8);
	else if (t == TUTTI_FLOAT32)
		memcpy(want, &f, 4);
	else
		memcpy(want, &h, 2);
	return !memcmp(want, got, (size_t)sizes[t]);
}

static bool same_int(int t, const void *got, __int128 r)
{
	uint64_t u = (uint64_t)r;

	return !memcmp(&u, got, (size_t)sizes[t]);
}

static void fill(int t, unsigned char *p, size_t count, uint64_t *seed);

/* Small integers, so that products are exact and values often equal; some NaNs among pairs. */
static void fill_two(int t, unsigned char *p, size_t count, uint64_t *seed)
{
	size_t i, half = (size_t)sizes[t] / 2;
	int64_t n;
	double d;
	float f;

	for (i = 0; i < 2 * count; i++, p += half) {
		n = (int64_t)(tt_random(seed) % 9) - 4;
		d = n == 4 && t >= TUTTI_INT32_INDEX ? NAN : (double)n;
		f = (float)d;
		memcpy(p, &n, half);
		if (is_float(half_of(t, i & 1)))
			memcpy(p, half == 4 ? (void *)&f : (void *)&d, half);
	}
}

/* Half of it any bits, which is NaNs, infinities, subnormals; the rest small numbers and zeros. */
static void fill(int t, unsigned char *p, size_t count, uint64_t *seed)
{
	size_t i, size = (size_t)sizes[t];
	uint16_t h;
	uint64_t r;
	double d;
	float f;

	if (is_two(t)) {
		fill_two(t, p, count, seed);
		return;
	}
	for (i = 0; i < count; i++, p += size) {
		r = tt_random(seed);
		memcpy(p, &r, size);
		if (!is_float(t) || r >> 63)
			continue;
		d = ((double)(r >> 8 & 0xff) - 128) / 4 * (r >> 20 & 7 ? 1 : -0.0);
		f = (float)d;
		h = narrow(t == TUTTI_FLOAT16 ? 5 : 8, r >> 25 & 15 ? d : INFINITY);
		memcpy(p, size == 8 ? (void *)&d : size == 4 ? (void *)&f : (void *)&h, size);
	}
}

/* Does b's pair take the place of a's? A NaN is before every number. */
static bool takes(int t, int op, const unsigned char *a, const unsigned char *b)
{
	size_t half = (size_t)sizes[t] / 2;
	bool low = load_int(half_of(t, true), b + half) < load_int(half_of(t, true), a + half);
	__int128 x, y;
	double u, v;

	if (is_float(half_of(t, false))) {
		u = load_float(half_of(t, false), a);
		v = load_float(half_of(t, false), b);
		if (isnan(u) || isnan(v))
			return isnan(u) && isnan(v) ? low : isnan(v);
		return u == v ? low : op == TUTTI_MINLOC ? v < u : v > u;
	}
	x = load_int(half_of(t, false), a);
	y = load_int(half_of(t, false), b);
	return x == y ? low : op == TUTTI_MINLOC ? y < x : y > x;
}

static bool same_two(int t, int op, const unsigned char *d, const unsigned char *a,
		     const unsigned char *b)
{
	int part = half_of(t, false);
	size_t half = (size_t)sizes[t] / 2;
	double x, y, u, v;

	if (t >= TUTTI_INT32_INDEX && takes(t, op, a, b))
		a = b;
	if (t >= TUTTI_INT32_INDEX && is_float(part))
		return same_float(part, d, load_float(part, a)) &&
		       !memcmp(d + half, a + half, half);
	if (t >= TUTTI_INT32_INDEX)
		return !memcmp(d, a, 2 * half);
	x = load_float(part, a);
	y = load_float(part, a + half);
	u = load_float(part, b);
	v = load_float(part, b + half);
	if (op == TUTTI_PROD)
		return same_float(part, d, x * u - y * v) &&
		       same_float(part, d + half, x * v + y * u);
	return same_float(part, d, x + u) && same_float(part, d + half, y + v);
}

static bool right(int t, int op, const unsigned char *d, const unsigned char *a,
		  const unsigned char *b, size_t count)
{
	size_t i, at;
	bool same;

	for (i = 0; i < count; i++) {
		at = i * (size_t)sizes[t];
		if (is_two(t))
			same = same_two(t, op, d + at, a + at, b + at);
		else if (is_float(t))
			same = same_float(
				t, d + at,
				float_op(op, load_float(t, a + at), load_float(t, b + at)));
		else
			same = same_int(t, d + at,
					int_op(op, load_int(t, a + at), load_int(t, b + at)));
		if (same)
			continue;
		printf("  %s %s wrong at element %zu of %zu\n", tt_op_name(op), tt_datatype_name(t),
		       i, count);
		return false;
	}
	return true;
}

static void pair(int t, int op, void *dst, const void *a, const void *b, size_t count)
{
	const void *src[] = {a, b};

	tt_reduce_multi(&dst, 1, src, 2, count, t, op, 0, 0);
}

static void check_pair(int t, int op, size_t count, uint64_t *seed)
{
	static unsigned char a0[MAX_BYTES + 64], b0[MAX_BYTES + 64], d0[MAX_BYTES + 64];
	static unsigned char a[MAX_BYTES], b[MAX_BYTES];
	/* elements aligned to their size, not more */
	size_t bytes = count * (size_t)sizes[t], off = (size_t)sizes[t] * (tt_random(seed) % 4);
	unsigned char *pa = a0 + off, *pb = b0 + off, *pd = d0 + (size_t)sizes[t];

	fill(t, a, count, seed);
	fill(t, b, count, seed);
	memcpy(pa, a, bytes);
	memcpy(pb, b, bytes);
	memset(pd + bytes, 0xa5, 32);
	pair(t, op, pd, pa, pb, count);
	TT_CHECK(right(t, op, pd, a, b, count));
	TT_CHECK(pd[bytes] == 0xa5 && pd[bytes + 31] == 0xa5);
	pair(t, op, pa, pa, pb, count);
	TT_CHECK(!memcmp(pa, pd, bytes));
	memcpy(pa, a, bytes);
	pair(t, op, pb, pa, pb, count);
	TT_CHECK(!memcmp(pb, pd, bytes));
	memcpy(pb, a, bytes);
	pair(t, op, pb, pb, pb, count);
	TT_CHECK(right(t, op, pb, a, a, count));
}

/* Levels that this CPU doesn't have are left out. */
static void each_pair(enum tt_reduce_level level)
{
	uint64_t seed = 1;
	int t, op;
	size_t i;

	if (!tt_reduce_use(level))
		tt_skip("this CPU does not have the instructions of level %d", (int)level);
	for (t = 0; t < TUTTI_NUM_DATATYPES; t++)
		for (op = 0; op < TUTTI_NUM_OPS; op++)
			for (i = 0; tt_reduce_valid(t, op) && i < sizeof(counts) / sizeof(*counts);
			     i++)
				check_pair(t, op, counts[i], &seed);
}

static void test_oracle_truth(void)
{
	each_pair(TT_REDUCE_TRUTH);
}

static void test_oracle_base(void)
{
	each_pair(TT_REDUCE_BASE);
}

static void test_oracle_avx2(void)
{
	each_pair(TT_REDUCE_AVX2);
}

static void test_oracle_avx512(void)
{
	each_pair(TT_REDUCE_AVX512);
}

static bool defined(int t, int op)
{
	bool index = op == TUTTI_MINLOC || op == TUTTI_MAXLOC;

	if (t >= TUTTI_INT32_INDEX || index)
		return t >= TUTTI_INT32_INDEX && index;
	if (is_two(t))
		return op == TUTTI_SUM || op == TUTTI_PROD || op == TUTTI_AVG;
	if (t == TUTTI_BOOL)
		return op == TUTTI_LAND || op == TUTTI_LOR || op == TUTTI_LXOR;
	return !is_float(t) || op <= TUTTI_AVG;
}

static void test_combinations(void)
{
	int t, op;

	for (t = 0; t < TUTTI_NUM_DATATYPES; t++)
		for (op = 0; op < TUTTI_NUM_OPS; op++)
			TT_CHECK(tt_reduce_valid(t, op) == defined(t, op));
	TT_CHECK(!tt_reduce_valid(TUTTI_NUM_DATATYPES, TUTTI_SUM) &&
		 !tt_reduce_valid(-1, TUTTI_SUM));
	TT_CHECK(!tt_reduce_valid(TUTTI_INT8, TUTTI_NUM_OPS) && !tt_reduce_valid(TUTTI_INT8, -1));
	TT_CHECK(!strcmp(tt_datatype_name(TUTTI_BFLOAT16), "bfloat16"));
	TT_CHECK(!strcmp(tt_datatype_name(TUTTI_FLOAT64), "float64"));
	TT_CHECK(!strcmp(tt_op_name(TUTTI_BXOR), "bxor") && !strcmp(tt_op_name(99), "invalid"));
}

#define MOST 11	  /* sources */
#define ROOM 1216 /* whole lines, so that all destinations can begin where one does */

/* Put pairs of special values, a from one list and b from another, at the start of each source. */
static void fill_special(int t, unsigned char *p, int k)
{
	static const double special[] = {0.0,	    -0.0, 1,	-1,    INFINITY,
					 -INFINITY, NAN,  -NAN, 1e300, 1e-310};
	size_t size = (size_t)sizes[t];
	int i, n = sizeof(special) / sizeof(*special);
	uint16_t h;
	double d;
	float f;

	for (i = 0; i < n * n && (i + 1) * size <= ROOM; i++) {
		d = special[k % 2 ? i / n : (i + k) % n];
		f = (float)d;
		h = t == TUTTI_FLOAT16 ? tt_half_narrow(f) : tt_bfloat_narrow(f);
		memcpy(p + (size_t)i * size,
		       size == 8   ? (void *)&d
		       : size == 4 ? (void *)&f
				   : (void *)&h,
		       size);
	}
}

struct trial {
	int t, op, nsrc, ndst, divide_by;
	bool in_place;
	size_t bytes;
	unsigned flags;
	size_t soff[MOST], doff[MOST];
};

/* Any address, aligned or not; often the same offset in a line of the cache. */
static struct trial any_trial(int t, int op, uint64_t *seed)
{
	struct trial x = {.t = t, .op = op, .flags = tt_random(seed) % 2 ? TT_REDUCE_STREAM : 0};
	size_t off = tt_random(seed) % 2 ? 0 : tt_random(seed) % 64;
	bool aligned = tt_random(seed) % 2;
	int k;

	x.nsrc = 1 + (int)(tt_random(seed) % MOST);
	x.ndst = 1 + (int)(tt_random(seed) % MOST);
	x.in_place = tt_random(seed) % 4 == 0;
	if ((op == TUTTI_SUM || op == TUTTI_AVG) && tt_random(seed) % 2)
		x.divide_by = 1 + (int)(tt_random(seed) % 300);
	x.bytes = tt_random(seed) % 1024 / (size_t)sizes[t] * (size_t)sizes[t];
	for (k = 0; k < MOST; k++) {
		x.soff[k] = aligned ? off : tt_random(seed) % 64;
		x.doff[k] = aligned ? off : tt_random(seed) % 64;
	}
	return x;
}

/* Runs the trial at a level; out includes the bytes around every destination. */
static void run_trial(const struct trial *x, enum tt_reduce_level level,
		      unsigned char in[MOST][ROOM], unsigned char out[MOST][ROOM])
{
	const void *src[MOST];
	void *dst[MOST];
	int k;

	for (k = 0; k < MOST; k++) {
		src[k] = in[k] + x->soff[k];
		dst[k] = out[k] + x->doff[k];
		memset(out[k], 0x5a, ROOM);
	}
	for (k = 0; x->in_place && k < x->nsrc; k += 2) {
		memcpy(dst[k], src[k], x->bytes);
		src[k] = dst[k];
	}
	TT_CHECK(tt_reduce_use(level));
	tt_reduce_multi(dst, x->ndst, src, x->nsrc, x->bytes / (size_t)sizes[x->t], x->t, x->op,
			x->divide_by, x->flags);
}

/*
 * Whether a block goes around the cache: all results begin at one place in a line, and none is a
 * source.
 */
static bool streams(const struct trial *x, unsigned char out[MOST][ROOM])
{
	size_t at = (uintptr_t)(out[0] + x->doff[0]) % 64, before = (64 - at) % 64;
	int k;

	for (k = 1; k < x->ndst; k++)
		if ((uintptr_t)(out[k] + x->doff[k]) % 64 != at)
			return false;
	return x->flags && !x->in_place && before % (size_t)sizes[x->t] == 0 &&
	       x->bytes >= before + 256;
}

/*
 * Any bits in, the same bits out: every level against the truth, over lengths and addresses, 150
 * trials or TT_TRIALS for each type and operator.
 */
static void test_levels(void)
{
	int trials = getenv("TT_TRIALS") ? atoi(getenv("TT_TRIALS")) : 150;
	static _Alignas(64) unsigned char in[MOST][ROOM], want[MOST][ROOM], got[MOST][ROOM];
	uint64_t seed = 99;
	struct trial x;
	int t, op, level, i, k, streamed = 0;

	for (i = 0; i < trials * TUTTI_NUM_DATATYPES * TUTTI_NUM_OPS; i++) {
		t = i % TUTTI_NUM_DATATYPES;
		op = i / TUTTI_NUM_DATATYPES % TUTTI_NUM_OPS;
		if (!tt_reduce_valid(t, op))
			continue;
		x = any_trial(t, op, &seed);
		for (k = 0; k < MOST; k++) {
			fill(t, in[k] + x.soff[k], x.bytes / (size_t)sizes[t], &seed);
			if (is_float(t) && i % 2)
				fill_special(t, in[k] + x.soff[k], k);
		}
		streamed += x.ndst > 1 && streams(&x, got);
		run_trial(&x, TT_REDUCE_TRUTH, in, want);
		for (level = TT_REDUCE_BASE; level <= (int)tt_reduce_best(); level++) {
			run_trial(&x, level, in, got);
			if (!memcmp(got, want, sizeof(got)))
				continue;
			printf("  %s %s at level %d: %d sources, %d destinations, %zu bytes\n",
			       tt_op_name(op), tt_datatype_name(t), (int)level, x.nsrc, x.ndst,
			       x.bytes);
			TT_CHECK(false);
		}
	}
	TT_CHECK(streamed > trials * 2 / 3); /* into several destinations */
}

static void test_half_conversions(void)
{
	unsigned h;
	float f, b;

	for (h = 0; h < 65536; h++) {
		f = tt_half_widen((uint16_t)h);
		b = tt_bfloat_widen((uint16_t)h);
		TT_CHECK(isnan(f) ? isnan(widen(5, (uint16_t)h)) : f == widen(5, (uint16_t)h));
		TT_CHECK(isnan(b) ? isnan(widen(8, (uint16_t)h)) : b == widen(8, (uint16_t)h));
		TT_CHECK(tt_half_narrow(f) == (isnan(f) ? h | 0x200 : h)); /* NaNs become quiet */
		TT_CHECK(tt_bfloat_narrow(b) == (isnan(b) ? h | 0x40 : h));
	}
}

/* Around every value of the format: just below, at, and just above the midpoint to the next. */
static void test_half_rounding(void)
{
	unsigned h;
	float f;
	int i;

	for (h = 0; h < 0x7c00; h++) {
		f = (float)((widen(5, (uint16_t)h) +
			     (h == 0x7bff ? 65536.0 : widen(5, (uint16_t)(h + 1)))) /
			    2);
		f = nextafterf(f, 0);
		for (i = 0; i < 3; i++, f = nextafterf(f, INFINITY)) {
			TT_CHECK(tt_half_narrow(f) == narrow(5, f));
			TT_CHECK(tt_half_narrow(-f) == narrow(5, -f));
		}
	}
	for (h = 0; h < 0x7f80; h++) {
		uint32_t u = (h << 16 | 0x8000) - 1;

		for (i = 0; i < 3; i++, u++) {
			memcpy(&f, &u, 4);
			TT_CHECK(tt_bfloat_narrow(f) == narrow(8, f));
		}
	}
	TT_CHECK(tt_half_narrow(1e-30f) == 0 && tt_half_narrow(-1e-30f) == 0x8000);
	TT_CHECK(tt_half_narrow(1e30f) == 0x7c00 && tt_half_narrow(65519.99f) == 0x7bff);
}

/* Faster kernels convert with other instructions: max(x, x) shows what they make of every float16.
 */
static void test_half_levels(void)
{
	uint16_t *in = malloc(65536 * 2), *out = malloc(65536 * 2);
	unsigned h;
	int level;

	for (h = 0; h < 65536; h++)
		in[h] = (uint16_t)h;
	for (level = 0; level <= (int)tt_reduce_best(); level++) {
		TT_CHECK(tt_reduce_use(level));
		pair(TUTTI_FLOAT16, TUTTI_MAX, out, in, in, 65536);
		for (h = 0; h < 65536; h++)
			TT_CHECK(out[h] == ((h & 0x7fff) > 0x7c00 ? 0x7e00 : h));
		pair(TUTTI_BFLOAT16, TUTTI_MAX, out, in, in, 65536);
		for (h = 0; h < 65536; h++)
			TT_CHECK(out[h] == ((h & 0x7fff) > 0x7f80 ? 0x7fc0 : h));
	}
	free(in), free(out);
}

static void test_divide(void)
{
	static const int ns[] = {1, 2, 3, 7, 1000};
	unsigned char s[MAX_BYTES], d[MAX_BYTES];
	const void *src = s;
	void *to = d, *same = s;
	uint64_t seed = 5;
	size_t i, at;
	int t, k, n;

	for (t = 0; t < TUTTI_NUM_DATATYPES; t++)
		for (k = 0; k < 5 && !is_two(t) && tt_reduce_valid(t, TUTTI_AVG); k++) {
			n = ns[k];
			fill(t, s, MAX_COUNT, &seed);
			tt_reduce_multi(&to, 1, &src, 1, MAX_COUNT, t, TUTTI_AVG, n, 0);
			for (i = 0; i < MAX_COUNT; i++) {
				at = i * (size_t)sizes[t];
				TT_CHECK(is_float(t)
						 ? same_float(t, d + at, load_float(t, s + at) / n)
						 : same_int(t, d + at, load_int(t, s + at) / n));
			}
			tt_reduce_multi(&same, 1, &src, 1, MAX_COUNT, t, TUTTI_AVG, n, 0);
			TT_CHECK(!memcmp(s, d, MAX_COUNT * (size_t)sizes[t]));
		}
}

static void test_scale(void)
{
	unsigned char s[MAX_BYTES], d[MAX_BYTES], e[MAX_BYTES];
	_Alignas(8) unsigned char y[8 * 4];
	uint64_t seed = 6;
	size_t i, at;
	int t, k;

	for (t = 0; t < TUTTI_NUM_DATATYPES; t++)
		for (k = 0; k < 4 && !is_two(t) && tt_reduce_valid(t, TUTTI_PROD); k++) {
			const unsigned char *scalar = y + k * sizes[t];

			fill(t, s, MAX_COUNT, &seed);
			fill(t, y, 4, &seed);
			tt_reduce_scale(d, s, MAX_COUNT, t, scalar);
			for (i = 0; i < MAX_COUNT; i++) {
				at = i * (size_t)sizes[t];
				TT_CHECK(is_float(t)
						 ? same_float(t, d + at,
							      float_op(TUTTI_PROD,
								       load_float(t, s + at),
								       load_float(t, scalar)))
						 : same_int(t, d + at,
							    int_op(TUTTI_PROD, load_int(t, s + at),
								   load_int(t, scalar))));
			}
			TT_CHECK(tt_reduce_use(TT_REDUCE_TRUTH));
			tt_reduce_scale(e, s, MAX_COUNT, t, scalar);
			TT_CHECK(tt_reduce_use(tt_reduce_best()));
			TT_CHECK(!memcmp(e, d, MAX_COUNT * (size_t)sizes[t]));
			tt_reduce_scale(s, s, MAX_COUNT, t, scalar);
			TT_CHECK(!memcmp(s, d, MAX_COUNT * (size_t)sizes[t]));
		}
}

/* The combination of src in float or 128 bits, from left to right, divided by n if n is not 0.
 */
static bool right_multi(int t, int op, const void *got, const unsigned char *const *src, int nsrc,
			size_t at, int n)
{
	__int128 x;
	double d;
	int k;

	if (!is_float(t)) {
		x = load_int(t, src[0] + at);
		for (k = 1; k < nsrc; k++)
			x = int_op(op, x, load_int(t, src[k] + at));
		if (n) {
			uint64_t cut = (uint64_t)x; /* a sum that has wrapped */

			x = load_int(t, &cut) / n;
		}
		return same_int(t, got, x);
	}
	d = load_float(t, src[0] + at);
	for (k = 1; k < nsrc; k++) {
		d = float_op(op, d, load_float(t, src[k] + at));
		d = t == TUTTI_FLOAT64 ? d : (float)d;
	}
	return same_float(t, got, n ? d / n : d);
}

static void check_multi(int t, int op, int nsrc, size_t count, uint64_t *seed)
{
	static unsigned char in[9][MAX_BYTES], out[9][MAX_BYTES + 32], work[9][MAX_BYTES];
	const void *src[9];
	void *dst[9];
	size_t i, bytes = count * (size_t)sizes[t];
	int k, n = op == TUTTI_AVG ? nsrc : 0, ndst = 1 + (int)(tt_random(seed) % 4);

	for (k = 0; k < 9; k++) {
		fill(t, in[k], count, seed);
		memcpy(work[k], in[k], bytes);
		memset(out[k] + bytes, 0xa5, 32);
		src[k] = work[k];
		dst[k] = out[k];
	}
	tt_reduce_multi(dst, ndst, src, nsrc, count, t, op, n, 0);
	for (i = 0; i < bytes; i += (size_t)sizes[t]) {
		const unsigned char *ins[9];

		for (k = 0; k < 9; k++)
			ins[k] = in[k];
		if (right_multi(t, op, out[0] + i, ins, nsrc, i, n))
			continue;
		printf("  %s %s of %d sources wrong at byte %zu of %zu\n", tt_op_name(op),
		       tt_datatype_name(t), nsrc, i, bytes);
		TT_CHECK(false);
		break;
	}
	for (k = 0; k < ndst; k++)
		TT_CHECK(!memcmp(out[k], out[0], bytes) && out[k][bytes] == 0xa5 &&
			 out[k][bytes + 31] == 0xa5);
	/* in place: every source is a destination too */
	for (k = 0; k < nsrc; k++)
		dst[k] = work[k];
	tt_reduce_multi(dst, nsrc, src, nsrc, count, t, op, n, 0);
	for (k = 0; k < nsrc; k++)
		TT_CHECK(!memcmp(work[k], out[0], bytes));
}

static void test_oracle_multi(void)
{
	uint64_t seed = 3;
	int t, op, nsrc;
	size_t i;

	for (t = 0; t < TUTTI_NUM_DATATYPES; t++)
		for (op = 0; op < TUTTI_NUM_OPS; op++)
			for (nsrc = 1; tt_reduce_valid(t, op) && !is_two(t) && nsrc <= 9; nsrc++)
				for (i = 0; i < sizeof(counts) / sizeof(*counts);
				     i += 1 + (nsrc > 4))
					check_multi(t, op, nsrc, counts[i], &seed);
}

static const struct tt_test tests[] = {{"combinations", test_combinations},
				       {"half_conversions", test_half_conversions},
				       {"half_rounding", test_half_rounding},
				       {"half_levels", test_half_levels},
				       {"oracle_truth", test_oracle_truth},
				       {"oracle_base", test_oracle_base},
				       {"oracle_avx2", test_oracle_avx2},
				       {"oracle_avx512", test_oracle_avx512},
				       {"oracle_multi", test_oracle_multi},
				       {"levels", test_levels},
				       {"divide", test_divide},
				       {"scale", test_scale},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	tt_reduce_add_reference();
	return tt_test_main("reduce", tests, argc, argv);
}
