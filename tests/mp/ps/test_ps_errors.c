/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures of the parameter server: no rank waits for a message that cannot come, and no loss is
 * silent.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lib/ps/ps.h"

/* ---- lost messages of a server ---- */

/* *arg: the operation of rank 0, counted from the first of the server's, that fails. */
static int deaf_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float v[100] = {0};
	int err = 0;
	struct tutti_config config = {0};
	char fault[64];

	if (!job->rank) {
		snprintf(fault, sizeof(fault), "error_after=%d", *(int *)job->arg);
		setenv("TUTTI_FAULT", fault, 1);
	}
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(mp_ps_open(job, 1, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 100, TUTTI_FLOAT32, &opt, &t));
	while (job->rank && !err && !atomic_load(&job->shared->word[0])) {
		err = tutti_ps_push(t, v, 0, 100, TUTTI_FLOAT32);
		if (!err)
			err = tutti_ps_clock(ps);
		if (!err)
			err = tutti_ps_pull(t, v, 0, 100, TUTTI_FLOAT32);
	}
	if (err) {
		MP_ERR(err, -TUTTI_EPEER);
		TT_EXPECT(!atomic_fetch_add(&job->shared->word[0],
					    1)); /* one, and the others go on */
	}
	MP_ERR(tutti_ps_close(ps),
	       err);   /* of the two ends that accuse each other, the server stays */
	mp_leave(job); /* the rank that could not be reached is out of the job */
	TT_EXPECT(mp_await(&job->shared->word[0], 1, MP_HANG_MS));
	return 0;
}

static void deaf(void)
{
	int at;

	/* an answer, a directory, the clock: some of each */
	for (at = 300; at < 304; at++)
		TT_CHECK(!MP_RUN(.n = 3, .no_init = true, .fn = deaf_body, .arg = &at,
				 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_TIMEOUT=60s"));
}

/* ---- an answer that no server would give ---- */

static void fill_late(void *value, uint64_t first, size_t count, enum tutti_datatype datatype,
		      void *arg)
{
	struct mp_job *job = arg;

	memset(value, (int)first, count * tutti_datatype_size(datatype));
	mp_await(&job->shared->word[0], 1, MP_HANG_MS);
}

/* Rows are asked for; before the server has an answer, this one is in its place. */
static int forged(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t, uint64_t len,
		  uint32_t place)
{
	struct tt_wire *wire = job->ctx->wire;
	struct tt_ps_out *out = &ps->link[0].out[ps->link[0].sent % TT_PS_SLOTS];
	uint64_t key[2] = {1000 + ps->link[0].sent, 2000 + ps->link[0].sent};
	struct tutti_request *req;
	struct tt_ps_credit *credit;
	float v[2][4];

	MP_OK(tutti_ps_ipull_rows(t, key, 2, v, TUTTI_FLOAT32, &req));
	tt_wire_lock(wire);
	credit =
		(struct tt_ps_credit *)(void *)(ps->box + ps->box_back +
						tt_ps_box_credit(ps, 0, 0,
								 (int)(out->number % TT_PS_SLOTS)));
	*credit = (struct tt_ps_credit){.number = out->number, .len = len};
	((uint32_t *)(void *)(credit + 1))[0] = 0;
	((uint32_t *)(void *)(credit + 1))[1] = place;
	TT_EXPECT(out->busy);
	tt_ps_credit_ring(&out->bell[0].bell);
	tt_wire_unlock(wire);
	MP_ERR(tutti_wait(&req), -EPROTO);
	return 0;
}

static int forged_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {
		.size = sizeof(opt), .init = TUTTI_PS_FILL, .fill = fill_late, .arg = job};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 1, &ps));
	MP_OK(tutti_ps_rows(ps, "r", 4, 100, TUTTI_FLOAT32, &opt, &t));
	if (job->rank) {
		TT_EXPECT(!forged(job, ps, t, 8, 1 << 30)); /* a place behind the end */
		MP_SAID("at place 1073741824");
		TT_EXPECT(!forged(job, ps, t, 8, 100));
		TT_EXPECT(
			!forged(job, ps, t, 3 * sizeof(uint32_t), 1)); /* more of them than keys */
		MP_SAID("12 bytes of places of 2 keys");
		atomic_store(&job->shared->word[0], 1);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void answers(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = forged_body));
}

