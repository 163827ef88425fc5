/* SPDX-License-Identifier: BSD-3-Clause */
/* Refused calls, and pushes that a server refuses after their call returned. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdlib.h>

/* Of opening: the same on all ranks, and the communicator is as good as before. */
static int open_refused(struct mp_job *job)
{
	struct tutti_ps_config c = {.size = sizeof(c), .role = TUTTI_PS_WORKER};
	struct tutti_ps *ps = NULL;

	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL);
	MP_SAID("no rank is a server");
	c.role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_BOTH;
	c.workers = job->rank == 1 ? job->n - 1 : 0;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL); /* more workers than declared */
	MP_SAID("rank 1 declared");
	c.workers = 0;
	c.staleness = job->rank == 2;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -TUTTI_EMISMATCH);
	MP_SAID("staleness");
	c.staleness = job->rank == 1 ? -2 : 0;
	MP_ERR(tutti_ps_open(job->world, &c, &ps), -EINVAL);
	MP_ERR(tutti_ps_open(NULL, &c, &ps), -EINVAL);
	TT_EXPECT(!ps);
	return 0;
}

static int tables_refused(struct mp_job *job, struct tutti_ps *ps)
{
	struct tutti_ps_options o = {.size = sizeof(o)}, bad = o;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_ps_table *t = NULL;

	MP_ERR(tutti_ps_dense(ps, "", 10, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_ERR(tutti_ps_dense(ps, "t", 0, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_ERR(tutti_ps_dense(ps, "t", SIZE_MAX, TUTTI_FLOAT32, &o, &t), -EINVAL);
	MP_ERR(tutti_ps_dense(ps, "t", 10, (enum tutti_datatype)77, &o, &t), -EINVAL);
	MP_ERR(tutti_ps_dense(ps, "t", 10u + (unsigned)job->rank, TUTTI_FLOAT32, &o, &t),
	       -TUTTI_EMISMATCH);
	MP_SAID("passes another count than rank 0 (11, not 10)");
	MP_ERR(tutti_ps_dense(ps, job->rank ? "t" : "u", 10, TUTTI_FLOAT32, &o, &t),
	       -TUTTI_EMISMATCH);
	MP_SAID("passes another name than rank 0 (t, not u)");
	if (job->rank)
		MP_OK(tutti_codec_create("topk:1%", &bad.codec));
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &bad, &t), -TUTTI_EMISMATCH);
	MP_SAID("passes another codec than rank 0 (topk:1%, not none)");
	MP_OK(tutti_codec_free(bad.codec));
	bad.codec = NULL;
	if (job->rank)
		MP_OK(tutti_codec_create("int8", &bad.publish));
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &bad, &t), -TUTTI_EMISMATCH);
	MP_SAID("passes another publish than rank 0 (int8:block=256, not none)");
	MP_OK(tutti_codec_free(bad.publish));
	bad.publish = NULL;
	MP_ERR(tutti_ps_dense(ps, "t", 10, job->rank ? TUTTI_INT64 : TUTTI_FLOAT32, &o, &t),
	       -TUTTI_EMISMATCH);
	MP_SAID("passes another datatype than rank 0 (int64, not float32)");
	bad.rate = job->rank;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, &bad, &t), -TUTTI_EMISMATCH);
	MP_SAID("table 't': rank 1 on host ");
	MP_SAID("passes another rate than rank 0 (1, not 0.01");
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == 1);
	bad = o;
	bad.rule = TUTTI_PS_ADAM;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_INT32, &bad, &t), -EINVAL);
	MP_SAID("Adam");
	bad.rule = TUTTI_PS_CALLBACK;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_INT32, &bad, &t), -EINVAL);
	bad.rule = 99;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_INT32, &bad, &t), -EINVAL);
	bad = o;
	bad.combine = TUTTI_PS_COMBINE_SUM;
	MP_ERR(tutti_ps_dense(ps, "t", 10, TUTTI_INT32, &bad, &t), -EINVAL);
	MP_ERR(tutti_ps_rows(ps, "t", 1 << 20, 10, TUTTI_INT32, &o, &t), -EINVAL);
	bad = o;
	bad.block = 3; /* no element fits */
	MP_ERR(tutti_ps_dense(ps, "t", 100, TUTTI_FLOAT32, &bad, &t), -EINVAL);
	MP_SAID("options.block is 3 bytes");
	bad.block = 8; /* more blocks than can be counted */
	MP_ERR(tutti_ps_dense(ps, "t", (size_t)1 << 34, TUTTI_FLOAT32, &bad, &t), -EINVAL);
	MP_SAID("options.block, 8 bytes, is too small");
	/* more than the servers have */
	MP_ERR(tutti_ps_dense(ps, "t", (size_t)1 << 38, TUTTI_FLOAT32, &o, &t), -ENOMEM);
	TT_EXPECT(!t);
	return 0;
}

