/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoded copies of published blocks: pulls return what the values of one version decode to, of
 * whole blocks and of parts; exact pulls; the bytes; many versions at once; copies that
 * servers send and workers relay (ESSP); damaged copies; servers that are killed; membership
 * change; refused options.
 */
#include "config.h"

#include "tests/mp/ps/ps_coded.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/ps/essp/essp.h"

static int make(struct mp_job *job, struct tutti_ps *ps, const char *codec, size_t block, bool essp,
		struct tutti_ps_table **t)
{
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_ZERO,
				       .block = block * sizeof(float),
				       .essp = essp};

	MP_OK(tutti_codec_create(codec, &opt.publish));
	MP_OK(tutti_ps_dense(ps, codec, COUNT, TUTTI_FLOAT32, &opt, t));
	MP_OK(tutti_codec_free(opt.publish));
	return 0;
}

/* ---- values ---- */

static int through(const char *name, float *v)
{
	return through_blocks(name, v, COUNT, BLOCK);
}

/* Exact pulls, whole ones, and parts of one block and of several. */
static int compare(struct mp_job *job, struct tutti_ps_table *t, const char *name, const float *x)
{
	static const int from[] = {0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 5, COUNT - 1, 17};
	static const int to[] = {1, 2, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 6, COUNT, COUNT - 3};
	static float v[COUNT], d[COUNT];
	int i;

	memcpy(d, x, sizeof(d));
	TT_EXPECT(!through(name, d));
	MP_OK(tutti_ps_exact(t, 1));
	MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	TT_EXPECT(!memcmp(v, x, sizeof(v)));
	for (i = 0; i < 7; i++) {
		MP_OK(tutti_ps_pull(t, v, (size_t)from[i], (size_t)(to[i] - from[i]),
				    TUTTI_FLOAT32));
		TT_EXPECT(!memcmp(v, x + from[i], (size_t)(to[i] - from[i]) * 4));
	}
	MP_OK(tutti_ps_exact(t, 0));
	MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	TT_EXPECT(!memcmp(v, d, sizeof(v)));
	for (i = 0; i < 7; i++) {
		memset(v, 0x77, sizeof(v));
		MP_OK(tutti_ps_pull(t, v + 1, (size_t)from[i], (size_t)(to[i] - from[i]),
				    TUTTI_FLOAT32));
		TT_EXPECT(!memcmp(v + 1, d + from[i], (size_t)(to[i] - from[i]) * 4));
		TT_EXPECT(v[0] == v[COUNT - 1] || to[i] - from[i] >= COUNT - 20);
	}
	return 0;
}

static int values_body(struct mp_job *job)
{
	const struct how *how = job->arg;
	static float u[COUNT], x[COUNT];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int k, c, i;

	MP_OK(mp_ps_open(job, 1, how->staleness, &ps));
	for (k = 0; k < CODECS; k++) {
		TT_EXPECT(!make(job, ps, codecs[k], BLOCK, how->essp, &t));
		memset(x, 0, sizeof(x));
		for (c = 0; c < 5 && job->rank; c++) {
			for (i = 0; i < COUNT; i++)
				u[i] = c == 4 && i == 70 ? 1e30f : value(k, c, i);
			MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
			MP_OK(tutti_ps_clock(ps));
			for (i = 0; i < COUNT; i++)
				x[i] += u[i];
			TT_EXPECT(!compare(job, t, codecs[k], x));
		}
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void values(void)
{
	struct how how[] = {{0, false}, {1, false}, {TUTTI_PS_ASYNC, false},
			    {0, true},	{1, true},  {TUTTI_PS_ASYNC, true}};
	int i;

	for (i = 0; i < 6; i++)
		TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = values_body, .arg = &how[i]));
	TT_CHECK(
		!MP_RUN(.n = 2, .env = SHM "TUTTI_PS_VERIFY=1", .fn = values_body, .arg = &how[0]));
	TT_CHECK(!MP_RUN(.n = 2, .fn = values_body, .arg = &how[1],
			 .env = "TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=3,delay=0.1:300,reorder=0.3,again=0.2"));
}

