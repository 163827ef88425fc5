/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduction kernels against an oracle that shares nothing with them: integers in 128 bits, floats in
 * double, 16-bit floats found by search in a table made with ldexp.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/reduce/reduce.h"
#include "tests/test.h"

#define MAX_COUNT 1037
#define MAX_BYTES (MAX_COUNT * 8)

static const size_t counts[] = {0, 1, 3, 7, 8, 9, 17, 31, 511, 513, 1000, MAX_COUNT};
static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 2, 4, 8};

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
	return t >= TUTTI_FLOAT16;
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

/* Half of it any bits, which is NaNs, infinities, subnormals; the rest small numbers and zeros. */
static void fill(int t, unsigned char *p, size_t count, uint64_t *seed)
{
	size_t i, size = (size_t)sizes[t];
	uint16_t h;
	uint64_t r;
	double d;
	float f;

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

static bool right(int t, int op, const unsigned char *d, const unsigned char *a,
		  const unsigned char *b, size_t count)
{
	size_t i, at;
	bool same;

	for (i = 0; i < count; i++) {
		at = i * (size_t)sizes[t];
		if (is_float(t))
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

static void check_kernel(tt_reduce_fn *fn, int t, int op, size_t count, uint64_t *seed)
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
	fn(pd, pa, pb, count);
	TT_CHECK(right(t, op, pd, a, b, count));
	TT_CHECK(pd[bytes] == 0xa5 && pd[bytes + 31] == 0xa5);
	fn(pa, pa, pb, count);
	TT_CHECK(!memcmp(pa, pd, bytes));
	memcpy(pa, a, bytes);
	fn(pb, pa, pb, count);
	TT_CHECK(!memcmp(pb, pd, bytes));
	memcpy(pb, a, bytes);
	fn(pb, pb, pb, count);
	TT_CHECK(right(t, op, pb, a, a, count));
}

static void each_kernel(tt_reduce_fn *(*get)(enum tutti_datatype, enum tutti_op))
{
	uint64_t seed = 1;
	int t, op;
	size_t i;

	for (t = 0; t < TUTTI_NUM_DATATYPES; t++)
		for (op = 0; op < TUTTI_NUM_OPS; op++)
			for (i = 0; get(t, op) && i < sizeof(counts) / sizeof(*counts); i++)
				check_kernel(get(t, op), t, op, counts[i], &seed);
}

static void test_oracle_scalar(void)
{
	each_kernel(tt_reduce_scalar);
}

static void test_oracle_fast(void)
{
	each_kernel(tt_reduce_get);
}

static void test_combinations(void)
{
	int t, op;

	for (t = 0; t < TUTTI_NUM_DATATYPES; t++)
		for (op = 0; op < TUTTI_NUM_OPS; op++) {
			TT_CHECK(tt_reduce_valid(t, op) == !(is_float(t) && op >= TUTTI_BAND));
			TT_CHECK(!tt_reduce_get(t, op) == !tt_reduce_valid(t, op));
		}
	for (t = 0; t < TUTTI_NUM_DATATYPES; t++)
		TT_CHECK(tt_reduce_get(t, TUTTI_AVG) == tt_reduce_get(t, TUTTI_SUM));
	TT_CHECK(!tt_reduce_valid(TUTTI_NUM_DATATYPES, TUTTI_SUM) &&
		 !tt_reduce_valid(-1, TUTTI_SUM));
	TT_CHECK(!tt_reduce_valid(TUTTI_INT8, TUTTI_NUM_OPS) && !tt_reduce_valid(TUTTI_INT8, -1));
	TT_CHECK(!strcmp(tt_datatype_name(TUTTI_BFLOAT16), "bfloat16"));
	TT_CHECK(!strcmp(tt_datatype_name(TUTTI_FLOAT64), "float64"));
	TT_CHECK(!strcmp(tt_op_name(TUTTI_BXOR), "bxor") && !strcmp(tt_op_name(99), "invalid"));
}

/* Any bits in, the same bits out of both kernels; every pair of special values included. */
static void test_fast_is_scalar(void)
{
	static const double special[] = {0.0,	    -0.0, 1,	-1,    INFINITY,
					 -INFINITY, NAN,  -NAN, 1e300, 1e-310};
	enum { N = 10, COUNT = 4099 };
	unsigned char *a = malloc(COUNT * 8), *b = malloc(COUNT * 8), *x = malloc(COUNT * 8),
		      *y = malloc(COUNT * 8);
	uint64_t seed = 99;
	int t, op, i;

	if (tt_reduce_get(TUTTI_INT8, TUTTI_SUM) == tt_reduce_scalar(TUTTI_INT8, TUTTI_SUM))
		tt_skip("this CPU has the scalar kernels only");
	for (t = 0; t < TUTTI_NUM_DATATYPES; t++) {
		size_t size = (size_t)sizes[t];

		fill(t, a, COUNT, &seed);
		fill(t, b, COUNT, &seed);
		for (i = 0; is_float(t) && i < N * N; i++) {
			double da = special[i / N], db = special[i % N];
			float fa = (float)da, fb = (float)db;
			uint16_t ha = t == TUTTI_FLOAT16 ? tt_f32_to_f16(fa) : tt_f32_to_bf16(fa);
			uint16_t hb = t == TUTTI_FLOAT16 ? tt_f32_to_f16(fb) : tt_f32_to_bf16(fb);

			memcpy(a + i * size,
			       size == 8   ? (void *)&da
			       : size == 4 ? (void *)&fa
					   : &ha,
			       size);
			memcpy(b + i * size,
			       size == 8   ? (void *)&db
			       : size == 4 ? (void *)&fb
					   : &hb,
			       size);
		}
		for (op = 0; op < TUTTI_NUM_OPS; op++) {
			if (!tt_reduce_get(t, op))
				continue;
			tt_reduce_get(t, op)(x, a, b, COUNT);
			tt_reduce_scalar(t, op)(y, a, b, COUNT);
			TT_CHECK(!memcmp(x, y, COUNT * size));
		}
	}
	free(a), free(b), free(x), free(y);
}

static void test_half_conversions(void)
{
	unsigned h;
	float f, b;

	for (h = 0; h < 65536; h++) {
		f = tt_f16_to_f32((uint16_t)h);
		b = tt_bf16_to_f32((uint16_t)h);
		TT_CHECK(isnan(f) ? isnan(widen(5, (uint16_t)h)) : f == widen(5, (uint16_t)h));
		TT_CHECK(isnan(b) ? isnan(widen(8, (uint16_t)h)) : b == widen(8, (uint16_t)h));
		TT_CHECK(tt_f32_to_f16(f) == (isnan(f) ? h | 0x200 : h)); /* NaNs become quiet */
		TT_CHECK(tt_f32_to_bf16(b) == (isnan(b) ? h | 0x40 : h));
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
			TT_CHECK(tt_f32_to_f16(f) == narrow(5, f));
			TT_CHECK(tt_f32_to_f16(-f) == narrow(5, -f));
		}
	}
	for (h = 0; h < 0x7f80; h++) {
		uint32_t u = (h << 16 | 0x8000) - 1;

		for (i = 0; i < 3; i++, u++) {
			memcpy(&f, &u, 4);
			TT_CHECK(tt_f32_to_bf16(f) == narrow(8, f));
		}
	}
	TT_CHECK(tt_f32_to_f16(1e-30f) == 0 && tt_f32_to_f16(-1e-30f) == 0x8000);
	TT_CHECK(tt_f32_to_f16(1e30f) == 0x7c00 && tt_f32_to_f16(65519.99f) == 0x7bff);
}

/* The fast kernels convert with other instructions: max(x, x) shows what they make of every float16. */
static void test_half_fast(void)
{
	uint16_t *in = malloc(65536 * 2), *out = malloc(65536 * 2);
	unsigned h;

	for (h = 0; h < 65536; h++)
		in[h] = (uint16_t)h;
	tt_reduce_get(TUTTI_FLOAT16, TUTTI_MAX)(out, in, in, 65536);
	for (h = 0; h < 65536; h++)
		TT_CHECK(out[h] == ((h & 0x7fff) > 0x7c00 ? 0x7e00 : h));
	free(in), free(out);
}

static void test_divide(void)
{
	static const int ns[] = {1, 2, 3, 7, 1000};
	unsigned char s[MAX_BYTES], d[MAX_BYTES];
	uint64_t seed = 5;
	size_t i, at;
	int t, k, n;

	for (t = 0; t < TUTTI_NUM_DATATYPES; t++)
		for (k = 0; k < 5; k++) {
			n = ns[k];
			fill(t, s, MAX_COUNT, &seed);
			tt_reduce_divide(d, s, MAX_COUNT, t, n);
			for (i = 0; i < MAX_COUNT; i++) {
				at = i * (size_t)sizes[t];
				TT_CHECK(is_float(t)
						 ? same_float(t, d + at, load_float(t, s + at) / n)
						 : same_int(t, d + at, load_int(t, s + at) / n));
			}
			tt_reduce_divide(s, s, MAX_COUNT, t, n);
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
		for (k = 0; k < 4; k++) {
			const unsigned char *scalar = y + k * sizes[t];

			fill(t, s, MAX_COUNT, &seed);
			fill(t, y, 4, &seed);
			tt_reduce_scale(d, s, MAX_COUNT, t, scalar);
			for (i = 0; i < MAX_COUNT; i++) {
				at = i * (size_t)sizes[t];
				TT_CHECK(is_float(t)
						 ? same_float(t, d + at,
							      float_op(TUTTI_PROD, load_float(t, s + at),
								       load_float(t, scalar)))
						 : same_int(t, d + at,
							    int_op(TUTTI_PROD, load_int(t, s + at),
								   load_int(t, scalar))));
			}
			tt_reduce_scale_scalar(e, s, MAX_COUNT, t, scalar);
			TT_CHECK(!memcmp(e, d, MAX_COUNT * (size_t)sizes[t]));
			tt_reduce_scale(s, s, MAX_COUNT, t, scalar);
			TT_CHECK(!memcmp(s, d, MAX_COUNT * (size_t)sizes[t]));
		}
}

/* What src combine to in float or 128 bits, from left to right, and divided by n if that is not 0. */
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
			memcpy(&d, &x, sizeof(d));
			x = load_int(t, &d) / n;
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
			for (nsrc = 1; tt_reduce_valid(t, op) && nsrc <= 9; nsrc++)
				for (i = 0; i < sizeof(counts) / sizeof(*counts); i += 1 + (nsrc > 4))
					check_multi(t, op, nsrc, counts[i], &seed);
}

static const struct tt_test tests[] = {{"combinations", test_combinations},
				       {"half_conversions", test_half_conversions},
				       {"half_rounding", test_half_rounding},
				       {"half_fast", test_half_fast},
				       {"oracle_scalar", test_oracle_scalar},
				       {"oracle_fast", test_oracle_fast},
				       {"fast_is_scalar", test_fast_is_scalar},
				       {"oracle_multi", test_oracle_multi},
				       {"divide", test_divide},
				       {"scale", test_scale},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("reduce", tests, argc, argv);
}
