/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_call's timeout and priority: a deadline of its own in every form, in groups and of every
 * start; calls of high priority overtake those that wait for room; results never depend on either.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>

#define LOW 1000 /* many more than a connection has room for */

static struct tutti_call sum_of(int32_t *v, size_t count)
{
	return (struct tutti_call){.size = sizeof(struct tutti_call),
				   .coll = TUTTI_COLL_ALLREDUCE,
				   .sendbuf = TUTTI_IN_PLACE,
				   .recvbuf = v,
				   .count = count,
				   .datatype = TUTTI_INT32,
				   .op = TUTTI_SUM};
}

enum form { BLOCKING, NONBLOCKING, PERSISTENT, GROUP, FORMS };

/* Rank 0 calls alone; the communicator's own timeout is longer than the test. */
static int late(struct mp_job *job, enum form form)
{
	struct tutti_request *req = NULL;
	struct tutti_comm *comm;
	struct tutti_call call;
	int32_t v[2] = {1, 1};
	double begin;
	int err;

	MP_OK(tutti_comm_dup(job->world, &comm));
	if (job->rank) {
		mp_meet(job);
		return 0;
	}
	call = sum_of(v, 1);
	call.timeout_ms = 120;
	begin = mp_now();
	if (form == BLOCKING) {
		err = tutti_call(comm, &call, NULL);
	} else if (form == GROUP) { /* fused: the shorter of two */
		MP_OK(tutti_group_start());
		MP_OK(tutti_call(comm, &call, NULL));
		call.recvbuf = v + 1;
		call.timeout_ms = TUTTI_NEVER;
		MP_OK(tutti_call(comm, &call, NULL));
		err = tutti_group_end();
	} else {
		call.flags = form == PERSISTENT ? TUTTI_CALL_PERSISTENT : 0;
		MP_OK(tutti_call(comm, &call, &req));
		if (form == PERSISTENT)
			MP_OK(tutti_start(req));
		err = tutti_wait(&req);
	}
	MP_ERR(err, -ETIMEDOUT);
	MP_SAID("120 ms (timeout_ms of tutti_call)");
	TT_EXPECT(mp_now() - begin > 0.11);
	MP_OK(tutti_request_free(req));
	mp_meet(job);
	return 0;
}

/* The timeouts of requests that run fused are set: the shorter one counts. */
static int fused_later(struct mp_job *job)
{
	int32_t in[2] = {1, 1}, out[2];
	struct tutti_request *req[2];
	struct tutti_comm *comm;
	int i;

	MP_OK(tutti_comm_dup(job->world, &comm));
	if (job->rank) {
		mp_meet(job);
		return 0;
	}
	MP_OK(tutti_group_start());
	for (i = 0; i < 2; i++)
		MP_OK(tutti_iallreduce(&in[i], &out[i], 1, TUTTI_INT32, TUTTI_SUM, comm, &req[i]));
	MP_OK(tutti_group_end());
	MP_ERR(tutti_request_free(req[0]), -EBUSY); /* it is fused */
	MP_OK(tutti_request_set_timeout(req[1], 120));
	MP_OK(tutti_request_set_timeout(req[0], TUTTI_NEVER));
	MP_ERR(tutti_wait(&req[0]), -ETIMEDOUT);
	MP_SAID("120 ms (tutti_request_set_timeout)");
	MP_ERR(tutti_wait(&req[1]), -ETIMEDOUT);
	mp_meet(job);
	return 0;
}

static int late_body(struct mp_job *job)
{
	int form;

	for (form = 0; form < FORMS; form++)
		TT_EXPECT(!late(job, (enum form)form));
	TT_EXPECT(!fused_later(job));
	MP_OK(tutti_barrier(job->world));
	return 0;
}

/* A timeout that is not reached changes nothing; never waits longer than the communicator's. */
static int longer_body(struct mp_job *job)
{
	struct tutti_comm *comm;
	struct tutti_call call;
	struct tutti_request *req;
	int32_t v[40];
	int i, k;

	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(tutti_comm_set_timeout(comm, 150));
	call = sum_of(v, 40);
	call.flags = TUTTI_CALL_PERSISTENT;
	call.timeout_ms = job->rank ? 20000 : TUTTI_NEVER;
	MP_OK(tutti_call(comm, &call, &req));
	for (k = 0; k < 3; k++) {
		for (i = 0; i < 40; i++)
			v[i] = i + job->rank;
		if (job->rank)
			mp_sleep_ms(k == 1 ? 400 : 0);
		MP_OK(tutti_start(req));
		MP_OK(tutti_wait(&req));
		for (i = 0; i < 40; i++)
			TT_EXPECT(v[i] == job->n * i + job->n * (job->n - 1) / 2);
	}
	MP_OK(tutti_request_free(req));
	call.flags = 0;
	call.timeout_ms = TUTTI_NEVER;
	if (job->rank)
		mp_sleep_ms(400);
	for (i = 0; i < 40; i++)
		v[i] = 1;
	MP_OK(tutti_call(comm, &call, NULL));
	TT_EXPECT(v[0] == job->n && v[39] == job->n);
	return 0;
}

