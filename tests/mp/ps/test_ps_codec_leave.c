/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pushes that travel encoded: where what workers hold back goes when they leave or are killed, and
 * that checkpoints and traces have it.
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
	static const struct tt_test tests[] = {{"resized", resized},
					       {"died", died},
					       {"saved", saved},
					       {"traced", traced},
					       {NULL, NULL}};

	return tt_test_main("ps_codec_leave", tests, argc, argv);
}
