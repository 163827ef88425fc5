/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots that are retired when they are read: what such a read may give, and when it must be made
 * again. Here the reader's copy of the directory is made older than it is, so that the moment is
 * met and not waited for.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>

#include "lib/ps/ps.h"

/* Rank 0 serves, rank 1 writes, rank 2 reads. */
struct stale {
	struct mp_job *job;
	struct tutti_ps *ps;
	struct tutti_ps_table *t;
	uint64_t old, new; /* words of the directory */
};

static uint64_t retries(struct tutti_ps_table *t)
{
	struct tutti_ps_read read = {.size = sizeof(read)};

	return tutti_ps_last_read(t, &read) ? UINT64_MAX : read.retries;
}

/* This worker's tau of the block, which has been read. */
static void know(struct stale *s, uint64_t word)
{
	tt_wire_lock(s->ps->comm->ctx->wire);
	atomic_store(tt_ps_hint(s->t, 0, 0), word);
	tt_wire_unlock(s->ps->comm->ctx->wire);
}

/* The writer publishes, the reader learns of it, and then knows no more than before. */
static int forget(struct stale *s)
{
	double end = mp_now() + 20;

	s->old = s->t->track[0].seen[0];
	mp_meet(s->job);
	while ((s->new = atomic_load(tt_ps_hint(s->t, 0, 0))) <= s->old && mp_now() < end)
		mp_sleep_ms(1);
	TT_EXPECT(s->new > s->old);
	mp_meet(s->job);
	know(s, s->old);
	return 0;
}

/*
 * ---- without a bound: it is what it is, and nothing is read twice; but never anything older than
 * before ----
 */

static int read_any(struct mp_job *job, struct stale *s)
{
	int64_t got[2];
	uint64_t before;

	MP_OK(tutti_ps_pull(s->t, got, 0, 2, TUTTI_INT64));
	TT_EXPECT(!got[0] && !got[1]);
	TT_EXPECT(!forget(s));
	before = retries(s->t);
	MP_OK(tutti_ps_pull(s->t, got, 0, 2, TUTTI_INT64));
	TT_EXPECT(!got[0] && !got[1] && s->t->last.version == s->old >> 8);
	know(s, s->new);
	MP_OK(tutti_ps_pull(s->t, got, 0, 2, TUTTI_INT64));
	TT_EXPECT(got[0] == 3 && got[1] == 4 && s->t->last.version == s->new >> 8);
	know(s, s->old);
	MP_OK(tutti_ps_pull(s->t, got, 0, 2, TUTTI_INT64));
	TT_EXPECT(got[0] == 3 && got[1] == 4);
	TT_EXPECT(retries(s->t) == before);
	return 0;
}

static int any_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct stale s = {.job = job};
	int64_t u[2] = {3, 4};

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &s.ps));
	MP_OK(tutti_ps_dense(s.ps, "t", 2, TUTTI_INT64, &opt, &s.t));
	if (job->rank == 2) {
		TT_EXPECT(!read_any(job, &s));
	} else {
		mp_meet(job);
		if (job->rank)
			MP_OK(tutti_ps_push(s.t, u, 0, 2, TUTTI_INT64));
		mp_meet(job);
	}
	MP_OK(tutti_ps_close(s.ps));
	return 0;
}

static void any(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1", .fn = any_body));
}

/* ---- under a bound: what lacks the clock is read again ---- */

static int bound_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct stale s = {.job = job};
	int64_t got = 1, u = 5;
	uint64_t before;

	MP_OK(mp_ps_open(job, 1, 1, &s.ps));
	MP_OK(tutti_ps_dense(s.ps, "t", 1, TUTTI_INT64, &opt, &s.t));
	if (job->rank == 2) {
		MP_OK(tutti_ps_pull(s.t, &got, 0, 1, TUTTI_INT64));
		TT_EXPECT(!got);
		TT_EXPECT(!forget(&s));
		before = retries(s.t);
		MP_OK(tutti_ps_clock_to(s.ps, 2));
		MP_OK(tutti_ps_pull(s.t, &got, 0, 1, TUTTI_INT64));
		TT_EXPECT(got == 5 && retries(s.t) == before + 1 && s.t->last.min_clock >= 1);
	} else {
		mp_meet(job);
		if (job->rank)
			MP_OK(tutti_ps_push(s.t, &u, 0, 1, TUTTI_INT64));
		mp_meet(job);
		if (job->rank)
			MP_OK(tutti_ps_clock(s.ps));
	}
	MP_OK(tutti_ps_close(s.ps));
	return 0;
}

static void bound(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1", .fn = bound_body));
}

/* ---- rows: what lacks the row is read again ---- */

static void sevens(void *value, uint64_t first, size_t count, enum tutti_datatype datatype,
		   void *arg)
{
	int64_t *v = value;

	(void)first;
	(void)datatype;
	(void)arg;
	while (count--)
		*v++ = 7;
}

static int rows_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_FILL, .fill = sevens};
	struct stale s = {.job = job};
	uint64_t key[2] = {10, 20};
	int64_t got = 0;

	MP_OK(mp_ps_open(job, 1, TUTTI_PS_ASYNC, &s.ps));
	MP_OK(tutti_ps_rows(s.ps, "r", 1, 100, TUTTI_INT64, &opt, &s.t));
	if (job->rank == 2) {
		MP_OK(tutti_ps_pull_rows(s.t, &key[0], 1, &got, TUTTI_INT64));
		TT_EXPECT(got == 7);
		TT_EXPECT(!forget(&s));
		got = 0;
		MP_OK(tutti_ps_pull_rows(s.t, &key[1], 1, &got, TUTTI_INT64));
		TT_EXPECT(got == 7 && s.t->last.version > s.old >> 8);
	} else {
		mp_meet(job);
		if (job->rank)
			MP_OK(tutti_ps_pull_rows(s.t, &key[1], 1, &got, TUTTI_INT64));
		mp_meet(job);
	}
	MP_OK(tutti_ps_close(s.ps));
	return 0;
}

static void rows(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_PS_VERIFY=1", .fn = rows_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"any", any}, {"bound", bound}, {"rows", rows}, {NULL, NULL}};

	return tt_test_main("ps_stale", tests, argc, argv);
}