static void values_ofi(void)
{
	struct how how = {1, false};

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_CHECKSUM=1",
			 .fn = values_body, .arg = &how));
}

static void values_verbs(void)
{
	struct how how = {1, false};

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs", .fn = values_body, .arg = &how));
}

/* ---- one version: every push adds 1 to all elements, so those of a block are always equal ---- */

#define PUSHES 2000

static int versions_body(struct mp_job *job)
{
	static float one[COUNT], v[COUNT];
	int pushes = mp_sanitized() ? PUSHES / 10 : PUSHES, i, k;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &ps));
	TT_EXPECT(!make(job, ps, "fp16", BLOCK, false, &t));
	for (i = 0; i < COUNT; i++)
		one[i] = 1;
	for (i = 0; i < pushes && job->rank == 1; i++)
		MP_OK(tutti_ps_push(t, one, 0, COUNT, TUTTI_FLOAT32));
	if (job->rank == 1)
		atomic_store(&job->shared->word[1], 1);
	while (job->rank > 1 && !atomic_load(&job->shared->word[1])) {
		MP_OK(tutti_ps_pull(t, v, 3, COUNT - 3, TUTTI_FLOAT32));
		for (i = 3; i < COUNT; i++) {
			k = i / BLOCK * BLOCK;
			TT_EXPECT(v[i - 3] == v[(k < 3 ? 3 : k) - 3]);
		}
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void versions(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_PS_GRACE=20", .fn = versions_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_PS_GRACE=20 TUTTI_PS_VERIFY=1",
			 .fn = versions_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_PS_GRACE=20",
				 .fn = versions_body));
}

/* ---- bytes ---- */

static int bytes_body(struct mp_job *job)
{
	static const char *const with[] = {"fp16", "int8", "fp8:e4m3"};
	static const double ratio[] = {2, 256.0 / 65, 4};
	static float v[COUNT];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	uint64_t got;
	int k;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	for (k = 0; k < 3; k++) {
		TT_EXPECT(!make(job, ps, with[k], BLOCK, false, &t));
		if (!job->rank)
			continue;
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
		got = mp_got_bytes(job);
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
		got = mp_got_bytes(job) - got;
		TT_EXPECT((double)got >= COUNT * 4 / ratio[k]);
		TT_EXPECT((double)got <= COUNT * 4 / ratio[k] + COUNT / BLOCK * 128);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void bytes(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = bytes_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo",
				 .fn = bytes_body));
}

/* ---- ESSP: rank 1 pushes; a block at clock c has the pushes of c - staleness clocks or more ----
 */

#define CLOCKS 8

static float version[CLOCKS + 1][COUNT], decoded[CLOCKS + 1][COUNT];

static int fill_versions(const char *codec)
{
	int c, i;

	for (c = 0; c <= CLOCKS; c++) {
		for (i = 0; i < COUNT; i++)
			version[c][i] = c ? version[c - 1][i] + value(1, c, i) : 0;
		memcpy(decoded[c], version[c], sizeof(version[c]));
		TT_EXPECT(!through(codec, decoded[c]));
	}
	return 0;
}

/* Each block of elements from..COUNT is of one version, of clock `least` or later. */
static int one_version(float (*of)[COUNT], const float *v, int from, int least, int most)
{
	int at, to, c;

	for (at = from; at < COUNT; at = to) {
		to = (at / BLOCK + 1) * BLOCK;
		for (c = most; c >= least; c--)
			if (!memcmp(v + at - from, of[c] + at, (size_t)(to - at) * sizeof(float)))
				break;
		if (c < least)
			return fprintf(stderr, "elements %d to %d: %g\n", at, to, v[at - from]), 1;
	}
	return 0;
}

