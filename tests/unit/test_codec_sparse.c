/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sparse codecs: the selection against a sort, conservation on whole numbers exactly, momentum
 * against a serial loop, lists that are wrong, and merging.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/codec/codec_kernels.h"
#include "lib/reduce/reduce.h"
#include "tests/test.h"
#include "tests/unit/codec_help.h"

#define MOST 200000 /* elements: more than a sample is of */

/* The number with which a list begins. */
static uint64_t entries_of(const unsigned char *list)
{
	uint64_t entries;

	memcpy(&entries, list, sizeof(entries));
	return entries;
}

static const float *order_of; /* of by_magnitude */

/* Greatest first, of equal ones the lowest index. */
static int by_magnitude(const void *a, const void *b)
{
	const size_t i = *(const size_t *)a, k = *(const size_t *)b;
	const float x = fabsf(order_of[i]), y = fabsf(order_of[k]);

	if (x != y)
		return x > y ? -1 : 1;
	return i < k ? -1 : 1;
}

/* The decoded vector and the residual have the k greatest of p, and the rest. */
static void check_selection(const char *name, const float *p, size_t n, size_t k)
{
	struct tutti_codec *codec = codec_make(name);
	float *zero = calloc(n, sizeof(*zero));
	struct codec_result r = codec_run(codec, p, NULL, 0, n, 0),
			    f = codec_run(codec, p, zero, 0, n, 0);
	size_t *order = malloc(n * sizeof(*order)), i, wrong = 0;
	unsigned char *sent = calloc(n, 1);

	for (i = 0; i < n; i++)
		order[i] = i;
	order_of = p;
	qsort(order, n, sizeof(*order), by_magnitude);
	for (i = 0; i < k; i++)
		sent[order[i]] = 1;
	for (i = 0; i < n; i++) {
		wrong += r.decoded[i] != (sent[i] ? p[i] : 0);
		wrong += f.decoded[i] != r.decoded[i];
		wrong += f.state[i] != (sent[i] ? 0 : p[i]);
		wrong += r.added[i] != p[i] + r.decoded[i];
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(entries_of(r.out), k);
	codec_free_result(&r);
	codec_free_result(&f);
	free(sent);
	free(order);
	free(zero);
	tutti_codec_free(codec);
}

/* Vectors of n elements that are hard to select from. */
enum shape { RANDOM, EQUAL, FEW, RISING, FALLING, LATE, MISLEADING, SHAPES };

static void shape(float *p, size_t n, enum shape which)
{
	const size_t part = n / 4096;
	uint64_t seed = n;
	size_t i;

	for (i = 0; i < n; i++)
		switch (which) {
		case RANDOM:
			p[i] = (float)(codec_uniform(&seed) + codec_uniform(&seed) - 1);
			break;
		case EQUAL:
			p[i] = i % 3 ? 1 : -1;
			break;
		case FEW: /* of two magnitudes; k is in the middle of one of them */
			p[i] = codec_uniform(&seed) < 0.005 ? -2.5f : 2;
			break;
		case RISING:
			p[i] = (float)i - 7;
			break;
		case FALLING:
			p[i] = 7 - (float)i;
			break;
		case MISLEADING: /* great where topk.c takes its sample, so it expects more */
			p[i] = part && i / part % 20 == 0 && i / part < 4096 &&
					       i % part == tt_mix64(i / part + 1) % part
				       ? 1000
				       : (float)codec_uniform(&seed);
			break;
		default: /* all but the last tenth are zero */
			p[i] = i < n - n / 10 ? 0 : (float)i;
		}
}

static void selection(void)
{
	static const size_t counts[] = {1, 2, 15, 16, 17, 99, 100, 101, 1000, 4097, 16385, MOST};
	float *p = malloc(MOST * sizeof(*p));
	size_t i, n;
	int s;

	for (i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		for (s = 0; s < SHAPES; s++) {
			n = counts[i];
			shape(p, n, (enum shape)s);
			check_selection("topk:1%", p, n, (n + 99) / 100);
			check_selection("dgc:0.1%", p, n, (n + 999) / 1000);
			if (n > 1000 && s)
				continue;
			check_selection("topk:33.3%", p, n, (n * 333 + 999) / 1000);
			check_selection("topk:100%", p, n, n);
		}
	free(p);
}

/* All levels select the same. */
static void levels(void)
{
	static const char *const names[] = {"topk:1%", "dgc:3%", "threshold:0.5", "randomk:1%",
					    "randomk:30%"};
	float *p = malloc(MOST * sizeof(*p)), *residual = malloc(MOST * sizeof(*residual));
	enum tt_reduce_level best = tt_reduce_best(), level;
	size_t k, n, c;
	int data;

	for (k = 0; k < sizeof(names) / sizeof(*names); k++)
		for (data = 0; data < DATA; data++)
			for (c = 0; c < 7; c++) {
				struct tutti_codec *codec = codec_make(names[k]);
				struct codec_result truth, r;

				n = (size_t[]){1, 17, 99, 100, 257, 1040, MOST}[c];
				codec_fill(p, n, (enum codec_data)data, 1);
				codec_fill(residual, n, (enum codec_data)data, 2);
				tt_reduce_use(TT_REDUCE_TRUTH);
				truth = codec_run(codec, p, residual, 0, n, 5);
				for (level = TT_REDUCE_BASE; level <= best; level++) {
					tt_reduce_use(level);
					r = codec_run(codec, p, residual, 0, n, 5);
					TT_CHECK(r.len == truth.len &&
						 codec_same(r.out, truth.out, r.len));
					TT_CHECK(
						codec_same(r.state, truth.state,
							   n * sizeof(float) *
								   (size_t)tt_codec_states(codec)));
					TT_CHECK(codec_same(r.added, truth.added,
							    n * sizeof(float)));
					codec_free_result(&r);
				}
				codec_free_result(&truth);
				tutti_codec_free(codec);
			}
	tt_reduce_use(best);
	free(p);
	free(residual);
}

/* threshold: these elements and no others; a value that is not finite is NaN alone. */
static void threshold(void)
{
	enum { N = 3000 };
	struct tutti_codec *codec = codec_make("threshold:0.25");
	float in[N], residual[N];
	struct codec_result r;
	size_t i;

	codec_fill(in, N, SPECIAL, 3);
	codec_fill(residual, N, NORMAL, 4);
	in[7] = 0.25f;
	in[8] = -0.25f;
	residual[7] = residual[8] = 0;
	r = codec_run(codec, in, residual, 0, N, 0);
	for (i = 0; i < N; i++) {
		float p = in[i] + residual[i];

		if (!isfinite(p)) {
			TT_CHECK(isnan(r.decoded[i]) && r.state[i] == residual[i]);
			continue;
		}
		CU_ASSERT_EQUAL(r.decoded[i], fabsf(p) >= 0.25f ? p : 0);
		CU_ASSERT_EQUAL(r.state[i], fabsf(p) >= 0.25f ? 0 : p);
	}
	CU_ASSERT_EQUAL(r.decoded[7], 0.25f);
	CU_ASSERT_EQUAL(r.decoded[8], -0.25f);
	codec_free_result(&r);
	tutti_codec_free(codec);
}

/* A vector with one value that is not finite is NaN as a whole, and leaves all of the state. */
static void all_nan(void)
{
	static const char *const names[] = {"topk:10%", "dgc:10%"};
	enum { N = 50 };
	float in[N], residual[N];
	struct codec_result r;
	size_t i, k;

	for (k = 0; k < 2; k++) {
		struct tutti_codec *codec = codec_make(names[k]);

		codec_fill(in, N, NORMAL, 3);
		codec_fill(residual, N, NORMAL, 4);
		in[N - 1] = INFINITY;
		r = codec_run(codec, in, residual, 0, N, 0);
		CU_ASSERT_EQUAL(r.len, 8);
		for (i = 0; i < N; i++)
			TT_CHECK(isnan(r.decoded[i]) && isnan(r.added[i]));
		for (i = 0; i < N * (size_t)tt_codec_states(codec); i++)
			CU_ASSERT_EQUAL(r.state[i], residual[i % N]);
		CU_ASSERT_EQUAL(entries_of(r.out), UINT64_MAX); /* all NaN */
		codec_free_result(&r);
		tutti_codec_free(codec);
	}
}

/* Whole numbers: what was sent and the residual are the input, exactly. */
static void conservation(void)
{
	static const char *const names[] = {"topk:1%", "threshold:20", "randomk:5%",
					    "dgc:1%,momentum=0"};
	enum { N = 1000, STEPS = 1000 };
	float in[N], d[N], state[2][N], *of[] = {state[0], state[1]};
	double given[N], sent[N];
	size_t k, i, len;
	uint64_t t, seed = 1;

	for (k = 0; k < sizeof(names) / sizeof(*names); k++) {
		struct tutti_codec *codec = codec_make(names[k]);
		unsigned char *out = codec_room(tt_codec_bound(codec, N));

		memset(state, 0, sizeof(state));
		memset(given, 0, sizeof(given));
		memset(sent, 0, sizeof(sent));
		for (t = 0; t < STEPS; t++) {
			for (i = 0; i < N; i++) {
				in[i] = (float)(tt_random(&seed) % 41) - 20;
				given[i] += (double)in[i];
			}
			TT_REQUIRE(!tt_codec_encode(codec, in, of, 0, N, t, out, &len));
			TT_REQUIRE(!tt_codec_decode(codec, out, len, 0, N, d));
			for (i = 0; i < N; i++)
				sent[i] += (double)d[i];
		}
		for (i = 0; i < N; i++)
			CU_ASSERT_EQUAL(sent[i] + (double)state[0][i], given[i]);
		free(out);
		tutti_codec_free(codec);
	}
}

/* dgc: u = m u + g; v += u; the greatest of v are sent, and cleared in both. */
static void momentum(void)
{
	enum { N = 40, K = 4, STEPS = 30 };
	struct tutti_codec *codec = codec_make("dgc:10%,momentum=0.5");
	float u[N] = {0}, v[N] = {0}, in[N], d[N], state[2][N] = {{0}},
	      *of[] = {state[0], state[1]};
	unsigned char *out = codec_room(tt_codec_bound(codec, N));
	size_t order[N], i, len;
	uint64_t t;

	for (t = 0; t < STEPS; t++) {
		codec_fill(in, N, NORMAL, t);
		for (i = 0; i < N; i++) {
			u[i] = 0.5f * u[i] + in[i];
			v[i] += u[i];
			order[i] = i;
		}
		TT_REQUIRE(!tt_codec_encode(codec, in, of, 0, N, t, out, &len));
		TT_REQUIRE(!tt_codec_decode(codec, out, len, 0, N, d));
		order_of = v;
		qsort(order, N, sizeof(*order), by_magnitude);
		for (i = 0; i < N; i++)
			CU_ASSERT_EQUAL(d[order[i]], i < K ? v[order[i]] : 0);
		for (i = 0; i < K; i++)
			u[order[i]] = v[order[i]] = 0;
		TT_CHECK(codec_same(state[0], v, sizeof(v)) && codec_same(state[1], u, sizeof(u)));
	}
	free(out);
	tutti_codec_free(codec);
}

/*
 * randomk: one of every block, another one in another call; multiplied without feedback, so that
 * the mean over calls is the element.
 */
static void random_places(void)
{
	enum { N = 95, BLOCK = 10, CALLS = 20000 };
	struct tutti_codec *codec = codec_make("randomk:10%"), *other;
	float in[N], d[N], again[N];
	unsigned char *out = codec_room(tt_codec_bound(codec, N));
	double sum[N] = {0};
	size_t i, len, n, differs = 0;
	uint64_t call;

	codec_fill(in, N, NORMAL, 1);
	for (i = 0; i < N; i++)
		in[i] = fabsf(in[i]) + 0.5f;
	for (call = 0; call < CALLS; call++) {
		TT_REQUIRE(!tt_codec_encode(codec, in, NULL, 0, N, call, out, &len));
		CU_ASSERT_EQUAL(len, 8 + 4 * 10);
		TT_REQUIRE(!tt_codec_decode(codec, out, len, 0, N, d));
		for (n = i = 0; i < N; i++) {
			n += d[i] != 0;
			sum[i] += (double)d[i];
			if (d[i] != 0)
				CU_ASSERT_EQUAL(d[i], in[i] * (i < 90 ? 10 : 5));
			if (i % BLOCK == BLOCK - 1 || i == N - 1) {
				CU_ASSERT_EQUAL(n, 1);
				n = 0;
			}
		}
	}
	/* A block of m: a variance of m - 1 times the square; 4 sigma. */
	for (i = 0; i < N; i++)
		TT_CHECK(fabs(sum[i] / CALLS - (double)in[i]) <=
			 4 * (double)in[i] * sqrt((i < 90 ? 9.0 : 4.0) / CALLS));
	other = codec_make("randomk:10%,seed=2");
	TT_REQUIRE(!tt_codec_encode(other, in, NULL, 0, N, CALLS - 1, out, &len));
	TT_REQUIRE(!tt_codec_decode(other, out, len, 0, N, again));
	for (i = 0; i < N; i++)
		differs += d[i] != again[i];
	TT_CHECK(differs > 8);
	free(out);
	tutti_codec_free(codec);
	tutti_codec_free(other);
}

/* A list by hand: the number, then gap and value of each. */
struct list {
	unsigned char bytes[64];
	size_t len;
};

static struct list list_of(uint64_t entries)
{
	struct list l = {.len = 8};

	memcpy(l.bytes, &entries, 8);
	return l;
}

static void add_entry(struct list *l, const char *gap, size_t gap_len, float value)
{
	memcpy(l->bytes + l->len, gap, gap_len);
	memcpy(l->bytes + l->len + gap_len, &value, 4);
	l->len += gap_len + 4;
}

static int decode_list(const struct list *l, size_t count, float *out)
{
	struct tutti_codec *codec = codec_make("topk:1%");
	unsigned char *in = codec_room(l->len); /* of this length exactly */
	int err;

	memcpy(in, l->bytes, l->len);
	err = tt_codec_decode(codec, in, l->len, 0, count, out);
	free(in);
	tutti_codec_free(codec);
	return err;
}

static void lists(void)
{
	float out[1000];
	struct list l, cut;
	size_t i;

	l = list_of(3);
	add_entry(&l, "\x00", 1, 1);
	add_entry(&l, "\x80\x01", 2, 2);
	add_entry(&l, "\x05", 1, 3);
	TT_REQUIRE(!decode_list(&l, 1000, out));
	for (i = 0; i < 1000; i++)
		CU_ASSERT_EQUAL(out[i], i == 0 ? 1 : i == 129 ? 2 : i == 135 ? 3 : 0);
	/* The last index is the last element, not beyond. */
	TT_CHECK(!decode_list(&l, 136, out));
	CU_ASSERT_EQUAL(decode_list(&l, 135, out), -EPROTO);
	CU_ASSERT_EQUAL(decode_list(&l, 2, out), -EPROTO);
	/* Every part of it is refused, and so is more. */
	for (i = 0; i < l.len; i++) {
		cut = l;
		cut.len = i;
		CU_ASSERT_EQUAL(decode_list(&cut, 1000, out), -EPROTO);
	}
	cut = l;
	cut.len++;
	CU_ASSERT_EQUAL(decode_list(&cut, 1000, out), -EPROTO);
	/* Numbers of entries and gaps that are too large, or that would overflow. */
	cut = l;
	cut.bytes[0] = 4;
	CU_ASSERT_EQUAL(decode_list(&cut, 1000, out), -EPROTO);
	memset(cut.bytes, 0xff, 7);
	CU_ASSERT_EQUAL(decode_list(&cut, 1000, out), -EPROTO);
	l = list_of(1);
	add_entry(&l, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, 1);
	CU_ASSERT_EQUAL(decode_list(&l, 1000, out), -EPROTO);
	l = list_of(2);
	add_entry(&l, "\x01", 1, 1);
	add_entry(&l, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9, 1);
	CU_ASSERT_EQUAL(decode_list(&l, 1000, out), -EPROTO);
	l = list_of(1);
	add_entry(&l, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, 1);
	CU_ASSERT_EQUAL(decode_list(&l, 1000, out), -EPROTO);
	l = list_of(UINT64_MAX);
	TT_CHECK(!decode_list(&l, 3, out) && isnan(out[0]) && isnan(out[2]));
	l.len = 9;
	CU_ASSERT_EQUAL(decode_list(&l, 3, out), -EPROTO);
}

/* No list of these entries is longer than the bound says, and one of them is nearly as long. */
static void list_bounds(void)
{
	static const char *const names[] = {"topk:100%", "topk:1%", "topk:0.01%", "threshold:1e-3"};
	float *p = calloc(MOST, sizeof(*p));
	size_t k, n, i;

	for (k = 0; k < 4; k++)
		for (n = 1; n <= MOST; n = n * 3 + 1) {
			struct tutti_codec *codec = codec_make(names[k]);
			struct codec_result r;

			/* As far apart as can be. */
			memset(p, 0, MOST * sizeof(*p));
			for (i = 127; i < n; i += 128)
				p[i] = 1;
			p[n - 1] = 2;
			r = codec_run(codec, p, NULL, 0, n, 0);
			TT_CHECK(r.len <= tt_codec_bound(codec, n));
			codec_free_result(&r);
			tutti_codec_free(codec);
		}
	CU_ASSERT_EQUAL(tt_codec_list_bound(0, 100), 8);
	CU_ASSERT_EQUAL(tt_codec_list_bound(10, 10), 8 + 50);
	CU_ASSERT_EQUAL(tt_codec_list_bound(10, 128), 8 + 51);
	CU_ASSERT_EQUAL(tt_codec_list_bound(1000, 10), 8 + 50);
	free(p);
}

/* The sum of two lists is the list of the sum. */
static void merging(void)
{
	static const char *const names[] = {"topk:5%", "threshold:0.9"};
	static const size_t counts[] = {1, 20, 1000, 5000};
	float x[5000], y[5000], *sum = malloc(sizeof(x));
	size_t k, c, i, n, len, entries, of_x, of_y;

	for (k = 0; k < 2; k++)
		for (c = 0; c < 4; c++) {
			struct tutti_codec *codec = codec_make(names[k]);
			struct codec_result a, b;
			unsigned char *out;

			n = counts[c];
			codec_fill(x, n, NORMAL, 1);
			codec_fill(y, n, NORMAL, 2);
			memcpy(y, x, n / 2 * sizeof(*x)); /* so that some indices are in both */
			a = codec_run(codec, x, NULL, 0, n, 0);
			b = codec_run(codec, y, NULL, 0, n, 0);
			of_x = entries_of(a.out);
			of_y = entries_of(b.out);
			out = codec_room(tt_codec_list_bound(of_x + of_y, n));
			CU_ASSERT_EQUAL(
				tt_codec_merge(codec, a.out, a.len, b.out, b.len, n, out, &len), 0);
			entries = entries_of(out);
			TT_CHECK(entries <= of_x + of_y && entries >= of_x && entries >= of_y);
			CU_ASSERT_EQUAL(tt_codec_decode(codec, out, len, 0, n, sum), 0);
			for (i = 0; i < n; i++)
				CU_ASSERT_EQUAL(sum[i], a.decoded[i] + b.decoded[i]);
			/* Either of them being cut is refused. */
			CU_ASSERT_EQUAL(
				tt_codec_merge(codec, a.out, a.len - 1, b.out, b.len, n, out, &len),
				-EPROTO);
			CU_ASSERT_EQUAL(
				tt_codec_merge(codec, a.out, a.len, b.out, b.len - 1, n, out, &len),
				-EPROTO);
			codec_free_result(&a);
			codec_free_result(&b);
			free(out);
			tutti_codec_free(codec);
		}
	free(sum);
}

/* ---- sums of lists ---- */

#define SUMMED 1000

/* A sum as plain floats. */
static void decode_sum(const struct tutti_codec *codec, const struct tt_codec_sum *s, float *to)
{
	CU_ASSERT_EQUAL(tt_codec_sum_decode(codec, s, SUMMED, to), 0);
}

/* Lists of this share of the elements, four of them, in pairs: exact, dense once it is shorter. */
static void add_four(const char *name, int expect_dense)
{
	static float x[SUMMED], all[SUMMED], got[SUMMED], expect[2][SUMMED];
	struct tutti_codec *codec = codec_make(name);
	struct tt_codec_sum list[4], pair[2], sum;
	size_t room = tt_codec_bound(codec, SUMMED) + 4 * SUMMED, i;
	unsigned char *out[3];
	struct codec_result r[4];
	int k;

	for (k = 0; k < 3; k++)
		out[k] = codec_room(room);
	for (k = 0; k < 4; k++) {
		codec_fill(x, SUMMED, NORMAL, (unsigned)k + 1);
		r[k] = codec_run(codec, x, NULL, 0, SUMMED, 0);
		list[k] = (struct tt_codec_sum){.at = r[k].out, .len = r[k].len};
	}
	for (k = 0; k < 2; k++) {
		CU_ASSERT_EQUAL(tt_codec_sum_merge(codec, &list[2 * k], &list[2 * k + 1], SUMMED,
						   out[k], &pair[k]),
				0);
		TT_CHECK(pair[k].len <= 4 * SUMMED);
		decode_sum(codec, &pair[k], got);
		for (i = 0; i < SUMMED; i++) {
			expect[k][i] = r[2 * k].decoded[i] + r[2 * k + 1].decoded[i];
			CU_ASSERT_EQUAL(got[i], expect[k][i]);
		}
	}
	CU_ASSERT_EQUAL(tt_codec_sum_merge(codec, &pair[0], &pair[1], SUMMED, out[2], &sum), 0);
	decode_sum(codec, &sum, all);
	for (i = 0; i < SUMMED; i++)
		CU_ASSERT_EQUAL(all[i], expect[0][i] + expect[1][i]);
	CU_ASSERT_EQUAL(sum.dense, expect_dense);
	TT_CHECK(!sum.dense || sum.len == sizeof(all));
	/* a list and a vector, in either order */
	CU_ASSERT_EQUAL(tt_codec_sum_merge(codec, &sum, &list[0], SUMMED, out[0], &pair[0]), 0);
	CU_ASSERT_EQUAL(tt_codec_sum_merge(codec, &list[0], &sum, SUMMED, out[1], &pair[1]), 0);
	CU_ASSERT_EQUAL(pair[0].len, pair[1].len);
	CU_ASSERT_EQUAL(memcmp(out[0], out[1], pair[0].len), 0);
	for (k = 0; k < 3; k++)
		free(out[k]);
	for (k = 0; k < 4; k++)
		codec_free_result(&r[k]);
	tutti_codec_free(codec);
}

static void sums(void)
{
	add_four("topk:1%", false);
	add_four("topk:10%", false);
	add_four("topk:30%", true);
	add_four("topk:60%", true);
	add_four("threshold:1e-20", true);
}

/* Sums that are cut, too long or not dense as told are refused; bytes after a NaN, too. */
static void damaged_sums(void)
{
	static const uint64_t nan = UINT64_MAX;
	static float x[SUMMED], got[SUMMED];
	struct tutti_codec *codec = codec_make("topk:10%");
	unsigned char *out = codec_room(8 * SUMMED), *longer = codec_room(8 * SUMMED);
	struct tt_codec_sum sum, good, bad[6];
	struct codec_result r;
	size_t i;

	codec_fill(x, SUMMED, NORMAL, 1);
	r = codec_run(codec, x, NULL, 0, SUMMED, 0);
	good = (struct tt_codec_sum){.at = r.out, .len = r.len};
	memset(longer, 0, 8 * SUMMED);
	memcpy(longer, &nan, sizeof(nan));
	for (i = 0; i < 6; i++)
		bad[i] = good;
	bad[0].len--;
	bad[1].len = 7;
	bad[2].dense = true;
	bad[3] = (struct tt_codec_sum){.at = longer, .len = 9}; /* NaN, and one byte */
	bad[4] = (struct tt_codec_sum){.at = longer, .len = 4 * SUMMED + 4, .dense = true};
	bad[5] = (struct tt_codec_sum){.at = longer, .len = 4 * SUMMED - 4, .dense = true};
	for (i = 0; i < 6; i++) {
		CU_ASSERT_EQUAL(tt_codec_sum_decode(codec, &bad[i], SUMMED, got), -EPROTO);
		CU_ASSERT_EQUAL(tt_codec_sum_merge(codec, &bad[i], &good, SUMMED, out, &sum),
				-EPROTO);
		CU_ASSERT_EQUAL(tt_codec_sum_merge(codec, &good, &bad[i], SUMMED, out, &sum),
				-EPROTO);
	}
	bad[3].len = 8;
	CU_ASSERT_EQUAL(tt_codec_sum_merge(codec, &bad[3], &good, SUMMED, out, &sum), 0);
	CU_ASSERT_EQUAL(tt_codec_sum_decode(codec, &sum, SUMMED, got), 0);
	for (i = 0; i < SUMMED; i++)
		TT_CHECK(isnan(got[i]));
	codec_free_result(&r);
	free(out);
	free(longer);
	tutti_codec_free(codec);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"selection", selection},
					       {"levels", levels},
					       {"threshold", threshold},
					       {"all_nan", all_nan},
					       {"conservation", conservation},
					       {"momentum", momentum},
					       {"random_places", random_places},
					       {"lists", lists},
					       {"list_bounds", list_bounds},
					       {"merging", merging},
					       {"sums", sums},
					       {"damaged_sums", damaged_sums},
					       {NULL, NULL}};

	tt_reduce_add_reference();
	tt_codec_add_reference();
	return tt_test_main("codec_sparse", tests, argc, argv);
}
