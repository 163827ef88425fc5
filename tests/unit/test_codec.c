/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs against oracles that share nothing with them: formulas in double, 8-bit and 16-bit floats
 * found by search in a table made with ldexp. All instruction levels against the reference, bit by
 * bit.
 */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/codec/codec_kernels.h"
#include "lib/reduce/reduce.h"
#include "tests/test.h"
#include "tests/unit/codec_help.h"

#define MOST 1100 /* elements */
#define HALF_SCALE(step) ((double)(step) / 2 * (1 + 1e-6))

/* Around every block size that the names below have, and around groups of 16. */
static const size_t counts[] = {0,   1,	  2,   3,   7,	 8,   9,   15,	 16,  17,
				31,  32,  33,  47,  48,	 63,  64,  65,	 100, 127,
				128, 129, 255, 256, 257, 511, 513, 1024, MOST};
#define COUNTS (sizeof(counts) / sizeof(*counts))

static const char *const names[] = {"fp16",
				    "bf16",
				    "fp8:e4m3",
				    "fp8:e5m2",
				    "int8",
				    "int8:block=16",
				    "int8:block=48",
				    "qsgd",
				    "qsgd:levels=1,block=16",
				    "qsgd:levels=127,block=48",
				    "qsgd:levels=5,block=64,seed=7",
				    "onebit",
				    "onebit:block=16",
				    "onebit:block=48",
				    "threshold:0.5",
				    "randomk:5%"};
#define NAMES (sizeof(names) / sizeof(*names))

/* All levels give the bytes of the reference, of encodings, residuals and vectors. */
static void levels_of(const char *name, size_t n, enum codec_data data)
{
	enum tt_reduce_level best = tt_reduce_best(), level;
	struct tutti_codec *codec = codec_make(name);
	size_t state = (size_t)tt_codec_states(codec) * n * sizeof(float);
	float *in = codec_room(n * sizeof(float)), *residual = codec_room(n * sizeof(float));
	int feedback;

	codec_fill(in, n, data, n + 1);
	codec_fill(residual, n, data, n + 2);
	for (feedback = 0; feedback < 2; feedback++) {
		struct codec_result truth, r;

		tt_reduce_use(TT_REDUCE_TRUTH);
		truth = codec_run(codec, in, feedback ? residual : NULL, 0, n, 3);
		for (level = TT_REDUCE_BASE; level <= best; level++) {
			tt_reduce_use(level);
			r = codec_run(codec, in, feedback ? residual : NULL, 0, n, 3);
			if (r.len != truth.len || !codec_same(r.out, truth.out, r.len) ||
			    !codec_same(r.state, truth.state, state) ||
			    !codec_same(r.decoded, truth.decoded, n * sizeof(float)) ||
			    !codec_same(r.added, truth.added, n * sizeof(float))) {
				printf("  %s, %zu elements of kind %d, feedback %d, level %d\n",
				       name, n, (int)data, feedback, (int)level);
				CU_FAIL("levels differ");
			}
			codec_free_result(&r);
		}
		codec_free_result(&truth);
	}
	tt_reduce_use(best);
	free(in);
	free(residual);
	tutti_codec_free(codec);
}

static void levels(void)
{
	size_t i, k;
	int data;

	for (i = 0; i < NAMES; i++)
		for (k = 0; k < COUNTS; k++)
			for (data = 0; data < DATA; data++)
				levels_of(names[i], counts[k], (enum codec_data)data);
}

/* A format of floats: exponent and mantissa bits, bias, greatest value, its bits. */
struct format {
	const char *name;
	int ebits, mbits, bias;
	double most;
	unsigned most_bits;
};

static const struct format formats[] = {
	{"fp16", 5, 10, 15, 65504, 0x7bff},
	{"bf16", 8, 7, 127, 0x1.fep127, 0x7f7f},
	{"fp8:e4m3", 4, 3, 7, 448, 0x7e},
	{"fp8:e5m2", 5, 2, 15, 57344, 0x7b},
};

static double magnitude(const struct format *f, unsigned h)
{
	int exp = (int)(h >> f->mbits), man = (int)(h & ((1u << f->mbits) - 1));

	return exp ? ldexp((1 << f->mbits) + man, exp - f->bias - f->mbits)
		   : ldexp(man, 1 - f->bias - f->mbits);
}

