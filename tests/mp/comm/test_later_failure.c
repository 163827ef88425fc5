/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that has made its communicator calls on it, and the call fails, while another rank's dup
 * or split still runs: the late rank gets its communicator, and the failure from its own next call.
 */
#include <errno.h>

#include "tests/mp/job.h"

/* How the communicator fails on rank 0 while rank 1 is late. */
struct later {
	bool split, revoke;
};

static int begin(struct mp_job *job, struct tutti_comm *parent, struct tutti_comm **comm,
		 struct tutti_request **req)
{
	const struct later *l = job->arg;

	if (l->split)
		MP_OK(tutti_comm_isplit(parent, 0, 0, comm, req));
	else
		MP_OK(tutti_comm_idup(parent, comm, req));
	return 0;
}

/* A call that rank 1 does not make. */
static int fail_alone(struct mp_job *job, struct tutti_comm *comm)
{
	struct tutti_request *req;
	int32_t v = 1;

	MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_SUM, comm, &req));
	MP_OK(tutti_request_set_timeout(req, 100));
	MP_ERR(tutti_wait(&req), -ETIMEDOUT);
	return 0;
}

/* The control connection keeps the order: rank 1 knows the first failure with the second. */
static int fail_early(struct mp_job *job, struct tutti_comm *comm, struct tutti_comm *mark)
{
	const struct later *l = job->arg;

	if (l->revoke)
		MP_OK(tutti_comm_revoke(comm));
	else
		TT_EXPECT(!fail_alone(job, comm));
	MP_OK(tutti_comm_set_name(mark, "mark"));
	TT_EXPECT(!fail_alone(job, mark));
	return 0;
}

static int later_body(struct mp_job *job)
{
	const struct later *l = job->arg;
	struct tutti_comm *parent, *mark, *comm = NULL;
	struct tutti_request *req = NULL;

	MP_OK(tutti_comm_dup(job->world, &parent));
	MP_OK(tutti_comm_dup(job->world, &mark));
	MP_OK(tutti_barrier(parent));
	TT_EXPECT(!begin(job, parent, &comm, &req));
	if (!job->rank) {
		MP_OK(tutti_wait(&req));
		TT_EXPECT(!fail_early(job, comm, mark));
	} else {
		TT_EXPECT(mp_log_await(job, "mark"));
		MP_OK(tutti_wait(&req));
		TT_EXPECT(comm && tutti_comm_size(comm) == 2);
	}
	MP_ERR(tutti_barrier(comm), l->revoke ? -TUTTI_EREVOKED : -ETIMEDOUT);
	MP_OK(tutti_comm_free(comm));
	TT_EXPECT(!begin(job, parent, &comm, &req));
	MP_OK(tutti_wait(&req));
	MP_OK(tutti_barrier(comm));
	return 0;
}

static void run_both(bool split)
{
	struct later l = {.split = split};
	int revoke;

	for (revoke = 0; revoke < 2; revoke++) {
		l.revoke = revoke;
		TT_CHECK(!MP_RUN(.n = 2, .fn = later_body, .arg = &l, .env = "TUTTI_NODE=off"));
	}
}

static void late_dup(void)
{
	run_both(false);
}

static void late_split(void)
{
	run_both(true);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"dup", late_dup}, {"split", late_split}, {NULL, NULL}};

	return tt_test_main("later_failure", tests, argc, argv);
}
