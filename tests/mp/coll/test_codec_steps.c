/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces whose vectors travel encoded: conservation over 1,000 steps; values that are not
 * finite; all forms of the call; bytes and allocations by the counters.
 */
#include "config.h"

#include "tests/mp/coll/codec_calls.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/hash.h"
#include "lib/codec/codec.h"
#include "lib/comm/comm.h"
#include "lib/engine/engine.h"
#include "lib/plan/choose.h"

/* ---- conservation ---- */

#define KEPT 777
#define STEPS 500 /* of each of two jobs */

/* Both jobs': what every rank has put in and got out, and what is left for the next job. */
struct kept {
	const char *codec;
	bool whole; /* integers, so that all is exact */
	int first;  /* step */
	double in[KEPT], out[KEPT], size[KEPT];
	float left[MAX_N][KEPT];
};

static void keep_input(struct kept *k, float *v, int rank, int t)
{
	size_t i;

	for (i = 0; i < KEPT; i++) {
		v[i] = value((unsigned)t, rank, i);
		v[i] = k->whole ? rintf(v[i] * 20) : v[i];
	}
}

static int conserve_body(struct mp_job *job)
{
	static float v[KEPT], g[KEPT];
	struct kept *k = job->arg;
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	int t, r;
	size_t i;

	MP_OK(tutti_codec_create(k->codec, &codec));
	MP_OK(tutti_feedback_create(job->world, codec, KEPT, &fb));
	MP_OK(tutti_feedback_restore(fb, k->left[job->rank], KEPT));
	MP_OK(tutti_codec_free(codec)); /* the state keeps it */
	MP_OK(tutti_codec_create(k->codec, &codec));
	for (t = k->first; t < k->first + STEPS; t++) {
		keep_input(k, v, job->rank, t);
		call = call_of(TUTTI_IN_PLACE, v, KEPT, codec, fb);
		MP_OK(tutti_call(job->world, &call, NULL));
		for (r = 0; job->rank == 0 && r < job->n; r++) {
			keep_input(k, g, r, t);
			for (i = 0; i < KEPT; i++) {
				k->in[i] += (double)g[i];
				k->size[i] += fabs((double)g[i]);
			}
		}
		for (i = 0; job->rank == 0 && i < KEPT; i++)
			k->out[i] += (double)v[i];
	}
	MP_OK(tutti_feedback_save(fb, k->left[job->rank], KEPT));
	MP_OK(tutti_feedback_free(fb));
	return tutti_codec_free(codec);
}

/* How many elements are not conserved. */
static int lost(const struct kept *k)
{
	double all, worst = 0;
	int r, bad = 0;
	size_t i;

	for (i = 0; i < KEPT; i++) {
		for (all = k->out[i], r = 0; r < MAX_N; r++)
			all += (double)k->left[r][i];
		worst = fmax(worst, fabs(all - k->in[i]) / k->size[i]);
		bad += fabs(all - k->in[i]) > (k->whole ? 0 : 1e-6 * k->size[i]);
	}
	if (bad)
		printf("  %s: %d elements, worst %g\n", k->codec, bad, worst);
	return bad;
}

/*
 * 4 ranks for 500 steps; then 3, of which rank 0 takes over what the fourth has left, and which
 * merge lists; then 4 on two hosts.
 */
static void conserve(const char *name, bool whole)
{
	struct kept *k = mp_shared_mem(sizeof(*k));
	size_t i;

	TT_REQUIRE(k != NULL);
	k->codec = name;
	k->whole = whole;
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM "TUTTI_LANES=1", .fn = conserve_body, .arg = k));
	TT_CHECK(!lost(k));
	for (i = 0; i < KEPT; i++) {
		k->left[0][i] += k->left[3][i];
		k->left[3][i] = 0;
	}
	k->first = STEPS;
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM MERGE "TUTTI_LANES=4 TUTTI_CHUNK=4K",
			 .fn = conserve_body, .arg = k));
	TT_CHECK(!lost(k));
	k->first = 2 * STEPS;
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 4, .env = HIER, .fn = conserve_body, .arg = k));
	TT_CHECK(!lost(k));
	munmap(k, sizeof(*k));
}

