/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Special modes of push and pull: Downpour's periods, threads that apply a push together; and
 * refused calls. For groups of pushes see test_ps_softsync.c.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORKERS 4

/* ---- Downpour: fetch every 3 clocks, push every 2 ---- */

static void count_update(void *value, const void *update, size_t count,
			 enum tutti_datatype datatype, void *arg)
{
	size_t i;

	(void)datatype;
	(void)arg;
	for (i = 0; i < count; i++)
		((float *)value)[i] += ((const float *)update)[i] != 0 ? 100 : 1;
}

#define CLOCKS 6

/*
 * Each row has its own periods: of keys 0, 1 and 7 they begin at clocks 0, 3 and 6; 200 is pulled
 * from clock 1 on, and 100 + c at clock c only. Worker w pushes to rows w and 7.
 */
static int downpour_rows(struct mp_job *job, struct tutti_ps_table *rows, int w, int c)
{
	uint64_t key[5] = {0, 1, 7, 100 + (uint64_t)c, 200}, mine[3] = {(uint64_t)w, 7, 7};
	float got[10], update[6] = {1, 1, 0.5f, 0.5f, 0.5f, 0.5f}, done = (float)(c / 2 * 2);
	int i;

	for (i = 0; i < 10; i++)
		got[i] = -1;
	MP_OK(tutti_ps_pull_rows(rows, key, c ? 5 : 4, got, TUTTI_FLOAT32));
	for (i = 0; i < 6; i++)
		TT_EXPECT(got[i] == (c % 3 ? -1.0f : i < 4 ? done : 2 * done));
	TT_EXPECT(got[6] == 0 && got[7] == 0);
	TT_EXPECT(got[8] == (c % 3 == 2 || !c ? -1.0f : c == 4 ? -1.0f : 0) && got[8] == got[9]);
	MP_OK(tutti_ps_push_rows(rows, mine, 3, update, TUTTI_FLOAT32));
	return 0;
}

static int downpour_rows_end(struct mp_job *job, struct tutti_ps_table *rows)
{
	uint64_t key[3] = {0, 1, 7};
	float got[6];

	MP_OK(tutti_ps_pull_rows(rows, key, 3, got, TUTTI_FLOAT32));
	TT_EXPECT(got[0] == 6 && got[1] == 6 && got[2] == 5 && got[3] == 5);
	TT_EXPECT(got[4] == 11 && got[5] == 11);
	return 0;
}

/*
 * BSP, so that fetched values are known exactly: worker 1 does 5 clocks and leaves, the other
 * worker continues.
 */
static int downpour_steps(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *sum,
			  struct tutti_ps_table *counted, struct tutti_ps_table *rows)
{
	int w = job->rank - 1, c, i, whole;
	float one[5] = {1, 1, 1, 1, 1}, got[20], many[20];

	for (c = 0; c < CLOCKS - w; c++) {
		for (i = 0; i < 20; i++)
			got[i] = many[i] = -1;
		MP_OK(tutti_ps_pull(sum, got, 0, 20, TUTTI_FLOAT32));
		MP_OK(tutti_ps_pull(counted, many, 0, 20, TUTTI_FLOAT32));
		whole = c / 2; /* pushes of each worker so far */
		for (i = 0; i < 20; i++) {
			TT_EXPECT(got[i] == (c % 3 ? -1.0f : i % 10 < 5 ? (float)(whole * 2) : 0));
			TT_EXPECT(many[i] == (c % 3	   ? -1.0f
					      : i % 10 < 5 ? (float)(whole * 100)
							   : 0));
		}
		MP_OK(tutti_ps_push(sum, one, (size_t)w * 10, 5, TUTTI_FLOAT32));
		MP_OK(tutti_ps_push(counted, one, (size_t)w * 10, 2, TUTTI_FLOAT32));
		MP_OK(tutti_ps_push(counted, one + 2, (size_t)w * 10 + 2, 3, TUTTI_FLOAT32));
		TT_EXPECT(!downpour_rows(job, rows, w, c));
		MP_OK(tutti_ps_clock(ps));
	}
	if (w)
		return 0;
	TT_EXPECT(!downpour_rows_end(job, rows));
	MP_OK(tutti_ps_pull(sum, got, 0, 20, TUTTI_FLOAT32));
	for (i = 0; i < 20; i++)
		TT_EXPECT(got[i] == (i < 5 ? 6.0f : i >= 10 && i < 15 ? 5.0f : 0));
	return 0;
}