/* Nothing is read at the server once blocks arrive, but by exact pulls. */
static int pull_sent(struct mp_job *job, struct tutti_ps_table *t, int c, int staleness)
{
	int least = job->rank == 1 ? c : staleness < 0 || c < staleness ? 0 : c - staleness;
	int most = staleness && job->rank > 1 ? CLOCKS : c;
	uint64_t got = mp_got_bytes(job);
	static float v[COUNT];

	MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	TT_EXPECT(!one_version(decoded, v, 0, least, most));
	MP_OK(tutti_ps_pull(t, v, 4321, COUNT - 4321, TUTTI_FLOAT32));
	TT_EXPECT(!one_version(decoded, v, 4321, least, most));
	if (staleness >= 0 && c > staleness)
		TT_EXPECT(mp_got_bytes(job) == got);
	if (staleness && c < CLOCKS)
		return 0;
	MP_OK(tutti_ps_exact(t, 1));
	MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	TT_EXPECT(!one_version(version, v, 0, least, most));
	TT_EXPECT(mp_got_bytes(job) >= got + COUNT * sizeof(float));
	MP_OK(tutti_ps_exact(t, 0));
	return 0;
}

static int essp_body(struct mp_job *job)
{
	int staleness = *(const int *)job->arg, k, c;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, staleness, &ps));
	for (k = 0; k < CODECS; k++) {
		TT_EXPECT(!make(job, ps, codecs[k], BLOCK, true, &t));
		TT_EXPECT(!fill_versions(codecs[k]));
		for (c = 0; c <= CLOCKS && job->rank; c++) {
			if (c && job->rank == 1) {
				static float u[COUNT];
				int i;

				for (i = 0; i < COUNT; i++)
					u[i] = value(1, c, i);
				MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
			}
			if (c)
				MP_OK(tutti_ps_clock(ps));
			TT_EXPECT(!pull_sent(job, t, c, staleness));
		}
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void essp(void)
{
	static const char *const env[] = {
		SHM "TUTTI_PS_VERIFY=1 TUTTI_PS_RELAY=0", SHM "TUTTI_PS_RELAY=1",
		"TUTTI_TRANSPORT=fault:shm TUTTI_PS_RELAY=1 TUTTI_PS_VERIFY=1 "
		"TUTTI_FAULT=seed=3,delay=0.1:300,reorder=0.3,again=0.2"};
	int staleness[] = {0, 2, TUTTI_PS_ASYNC}, i;

	for (i = 0; i < 3; i++) {
		TT_CHECK(!MP_RUN(.n = 4, .env = env[0], .fn = essp_body, .arg = &staleness[i]));
		TT_CHECK(!MP_RUN(.n = 4, .env = env[1], .fn = essp_body, .arg = &staleness[i]));
	}
	TT_CHECK(!MP_RUN(.n = 4, .env = env[2], .fn = essp_body, .arg = &staleness[1]));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_PS_RELAY=1",
				 .fn = essp_body, .arg = &staleness[0]));
}

static uint64_t put_bytes(struct mp_job *job)
{
	struct tutti_stats stats = {.size = sizeof(stats)};

	return tutti_stats_get(job->ctx, &stats) ? 0 : stats.put_bytes;
}

/* Bytes that the server sends while every block changes in each clock; none for exact pulls. */
static int sent_body(struct mp_job *job)
{
	static const char *const with[] = {NULL, "fp16", "int8", "bf16"};
	static const double ratio[] = {1, 2, 256.0 / 65, 100};
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_ZERO, .essp = 1, .block = BLOCK * 4};
	static float v[COUNT];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	double sent, values = (double)CLOCKS * (job->n - 1) * COUNT * 4;
	int k, c;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	for (k = 0; k < 4; k++) {
		if (with[k])
			MP_OK(tutti_codec_create(with[k], &opt.publish));
		MP_OK(tutti_ps_dense(ps, with[k] ? with[k] : "-", COUNT, TUTTI_FLOAT32, &opt, &t));
		if (with[k])
			MP_OK(tutti_codec_free(opt.publish));
		MP_OK(tutti_ps_exact(t, k == 3));
		if (job->rank)
			MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
		mp_meet(job);
		sent = (double)put_bytes(job);
		mp_meet(job);
		for (c = 0; c < CLOCKS && job->rank; c++) {
			MP_OK(tutti_ps_push(t, v, 0, COUNT, TUTTI_FLOAT32));
			MP_OK(tutti_ps_clock(ps));
			MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
		}
		mp_meet(job);
		sent = (double)put_bytes(job) - sent;
		if (job->rank)
			continue;
		if ((k < 3 && sent < values / ratio[k]) || sent > values / ratio[k] * 1.3)
			return fprintf(stderr, "%d: %g bytes of %g\n", k, sent, values), 1;
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void sent(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_PS_RELAY=0", .fn = sent_body));
}

/* ---- damaged copies ---- */

static int damage_body(struct mp_job *job)
{
	bool length = *(const bool *)job->arg;
	static float v[COUNT];
	struct tt_ps_head *head;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	TT_EXPECT(!make(job, ps, "int8", BLOCK, false, &t));
	if (!job->rank) {
		head = (struct tt_ps_head *)(void *)(t->mem + tt_ps_slot_at(t, 0, 2, 0));
		if (length)
			head->coded--;
		else
			((char *)(head + 1))[77] ^= 4;
	}
	mp_meet(job);
	if (job->rank) {
		MP_ERR(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32), length ? -EPROTO : -EBADMSG);
		MP_SAID("block 2 of rank 0");
		MP_OK(tutti_ps_pull(t, v, 0, BLOCK, TUTTI_FLOAT32));
		MP_OK(tutti_ps_exact(t, 1));
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void damage(void)
{
	bool length[] = {false, true};

	TT_CHECK(!MP_RUN(.n = 2, .env = SHM "TUTTI_PS_VERIFY=1", .fn = damage_body,
			 .arg = &length[0]));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = damage_body, .arg = &length[1]));
}