/* ---- closing ---- */

/* A worker that has finished waits for the others, however long they work. */
static int early_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float v[100] = {0};
	struct tutti_ps_config both = {.size = sizeof(both), .staleness = 1};
	int i;

	MP_OK(*(int *)job->arg ? mp_ps_open(job, 1, 1, &ps)
			       : tutti_ps_open(job->world, &both, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 100, TUTTI_FLOAT32, &opt, &t));
	for (i = 0; i < 10 && job->rank == 2; i++) {
		mp_sleep_ms(100);
		MP_OK(tutti_ps_push(t, v, 0, 100, TUTTI_FLOAT32));
		MP_OK(tutti_ps_clock(ps));
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/*
 * A clock that was not reached in time leaves the worker as it was: it can wait again, and leave.
 */
static int gone_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_ps *ps;
	float v[10];

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &opt, &t));
	if (job->rank == 1) {
		MP_ERR(tutti_ps_clock(ps), -ETIMEDOUT);
		MP_SAID("at clock 1, the slowest is at 0: worker 1, rank 2");
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 2);
		MP_ERR(tutti_ps_pull(t, v, 0, 10, TUTTI_FLOAT32), -ETIMEDOUT);
		MP_SAID("it waits for clock 1, and the slowest is at 0: worker 1, rank 2");
		MP_ERR(tutti_ps_clock_to(ps, 1), -ETIMEDOUT);
		atomic_store(&job->shared->word[0], 1);
	} else if (job->rank == 2) {
		TT_EXPECT(mp_await(&job->shared->word[0], 1, 20000));
		mp_sleep_ms(50);
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, 10, TUTTI_FLOAT32));
	}
	MP_OK(tutti_ps_close(ps));
	MP_OK(tutti_barrier(job->world));
	return 0;
}

static void slow_update(void *value, const void *update, size_t count, enum tutti_datatype datatype,
			void *arg)
{
	static bool slept;

	(void)value;
	(void)update;
	(void)count;
	(void)datatype;
	if (!slept || arg)
		mp_sleep_ms(arg ? *(int *)arg : 3000);
	slept = true;
}

/* A worker that cannot continue cannot leave normally; its close still tells the other ranks. */
static int stuck_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_ZERO,
				       .rule = TUTTI_PS_CALLBACK,
				       .update = slow_update};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float v[10] = {0};
	int err = 0, i;

	MP_OK(mp_ps_open(job, 1, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &opt, &t));
	for (i = 0; i < 6 && !err && job->rank == 1; i++)
		err = tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT32);
	if (job->rank == 1) {
		MP_ERR(err, -ETIMEDOUT);
		MP_SAID("room at a server, and has no answer of server 0 (rank 0 on host");
		MP_ERR(tutti_ps_close(ps), -ETIMEDOUT);
	} else {
		MP_ERR(tutti_ps_close(ps), -ETIMEDOUT); /* as told by the push */
		MP_SAID("rank 1");
	}
	mp_meet(job);			  /* the server is held up by its update */
	MP_OK(tutti_barrier(job->world)); /* the world has lost nothing */
	return 0;
}

/*
 * Closing ranks wait as long as a server makes progress; a server without progress is reported.
 * updates: their number, and the milliseconds of each.
 */