static void conservation(void)
{
	conserve("fp16", true);
	conserve("bf16", true);
	conserve("fp16", false);
	conserve("int8", false);
	conserve("int8:block=64", false);
	conserve("onebit", false);
	conserve("qsgd", false);
	conserve("randomk:5%", false);
	conserve("randomk:5%", true);
	conserve("topk:3%", true);
	conserve("topk:3%", false);
	conserve("threshold:40", true);
	conserve("threshold:40", false);
}

/* ---- values that are not finite ---- */

static int not_finite_body(struct mp_job *job)
{
	const float odd[] = {NAN, INFINITY, -INFINITY};
	static float v[512], left[512], before[512];
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	int k, i;

	MP_OK(tutti_codec_create("int8:block=64", &codec));
	MP_OK(tutti_feedback_create(job->world, codec, 512, &fb));
	call = call_of(TUTTI_IN_PLACE, v, 512, codec, fb);
	fill(v, 1, job->rank, 512);
	MP_OK(tutti_call(job->world, &call, NULL));
	for (k = 0; k < 3 * 8; k++) { /* every block has its turn, so every rank's own has */
		MP_OK(tutti_feedback_save(fb, before, 512));
		fill(v, 2 + (unsigned)k, job->rank, 512);
		if (job->rank == 1)
			v[k % 8 * 64 + 10] = odd[k / 8];
		MP_OK(tutti_call(job->world, &call, NULL));
		for (i = 0; i < 512; i++)
			TT_EXPECT(!isnan(v[i]) == (i / 64 != k % 8) && !isinf(v[i]));
		MP_OK(tutti_feedback_save(fb, left, 512));
		for (i = 0; i < 512; i++)
			TT_EXPECT(isfinite(left[i]));
		if (job->rank == 1)
			TT_EXPECT(!memcmp(left + k % 8 * 64, before + k % 8 * 64, 64 * 4));
	}
	MP_OK(tutti_feedback_free(fb));
	return tutti_codec_free(codec);
}

static void not_finite(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = not_finite_body));
}

/* ---- forms ---- */

static int forms_body(struct mp_job *job)
{
	const char *name = job->arg;
	float *a = calloc(LONG, 4), *b = calloc(LONG, 4), *c = calloc(LONG, 4);
	struct tutti_feedback *fa, *fb, *fc;
	struct tutti_request *req, *persistent;
	struct tutti_call call;
	struct tutti_codec *codec;
	int t;

	TT_EXPECT(a && b && c);
	MP_OK(tutti_codec_create(name, &codec));
	MP_OK(tutti_feedback_create(job->world, codec, LONG, &fa));
	MP_OK(tutti_feedback_create(job->world, codec, LONG, &fb));
	MP_OK(tutti_feedback_create(job->world, codec, LONG, &fc));
	call = call_of(TUTTI_IN_PLACE, c, LONG, codec, fc);
	call.flags = TUTTI_CALL_PERSISTENT;
	MP_OK(tutti_call(job->world, &call, &persistent));
	MP_OK(tutti_feedback_free(fc)); /* the request keeps it */
	for (t = 0; t < 10; t++) {
		fill(a, (unsigned)t, job->rank, LONG);
		memcpy(b, a, LONG * 4);
		memcpy(c, a, LONG * 4);
		call = call_of(TUTTI_IN_PLACE, a, LONG, codec, fa);
		MP_OK(tutti_call(job->world, &call, NULL));
		call = call_of(TUTTI_IN_PLACE, b, LONG, codec, fb);
		MP_OK(tutti_call(job->world, &call, &req));
		MP_OK(tutti_start(persistent));
		MP_OK(tutti_wait(&req));
		MP_OK(tutti_wait(&persistent));
		TT_EXPECT(!memcmp(a, b, LONG * 4) && !memcmp(a, c, LONG * 4));
	}
	MP_OK(tutti_codec_free(codec));
	MP_OK(tutti_request_free(persistent));
	MP_OK(tutti_feedback_free(fa));
	MP_OK(tutti_feedback_free(fb));
	free(a);
	free(b);
	free(c);
	return 0;
}