/* A damaged length or copy reaches the last worker through two others. */
static int damaged_cache_body(struct mp_job *job)
{
	int what = *(const int *)job->arg, status = what ? -EPROTO : -EBADMSG;
	const struct tt_ps_feed *f;
	static float v[COUNT];
	struct tt_ps_head *head;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	uint64_t got;
	int r;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	TT_EXPECT(!make(job, ps, "int8", BLOCK, true, &t));
	if (!job->rank) {
		head = (struct tt_ps_head *)(void *)(t->mem + tt_ps_slot_at(t, 0, 2, 0));
		if (what == 0)
			((char *)(head + 1))[77] ^= 4;
		else
			head->coded = what < 2 ? head->coded - 1 : 1ull << 40;
	}
	for (r = 0; r < job->n; r++) { /* they subscribe in turn, and relay in turn */
		if (r && r == job->rank)
			MP_ERR(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32), status);
		mp_meet(job);
	}
	if (job->rank == job->n - 1) {
		do {
			f = tt_ps_feed_of(&t->cache[0], 2);
			got = mp_got_bytes(job);
			MP_ERR(tutti_ps_pull(t, v, 2 * BLOCK, BLOCK, TUTTI_FLOAT32), status);
		} while (mp_got_bytes(job) != got);
		MP_SAID("block 2 of rank 0");
		TT_EXPECT(f && f->parent >= 0);
		MP_OK(tutti_ps_pull(t, v, 0, BLOCK, TUTTI_FLOAT32));
		MP_OK(tutti_ps_exact(t, 1));
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void damaged_cache(void)
{
	int what[] = {0, 1, 2, 3}, i;

	for (i = 0; i < 4; i++)
		TT_CHECK(!MP_RUN(.n = 4, .fn = damaged_cache_body, .arg = &what[i],
				 .env = i % 3 ? SHM "TUTTI_PS_RELAY=1"
					      : SHM "TUTTI_PS_RELAY=1 TUTTI_PS_VERIFY=1"));
}

/* ---- a server is killed; its replica's copies are read ---- */

#define ROUNDS 40

static int killed_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .copies = 2,
					 .role = job->rank ? TUTTI_PS_SERVER : TUTTI_PS_WORKER};
	static float one[COUNT], v[COUNT];
	bool essp = *(const bool *)job->arg;
	struct tutti_ps_table *t, *rows;
	uint64_t key[COUNT / WIDTH];
	struct tutti_ps *ps;
	int c, i;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	TT_EXPECT(!make(job, ps, "fp16", 1000, essp, &t));
	TT_EXPECT(!make_rows(job, ps, "fp16", essp, &rows));
	for (i = 0; i < COUNT / WIDTH; i++)
		key[i] = (uint64_t)i * 77;
	for (i = 0; i < COUNT; i++)
		one[i] = (float)(i % 7);
	for (c = 0; c < ROUNDS && !job->rank; c++) {
		if (c == ROUNDS / 2)
			kill(atomic_load(&job->shared->pid[1]), SIGKILL);
		MP_OK(tutti_ps_push(t, one, 0, COUNT, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
		for (i = 0; i < COUNT; i++)
			TT_EXPECT(v[i] == (float)(c + 1) * one[i]);
		MP_OK(tutti_ps_push_rows(rows, key, ROWS / 2, one, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull_rows(rows, key, ROWS / 2, v, TUTTI_FLOAT32));
		for (i = 0; i < ROWS / 2 * WIDTH; i++)
			TT_EXPECT(v[i] == FIRST + (float)(c + 1) * one[i]);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void killed(void)
{
	bool essp[] = {false, true};
	int i;

	for (i = 0; i < 2; i++)
		TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_PS_VERIFY=1", .fn = killed_body,
				 .arg = &essp[i], .killed = 2));
}

/* ---- membership change, refused options ---- */

static int resized_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER};
	static float u[COUNT], v[COUNT];
	struct tutti_ps *ps, *fresh;
	struct tutti_ps_table *t;
	int i;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	TT_EXPECT(!make(job, ps, "int8:block=64", BLOCK, false, &t));
	for (i = 0; i < COUNT; i++)
		u[i] = value(0, 0, i);
	if (job->rank == 1)
		MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
	if (job->rank)
		MP_OK(tutti_ps_clock(ps));
	config.role = job->rank == 2 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER;
	MP_OK(tutti_ps_resize(ps, job->world, &config, &fresh));
	MP_OK(tutti_ps_find(fresh, "int8:block=64", &t));
	if (job->rank != 2) {
		MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
		TT_EXPECT(!through("int8:block=64", u));
		TT_EXPECT(!memcmp(u, v, sizeof(v)));
	}
	MP_OK(tutti_ps_close(fresh));
	return 0;
}