/* Of calls on tables; each leaves everything as it was. */
static int calls_refused(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t,
			 struct tutti_ps_table *rows)
{
	struct tutti_request *req = NULL;
	struct tutti_ps_table *none = NULL;
	uint64_t key = 5, load;
	float v[100] = {0};

	MP_ERR(tutti_ps_find(ps, "nowhere", &none), -ENOENT);
	MP_ERR(tutti_ps_server_bytes(ps, 9, &load), -EINVAL);
	if (job->rank == 0) {
		MP_ERR(tutti_ps_pull(t, v, 0, 10, TUTTI_FLOAT32), -EPERM);
		MP_ERR(tutti_ps_clock(ps), -EPERM);
		return 0;
	}
	MP_ERR(tutti_ps_pull(NULL, v, 0, 10, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_pull(t, v, 0, 101, TUTTI_FLOAT32), -ERANGE);
	MP_ERR(tutti_ps_push(t, v, 100, 1, TUTTI_FLOAT32), -ERANGE);
	MP_ERR(tutti_ps_push(t, v, SIZE_MAX, 2, TUTTI_FLOAT32), -ERANGE);
	MP_ERR(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT64), -EINVAL);
	MP_SAID("float32, not float64");
	MP_ERR(tutti_ps_pull(t, NULL, 0, 10, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_pull(t, TUTTI_IN_PLACE, 0, 10, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_push(t, TUTTI_IN_PLACE, 0, 10, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_push_pull(t, v, TUTTI_IN_PLACE, 0, 10, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_set(t, TUTTI_IN_PLACE, 100, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_push_rows(rows, &key, 1, TUTTI_IN_PLACE, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_ipull(t, v, 0, 10, TUTTI_FLOAT32, NULL), -EINVAL);
	MP_ERR(tutti_ps_ipush(rows, v, 0, 10, TUTTI_FLOAT32, &req), -EINVAL);
	MP_ERR(tutti_ps_pull_rows(t, &key, 1, v, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_set(t, v, 99, TUTTI_FLOAT32), -EINVAL);
	MP_ERR(tutti_ps_clock_to(ps, 6), -EINVAL);
	MP_SAID("can't go back");
	MP_ERR(tutti_ps_pull(t, v, 0, 10, TUTTI_FLOAT32), -ENODATA); /* before it is set */
	MP_ERR(tutti_ps_pull_rows(rows, &key, 1, v, TUTTI_FLOAT32), -ENOENT);
	TT_EXPECT(!req && !none);
	MP_OK(tutti_ps_pull(t, v, 5, 0, TUTTI_FLOAT32)); /* nothing of it */
	MP_OK(tutti_ps_pull_rows(rows, &key, 0, v, TUTTI_FLOAT32));
	return 0;
}

/* Refusals by a server only: reported by the call, or by the next. */
static int late_refused(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t,
			struct tutti_ps_table *rows)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	uint64_t key[200];
	float v[400] = {0};
	int i, err;

	if (job->rank != 1)
		return 0;
	MP_OK(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT32)); /* before it is set */
	do
		err = tutti_ps_clock_to(ps, 7);
	while (!err);
	MP_ERR(err, -ENODATA);
	MP_SAID("'t'");
	for (i = 0; i < 200; i++)
		key[i] = (uint64_t)i;
	MP_ERR(tutti_ps_push_rows(rows, key, 200, v, TUTTI_FLOAT32), -ENOSPC);
	MP_SAID("rank 0 refused new rows of table 'r': it has room for 20");
	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == 0);
	MP_OK(tutti_ps_push_rows(rows, key, 10, v, TUTTI_FLOAT32)); /* there is room for these */
	MP_OK(tutti_ps_pull_rows(rows, key, 10, v, TUTTI_FLOAT32));
	for (i = 0; i < 100; i++)
		v[i] = (float)i;
	MP_OK(tutti_ps_set(t, v, 100, TUTTI_FLOAT32));
	MP_OK(tutti_ps_push_pull(t, v, v, 0, 100, TUTTI_FLOAT32));
	for (i = 0; i < 100; i++)
		TT_EXPECT(v[i] == (float)(2 * i));
	return 0;
}

/* The server is rank 0 of its communicator, and the last of the world, which errors name. */
static int named_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_ps_config config = {.size = sizeof(config)};
	struct tutti_ps_table *rows;
	struct tutti_comm *comm;
	struct tutti_ps *ps;
	uint64_t key[50];
	float v[50] = {0};
	int i;

	MP_OK(tutti_comm_split(job->world, 0, -job->rank, &comm));
	config.role = job->rank == job->n - 1 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER;
	MP_OK(tutti_ps_open(comm, &config, &ps));
	MP_OK(tutti_ps_rows(ps, "r", 20, 1, TUTTI_FLOAT32, NULL, &rows));
	for (i = 0; i < 50; i++)
		key[i] = (uint64_t)i;
	if (job->rank == 0) {
		MP_ERR(tutti_ps_push_rows(rows, key, 50, v, TUTTI_FLOAT32), -ENOSPC);
		MP_SAID("rank 2 refused new rows of table 'r'");
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 2);
	}
	MP_OK(tutti_ps_close(ps));
	return tutti_comm_free(comm);
}

static void named(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = named_body));
}