/* The nearest value, of two the one whose bits are even, by bisection. */
static double nearest(const struct format *f, double d)
{
	unsigned lo = 0, hi = f->most_bits, mid;
	double m = fabs(d), below, above;

	if (m >= f->most)
		return copysign(f->most, d);
	while (hi - lo > 1) {
		mid = (lo + hi) / 2;
		if (magnitude(f, mid) <= m)
			lo = mid;
		else
			hi = mid;
	}
	below = magnitude(f, lo);
	above = magnitude(f, hi);
	if (m - below > above - m || (m - below == above - m && (lo & 1)))
		below = above;
	return copysign(below, d);
}

/* Casts: every element, and what is left of it. */
static void casts(void)
{
	float in[MOST], residual[MOST];
	size_t f, i;
	int data;

	for (f = 0; f < sizeof(formats) / sizeof(*formats); f++) {
		struct tutti_codec *codec = codec_make(formats[f].name);

		CU_ASSERT_DOUBLE_EQUAL(magnitude(&formats[f], formats[f].most_bits),
				       formats[f].most, 0);
		for (data = 0; data < DATA; data++) {
			struct codec_result r;

			codec_fill(in, MOST, (enum codec_data)data, 5);
			codec_fill(residual, MOST, data == SPECIAL ? NORMAL : (enum codec_data)data,
				   6);
			r = codec_run(codec, in, residual, 0, MOST, 0);
			for (i = 0; i < MOST; i++) {
				float p = in[i] + residual[i];
				double d = nearest(&formats[f], (double)p);

				if (!isfinite(p)) {
					TT_CHECK(isnan(r.decoded[i]));
					CU_ASSERT_EQUAL(r.state[i], residual[i]);
					continue;
				}
				CU_ASSERT_EQUAL(r.decoded[i], d);
				CU_ASSERT_EQUAL(!signbit(r.decoded[i]), !signbit(p));
				CU_ASSERT_EQUAL(r.state[i], p - (float)d);
			}
			codec_free_result(&r);
		}
		tutti_codec_free(codec);
	}
}

/* Every code of the short formats decodes as the table says, and its value encodes to it. */
static void codes(void)
{
	size_t f;
	unsigned code;

	for (f = 2; f < 4; f++) {
		const struct format *format = &formats[f];
		struct tutti_codec *codec = codec_make(format->name);
		unsigned char in, out;
		size_t len;
		float x;

		for (code = 0; code < 256; code++) {
			in = (unsigned char)code;
			CU_ASSERT_EQUAL(tt_codec_decode(codec, &in, 1, 0, 1, &x), 0);
			if ((code & 0x7f) > format->most_bits) {
				TT_CHECK(!isfinite(x));
				continue;
			}
			CU_ASSERT_EQUAL(x, copysign(magnitude(format, code & 0x7f),
						    code & 0x80 ? -1.0 : 1.0));
			TT_CHECK(!tt_codec_encode(codec, &x, NULL, 0, 1, 0, &out, &len));
			CU_ASSERT_EQUAL(out, code);
		}
		tutti_codec_free(codec);
	}
}

static float p_of(const float *in, const float *residual, size_t i)
{
	return residual ? in[i] + residual[i] : in[i];
}

/* A block of int8: scale max / 127, the nearest multiple of it, an error of at most half of it. */
static void int8_block(const float *in, const float *residual, const struct codec_result *r,
		       size_t n)
{
	double most = 0;
	float scale;
	bool finite = true;
	size_t i;

	for (i = 0; i < n; i++) {
		float p = p_of(in, residual, i);

		finite &= isfinite(p) != 0;
		most = fmax(most, fabs((double)p));
	}
	memcpy(&scale, r->out, sizeof(scale));
	for (i = 0; i < n; i++) {
		float p = p_of(in, residual, i);
		double q = (double)(int8_t)r->out[sizeof(scale) + i];

		if (!finite) {
			TT_CHECK(isnan(r->decoded[i]));
			CU_ASSERT_EQUAL(r->state[i], residual[i]);
			continue;
		}
		/* Half of a unit in the last place, of the scale; denormals have one unit. */
		TT_CHECK(fabs((double)scale - most / 127) <= most / 127 * 0x1p-23 + 0x1p-149);
		TT_CHECK(fabs(q * (double)scale - (double)p) <= HALF_SCALE(scale));
		CU_ASSERT_EQUAL(r->decoded[i], (float)(q * (double)scale));
		CU_ASSERT_EQUAL(r->state[i], p - (float)(q * (double)scale));
	}
}

static void int8_errors(void)
{
	struct tutti_codec *codec = codec_make("int8:block=128");
	float in[128], residual[128];
	size_t n;
	int data;

	for (data = 0; data < DATA; data++)
		for (n = 1; n <= 128; n++) {
			struct codec_result r;

			codec_fill(in, n, (enum codec_data)data, n);
			codec_fill(residual, n, data == SPECIAL ? NORMAL : (enum codec_data)data,
				   n + 200);
			if (data == GREAT)
				memset(residual, 0, sizeof(residual));
			r = codec_run(codec, in, residual, 0, n, 0);
			int8_block(in, residual, &r, n);
			codec_free_result(&r);
		}
	tutti_codec_free(codec);
}