/* Messages from rank 0 to rank 1, more than there is room for; the last call has the priority. */
static int order(struct mp_job *job, int priority, int *before)
{
	static struct tutti_request *req[LOW + 1];
	static int32_t v[LOW + 1];
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_BCAST,
				  .count = 1,
				  .datatype = TUTTI_INT32};
	int i, done = 0;

	for (i = 0; i <= LOW; i++) {
		v[i] = job->rank ? -1 : 3 * i + 1;
		call.recvbuf = &v[i];
		call.priority = i == LOW ? priority : 0;
		if (job->rank && !i)
			mp_meet(job); /* rank 0 has called them all */
		MP_OK(tutti_call(job->world, &call, &req[i]));
	}
	if (!job->rank)
		mp_meet(job);
	for (*before = LOW; job->rank && !done;) {
		MP_OK(tutti_request_get_status(req[LOW], &done));
		for (i = 0; i < LOW && v[i] >= 0; i++)
			;
		*before = i;
	}
	MP_OK(tutti_waitall(LOW + 1, req));
	for (i = 0; i <= LOW; i++)
		TT_EXPECT(v[i] == 3 * i + 1);
	return 0;
}

static int priority_body(struct mp_job *job)
{
	int32_t x = 1;
	int low, high;

	MP_OK(tutti_bcast(&x, 1, TUTTI_INT32, 0, job->world)); /* connected */
	TT_EXPECT(!order(job, 0, &low));
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!order(job, 7, &high));
	MP_OK(tutti_barrier(job->world));
	if (job->rank) {
		printf("  %d of %d calls were complete before the last one, and %d before one of "
		       "priority 7\n",
		       low, LOW, high);
		TT_EXPECT(low > LOW / 2 && high < LOW / 2);
	}
	TT_EXPECT(!order(job, -3, &low));
	TT_EXPECT(!job->rank || low > LOW / 2);
	return 0;
}

/* Ranks may give different values, in every order of the calls' ends. */
static int mixed_body(struct mp_job *job)
{
	enum { N = 24, LEN = 5000 };
	static int32_t v[N][LEN];
	struct tutti_request *req[N];
	struct tutti_call call;
	int i, k, round;

	for (round = 0; round < 3; round++) {
		for (k = 0; k < N; k++) {
			for (i = 0; i < LEN; i++)
				v[k][i] = job->rank + i % 50 + k;
			call = sum_of(v[k], k % 2 ? LEN : 3);
			call.priority = (k * 7 + 3 * job->rank + round) % 5 - 2;
			MP_OK(tutti_call(job->world, &call, &req[k]));
		}
		MP_OK(tutti_waitall(N, req));
		for (k = 0; k < N; k++)
			for (i = 0; i < (k % 2 ? LEN : 3); i++)
				TT_EXPECT(v[k][i] ==
					  job->n * (i % 50 + k) + job->n * (job->n - 1) / 2);
		MP_OK(tutti_group_start());
		for (k = 0; k < 3; k++) {
			v[k][0] = k;
			call = sum_of(v[k], 1);
			call.priority = k + job->rank;
			MP_OK(tutti_call(job->world, &call, NULL));
		}
		MP_OK(tutti_group_end());
		for (k = 0; k < 3; k++)
			TT_EXPECT(v[k][0] == k * job->n);
	}
	return 0;
}

static int refused_body(struct mp_job *job)
{
	struct tutti_request *req = (void *)job;
	int32_t v = 1;
	struct tutti_call call = sum_of(&v, 1);

	call.timeout_ms = -2;
	MP_ERR(tutti_call(job->world, &call, NULL), -EINVAL);
	MP_SAID("timeout_ms is -2");
	MP_ERR(tutti_call(job->world, &call, &req), -EINVAL);
	call.timeout_ms = 0;
	call.priority = 1;
	call.count = SIZE_MAX / 2; /* checked as without options */
	MP_ERR(tutti_call(job->world, &call, &req), -EINVAL);
	MP_SAID("fit in memory");
	TT_EXPECT(req == (void *)job && v == 1);
	return 0;
}

#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"

static void timeouts(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = late_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = longer_body));
	if (mp_no_ofi())
		return;
	TT_CHECK(!MP_RUN(.n = 2, .fn = late_body, .env = OFI));
	TT_CHECK(!MP_RUN(.n = 2, .fn = longer_body, .env = OFI));
}

static void priorities(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = priority_body, .env = "TUTTI_NODE=off"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = priority_body, .env = OFI));
}

static void mixed(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = mixed_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = mixed_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = mixed_body, .env = "TUTTI_NODE=off"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = mixed_body, .env = OFI));
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = refused_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"timeouts", timeouts}, {"priorities", priorities},
		{"mixed", mixed},	{"refused", refused},
		{NULL, NULL},
	};

	return tt_test_main("options", tests, argc, argv);
}