static int downpour_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_ZERO, .n_fetch = 3, .n_push = 2};
	struct tutti_ps_table *sum, *counted, *rows;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	MP_OK(tutti_ps_dense(ps, "sum", 20, TUTTI_FLOAT32, &opt, &sum));
	MP_OK(tutti_ps_rows(ps, "rows", 2, 100, TUTTI_FLOAT32, &opt, &rows));
	opt.rule = TUTTI_PS_CALLBACK;
	opt.update = count_update;
	MP_OK(tutti_ps_dense(ps, "counted", 20, TUTTI_FLOAT32, &opt, &counted));
	if (job->rank)
		TT_EXPECT(!downpour_steps(job, ps, sum, counted, rows));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void downpour(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = downpour_body));
}

/* ---- threads that apply together ---- */

#define PUSHES 20
#define MANY 100000 /* elements, in blocks of which a push of a whole one is shared */
#define KEYS 3000
#define WIDTH 4

static atomic_int callers;

/* Counts the threads that call it; every update of 1 must be there in the end. */
static void add_and_tell(void *value, const void *update, size_t count,
			 enum tutti_datatype datatype, void *arg)
{
	static _Thread_local bool known;
	size_t i;

	(void)datatype;
	(void)arg;
	if (!known)
		atomic_fetch_add(&callers, 1);
	known = true;
	for (i = 0; i < count; i++)
		((int64_t *)value)[i] += ((const int64_t *)update)[i];
}

/* All workers push to all elements and rows, with repetitions: the sum has every update, once. */
static int crew_sums(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table **t)
{
	int64_t *v = malloc(MANY * sizeof(*v));
	uint64_t *key = malloc(KEYS * sizeof(*key));
	int i, k;

	for (i = 0; i < KEYS; i++)
		key[i] = (uint64_t)(i % (KEYS / 2) * 31);
	for (i = 0; i < MANY; i++)
		v[i] = i % 7 + 1;
	for (k = 0; k < PUSHES; k++) {
		MP_OK(tutti_ps_push(t[0], v, 0, MANY, TUTTI_INT64));
		MP_OK(tutti_ps_push(t[1], v, 0, MANY, TUTTI_INT64));
		MP_OK(tutti_ps_push_rows(t[2], key, KEYS, v, TUTTI_INT64));
	}
	MP_OK(tutti_ps_clock_to(ps, 2)); /* of a staleness of 1: all pushes of all are there */
	for (k = 0; k < 2; k++) {
		MP_OK(tutti_ps_pull(t[k], v, 0, MANY, TUTTI_INT64));
		for (i = 0; i < MANY; i++)
			TT_EXPECT(v[i] == (int64_t)WORKERS * PUSHES * (i % 7 + 1));
	}
	MP_OK(tutti_ps_pull_rows(t[2], key, KEYS / 2, v, TUTTI_INT64));
	for (i = 0; i < KEYS / 2 * WIDTH; i++)
		TT_EXPECT(v[i] ==
			  (int64_t)WORKERS * PUSHES * (i % 7 + 1 + (i + KEYS / 2 * WIDTH) % 7 + 1));
	free(v);
	free(key);
	return 0;
}

static int crew_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .threads = 3};
	struct tutti_ps_table *t[3];
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "sum", MANY, TUTTI_INT64, &opt, &t[0]));
	MP_OK(tutti_ps_rows(ps, "rows", WIDTH, KEYS, TUTTI_INT64, &opt, &t[2]));
	opt.rule = TUTTI_PS_CALLBACK;
	opt.update = add_and_tell;
	MP_OK(tutti_ps_dense(ps, "called", MANY, TUTTI_INT64, &opt, &t[1]));
	if (job->rank)
		TT_EXPECT(!crew_sums(job, ps, t));
	MP_OK(tutti_ps_close(ps));
	TT_EXPECT(job->rank || atomic_load(&callers) == 3);
	return 0;
}