static int busy_body(struct mp_job *job)
{
	int *updates = job->arg, i;
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_ZERO,
				       .arg = &updates[1],
				       .rule = TUTTI_PS_CALLBACK,
				       .update = slow_update};
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float v = 0;

	MP_OK(mp_ps_open(job, 2, TUTTI_PS_ASYNC, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 2000, TUTTI_FLOAT32, &opt, &t)); /* half of it on server 1 */
	for (i = 0; i < updates[0] && job->rank == 2; i++)
		MP_OK(tutti_ps_push(t, &v, 1999, 1, TUTTI_FLOAT32));
	MP_ERR(tutti_ps_close(ps), updates[0] > 1 ? 0 : -ETIMEDOUT);
	if (updates[0] == 1) {
		MP_SAID("server 1 (rank 1 on host");
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 1);
	}
	mp_meet(job);
	MP_OK(tutti_barrier(job->world));
	return 0;
}

/*
 * The server itself makes progress but answers no rank, because its replica makes none; the
 * replica is named.
 */
static int copy_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .copies = 2,
					 .staleness = TUTTI_PS_ASYNC,
					 .role = job->rank < 2 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER};
	int ms = job->rank == 1 ? 1500 : 0;
	struct tutti_ps_options opt = {.size = sizeof(opt),
				       .init = TUTTI_PS_ZERO,
				       .arg = &ms,
				       .rule = TUTTI_PS_CALLBACK,
				       .update = slow_update};
	struct tutti_request *req;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float v = 0;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 1, TUTTI_FLOAT32, &opt, &t)); /* on server 0 */
	if (job->rank == 2) {
		MP_OK(tutti_ps_ipush(t, &v, 0, 1, TUTTI_FLOAT32, &req));
		mp_sleep_ms(100);
		raise(SIGKILL);
	}
	MP_ERR(tutti_ps_close(ps), -ETIMEDOUT);
	MP_SAID("server 1 (rank 1 on host");
	return 0;
}

/*
 * Others wait for one that does nothing, as long as another is at work, and no longer than
 * TUTTI_TIMEOUT after that.
 */
static int missing_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_error_info info = {.size = sizeof(info)};
	int staleness = *(int *)job->arg, i;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float v[10] = {0};

	MP_OK(mp_ps_open(job, 1, staleness, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &opt, &t));
	if (job->rank == 1) {
		TT_EXPECT(mp_await(&job->shared->word[0], 3, 20000));
		MP_ERR(tutti_ps_clock(ps), -ETIMEDOUT);
		MP_ERR(tutti_ps_close(ps), -ETIMEDOUT);
	} else {
		for (i = 0; i < 20 && job->rank == 3 && staleness < 0; i++) {
			mp_sleep_ms(50);
			MP_OK(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT32));
		}
		MP_ERR(tutti_ps_close(ps), -ETIMEDOUT);
		MP_SAID("worker 0 (rank 1 on host");
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 1);
		atomic_fetch_add(&job->shared->word[0], 1);
	}
	MP_OK(tutti_barrier(job->world));
	return 0;
}

static void missing(void)
{
	static const int staleness[] = {TUTTI_PS_ASYNC,
					0}; /* BSP: the others' good-byes are not in their turn */
	int i, s;

	for (i = 0; i < 2; i++) {
		s = staleness[i];
		TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=600ms",
				 .fn = missing_body, .arg = &s, .timeout_ms = 15000));
	}
}

/*
 * All is done, but one server does not come to the last meeting: the collector names it and
 * reports first. *arg: the missing rank; if it is the collector, the other ranks know only that.
 */
static int absent_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	int absent = *(int *)job->arg;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = TUTTI_PS_ASYNC,
					 .role = job->rank == absent ? TUTTI_PS_SERVER
								     : TUTTI_PS_WORKER};
	struct tutti_ps *ps;
	int err;

	MP_OK(tutti_ps_open(job->world, &config, &ps));
	if (job->rank == absent)
		TT_EXPECT(mp_await(&job->shared->word[0], 2, 20000));
	err = tutti_ps_close(ps);
	atomic_fetch_add(&job->shared->word[0], 1);
	MP_ERR(err, -ETIMEDOUT);
	MP_SAID("the end of tutti_ps_close did not finish within 3200 ms (TUTTI_TIMEOUT); ");
	TT_EXPECT(mp_said(
		absent ? "; it waits for rank 2"
		       : "; rank 0, which collects, waits for others or has not come itself"));
	TT_EXPECT(!tutti_last_error(&info) && info.rank == absent);
	MP_OK(tutti_barrier(job->world));
	return 0;
}