/* So small that a scale is a few units of the least number: rounded down, it would not reach. */
static void int8_smallest(void)
{
	static const int most[] = {1, 2, 50, 63, 64, 127, 128, 178, 200, 317, 500, 2000};
	struct tutti_codec *codec = codec_make("int8:block=128");
	float in[128], zero[128] = {0};
	size_t i, k;

	for (k = 0; k < sizeof(most) / sizeof(*most); k++) {
		struct codec_result r;

		for (i = 0; i < 128; i++)
			in[i] = (float)ldexp(most[k] - (int)i * most[k] / 64, -149);
		r = codec_run(codec, in, zero, 0, 128, 0);
		int8_block(in, zero, &r, 128);
		codec_free_result(&r);
	}
	tutti_codec_free(codec);
}

/*
 * qsgd: the mean of many draws is the element, to 4 sigma; the mean of the squared errors of whole
 * vectors is within the bound; every value is a whole number of steps.
 */
static void qsgd_of(int levels, int d)
{
	enum { DRAWS = 100000, MOST_D = 64 };
	char name[TUTTI_CODEC_NAME_MAX];
	double norm2 = 0, errors = 0, sum[MOST_D] = {0}, step, e, bound;
	unsigned char out[4 + MOST_D];
	float in[MOST_D], x[MOST_D];
	struct tutti_codec *codec;
	size_t len, wrong = 0;
	uint64_t seed = (uint64_t)levels;
	int i, t;

	snprintf(name, sizeof(name), "qsgd:levels=%d,block=64", levels);
	codec = codec_make(name);
	for (i = 0; i < d; i++)
		in[i] = (float)(2 * codec_uniform(&seed) - 1);
	for (i = 0; i < d; i++)
		norm2 += (double)in[i] * (double)in[i];
	step = sqrt(norm2) / levels;
	for (t = 0; t < DRAWS; t++) {
		TT_REQUIRE(!tt_codec_encode(codec, in, NULL, 0, (size_t)d, (uint64_t)t, out, &len));
		TT_REQUIRE(!tt_codec_decode(codec, out, len, 0, (size_t)d, x));
		for (i = 0; i < d; i++) {
			e = (double)x[i] - (double)in[i];
			sum[i] += e;
			errors += e * e;
			e = (double)x[i] / step;
			wrong += fabs(e - rint(e)) > 1e-4 || fabs(e) > levels + 1e-4;
		}
	}
	CU_ASSERT_EQUAL(wrong, 0);
	for (i = 0; i < d; i++) {
		/* Of two levels, the upper one with this probability; random bits are 24. */
		e = fabs((double)in[i]) / step;
		e -= floor(e);
		TT_CHECK(fabs(sum[i] / DRAWS) <= step * (4 * sqrt(e * (1 - e) / DRAWS) + 0x1p-22));
	}
	bound = fmin((double)d / levels / levels, sqrt(d) / levels) * norm2;
	TT_CHECK(errors / DRAWS <= bound * (1 + 1e-3));
	TT_CHECK(errors > 0);
	tutti_codec_free(codec);
}

static void qsgd_draws(void)
{
	qsgd_of(15, 64);
	qsgd_of(1, 64);
	qsgd_of(4, 33);
	qsgd_of(127, 17);
}

/* The random bits are those of (seed, call, index): another of any, others; the same, the same. */
static void random_bits(void)
{
	enum { N = 256 };
	struct tutti_codec *codec = codec_make("qsgd:block=256"),
			   *other = codec_make("qsgd:block=256,seed=2");
	float in[N];
	struct codec_result a, b;
	int i;

	for (i = 0; i < N; i++)
		in[i] = 1;
	a = codec_run(codec, in, NULL, 0, N, 1);
	b = codec_run(codec, in, NULL, 0, N, 1);
	TT_CHECK(codec_same(a.out, b.out, a.len));
	codec_free_result(&b);
	b = codec_run(codec, in, NULL, 0, N, 2);
	TT_CHECK(!codec_same(a.out, b.out, a.len));
	codec_free_result(&b);
	b = codec_run(codec, in, NULL, N, N, 1);
	TT_CHECK(!codec_same(a.out, b.out, a.len));
	codec_free_result(&b);
	b = codec_run(other, in, NULL, 0, N, 1);
	TT_CHECK(!codec_same(a.out, b.out, a.len));
	codec_free_result(&b);
	/* An index beyond 32 bits, at a block that does not divide them. */
	b = codec_run(codec, in, NULL, (size_t)N << 32, N, 1);
	TT_CHECK(!codec_same(a.out, b.out, a.len));
	codec_free_result(&b);
	codec_free_result(&a);
	tutti_codec_free(codec);
	tutti_codec_free(other);
}