static void forms(void)
{
	static const char *const names[] = {"int8", "topk:1%", "threshold:300", "dgc:1%"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = forms_body, .arg = (void *)names[i]));
		TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_THREAD=on", .fn = forms_body,
				 .arg = (void *)names[i]));
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM MERGE, .fn = forms_body,
				 .arg = (void *)names[i]));
		if (!mp_no_ofi())
			TT_CHECK(!MP_RUN(.n = 4, .env = HIER, .fn = forms_body,
					 .arg = (void *)names[i]));
	}
}

/* Puts go on for a while after a call. */
static int puts_in_one_call(struct mp_job *job, const struct tutti_call *call, uint64_t expect)
{
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	int i;

	mp_meet(job);
	mp_sleep_ms(100);
	MP_OK(tutti_stats_get(job->ctx, &a));
	MP_OK(tutti_call(job->world, call, NULL));
	for (i = 0; i < 2000; i++) {
		MP_OK(tutti_stats_get(job->ctx, &b));
		if (b.put_bytes - a.put_bytes >= expect)
			break;
		mp_sleep_ms(1);
	}
	if (b.put_bytes - a.put_bytes != expect)
		fprintf(stderr, "rank %d of %d put %llu bytes, not %llu\n", job->rank, job->n,
			(unsigned long long)(b.put_bytes - a.put_bytes),
			(unsigned long long)expect);
	TT_EXPECT(b.put_bytes - a.put_bytes == expect);
	return 0;
}

/* ---- counters ---- */

static char levels[] = "hier_codec";

/* Bytes that rank puts in one call: C of each other block, and its own to each other rank. */
static int counted_body(struct mp_job *job)
{
	const size_t count = 256 * 64 * (size_t)job->n, block = count / (size_t)job->n;
	float *v = calloc(count, 4);
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	struct tutti_codec *codec;
	struct tutti_feedback *fb;
	struct tutti_call call;
	uint64_t expect;
	int i;

	TT_EXPECT(v != NULL);
	MP_OK(tutti_codec_create("int8:block=256", &codec));
	MP_OK(tutti_feedback_create(job->world, codec, count, &fb));
	expect = 2 * (uint64_t)(job->n - 1) * tutti_codec_bound(codec, block);
	if (job->arg) /* of half of the vector, between two hosts */
		expect = 2 * tutti_codec_bound(codec, count / 4);
	call = call_of(TUTTI_IN_PLACE, v, count, codec, fb);
	fill(v, 1, job->rank, count);
	for (i = 0; i < 100; i++)
		MP_OK(tutti_call(job->world, &call, NULL));
	MP_OK(tutti_stats_get(job->ctx, &a));
	for (i = 0; i < 200; i++)
		MP_OK(tutti_call(job->world, &call, NULL));
	MP_OK(tutti_stats_get(job->ctx, &b));
	/* pools for reuse may still grow when ranks drift further apart than before */
	TT_EXPECT(b.allocations - a.allocations <= 8 && b.registrations == a.registrations);
	TT_EXPECT(!puts_in_one_call(job, &call, expect));
	MP_OK(tutti_feedback_free(fb));
	MP_OK(tutti_codec_free(codec));
	free(v);
	return 0;
}

