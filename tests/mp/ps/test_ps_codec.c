/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes that travel encoded: what the servers got plus what workers hold back is what was pushed,
 * over 1,000 clocks; the bits of a serial oracle; figures and bytes; flushes; values that are not
 * finite; refused options and damaged encodings; servers that are killed; workers that leave;
 * checkpoints.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHM "TUTTI_TRANSPORT=shm "
#define COUNT 3000
#define BLOCK 1024 /* elements */
#define WORKERS 2

static const char *const codecs[] = {
	"fp16",		 "bf16",   "fp8:e4m3", "fp8:e5m2",	"int8",	      "int8:block=64",
	"qsgd:levels=7", "onebit", "topk:1%",  "threshold:900", "randomk:5%", "dgc:10%,momentum=0"};
#define CODECS ((int)(sizeof(codecs) / sizeof(codecs[0])))
#define EXACT 8 /* from this one on: values themselves, so sums of integers are exact */

static float value(int codec, int w, int c, int i)
{
	uint32_t h = (uint32_t)c * 2654435761u + (uint32_t)(w + 7 * codec) * 40503u +
		     (uint32_t)i * 2246822519u;

	h ^= h >> 15;
	h *= 2246822519u;
	h ^= h >> 13;
	return codec >= EXACT ? (float)(h % 2001) - 1000 : ((float)(h % 20001) - 10000) / 1000.0f;
}

static int make(struct mp_job *job, struct tutti_ps *ps, const char *codec, const char *name,
		struct tutti_ps_options opt, struct tutti_ps_table **t)
{
	opt.size = sizeof(opt);
	opt.init = opt.init ? opt.init : TUTTI_PS_ZERO;
	opt.block = BLOCK * sizeof(float);
	MP_OK(tutti_codec_create(codec, &opt.codec));
	MP_OK(tutti_ps_dense(ps, name, COUNT, TUTTI_FLOAT32, &opt, t));
	MP_OK(tutti_codec_free(opt.codec));
	return 0;
}

/* ---- conservation ---- */

/* Shared by all ranks: the sums of what each worker pushed. */
struct sums {
	double sum[WORKERS][CODECS][COUNT], size[WORKERS][CODECS][COUNT];
};

struct conserve {
	struct sums *sums;
	int staleness, clocks, flush;
};

static int push_some(struct mp_job *job, struct tutti_ps_table **t, struct sums *s, int w, int c)
{
	float u[COUNT];
	int k, i, from, n;

	for (k = 0; k < CODECS; k++) {
		from = c % 3 ? (c * 37 + k) % (COUNT / 2) : 0;
		n = c % 3 ? (c * 101 + w) % (COUNT / 2) + 1 : COUNT;
		for (i = 0; i < n; i++) {
			u[i] = value(k, w, c, from + i);
			s->sum[w][k][from + i] += (double)u[i];
			s->size[w][k][from + i] += fabs((double)u[i]);
		}
		MP_OK(tutti_ps_push(t[k], u, (size_t)from, (size_t)n, TUTTI_FLOAT32));
	}
	return 0;
}

/* Every worker sees every worker's last push. */
static int settle(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table **t, int n,
		  int staleness, int clocks)
{
	static float v[COUNT];
	int k;

	MP_OK(tutti_ps_clock_to(ps, (uint64_t)(clocks + 1 + (staleness > 0 ? staleness : 0))));
	atomic_fetch_add(&job->shared->word[20], 1);
	TT_EXPECT(mp_await(&job->shared->word[20], WORKERS, 30000));
	for (k = 0; k < n && staleness < 0; k++)
		MP_OK(tutti_ps_push_pull(t[k], memset(v, 0, sizeof(v)), v, 0, COUNT,
					 TUTTI_FLOAT32));
	return 0;
}

/* The first element of a table that is not the sum; -1: none. */
static int wrong_at(const struct sums *s, int k, const float *v, double *sum, double *size)
{
	int i, w;

	for (i = 0; i < COUNT; i++) {
		for (*sum = *size = w = 0; w < WORKERS; w++) {
			*sum += s->sum[w][k][i];
			*size += s->size[w][k][i];
		}
		if (fabs((double)v[i] - *sum) > (k >= EXACT ? 0 : 1e-6 * *size))
			return i;
	}
	return -1;
}

/*
 * At the latest by a time. Without a bound a pull may read what a server that is no more has
 * published last, until the worker knows of its end.
 */
static int check_sums_until(struct mp_job *job, struct tutti_ps_table **t, const struct sums *s,
			    double end)
{
	static float v[COUNT];
	double sum, size;
	int k, i;

	for (k = 0; k < CODECS; k++) {
		do {
			MP_OK(tutti_ps_pull(t[k], v, 0, COUNT, TUTTI_FLOAT32));
			i = wrong_at(s, k, v, &sum, &size);
		} while (i >= 0 && mp_now() < end);
		if (i < 0)
			continue;
		fprintf(stderr, "%s, element %d: %.9g, not %.9g of %g\n", codecs[k], i,
			(double)v[i], sum, size);
		return 1;
	}
	return 0;
}

static int check_sums(struct mp_job *job, struct tutti_ps_table **t, const struct sums *s)
{
	return check_sums_until(job, t, s, 0);
}

