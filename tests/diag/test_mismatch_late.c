/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that differ while a rank has not made the communicator yet, or has freed it, or makes no
 * call on it any more: every rank gets the error, by a later call or by tutti_finalize. It is the
 * same error on all ranks.
 */
#include "config.h"

#include "lib/comm/comm.h"
#include "tests/mp/job.h"

#include <stdio.h>

#define N 4
#define FREED 70 /* more communicators than a rank remembers */
#define HANG 60.0

enum way { KEPT, FREE, FORGOTTEN, PERSISTENT };

static int32_t in[64], out[64];

/* Rank 0 names another root than the others. */
static int root_of(const struct mp_job *job)
{
	return job->rank == 0;
}

static int reduce(const struct mp_job *job, struct tutti_comm *comm)
{
	return tutti_reduce(in, out, 64, TUTTI_INT32, TUTTI_SUM, root_of(job), comm);
}

/* Connects all ranks, so that the parts of a dup arrive although a rank makes no call. */
static int connect(struct mp_job *job)
{
	MP_OK(tutti_alltoall(in, out, 1, TUTTI_INT32, job->world));
	MP_OK(tutti_allgather(in, out, 1, TUTTI_INT32, job->world));
	MP_OK(tutti_barrier(job->world));
	mp_meet(job);
	return 0;
}

/* Rank 2 makes its part of the communicator when the other two have disagreed on a call. */
static int unmade_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *req;
	struct tutti_comm *comm;
	double t0;
	int err;

	TT_EXPECT(!connect(job));
	MP_OK(tutti_comm_idup(job->world, &comm, &req));
	if (job->rank == 2) {
		TT_EXPECT(mp_await(&job->shared->word[0], 2, MP_HANG_MS));
		mp_sleep_ms(200);
	}
	MP_OK(tutti_wait(&req));
	err = reduce(job, comm);
	atomic_fetch_add(&job->shared->word[0], 1);
	t0 = mp_now();
	while (!err && mp_now() - t0 < HANG)
		err = tutti_barrier(comm);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_OK(tutti_comm_error(comm, &info));
	TT_EXPECT(info.rank == 0 && !strcmp(info.field, "root"));
	mp_meet(job);
	MP_OK(tutti_comm_free(comm));
	return 0;
}

static void unmade(void)
{
	TT_CHECK(!MP_RUN(.n = 3,
			 .env = "TUTTI_NODE=off TUTTI_TRANSPORT=shm TUTTI_ALGO=allgather:direct",
			 .fn = unmade_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3,
				 .env = "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "
					"TUTTI_ALGO=allgather:direct",
				 .fn = unmade_body));
}

static int persistent(struct mp_job *job, struct tutti_comm *comm)
{
	struct tutti_call call = {.size = sizeof(call),
				  .coll = TUTTI_COLL_REDUCE,
				  .flags = TUTTI_CALL_PERSISTENT,
				  .sendbuf = in,
				  .recvbuf = out,
				  .count = 64,
				  .datatype = TUTTI_INT32,
				  .op = TUTTI_SUM,
				  .root = root_of(job)};
	struct tutti_request *req;
	int err;

	MP_OK(tutti_call(comm, &call, &req));
	err = tutti_start(req); /* fails if the verdict is here already */
	if (!err)
		err = tutti_wait(&req);
	MP_OK(tutti_request_free(req));
	return err;
}

/* All ranks know of the mismatch; then this rank frees more communicators than it remembers. */
static int forget(struct mp_job *job, bool told)
{
	int32_t known = 0, all = 0;
	struct tutti_comm *comm;
	double t0 = mp_now();
	int i;

	while (!all && mp_now() - t0 < HANG) {
		known = told || mp_log_has(job, "disagree");
		MP_OK(tutti_allreduce(&known, &all, 1, TUTTI_INT32, TUTTI_MIN, job->world));
	}
	TT_EXPECT(all);
	for (i = 0; i < FREED; i++) {
		MP_OK(tutti_comm_dup(job->world, &comm));
		MP_OK(tutti_comm_free(comm));
	}
	return 0;
}