static void stuck(void)
{
	static int ways[][2] = {{1, 1500}, {6, 200}};
	int i;

	for (i = 0; i < 2; i++)
		TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=600ms",
				 .fn = busy_body, .arg = ways[i], .timeout_ms = 15000));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=600ms", .fn = copy_body,
			 .killed = 4, .timeout_ms = 15000));
}

/* The collector reports a quarter of the time before the other ranks. */
static void absent(void)
{
	int rank;

	for (rank = 0; rank < 3; rank += 2)
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=3200ms",
				 .fn = absent_body, .arg = &rank));
}

static void closing(void)
{
	int servers;

	for (servers = 0; servers < 2; servers++)
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=800ms",
				 .fn = early_body, .arg = &servers));
	TT_CHECK(
		!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=600ms", .fn = gone_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=600ms",
			 .fn = stuck_body));
}

/* ---- a bit that changes on the way ---- */

#define COUNTS 2000

struct damage {
	int after; /* the worker's operation of which a bit changes */
	atomic_int found, other;
};

/* Every element is the number of pushes; else 1. */
static int count_up(struct tutti_ps *ps, struct tutti_ps_table *t)
{
	static int64_t one[COUNTS], got[COUNTS];
	int err = 0, i, k;

	for (k = 0; k < COUNTS; k++)
		one[k] = 1;
	for (i = 1; !err && i <= 20; i++) {
		err = tutti_ps_push(t, one, 0, COUNTS, TUTTI_INT64);
		if (!err)
			err = tutti_ps_clock(ps);
		if (!err)
			err = tutti_ps_pull(t, got, 0, COUNTS, TUTTI_INT64);
		for (k = 0; !err && k < COUNTS; k++)
			if (got[k] != i)
				return 1;
	}
	return err;
}

static int damaged_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_config config = {0};
	struct damage *d = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	char fault[64];
	int err;

	if (job->rank) {
		snprintf(fault, sizeof(fault), "flip_after=%d", d->after);
		setenv("TUTTI_FAULT", fault, 1);
	}
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(mp_ps_open(job, 1, 0, &ps));
	MP_OK(tutti_ps_dense(ps, "t", COUNTS, TUTTI_INT64, &opt, &t));
	err = job->rank ? count_up(ps, t) : 0;
	TT_EXPECT(err <= 0);
	if (err) {
		MP_OK(tutti_last_error(&info));
		atomic_fetch_add(strstr(info.text, "checksum") ? &d->found : &d->other, 1);
		if (!strstr(info.text, "checksum"))
			printf("  operation %d: %s\n", d->after, info.text);
		fflush(stdout);
	}
	(void)tutti_ps_close(ps);
	TT_EXPECT(!mp_leave_failed(job));
	return 0;
}

/* Pushed and pulled data is never wrong; answers, and headers of blocks, have no checksum. */
static void damaged(void)
{
	struct damage *d = mp_shared_mem(sizeof(*d));
	int i;

	for (i = 0; i < 16; i++) {
		d->after = 50 + i;
		TT_CHECK(!MP_RUN(.n = 2, .no_init = true, .fn = damaged_body, .arg = d,
				 .env = "TUTTI_TRANSPORT=fault:shm TUTTI_CHECKSUM=1 "
					"TUTTI_TIMEOUT=2s"));
	}
	printf("  %d bits changed: %d found by checksums, %d otherwise; no value was wrong\n", i,
	       d->found, d->other);
	TT_CHECK(d->found >= 8);
	munmap(d, sizeof(*d));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"deaf", deaf},	      {"answers", answers}, {"closing", closing}, {"stuck", stuck},
		{"missing", missing}, {"absent", absent},   {"damaged", damaged}, {NULL, NULL}};

	return tt_test_main("ps_errors", tests, argc, argv);
}