static int conserve_body(struct mp_job *job)
{
	const struct conserve *p = job->arg;
	struct tutti_ps_held held = {.size = sizeof(held)};
	struct tutti_ps_table *t[CODECS];
	int w = job->rank - (job->n - WORKERS), c, k;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, job->n - WORKERS, p->staleness, &ps));
	for (k = 0; k < CODECS; k++)
		TT_EXPECT(!make(job, ps, codecs[k], codecs[k],
				(struct tutti_ps_options){.flush = p->flush}, &t[k]));
	for (c = 0; c < p->clocks && w >= 0; c++) {
		TT_EXPECT(!push_some(job, t, p->sums, w, c));
		MP_OK(tutti_ps_clock(ps));
	}
	for (k = 0; k < CODECS && w >= 0; k++) {
		MP_OK(tutti_ps_held(t[k], &held));
		TT_EXPECT(p->flush || held.elements);
		MP_OK(tutti_ps_flush(t[k]));
		MP_OK(tutti_ps_held(t[k], &held));
		TT_EXPECT(!held.elements && held.sum == 0 && held.most == 0);
	}
	if (w >= 0) {
		TT_EXPECT(!settle(job, ps, t, CODECS, p->staleness, p->clocks));
		TT_EXPECT(!check_sums(job, t, p->sums));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void conserve(const char *env, int n, int staleness, int clocks, int flush)
{
	struct conserve p = {.sums = mp_shared_mem(sizeof(struct sums)),
			     .staleness = staleness,
			     .clocks = mp_sanitized() && clocks > 200 ? 200 : clocks,
			     .flush = flush};

	if (MP_RUN(.n = n, .env = env, .fn = conserve_body, .arg = &p, .timeout_ms = 120000)) {
		fprintf(stderr, "%d ranks, staleness %d, flush %d, %s\n", n, staleness, flush, env);
		TT_CHECK(false);
	}
	munmap(p.sums, sizeof(struct sums));
}

static void conserve_shm(void)
{
	conserve(SHM, 4, 0, 1000, 0);
	conserve(SHM "TUTTI_PS_VERIFY=1", 3, 2, 100, 7);
	conserve(SHM, 5, TUTTI_PS_ASYNC, 100, 0);
}

static void conserve_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	conserve("TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_CHECKSUM=1", 3, 1, 50, 10);
}

static void conserve_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	conserve("TUTTI_TRANSPORT=verbs", 3, 0, 50, 10);
}

static void conserve_fault(void)
{
	conserve("TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=3,delay=0.1:300,reorder=0.3,again=0.2",
		 4, 1, 30, 0);
}

/* ---- the bits of a serial oracle ---- */

struct oracle {
	struct tutti_codec *codec;
	float value[COUNT], state[2][COUNT];
};

/* One message: elements from `at` on, within a block. */
static int apply_one(struct oracle *o, const float *u, int at, int n)
{
	int states = tutti_codec_states(o->codec), s, i;
	size_t bound = tutti_codec_bound(o->codec, (size_t)n), len;
	float state[2 * BLOCK], d[BLOCK];
	char *coded = malloc(bound);

	for (s = 0; s < states; s++)
		memcpy(state + s * n, o->state[s] + at, (size_t)n * sizeof(float));
	TT_EXPECT(
		!tutti_codec_encode(o->codec, u, (size_t)n, TUTTI_FLOAT32, state, 0, coded, &len));
	for (s = 0; s < states; s++)
		memcpy(o->state[s] + at, state + s * n, (size_t)n * sizeof(float));
	TT_EXPECT(!tutti_codec_decode(o->codec, coded, len, d, (size_t)n, TUTTI_FLOAT32));
	for (i = 0; i < n; i++)
		o->value[at + i] += d[i];
	free(coded);
	return 0;
}

static int apply_range(struct oracle *o, const float *u, int from, int n)
{
	int at, end;

	for (at = from; at < from + n; at = end) {
		end = (at / BLOCK + 1) * BLOCK;
		end = end < from + n ? end : from + n;
		TT_EXPECT(!apply_one(o, u + at - from, at, end - at));
	}
	return 0;
}

static const char *const steady[] = {"fp8:e5m2", "int8:block=64", "onebit", "topk:5%", "dgc:5%"};

static int bits_body(struct mp_job *job)
{
	struct oracle *o = calloc(1, sizeof(*o));
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float u[COUNT], v[COUNT];
	int k, c, i, from;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	for (k = 0; k < 5; k++) {
		TT_EXPECT(!make(job, ps, steady[k], steady[k], (struct tutti_ps_options){0}, &t));
		memset(o, 0, sizeof(*o));
		MP_OK(tutti_codec_create(steady[k], &o->codec));
		for (c = 0; c < 20 && job->rank; c++) {
			from = c * 71 % COUNT;
			for (i = from; i < COUNT; i++)
				u[i] = value(0, k, c, i);
			MP_OK(tutti_ps_push(t, u + from, (size_t)from, (size_t)(COUNT - from),
					    TUTTI_FLOAT32));
			TT_EXPECT(!apply_range(o, u + from, from, COUNT - from));
			MP_OK(tutti_ps_clock(ps));
			MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
			TT_EXPECT(!memcmp(v, o->value, sizeof(v)));
		}
		MP_OK(tutti_codec_free(o->codec));
	}
	MP_OK(tutti_ps_close(ps));
	free(o);
	return 0;
}