static void resized(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = resized_body));
}

static int refused_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt)};
	static const char *const bad[] = {"onebit", "topk:1%", "qsgd", "randomk:1%"};
	struct tutti_codec *fp16, *bf16;
	struct tutti_ps_table *t = NULL;
	struct tutti_ps *ps;
	int i;

	MP_OK(mp_ps_open(job, -1, 0, &ps));
	for (i = 0; i < 4; i++) {
		MP_OK(tutti_codec_create(bad[i], &opt.publish));
		MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &opt, &t), -EINVAL);
		MP_SAID("it must be fp16, bf16, fp8 or int8");
		MP_OK(tutti_codec_free(opt.publish));
	}
	MP_OK(tutti_codec_create("fp16", &fp16));
	MP_OK(tutti_codec_create("bf16", &bf16));
	opt.publish = fp16;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT64, &opt, &t), -EINVAL);
	MP_SAID("publish is for tables of float32");
	opt.publish = job->rank ? fp16 : bf16;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &opt, &t), -TUTTI_EMISMATCH);
	opt.publish = job->rank ? fp16 : NULL;
	MP_ERR(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &opt, &t), -TUTTI_EMISMATCH);
	TT_EXPECT(!t);
	opt.publish = fp16;
	MP_OK(tutti_ps_dense(ps, "t", 9, TUTTI_FLOAT32, &opt, &t));
	MP_ERR(tutti_ps_exact(NULL, 1), -EINVAL);
	MP_ERR(tutti_ps_exact(t, 2), -EINVAL);
	MP_OK(tutti_codec_free(fp16));
	MP_OK(tutti_codec_free(bf16));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = refused_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"values", values},
					       {"values_ofi", values_ofi},
					       {"values_verbs", values_verbs},
					       {"versions", versions},
					       {"bytes", bytes},
					       {"essp", essp},
					       {"sent", sent},
					       {"damage", damage},
					       {"damaged_cache", damaged_cache},
					       {"killed", killed},
					       {"resized", resized},
					       {"refused", refused},
					       {NULL, NULL}};

	return tt_test_main("ps_codec_copies", tests, argc, argv);
}