/* onebit: the mean magnitude of the block, with the sign. */
static void onebit(void)
{
	struct tutti_codec *codec = codec_make("onebit:block=128");
	float in[128], residual[128];
	size_t n, i;
	int data;

	for (data = 0; data < SPECIAL; data++)
		for (n = 1; n <= 128; n++) {
			struct codec_result r;
			double mean = 0, tiny = 0x1p-149;

			codec_fill(in, n, (enum codec_data)data, n);
			codec_fill(residual, n, (enum codec_data)data, n + 200);
			if (data == GREAT)
				memset(residual, 0, sizeof(residual));
			for (i = 0; i < n; i++)
				mean += fabs((double)p_of(in, residual, i)) / (double)n;
			r = codec_run(codec, in, residual, 0, n, 0);
			CU_ASSERT_EQUAL(r.len, 4 + (n + 7) / 8);
			for (i = 0; i < n; i++) {
				float p = p_of(in, residual, i);

				TT_CHECK(fabs(fabs((double)r.decoded[i]) - mean) <=
					 mean * 0x1p-23 + tiny);
				CU_ASSERT_EQUAL(!signbit(r.decoded[i]), !signbit(p));
				CU_ASSERT_EQUAL(r.state[i], p - r.decoded[i]);
			}
			codec_free_result(&r);
		}
	tutti_codec_free(codec);
}

/* A block with a value that is not finite is NaN as a whole, its neighbours are not. */
static void blocks_of_nan(void)
{
	static const char *const of[] = {"int8:block=16", "qsgd:block=16", "onebit:block=16"};
	float in[64], residual[64];
	size_t i, k;

	for (k = 0; k < sizeof(of) / sizeof(*of); k++) {
		struct tutti_codec *codec = codec_make(of[k]);
		struct codec_result r;

		codec_fill(in, 64, NORMAL, 1);
		codec_fill(residual, 64, NORMAL, 2);
		in[17] = -INFINITY;
		in[63] = NAN;
		residual[32] = INFINITY;
		r = codec_run(codec, in, residual, 0, 64, 0);
		for (i = 0; i < 64; i++) {
			CU_ASSERT_EQUAL(isnan(r.decoded[i]) != 0, i >= 16);
			TT_CHECK(i < 16 || r.state[i] == residual[i]);
			TT_CHECK(i >= 16 || r.state[i] == in[i] + residual[i] - r.decoded[i]);
		}
		codec_free_result(&r);
		tutti_codec_free(codec);
	}
}

/*
 * With feedback nothing is lost: what was decoded in all steps and the residual is the sum of the
 * input, to 1e-6 of the sum of magnitudes.
 */
static void conservation(void)
{
	enum { STEPS = 1000, N = 300 };
	float in[N], d[N], state[TT_CODEC_STATES][N], *of[] = {state[0], state[1]};
	double given[N], sent[N], all[N], lost, total;
	size_t k, len;
	int i, t;

	for (k = 0; k < NAMES; k++) {
		struct tutti_codec *codec = codec_make(names[k]);
		unsigned char *out = codec_room(tt_codec_bound(codec, N));

		memset(state, 0, sizeof(state));
		for (i = 0; i < N; i++)
			given[i] = sent[i] = all[i] = 0;
		for (t = 0; t < STEPS; t++) {
			uint64_t seed = (uint64_t)t;

			for (i = 0; i < N; i++) {
				in[i] = (float)(1e-3 * (i + 1) * (codec_uniform(&seed) - 0.4));
				given[i] += (double)in[i];
				all[i] += fabs((double)in[i]);
			}
			CU_ASSERT_EQUAL(
				tt_codec_encode(codec, in, of, 0, N, (uint64_t)t, out, &len), 0);
			CU_ASSERT_EQUAL(tt_codec_decode(codec, out, len, 0, N, d), 0);
			for (i = 0; i < N; i++)
				sent[i] += (double)d[i];
		}
		lost = total = 0;
		for (i = 0; i < N; i++) {
			lost += fabs(sent[i] + (double)state[0][i] - given[i]);
			total += all[i];
		}
		TT_CHECK(lost <= 1e-6 * total);
		free(out);
		tutti_codec_free(codec);
	}
}