static void bits(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = bits_body));
}

/* ---- figures, bytes, flushes ---- */

static int held_steps(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t)
{
	struct tutti_ps_held held = {.size = sizeof(held)};
	float u[COUNT] = {0}, v[COUNT];
	int c;

	for (c = 0; c < 7; c++) {
		u[0] = 8;
		u[1] = 3;
		u[2] = -2;
		/* one of BLOCK elements is sent */
		MP_OK(tutti_ps_push(t, u, 0, BLOCK, TUTTI_FLOAT32));
		MP_OK(tutti_ps_held(t, &held));
		TT_EXPECT(held.clock == (uint64_t)c && held.since == (uint64_t)(c / 3 * 3));
		/* of 8, 8, 9: an element is sent when it is the greatest, ties go to the first */
		TT_EXPECT(c % 3 == 2 ? held.sum == 8 + 6 && held.most == 8
				     : held.sum == (c % 3 + 1) * 5 && held.most == (c % 3 + 1) * 3);
		TT_EXPECT(held.elements == 2);
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, 3, TUTTI_FLOAT32));
		TT_EXPECT(v[0] == (float)(c % 3 == 2 ? 8 * (c + 1) : 8 * (c + 1)));
		TT_EXPECT(v[1] == (float)((c + 1) / 3 * 9) && v[2] == (float)((c + 1) / 3 * -6));
		MP_OK(tutti_ps_held(t, &held));
		TT_EXPECT(held.since == (uint64_t)((c + 1) / 3 * 3));
		TT_EXPECT((c % 3 == 2) == !held.elements);
	}
	TT_EXPECT(held.plain_bytes == 7 * BLOCK * sizeof(float));
	/* seven lists of one entry, two flushed blocks */
	TT_EXPECT(held.sent_bytes == 7 * (8 + 5) + 2 * BLOCK * sizeof(float));
	return 0;
}

static int held_body(struct mp_job *job)
{
	struct tutti_ps_held held = {.size = sizeof(held), .since = 7};
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t, *plain;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	TT_EXPECT(!make(job, ps, "topk:0.09%", "t", (struct tutti_ps_options){.flush = 3}, &t));
	MP_OK(tutti_ps_dense(ps, "plain", COUNT, TUTTI_FLOAT32, &opt, &plain));
	MP_OK(tutti_ps_held(plain, &held));
	TT_EXPECT(!held.since && !held.elements && !held.plain_bytes);
	if (job->rank) {
		MP_OK(tutti_ps_flush(plain));
		TT_EXPECT(!held_steps(job, ps, t));
	} else {
		MP_ERR(tutti_ps_flush(t), -EPERM);
	}
	MP_ERR(tutti_ps_held(NULL, &held), -EINVAL);
	MP_ERR(tutti_ps_held(t, NULL), -EINVAL);
	held.size = 3;
	MP_ERR(tutti_ps_held(t, &held), -EINVAL);
	MP_ERR(tutti_ps_flush(NULL), -EINVAL);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void held(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = held_body));
}

/* Each worker leaves at another clock, without a flush of its own. */
static int leave_body(struct mp_job *job)
{
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float u[COUNT], v[COUNT];
	int c, i;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	TT_EXPECT(!make(job, ps, "topk:1%", "t", (struct tutti_ps_options){0}, &t));
	for (i = 0; i < COUNT; i++)
		u[i] = (float)(i + 1);
	for (c = 0; c < 3 && job->rank == 1; c++) {
		MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
	}
	if (job->rank == 2) {
		do {
			MP_OK(tutti_ps_clock(ps));
			MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
			mp_sleep_ms(1);
		} while (v[0] == 0);
		for (i = 0; i < COUNT; i++)
			TT_EXPECT(v[i] == 3 * u[i]);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void leave(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = leave_body));
}

/* The bytes that reach the wire: transports count what they put. */
static int bytes_body(struct mp_job *job)
{
	struct tutti_stats before = {.size = sizeof(before)}, after = before;
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	const size_t n = 1 << 20;
	float *u = calloc(n, sizeof(*u));
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	size_t i;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_codec_create("int8", &opt.codec));
	MP_OK(tutti_ps_dense(ps, "t", n, TUTTI_FLOAT32, &opt, &t));
	for (i = 0; i < n; i++)
		u[i] = value(0, 0, 0, (int)i);
	MP_OK(tutti_stats_get(job->ctx, &before));
	if (job->rank) {
		MP_OK(tutti_ps_push(t, u, 0, n, TUTTI_FLOAT32));
		MP_OK(tutti_stats_get(job->ctx, &after));
		TT_EXPECT(after.put_bytes - before.put_bytes >= n);
		TT_EXPECT(after.put_bytes - before.put_bytes <= n + n / 32);
	}
	MP_OK(tutti_codec_free(opt.codec));
	MP_OK(tutti_ps_close(ps));
	free(u);
	return 0;
}

static void bytes(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_PS_VERIFY=1", .fn = bytes_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo",
				 .fn = bytes_body));
}

/* ---- significance ---- */

#define FEW 40 /* elements that change */

static float small(int c, int i)
{
	return i < FEW ? (float)((i * 7 + c * 3) % 23 - 11) : 0;
}