/* The same pushes in the same order: one thread's bits. */
static int crew_bits_body(struct mp_job *job)
{
	static const int rules[] = {TUTTI_PS_ADAM, TUTTI_PS_MOMENTUM, TUTTI_PS_SGD};
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_NORMAL, .init_b = 1, .weight_decay = 0.01};
	float *u = malloc(MANY * sizeof(*u)),
	      *v[2] = {malloc(MANY * sizeof(float)), malloc(MANY * sizeof(float))};
	struct tutti_ps_table *t[2];
	struct tutti_ps *ps;
	char name[8];
	int r, k, i;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	for (r = 0; r < 3; r++) {
		opt.rule = rules[r];
		for (k = 0; k < 2; k++) {
			opt.threads = k ? 5 : 1;
			snprintf(name, sizeof(name), "%d.%d", r, k);
			MP_OK(tutti_ps_dense(ps, name, MANY, TUTTI_FLOAT32, &opt, &t[k]));
		}
		for (k = 0; k < 6 && job->rank; k++) {
			for (i = 0; i < MANY; i++)
				u[i] = (float)((i * 7 + k + job->rank * 3) % 13) - 6;
			MP_OK(tutti_ps_push(t[0], u, 0, MANY, TUTTI_FLOAT32));
			MP_OK(tutti_ps_push(t[1], u, 0, MANY, TUTTI_FLOAT32));
			MP_OK(tutti_ps_clock(ps));
		}
		for (k = 0; k < 2 && job->rank; k++)
			MP_OK(tutti_ps_pull(t[k], v[k], 0, MANY, TUTTI_FLOAT32));
		TT_EXPECT(!job->rank || !memcmp(v[0], v[1], MANY * sizeof(float)));
	}
	MP_OK(tutti_ps_close(ps));
	free(u);
	free(v[0]);
	free(v[1]);
	return 0;
}

static void threads(void)
{
	TT_CHECK(!MP_RUN(.n = 1 + WORKERS, .env = "TUTTI_TRANSPORT=shm", .fn = crew_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = crew_bits_body));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=verbs TUTTI_PS_VERIFY=1",
			 .fn = downpour_body));
}

/* ---- refused calls ---- */

static int refused_body(struct mp_job *job)
{
	int staleness = *(int *)job->arg;
	struct tutti_ps_options good = {.size = sizeof(good), .rule = TUTTI_PS_SGD}, o;
	struct tutti_ps_table *t = NULL;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, staleness, &ps));
	o = good;
	o.softsync = staleness < 0 ? 3 : 1; /* of two workers */
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_SAID("softsync");
	o = good;
	o.staleness_aware = 1;
	o.rule = staleness ? TUTTI_PS_ADAM : TUTTI_PS_SGD;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_SAID("staleness_aware");
	o.rule = TUTTI_PS_SUM;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_INT32, &o, &t), -EINVAL);
	MP_ERR(tutti_ps_rows(ps, "t", 2, 10, TUTTI_INT32, &o, &t), -EINVAL);
	o.rule = staleness ? TUTTI_PS_ADAGRAD : TUTTI_PS_SGD;
	MP_ERR(tutti_ps_rows(ps, "t", 2, 10, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_SAID("staleness_aware");
	o = good;
	o.n_push = -2;
	MP_ERR(tutti_ps_rows(ps, "t", 2, 10, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_SAID("n_push");
	o.n_push = 2;
	o.rule = TUTTI_PS_ASSIGN;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_ERR(tutti_ps_rows(ps, "t", 2, 10, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_SAID("n_push");
	o = good;
	o.threads = 65;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_SAID("threads");
	o = good;
	o.n_fetch = job->rank == 1 ? 2 : 3;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &o, &t), -TUTTI_EMISMATCH);
	TT_EXPECT(!t);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void refused(void)
{
	int s;

	for (s = TUTTI_PS_ASYNC; s <= 0; s++)
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = refused_body,
				 .arg = &s));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"downpour", downpour},
					       {"threads", threads},
					       {"verbs", verbs},
					       {"refused", refused},
					       {NULL, NULL}};

	return tt_test_main("ps_modes", tests, argc, argv);
}
