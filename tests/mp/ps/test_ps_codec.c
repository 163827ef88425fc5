/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes that travel encoded: what the servers got plus what workers hold back is what was pushed,
 * over 1,000 clocks; the bits of a serial oracle; figures and bytes; flushes; values that are not
 * finite; refused options and damaged encodings; servers that are killed.
 */
#include "config.h"

#include "tests/mp/ps/ps_codec_table.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 2

static const char *const codecs[] = {
	"fp16",		 "bf16",   "fp8:e4m3", "fp8:e5m2",	"int8",	      "int8:block=64",
	"qsgd:levels=7", "onebit", "topk:1%",  "threshold:900", "randomk:5%", "dgc:10%,momentum=0"};
#define CODECS ((int)(sizeof(codecs) / sizeof(codecs[0])))

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
	MP_SAID("significance is not possible with codec dgc");
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
					       {NULL, NULL}};

	return tt_test_main("ps_codec", tests, argc, argv);
}