/* The oracle: what is held back, and the values that the worker knows. */
static int filter_clock(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t, int c,
			float *e, float *x, bool pulls)
{
	struct tutti_ps_held held = {.size = sizeof(held)};
	float u[COUNT], v[COUNT];
	double sum = 0;
	uint64_t n = 0;
	int i;

	for (i = 0; i < COUNT; i++) {
		u[i] = small(c, i);
		e[i] += u[i];
		if (fabsf(e[i]) >= 0.125f * fabsf(pulls ? x[i] : 0)) {
			x[i] += e[i];
			e[i] = 0;
		}
		n += e[i] != 0;
		sum += fabs((double)e[i]);
	}
	MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
	MP_OK(tutti_ps_held(t, &held));
	TT_EXPECT(held.elements == n && held.sum == sum);
	MP_OK(tutti_ps_clock(ps));
	if (!pulls)
		return 0;
	MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	TT_EXPECT(!memcmp(v, x, sizeof(v)));
	return 0;
}

static int filter_steps(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t)
{
	struct tutti_ps_held held = {.size = sizeof(held)};
	float e[COUNT] = {0}, x[COUNT], v[COUNT];
	uint64_t sent;
	int c, i;

	for (i = 0; i < COUNT; i++)
		x[i] = 100;
	/* nothing was pulled yet, so all is significant; elements that do not change are not */
	TT_EXPECT(!filter_clock(job, ps, t, 0, e, x, false));
	MP_OK(tutti_ps_held(t, &held));
	sent = held.sent_bytes;
	TT_EXPECT(!held.elements && sent && sent <= 8 + 5 * FEW);
	MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	TT_EXPECT(!memcmp(v, x, sizeof(v)));
	for (c = 1; c < 50; c++)
		TT_EXPECT(!filter_clock(job, ps, t, c, e, x, true));
	MP_OK(tutti_ps_held(t, &held));
	TT_EXPECT(held.elements && held.plain_bytes == 50 * COUNT * sizeof(float));
	TT_EXPECT(held.sent_bytes < sent + 49 * (8 + 5 * FEW) / 2);
	MP_OK(tutti_ps_flush(t));
	MP_OK(tutti_ps_clock(ps));
	MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(v[i] == x[i] + e[i]);
	/* where most elements are significant, they travel as they are */
	MP_OK(tutti_ps_held(t, &held));
	sent = held.sent_bytes;
	for (i = 0; i < COUNT; i++)
		e[i] = i % 2 || i > 2100 ? 1000 : 1;
	MP_OK(tutti_ps_push(t, e, 0, COUNT, TUTTI_FLOAT32));
	MP_OK(tutti_ps_held(t, &held));
	TT_EXPECT(held.sent_bytes - sent > 2 * 512 * 5);
	TT_EXPECT(held.sent_bytes - sent <= 2 * (512 * 5 + 8) + (COUNT - 2 * BLOCK) * 4);
	MP_OK(tutti_ps_clock(ps));
	MP_OK(tutti_ps_pull(t, x, 0, COUNT, TUTTI_FLOAT32));
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(x[i] == v[i] + (e[i] == 1000 ? 1000 : 0));
	return 0;
}

/* With a codec: what it leaves out and what is not significant make up one residual. */
static int both_steps(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t)
{
	struct tutti_ps_held held = {.size = sizeof(held)};
	static double sum[COUNT], size[COUNT];
	float u[COUNT], v[COUNT];
	int c, i;

	MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	for (c = 0; c < 200; c++) {
		for (i = 0; i < COUNT; i++) {
			u[i] = value(1, 1, c, i);
			sum[i] += (double)u[i];
			size[i] += fabs((double)u[i]);
		}
		MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	}
	MP_OK(tutti_ps_held(t, &held));
	TT_EXPECT(held.most > 5);
	MP_OK(tutti_ps_flush(t));
	MP_OK(tutti_ps_clock(ps));
	MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(fabs((double)v[i] - 100 - sum[i]) <= 1e-6 * (size[i] + 100));
	return 0;
}

static int filter_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_CONSTANT,
				       .init_a = 100,
				       .block = BLOCK * 4,
				       .significance = 0.125};
	struct tutti_ps_table *t, *both;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	MP_OK(tutti_ps_dense(ps, "t", COUNT, TUTTI_FLOAT32, &opt, &t));
	MP_OK(tutti_codec_create("int8:block=64", &opt.codec));
	MP_OK(tutti_ps_dense(ps, "both", COUNT, TUTTI_FLOAT32, &opt, &both));
	MP_OK(tutti_codec_free(opt.codec));
	if (job->rank) {
		TT_EXPECT(!filter_steps(job, ps, t));
		TT_EXPECT(!both_steps(job, ps, both));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void filter(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = filter_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo",
				 .fn = filter_body));
}

/* ---- values that are not finite ---- */

static int wild_body(struct mp_job *job)
{
	static const float wild[] = {NAN, INFINITY, -INFINITY};
	static const char *const with[] = {"fp8:e4m3", "int8:block=64", "onebit:block=64"};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float u[COUNT], v[COUNT];
	int k, i, block;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	for (k = 0; k < 3; k++) {
		TT_EXPECT(!make(job, ps, with[k], with[k], (struct tutti_ps_options){0}, &t));
		block = k ? 64 : 1; /* elements that become NaN together */
		for (i = 0; i < COUNT; i++)
			u[i] = i == 100 ? wild[k] : 1;
		if (!job->rank)
			continue;
		MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
		for (i = 0; i < COUNT; i++)
			TT_EXPECT(i / block == 100 / block ? isnan(v[i]) : v[i] == 1);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void wild(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = wild_body));
}