static int refused_body(struct mp_job *job)
{
	struct tutti_ps_table *t, *rows, *again = NULL;
	struct tutti_request *req;
	struct tutti_ps *ps;

	TT_EXPECT(!open_refused(job));
	MP_OK(mp_ps_open(job, 1, 2, &ps));
	TT_EXPECT(!tables_refused(job, ps));
	MP_OK(tutti_ps_dense(ps, "t", 100, TUTTI_FLOAT32, NULL, &t));
	MP_OK(tutti_ps_rows(ps, "r", 2, 20, TUTTI_FLOAT32, NULL, &rows));
	MP_ERR(tutti_ps_dense(ps, "t", 100, TUTTI_FLOAT32, NULL, &again), -EEXIST);
	if (job->rank)
		MP_OK(tutti_ps_clock_to(ps, 7));
	TT_EXPECT(!calls_refused(job, ps, t, rows));
	MP_OK(tutti_barrier(job->world)); /* all workers are behind the refusals */
	TT_EXPECT(!late_refused(job, ps, t, rows));
	if (job->rank) {
		MP_OK(tutti_ps_iclock(ps, &req));
		MP_ERR(tutti_ps_close(ps), -EBUSY);
		MP_OK(tutti_wait(&req));
	}
	MP_ERR(tutti_finalize(job->ctx), -EBUSY);
	MP_OK(tutti_ps_close(ps));
	return 0;
}

/*
 * Under BSP a push is answered before it is applied; a later call, perhaps the close, reports its
 * refusal. *arg: whether there is a clock between.
 */
static int held_refused_body(struct mp_job *job)
{
	int clocks = *(int *)job->arg;
	struct tutti_ps_table *t, *rows;
	uint64_t key = 77;
	struct tutti_ps *ps;
	float v[10] = {0};
	int err = 0, end, i;

	MP_OK(mp_ps_open(job, 1, 0, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, NULL, &t));
	MP_OK(tutti_ps_rows(ps, "r", 2, 20, TUTTI_FLOAT32, NULL, &rows));
	if (job->rank == 2)
		MP_OK(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT32)); /* never set */
	/* requests behind a waiting push that the server can handle at once */
	if (job->rank == 2)
		MP_OK(tutti_ps_push_rows(rows, &key, 1, v, TUTTI_FLOAT32));
	mp_meet(job);
	if (job->rank == 1)
		mp_sleep_ms(50); /* rank 2's messages wait for this one's clock */
	for (i = 0; i < clocks && job->rank && !err; i++)
		err = tutti_ps_clock(ps);
	end = tutti_ps_close(ps);
	err = err ? err : end;
	if (job->rank != 2)
		MP_OK(err);
	else
		MP_ERR(err, -ENODATA);
	if (job->rank == 2)
		MP_SAID("no values yet");
	return 0;
}

/* A clock call that reports a refusal has moved the clock; any other call has done nothing. */
static int told_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_read read = {.size = sizeof(read)};
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_ps_table *t, *u;
	struct tutti_request *req;
	float v[10] = {1}, w[10];
	uint64_t clocks = 0;
	int err, pushes = 0;
	struct tutti_ps *ps;

	MP_OK(mp_ps_open(job, 1, 3, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 10, TUTTI_FLOAT32, NULL, &t));
	MP_OK(tutti_ps_dense(ps, "u", 10, TUTTI_FLOAT32, &opt, &u));
	if (job->rank) {
		MP_OK(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT32)); /* never set */
		do {
			mp_sleep_ms(1);
			MP_OK(tutti_ps_iclock(ps, &req));
			err = tutti_wait(&req);
			clocks++;
		} while (!err && clocks < 1000);
		MP_ERR(err, -ENODATA);
		MP_SAID("table 't'");
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 0);
		MP_OK(tutti_ps_push(t, v, 0, 10, TUTTI_FLOAT32));
		do {
			mp_sleep_ms(1);
			err = tutti_ps_push(u, v, 0, 10, TUTTI_FLOAT32);
			pushes += !err;
		} while (!err && pushes < 1000);
		MP_ERR(err, -ENODATA);
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(u, w, 0, 10, TUTTI_FLOAT32));
		TT_EXPECT(w[0] == (float)pushes);
		MP_OK(tutti_ps_last_read(u, &read));
		TT_EXPECT(read.clock == clocks + 1);
	}
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void refused(void)
{
	int clocks;

	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = refused_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = told_body));
	for (clocks = 0; clocks <= 2; clocks++)
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = held_refused_body,
				 .arg = &clocks));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"refused", refused}, {"named", named}, {NULL, NULL}};

	return tt_test_main("ps_calls", tests, argc, argv);
}