static int last_body(struct mp_job *job)
{
	enum way way = *(enum way *)job->arg;
	struct tutti_comm *comm;
	int err;

	MP_OK(tutti_comm_dup(job->world, &comm));
	mp_meet(job);
	err = way == PERSISTENT ? persistent(job, comm) : reduce(job, comm);
	if (err)
		MP_ERR(err, -TUTTI_EMISMATCH);
	if (way == FREE || way == FORGOTTEN)
		MP_OK(tutti_comm_free(comm));
	if (way == FORGOTTEN)
		TT_EXPECT(!forget(job, err));
	MP_ERR(mp_leave(job), err ? 0 : -TUTTI_EMISMATCH);
	return 0;
}

static void last(const char *env)
{
	enum way way;

	for (way = KEPT; way <= PERSISTENT; way++)
		TT_CHECK(!MP_RUN(.n = N, .env = env, .fn = last_body, .arg = &way));
}

static void last_node(void)
{
	last("TUTTI_NODE=on");
}

static void last_shm(void)
{
	last("TUTTI_NODE=off TUTTI_TRANSPORT=shm");
}

static void last_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	last("TUTTI_TRANSPORT=ofi TUTTI_IF=lo");
}

/* A message of ranks to rank 0 about their calls; doc/WIRE.md. */
struct told {
	uint64_t uid, seq;
	int32_t rank, other;
	struct tt_fields fields, other_fields;
	char codec[2][TT_CODEC_NAME];
	uint64_t other_seq;
	struct tt_refusal refused[2];
	uint32_t answered, asked;
};
_Static_assert(sizeof(struct told) == 280, "doc/WIRE.md");

/* All ranks but 0 agree on the first call. Before the verdict has left, two differ in the second.
 */
static void tell_two(struct mp_job *job, const struct tutti_comm *comm)
{
	struct tt_fields fields = {.coll = TT_COLL_ALLREDUCE, .op = TUTTI_SUM, .count = 1};
	struct told told = {.uid = comm->uid, .seq = 1, .other = -N, .fields = fields};

	for (; told.rank < N; told.rank++) {
		told.fields.count = told.rank ? 2 : 1;
		tt_stuck_msg(job->ctx, told.rank, &told, sizeof(told));
	}
	told = (struct told){.uid = comm->uid, .seq = 2, .rank = 1, .other = 2};
	told.fields = told.other_fields = fields;
	told.fields.count = 2;
	tt_mismatch_msg(job->ctx, 1, &told, sizeof(told));
}

static int one_verdict_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *comm;
	int i, ms;

	TT_EXPECT(!connect(job));
	for (i = 0; i < 20; i++) {
		MP_OK(tutti_comm_dup(job->world, &comm));
		mp_meet(job);
		if (!job->rank)
			tell_two(job, comm);
		for (ms = 0; ms < MP_HANG_MS && !atomic_load(&comm->failed); ms++)
			mp_sleep_ms(1);
		mp_meet(job);
		MP_ERR(tutti_barrier(comm), -TUTTI_EMISMATCH);
		MP_OK(tutti_comm_error(comm, &info));
		TT_EXPECT(info.sequence == 1 && info.rank == 0);
		MP_OK(tutti_comm_free(comm));
	}
	return 0;
}

static void one_verdict(void)
{
	TT_CHECK(!MP_RUN(.n = N, .env = "TUTTI_NODE=off", .fn = one_verdict_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"unmade", unmade},	{"last_node", last_node},     {"last_shm", last_shm},
		{"last_ofi", last_ofi}, {"one_verdict", one_verdict}, {NULL, NULL},
	};

	return tt_test_main("mismatch_late", tests, argc, argv);
}