/* ---- refused ---- */

static int refused_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt)}, bad;
	struct tutti_codec *int8, *fp16;
	struct tutti_ps_table *t = NULL;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, -1, 0, &ps));
	MP_OK(tutti_codec_create("int8", &int8));
	MP_OK(tutti_codec_create("fp16", &fp16));
	opt.codec = int8;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT64, &opt, &t), -EINVAL);
	MP_SAID("codec int8:block=256 is for tables of float32, not float64");
	bad = opt;
	bad.budget = 1000;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -EOPNOTSUPP);
	MP_SAID("budget");
	bad = opt;
	bad.rule = TUTTI_PS_ASSIGN;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -EINVAL);
	MP_SAID("assign");
	bad = opt;
	bad.flush = -1;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -EINVAL);
	MP_SAID("flush is -1");
	bad.codec = NULL;
	bad.flush = 1;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -EINVAL);
	MP_SAID("without codec");
	bad.flush = 0;
	bad.significance = NAN;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -EINVAL);
	bad.significance = -1;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -EINVAL);
	MP_SAID("significance is -1");
	bad.significance = 1;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_INT32, &bad, &t), -EINVAL);
	bad.significance = 1 + job->rank;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -TUTTI_EMISMATCH);
	MP_OK(tutti_codec_create("dgc:1%", &bad.codec));
	bad.significance = 1;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -EOPNOTSUPP);
	MP_SAID("not possible with codec dgc");
	MP_OK(tutti_codec_free(bad.codec));
	bad = opt;
	MP_OK(tutti_codec_create("auto", &bad.codec));
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -EINVAL);
	MP_SAID("codec auto:fp16,int8 chooses for all-reduces");
	MP_OK(tutti_codec_free(bad.codec));
	bad = opt;
	bad.codec = job->rank ? fp16 : int8;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -TUTTI_EMISMATCH);
	bad = opt;
	bad.flush = 1 + job->rank;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &bad, &t), -TUTTI_EMISMATCH);
	TT_EXPECT(!t);
	MP_OK(tutti_codec_free(int8));
	MP_OK(tutti_codec_free(fp16));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refused_body));
}

/*
 * A codec of the test's: float32, behind a word that must be right; 13 is not encoded, and for 666
 * the word is wrong, which only the server minds.
 */
#define MAGIC 0x7357

static size_t mine_bound(size_t count, void *arg)
{
	(void)arg;
	return count * 4 + 4;
}

static int mine_encode(const float *in, size_t count, uint64_t first, uint64_t call, void *out,
		       size_t *len, void *arg)
{
	uint32_t word = in[0] == 666 ? 0 : MAGIC;

	(void)first;
	(void)call;
	(void)arg;
	if (in[0] == 13)
		return -EDOM;
	memcpy(out, &word, sizeof(word));
	memcpy((char *)out + 4, in, count * 4);
	*len = count * 4 + 4;
	return 0;
}

static int mine_decode(const void *in, size_t len, uint64_t first, float *out, size_t count,
		       void *arg)
{
	uint32_t word;

	(void)first;
	memcpy(&word, in, sizeof(word));
	if (len != count * 4 + 4 || (arg && word != MAGIC))
		return -EPROTO;
	memcpy(out, (const char *)in + 4, count * 4);
	return 0;
}

static int damage_steps(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t)
{
	float u[COUNT], v[COUNT];
	int i, err;

	for (i = 0; i < COUNT; i++)
		u[i] = 1;
	u[BLOCK] = 13;
	MP_ERR(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32), -EDOM);
	u[BLOCK] = 666;
	err = tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32);
	if (!err)
		err = tutti_ps_clock(ps);
	for (i = 0; i < 1000 && !err; i++) {
		mp_sleep_ms(1);
		err = tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32);
	}
	TT_EXPECT(err == -EPROTO);
	MP_SAID("rank 0 refused what was pushed to table 't': it is not an encoding");
	do
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	while (v[0] != 2);
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(v[i] == (i / BLOCK == 1 ? 0 : 2));
	return 0;
}

static int damage_body(struct mp_job *job)
{
	struct tutti_codec_user mine = {.size = sizeof(mine),
					.name = "mine",
					.bound = mine_bound,
					.encode = mine_encode,
					.decode = mine_decode,
					.arg = job->rank ? NULL : job};
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_ZERO, .block = BLOCK * 4};
	const int *staleness = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, *staleness, &ps));
	MP_OK(tutti_codec_create_user(&mine, &opt.codec));
	MP_OK(tutti_ps_dense(ps, "t", COUNT, TUTTI_FLOAT32, &opt, &t));
	MP_OK(tutti_codec_free(opt.codec));
	if (job->rank)
		TT_EXPECT(!damage_steps(job, ps, t));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void damage(void)
{
	int staleness[] = {1, TUTTI_PS_ASYNC};

	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = damage_body, .arg = &staleness[0]));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = damage_body, .arg = &staleness[1]));
}