/* The encoding of a vector is the encodings of its parts. */
static bool joins(const struct tutti_codec *codec)
{
	return !tt_codec_sparse(codec) && strncmp(tutti_codec_name(codec), "randomk", 7) != 0;
}

/* Parts that begin at multiples of the alignment decode to the same bits as the whole. */
static void parts(void)
{
	float in[MOST], residual[MOST];
	size_t k, at, n, align;

	codec_fill(in, MOST, NORMAL, 3);
	codec_fill(residual, MOST, NORMAL, 4);
	for (k = 0; k < NAMES; k++) {
		struct tutti_codec *codec = codec_make(names[k]);
		struct codec_result whole = codec_run(codec, in, residual, 0, MOST, 9), part;
		size_t joined = 0;

		align = tt_codec_align(codec);
		for (at = 0; align && at < MOST; at += n) {
			n = (1 + at % 3) * align < MOST - at ? (1 + at % 3) * align : MOST - at;
			part = codec_run(codec, in + at, residual + at, at, n, 9);
			TT_CHECK(codec_same(part.decoded, whole.decoded + at, n * sizeof(float)));
			TT_CHECK(codec_same(part.state, whole.state + at, n * sizeof(float)));
			if (joins(codec))
				TT_CHECK(codec_same(part.out, whole.out + joined, part.len));
			joined += part.len;
			codec_free_result(&part);
		}
		TT_CHECK(!joins(codec) || joined == whole.len);
		codec_free_result(&whole);
		tutti_codec_free(codec);
	}
}

/* An encoding of another length is refused, without a look at it. */
static void wrong_lengths(void)
{
	float in[MOST], d[MOST];
	size_t k, i;

	codec_fill(in, MOST, NORMAL, 3);
	for (k = 0; k < NAMES; k++) {
		struct tutti_codec *codec = codec_make(names[k]);

		for (i = 1; i < COUNTS; i++) {
			struct codec_result r = codec_run(codec, in, NULL, 0, counts[i], 1);
			unsigned char *more = codec_room(r.len + 1), *less = codec_room(r.len - 1);

			memcpy(more, r.out, r.len);
			more[r.len] = 0;
			memcpy(less, r.out, r.len - 1);
			CU_ASSERT_EQUAL(tt_codec_decode(codec, more, r.len + 1, 0, counts[i], d),
					-EPROTO);
			CU_ASSERT_EQUAL(tt_codec_decode(codec, less, r.len - 1, 0, counts[i], d),
					-EPROTO);
			CU_ASSERT_EQUAL(
				tt_codec_decode_add(codec, less, r.len - 1, 0, counts[i], d),
				-EPROTO);
			CU_ASSERT_EQUAL(tt_codec_decode(codec, NULL, 0, 0, counts[i], d), -EPROTO);
			free(more);
			free(less);
			codec_free_result(&r);
		}
		CU_ASSERT_EQUAL(tt_codec_decode(codec, in, 1, 0, 0, d), -EPROTO);
		tutti_codec_free(codec);
	}
}

/* An element that is not finite keeps its residual; nothing behind the end is touched. */
static void clear(void)
{
	static const float odd[] = {INFINITY, -INFINITY, NAN};
	float sum[MOST + 1], left[MOST + 1];
	size_t k, i, at, n;

	for (k = 0; k < COUNTS; k++)
		for (at = 0, n = counts[k]; at <= n; at += 1 + n / 5) {
			for (i = 0; i <= n; i++) {
				sum[i] = i == at ? odd[at % 3] : i & 1 ? FLT_MAX : -0.f;
				left[i] = (float)i + 1;
			}
			TT_CHECK(tt_codec_clear(left, sum, n) == (at < n));
			for (i = 0; i <= n; i++)
				TT_CHECK(left[i] == (i == at || i == n ? (float)i + 1 : 0));
			if (at < n) {
				left[at] = 0; /* nothing is left of it */
				TT_CHECK(!tt_codec_clear(left, sum, n));
			}
		}
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"levels", levels},
					       {"casts", casts},
					       {"codes", codes},
					       {"int8_errors", int8_errors},
					       {"int8_smallest", int8_smallest},
					       {"qsgd_draws", qsgd_draws},
					       {"random_bits", random_bits},
					       {"onebit", onebit},
					       {"blocks_of_nan", blocks_of_nan},
					       {"conservation", conservation},
					       {"parts", parts},
					       {"clear", clear},
					       {"wrong_lengths", wrong_lengths},
					       {NULL, NULL}};

	tt_reduce_add_reference();
	tt_codec_add_reference();
	return tt_test_main("codec", tests, argc, argv);
}
