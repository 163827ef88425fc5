/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that have not made a call in which others wait: warnings and deadlines name them. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static int late_body(struct mp_job *job)
{
	float one = 1;

	MP_OK(tutti_barrier(job->world));
	if (job->rank == 2)
		mp_sleep_ms(1200);
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &one, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	TT_EXPECT(one == (float)job->n);
	if (job->rank != 2)
		TT_EXPECT(mp_log_has(job, "waits for rank 2"));
	MP_OK(tutti_barrier(job->world));
	return 0;
}

static void late(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .fn = late_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = late_body, .env = "TUTTI_PROGRESS=thread"));
}

static int never_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	size_t count = *(size_t *)job->arg;
	float *v = calloc(count, 4);
	double t0 = mp_now(); /* before any rank calls: the first that times out tells the others */

	MP_OK(tutti_barrier(job->world));
	if (job->rank == 1) {
		TT_EXPECT(mp_await(&job->shared->word[0], job->n - 1, 20000));
	} else {
		MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_FLOAT32, TUTTI_SUM,
				       job->world),
		       -ETIMEDOUT);
		TT_EXPECT(mp_now() - t0 > 0.9);
		MP_OK(tutti_comm_error(job->world, &info));
		TT_EXPECT(info.rank == 1 && strstr(info.text, "rank 1") && info.sequence == 2);
		atomic_fetch_add(&job->shared->word[0], 1);
	}
	free(v);
	return 0;
}

/* A run of its own, as what finalize says after it is open: it must only return. */
static int never_then_leave(struct mp_job *job)
{
	int err = never_body(job);

	if (err)
		return err;
	mp_leave(job);
	return 0;
}

static void never(void)
{
	size_t count = 10;

	TT_CHECK(!MP_RUN(.n = 3, .fn = never_then_leave, .env = "TUTTI_TIMEOUT=1s", .arg = &count));
	count = 1000000;
	TT_CHECK(!MP_RUN(.n = 4, .fn = never_then_leave, .env = "TUTTI_TIMEOUT=1s", .arg = &count));
}

/* Tests a request until the log has text. */
static int test_until(struct mp_job *job, struct tutti_request **req, const char *text)
{
	int ms, done = 0;

	for (ms = 0; ms < MP_HANG_MS && !done && !mp_log_has(job, text); ms++) {
		MP_OK(tutti_test(req, &done));
		mp_sleep_ms(1);
	}
	TT_EXPECT(!done && mp_log_has(job, text));
	return 0;
}

/* ---- a rank that comes after the news of the other late rank ---- */

/* word[0]: rank 0 knows that ranks 1 and 2 are late; word[1]: rank 1 may come. */
static int second_body(struct mp_job *job)
{
	struct tutti_request *req;
	float one = 1;

	MP_OK(tutti_barrier(job->world));
	if (job->rank)
		TT_EXPECT(mp_await(&job->shared->word[job->rank == 1], 1, MP_HANG_MS));
	MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &one, 1, TUTTI_FLOAT32, TUTTI_SUM, job->world,
			       &req));
	if (!job->rank) {
		TT_EXPECT(!test_until(job, &req, "waits for rank 2"));
		TT_EXPECT(!test_until(job, &req, "waits for rank 1"));
		atomic_store(&job->shared->word[0], 1);
	} else if (job->rank == 2) {
		TT_EXPECT(!test_until(job, &req, "waits for rank 1"));
		atomic_store(&job->shared->word[1], 1);
	}
	MP_OK(tutti_wait(&req));
	TT_EXPECT(one == 3);
	return 0;
}

static void second(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = second_body, .env = "TUTTI_LATE_AFTER=100ms"));
}

/* ---- a late rank that itself waits for another ---- */

/*
 * Rank 1 waits for rank 2 in a call that rank 0 has left, and is late for the one in which rank 0
 * waits. The news of it comes first, as rank 2 is stopped until then.
 */
static int behind_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *req;
	float in[10] = {0}, out[30];
	int err = 0;

	MP_OK(tutti_barrier(job->world));
	mp_meet(job);
	if (job->rank == 2)
		raise(SIGSTOP);
	if (job->rank)
		TT_EXPECT(mp_await(&job->shared->word[job->rank - 1], 1, MP_HANG_MS));
	if (job->rank < 2)
		err = tutti_gather(in, out, 10, TUTTI_FLOAT32, 1, job->world);
	if (!job->rank) {
		MP_OK(err);
		MP_OK(tutti_ibcast(in, 10, TUTTI_FLOAT32, 1, job->world, &req));
		TT_EXPECT(!test_until(job, &req, "waits for rank 1"));
		kill(atomic_load(&job->shared->pid[2]), SIGCONT);
		TT_EXPECT(!test_until(job, &req, "waits for rank 2"));
		atomic_store(&job->shared->word[0], 1);
		err = tutti_wait(&req);
		atomic_store(&job->shared->word[1], 1);
	}
	if (job->rank == 2)
		return mp_leave_failed(job);
	MP_ERR(err, -ETIMEDOUT);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == 2 && mp_said("it waits for rank 2 on host"));
	TT_EXPECT(mp_said(", rank 1 on host"));
	return mp_leave_failed(job);
}

static void behind(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = behind_body,
			 .env = "TUTTI_LATE_AFTER=100ms TUTTI_TIMEOUT=5s TUTTI_NODE=on"));
}

/* ---- the rank that collects the news dies ---- */

/*
 * Ranks 1 and 2 know that 3 and 4 are late, from rank 0, which is not in their communicator. Then
 * rank 0 dies, and rank 3 comes: its lateness is forgotten.
 */
static int heir_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *req;
	struct tutti_comm *comm;
	float one = 1;
	int err;

	MP_OK(tutti_comm_split(job->world, job->rank > 0, 0, &comm));
	MP_OK(tutti_barrier(comm));
	if (job->rank == 0) {
		TT_EXPECT(mp_await(&job->shared->word[0], 2, MP_HANG_MS));
		kill(getpid(), SIGKILL);
	}
	if (job->rank > 2)
		TT_EXPECT(!mp_await_death(job));
	if (job->rank == 4) {
		TT_EXPECT(mp_await(&job->shared->word[1], 2, MP_HANG_MS));
		return mp_leave_failed(job);
	}
	MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &one, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, &req));
	if (job->rank < 3) {
		TT_EXPECT(!test_until(job, &req, "waits for rank 3"));
		TT_EXPECT(!test_until(job, &req, "waits for rank 4"));
		atomic_fetch_add(&job->shared->word[0], 1);
	}
	err = tutti_wait(&req);
	if (job->rank < 3)
		atomic_fetch_add(&job->shared->word[1], 1);
	MP_ERR(err, -ETIMEDOUT);
	MP_OK(tutti_comm_error(comm, &info));
	TT_EXPECT(info.rank == 4 && mp_said("rank 4 on host") && !mp_said("rank 3 on host"));
	return mp_leave_failed(job);
}

static void heir(void)
{
	TT_CHECK(!MP_RUN(.n = 5, .fn = heir_body, .killed = 1,
			 .env = "TUTTI_LATE_AFTER=100ms TUTTI_TIMEOUT=5s"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"late", late},	   {"never", never},
					       {"second", second}, {"behind", behind},
					       {"heir", heir},	   {NULL, NULL}};

	return tt_test_main("lateness", tests, argc, argv);
}