/* ---- servers that are killed ---- */

#define SERVERS 2

static void *killer(void *arg)
{
	struct mp_job *job = arg;

	mp_await(&job->shared->word[1], 20, 20000);
	kill(atomic_load(&job->shared->pid[WORKERS]), SIGKILL);
	return NULL;
}

static int killed_body(struct mp_job *job)
{
	const struct conserve *p = job->arg;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = p->staleness,
					 .copies = 2,
					 .role = job->rank < WORKERS ? TUTTI_PS_WORKER
								     : TUTTI_PS_SERVER};
	struct tutti_ps_table *t[CODECS];
	pthread_t thread;
	struct tutti_ps *ps;
	int k, c;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	for (k = 0; k < CODECS; k++)
		TT_EXPECT(!make(job, ps, codecs[k], codecs[k],
				(struct tutti_ps_options){.flush = 11}, &t[k]));
	mp_meet(job);
	if (!job->rank)
		TT_EXPECT(!pthread_create(&thread, NULL, killer, job));
	for (c = 0; c < p->clocks && job->rank < WORKERS; c++) {
		atomic_store(&job->shared->word[1], c);
		TT_EXPECT(!push_some(job, t, p->sums, job->rank, c));
		MP_OK(tutti_ps_clock(ps));
	}
	if (!job->rank)
		pthread_join(thread, NULL);
	for (k = 0; k < CODECS && job->rank < WORKERS; k++)
		MP_OK(tutti_ps_flush(t[k]));
	if (job->rank < WORKERS) {
		TT_EXPECT(!settle(job, ps, t, CODECS, p->staleness, p->clocks));
		TT_EXPECT(
			!check_sums_until(job, t, p->sums, mp_now() + (p->staleness < 0 ? 20 : 0)));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void killed(void)
{
	int s;

	for (s = TUTTI_PS_ASYNC; s <= 1; s++) {
		struct conserve p = {
			.sums = mp_shared_mem(sizeof(struct sums)), .staleness = s, .clocks = 60};

		TT_CHECK(!MP_RUN(.n = WORKERS + SERVERS, .env = SHM "TUTTI_PS_VERIFY=1",
				 .fn = killed_body, .arg = &p, .killed = 1u << WORKERS));
		munmap(p.sums, sizeof(struct sums));
	}
}

/* ---- workers that leave: what they hold back goes to another ---- */

static int pushes(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t, int n)
{
	float u[COUNT];
	int c, i;

	for (c = 0; c < n; c++) {
		for (i = 0; i < COUNT; i++)
			u[i] = (float)(1 + (i + c + job->rank) % 50);
		MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
	}
	return 0;
}

static float pushed(int ranks, int from, int n, int i)
{
	float sum = 0;
	int r, c;

	for (r = from; r < ranks; r++)
		for (c = 0; c < n; c++)
			sum += (float)(1 + (i + c + r) % 50);
	return sum;
}

static int resized_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = *(const int *)job->arg,
					 .role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER};
	struct tutti_ps_held before = {.size = sizeof(before)}, after = before;
	struct tutti_ps *ps, *fresh;
	struct tutti_ps_table *t;
	float v[COUNT];
	int i;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	TT_EXPECT(!make(job, ps, "topk:1%", "t", (struct tutti_ps_options){0}, &t));
	if (job->rank)
		TT_EXPECT(!pushes(job, ps, t, 5));
	MP_OK(tutti_ps_held(t, &before));
	/* worker 3 leaves, worker 2 serves from now on, and so rank 1 takes over from both */
	config.role = job->rank == 3   ? TUTTI_PS_LEAVE
		      : job->rank == 1 ? TUTTI_PS_WORKER
				       : TUTTI_PS_SERVER;
	MP_OK(tutti_ps_resize(ps, job->world, &config, &fresh));
	if (job->rank == 3)
		return 0;
	MP_OK(tutti_ps_find(fresh, "t", &t));
	MP_OK(tutti_ps_held(t, &after));
	TT_EXPECT(after.sent_bytes == (job->rank == 1 ? before.sent_bytes : 0));
	if (job->rank == 1) {
		TT_EXPECT(after.sum > 2.5 * before.sum);
		MP_OK(tutti_ps_flush(t));
		MP_OK(tutti_ps_clock(fresh));
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
		for (i = 0; i < COUNT; i++)
			TT_EXPECT(v[i] == pushed(4, 1, 5, i));
	}
	MP_OK(tutti_ps_close(fresh));
	return 0;
}

static void resized(void)
{
	int staleness[] = {0, 2, TUTTI_PS_ASYNC}, i;

	for (i = 0; i < 3; i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = resized_body, .arg = &staleness[i]));
}

/* ---- a worker that is killed loses what it held back, and nothing else ---- */

struct died {
	float sent[COUNT]; /* by worker 2, as its encodings decode */
	double held;
};

static int died_pushes(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t,
		       struct oracle *o)
{
	float u[COUNT];
	int c, i;

	for (c = 0; c < 5; c++) {
		for (i = 0; i < COUNT; i++)
			u[i] = value(EXACT, job->rank, c, i);
		MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
		TT_EXPECT(!apply_range(o, u, 0, COUNT));
		MP_OK(tutti_ps_clock(ps));
	}
	return 0;
}