/* One call puts the list, as long as it is, and its head to each other rank. */
static int counted_list_body(struct mp_job *job)
{
	const size_t count = 1 << 20;
	float *v = calloc(count, 4);
	uint64_t others = (uint64_t)job->n - 1, expect;
	struct tutti_codec *codec;
	struct tutti_call call;
	size_t len;
	char *coded;
	int i;

	MP_OK(tutti_codec_create("topk:1%", &codec));
	coded = malloc(tutti_codec_bound(codec, count));
	TT_EXPECT(v && coded);
	fill(v, 1, job->rank, count);
	MP_OK(tutti_codec_encode(codec, v, count, TUTTI_FLOAT32, NULL, 0, coded, &len));
	TT_EXPECT(len < tutti_codec_bound(codec, count));
	expect = others * (len + 8);
	TT_EXPECT(job->n != 4 || expect <= count * 4 / 24);
	call = call_of(TUTTI_IN_PLACE, v, count, codec, NULL);
	for (i = 0; i < 3; i++) /* the first connects */
		MP_OK(tutti_call(job->world, &call, NULL));
	fill(v, 1, job->rank, count);
	TT_EXPECT(!puts_in_one_call(job, &call, expect));
	free(coded);
	free(v);
	return tutti_codec_free(codec);
}

/*
 * Recursive doubling of 4 ranks puts two heads, this rank's list, and its sum with the neighbour's,
 * or the vector where that is shorter.
 */
static int counted_merge_body(struct mp_job *job)
{
	const size_t count = 1 << 18, room = 8 * count + 64;
	struct tutti_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
	struct tt_codec_sum list[2] = {{0}}, sum;
	char *coded[2] = {malloc(room), malloc(room)}, *out = malloc(room);
	float *v = calloc(count, 4);
	struct tutti_codec *codec;
	struct tutti_call call;
	uint64_t expect;
	int i;

	TT_EXPECT(v && coded[0] && coded[1] && out);
	MP_OK(tutti_codec_create(job->arg, &codec));
	for (i = 0; i < 2; i++) {
		fill(v, 1, job->rank / 2 * 2 + i, count);
		list[i].at = coded[i];
		MP_OK(tutti_codec_encode(codec, v, count, TUTTI_FLOAT32, NULL, 0, coded[i],
					 &list[i].len));
	}
	TT_EXPECT(!tt_codec_sum_merge(codec, &list[0], &list[1], count, out, &sum));
	TT_EXPECT(sum.dense == (sum.len == 4 * count) && sum.len <= 4 * count);
	TT_EXPECT(sum.dense == !strcmp(job->arg, "topk:60%"));
	expect = 16 + list[job->rank % 2].len + sum.len;
	call = call_of(TUTTI_IN_PLACE, v, count, codec, NULL);
	for (i = 0; i < 3; i++) /* the first connects */
		MP_OK(tutti_call(job->world, &call, NULL));
	fill(v, 1, job->rank, count);
	MP_OK(tutti_stats_get(job->ctx, &a));
	TT_EXPECT(!puts_in_one_call(job, &call, expect));
	MP_OK(tutti_stats_get(job->ctx, &b));
	TT_EXPECT(b.reduced_bytes - a.reduced_bytes == 2 * 4 * count);
	for (i = 0; i < 2; i++)
		free(coded[i]);
	free(out);
	free(v);
	return tutti_codec_free(codec);
}

static void counted(void)
{
	static const char *const merges[] = {"topk:1%", "topk:30%", "topk:60%"};
	size_t i;
	int n;

	for (i = 0; i < sizeof(merges) / sizeof(merges[0]); i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = SHM MERGE, .fn = counted_merge_body,
				 .arg = (void *)merges[i]));

	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = counted_list_body));

	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = SHM "TUTTI_LANES=2", .fn = counted_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 4, .env = HIER, .fn = counted_body, .arg = levels));
}

static const struct tt_test tests[] = {{"conservation", conservation},
				       {"not_finite", not_finite},
				       {"forms", forms},
				       {"counted", counted},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("codec_steps", tests, argc, argv);
}