static int died_body(struct mp_job *job)
{
	struct oracle *o = calloc(1, sizeof(*o));
	struct died *d = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float v[COUNT];
	int i;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	TT_EXPECT(!make(job, ps, "topk:1%", "t", (struct tutti_ps_options){0}, &t));
	MP_OK(tutti_codec_create("topk:1%", &o->codec));
	if (job->rank)
		TT_EXPECT(!died_pushes(job, ps, t, o));
	if (job->rank == 2) {
		memcpy(d->sent, o->value, sizeof(d->sent));
		for (i = 0; i < COUNT; i++)
			d->held += fabs((double)o->state[0][i]);
		kill(getpid(), SIGKILL);
	}
	if (job->rank == 1) {
		MP_OK(tutti_ps_flush(t));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
		for (i = 0; i < COUNT; i++)
			TT_EXPECT(v[i] == o->value[i] + o->state[0][i] + d->sent[i]);
	}
	MP_OK(tutti_ps_close(ps));
	MP_OK(tutti_codec_free(o->codec));
	free(o);
	return 0;
}

static int checked(const char *dir, const char *edit);
static bool printed(const char *dir, const char *text);

static void died(void)
{
	char dir[] = "/tmp/tutti-codec-XXXXXX", env[200], text[100];
	struct died *d = mp_shared_mem(sizeof(*d));

	TT_CHECK(mkdtemp(dir) != NULL);
	snprintf(env, sizeof(env), SHM "TUTTI_PS_TRACE=%s/t", dir);
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = died_body, .arg = d, .killed = 1u << 2));
	TT_CHECK(checked(dir, "true") == 0);
	snprintf(text, sizeof(text), "^lost with dead workers: %.6g$", d->held);
	TT_CHECK(d->held > 1000 && printed(dir, text));
	snprintf(text, sizeof(text), "rm -rf %s", dir);
	TT_CHECK(system(text) == 0);
	munmap(d, sizeof(*d));
}

/* ---- checkpoints ---- */

#define SAVED 3 /* tables */

static const char *const saved_codecs[SAVED] = {"topk:1%", "dgc:1%", "qsgd:levels=3"};

static int make_saved(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table **t)
{
	int k;

	for (k = 0; k < SAVED; k++)
		TT_EXPECT(!make(
			job, ps, saved_codecs[k], saved_codecs[k],
			(struct tutti_ps_options){.rule = k ? TUTTI_PS_MOMENTUM : 0, .flush = 9},
			&t[k]));
	return 0;
}

static int go_on(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table **t, int from,
		 int to)
{
	float u[COUNT];
	int c, i, k;

	for (c = from; c < to; c++) {
		for (k = 0; k < SAVED; k++) {
			for (i = 0; i < COUNT; i++)
				u[i] = value(EXACT + k, job->rank, c, i);
			MP_OK(tutti_ps_push(t[k], u, 0, COUNT, TUTTI_FLOAT32));
		}
		MP_OK(tutti_ps_clock(ps));
	}
	return 0;
}

struct saved {
	float value[SAVED][COUNT], other[SAVED][COUNT]; /* of rank 1, of rank 2 */
	double held[SAVED];
	char path[64];
	int dies; /* rank that is killed before the restore; 0: none */
};

/* A run of 14 clocks that is saved after 7, and the 7 others again: the same bits. */
static int saved_body(struct mp_job *job)
{
	struct tutti_ps_held held = {.size = sizeof(held)};
	struct saved *s = job->arg;
	struct tutti_ps_table *t[SAVED];
	struct tutti_ps *ps;
	float v[COUNT];
	int pass, k;

	for (pass = 0; pass < 2; pass++) {
		MP_OK(mp_ps_open(job, 1, 0, &ps));
		TT_EXPECT(!make_saved(job, ps, t));
		if (job->rank && !pass)
			TT_EXPECT(!go_on(job, ps, t, 0, 7));
		if (job->rank && !pass)
			MP_OK(tutti_ps_save(ps, s->path));
		if (job->rank && pass)
			MP_OK(tutti_ps_restore(ps, s->path));
		for (k = 0; k < SAVED && job->rank; k++) {
			MP_OK(tutti_ps_held(t[k], &held));
			TT_EXPECT(held.elements > COUNT / 2 && held.clock == 7 && !held.since);
			TT_EXPECT(!pass || job->rank > 1 || held.sum == s->held[k]);
			if (job->rank == 1)
				s->held[k] = held.sum;
		}
		if (job->rank)
			TT_EXPECT(!go_on(job, ps, t, 7, 14));
		for (k = 0; k < SAVED && job->rank == 1; k++) {
			MP_OK(tutti_ps_pull(t[k], v, 0, COUNT, TUTTI_FLOAT32));
			TT_EXPECT(!pass || !memcmp(v, s->value[k], sizeof(v)));
			memcpy(s->value[k], v, sizeof(v));
		}
		MP_OK(tutti_ps_close(ps));
	}
	return 0;
}

/* Another number of workers: nothing of what was pushed is lost. */
static int fewer_body(struct mp_job *job)
{
	const struct saved *s = job->arg;
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t[SAVED], *other;
	struct tutti_ps *ps;
	double sum;
	float v[COUNT];
	int i, w, c;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	TT_EXPECT(!make_saved(job, ps, t));
	mp_meet(job);
	if (s->dies && job->rank == s->dies)
		kill(getpid(), SIGKILL);
	if (job->rank)
		MP_OK(tutti_ps_restore(ps, s->path));
	if (job->rank)
		MP_OK(tutti_ps_flush(t[0]));
	if (job->rank)
		MP_OK(tutti_ps_clock(ps));
	if (job->rank == 1) {
		MP_OK(tutti_ps_pull(t[0], v, 0, COUNT, TUTTI_FLOAT32));
		for (i = 0; i < COUNT; i++) {
			for (sum = 0, w = 1; w < 4; w++)
				for (c = 0; c < 7; c++)
					sum += (double)value(EXACT, w, c, i);
			TT_EXPECT(v[i] == (float)sum);
		}
	}
	MP_OK(tutti_ps_close(ps));
	if (s->dies)
		return 0;
	/* a table without a codec does not fit, and nothing changes */
	MP_OK(mp_ps_open(job, 1, 0, &ps));
	MP_OK(tutti_ps_dense(ps, saved_codecs[0], COUNT, TUTTI_FLOAT32, &opt, &other));
	if (job->rank)
		MP_ERR(tutti_ps_restore(ps, s->path), -EINVAL);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static int nowhere_body(struct mp_job *job)
{
	struct tutti_ps_table *t[SAVED];
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	TT_EXPECT(!make_saved(job, ps, t));
	if (job->rank) {
		MP_ERR(tutti_ps_save(ps, "/nowhere/at/all"), -ENOENT);
		MP_ERR(tutti_ps_restore(ps, "/nowhere/at/all"), -ENOENT);
		MP_SAID("/nowhere/at/all");
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void saved(void)
{
	struct saved *s = mp_shared_mem(sizeof(*s));

	snprintf(s->path, sizeof(s->path), "/tmp/tutti-codec-%d", (int)getpid());
	TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = saved_body, .arg = s));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = fewer_body, .arg = s));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = fewer_body, .arg = s));
	TT_CHECK(!MP_RUN(.n = 6, .env = SHM, .fn = fewer_body, .arg = s));
	for (s->dies = 1; s->dies < 4; s->dies += 2) /* with a live worker for each share or not */
		TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = fewer_body, .arg = s,
				 .killed = 1u << s->dies));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = nowhere_body));
	unlink(s->path);
	munmap(s, sizeof(*s));
}

/* ---- traces ---- */

static int traced_body(struct mp_job *job)
{
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 1, &ps));
	TT_EXPECT(!make(job, ps, "topk:1%", "t", (struct tutti_ps_options){.flush = 4}, &t));
	if (job->rank)
		TT_EXPECT(!pushes(job, ps, t, 10));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static int checked(const char *dir, const char *edit)
{
	const char *build = getenv("TT_BUILD");
	char command[1024];

	snprintf(command, sizeof(command),
		 "rm -rf %s/x; mkdir %s/x && cp %s/t.* %s/x && { cd %s/x && %s; } && cd - >%s/pwd "
		 "&& "
		 "%s/tutti_ps_check %s/x/t.* >%s/out 2>&1",
		 dir, dir, dir, dir, dir, edit, dir, build ? build : ".", dir, dir);
	return WEXITSTATUS(system(command));
}

static bool printed(const char *dir, const char *text)
{
	char command[256];

	snprintf(command, sizeof(command), "grep -q '%s' %s/out", text, dir);
	return !system(command);
}

static void traced(void)
{
	char dir[] = "/tmp/tutti-codec-XXXXXX", env[200], command[100];

	TT_CHECK(mkdtemp(dir) != NULL);
	snprintf(env, sizeof(env), SHM "TUTTI_PS_TRACE=%s/t", dir);
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = traced_body));
	TT_CHECK(checked(dir, "true") == 0);
	TT_CHECK(printed(dir, "^held back: at most [1-9]"));
	/* held longer than flush allows; by a worker that has left */
	TT_CHECK(checked(dir, "sed -i -E 's/^held 0 8 4 8/held 0 8 4 4/' t.1") == 1);
	TT_CHECK(printed(dir, "held back"));
	TT_CHECK(checked(dir, "sed -i -E 's/^(held 0 10 4 [0-9]+) 0 0$/\\1 3 7.5/' t.0") == 1);
	/* by one that died: lost, which is no violation */
	TT_CHECK(checked(dir, "sed -i '/^tick 10 /,$d' t.1; sed -i '/^held 0 10 /,$d' t.1; "
			      "echo dead 1 >> t.0") == 0);
	TT_CHECK(printed(dir, "^lost with dead workers: [1-9]"));
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	TT_CHECK(system(command) == 0);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"conserve_shm", conserve_shm},
					       {"conserve_ofi", conserve_ofi},
					       {"conserve_verbs", conserve_verbs},
					       {"conserve_fault", conserve_fault},
					       {"bits", bits},
					       {"held", held},
					       {"leave", leave},
					       {"bytes", bytes},
					       {"filter", filter},
					       {"wild", wild},
					       {"refused", refused},
					       {"damage", damage},
					       {"killed", killed},
					       {"resized", resized},
					       {"died", died},
					       {"saved", saved},
					       {"traced", traced},
					       {NULL, NULL}};

	return tt_test_main("ps_codec", tests, argc, argv);
}
