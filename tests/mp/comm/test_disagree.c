/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that call different collectives, or with different arguments: one clear error for all. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct differ {
	const char *field;
	int rank; /* the rank that calls something else */
	size_t count;
	bool root_goes_on;
};

static int call_one(struct mp_job *job, const struct differ *d, float *in, float *out)
{
	bool other = job->rank == d->rank;
	const char *f = other ? d->field : "";
	size_t count = d->count - !strcmp(f, "count");
	enum tutti_datatype type = strcmp(f, "datatype") ? TUTTI_FLOAT32 : TUTTI_INT32;

	if (!strcmp(f, "collective"))
		return tutti_barrier(job->world);
	if (!strcmp(d->field, "in place"))
		return tutti_alltoall(*f ? TUTTI_IN_PLACE : in, out, count / 4, type, job->world);
	if (!strcmp(d->field, "root") || d->root_goes_on)
		return tutti_bcast(in, count, type, strcmp(f, "root") ? 0 : 1, job->world);
	return tutti_allreduce(in, out, count, type, strcmp(f, "op") ? TUTTI_SUM : TUTTI_MAX,
			       job->world);
}

/* This rank's call by call_one. */
static const char *own_call(const struct mp_job *job, const struct differ *d)
{
	if (!strcmp(d->field, "collective") && job->rank == d->rank)
		return "barrier";
	if (!strcmp(d->field, "in place"))
		return "alltoall";
	return !strcmp(d->field, "root") || d->root_goes_on ? "bcast" : "allreduce";
}

static int differ_body(struct mp_job *job)
{
	const struct differ *d = job->arg;
	struct tutti_error_info info = {.size = sizeof(info)};
	float *in = calloc(d->count, 4), *out = calloc(d->count, 4);
	char name[32];
	int err;

	err = tutti_barrier(
		job->world); /* others may leave it and disagree while this rank is in it */
	if (!err)
		err = call_one(job, d, in, out);
	if (!err && job->rank == 0) /* it may have done its part; it learns at its next call */
		mp_sleep_ms(1500);
	if (!err)
		err = tutti_barrier(job->world);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_ERR(tutti_barrier(job->world), -TUTTI_EMISMATCH);
	TT_EXPECT(!tutti_last_error(&info) && !strcmp(info.call, own_call(job, d)));
	MP_OK(tutti_comm_error(job->world, &info));
	if (strcmp(info.field, d->field))
		fprintf(stderr, "field %s, expected %s: %s\n", info.field, d->field, info.text);
	TT_EXPECT(!strcmp(info.field, d->field));
	snprintf(name, sizeof(name), "rank %d called", d->rank);
	TT_EXPECT(strstr(info.text, name));
	TT_EXPECT(strstr(strstr(info.text, "called") + 1, "called"));
	TT_EXPECT(info.code == -TUTTI_EMISMATCH && info.sequence == 2);
	free(in);
	free(out);
	return 0;
}

static void differ_on(const char *env)
{
	static const char *const fields[] = {"count", "datatype", "op", "collective"};
	struct differ d;
	size_t i;

	for (i = 0; i < 16; i++) {
		d = (struct differ){fields[i % 4], (int)i % 3, i / 4 % 2 ? 300000 : 100, i >= 8};
		if (d.root_goes_on && !strcmp(d.field, "op"))
			continue; /* a broadcast has none */
		TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = differ_body, .arg = &d));
	}
}

static void shm(void)
{
	differ_on("TUTTI_TRANSPORT=shm");
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	differ_on("TUTTI_TRANSPORT=ofi");
}

static void in_place(void)
{
	struct differ d = {"in place", 1, 100, false};

	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = differ_body, .arg = &d));
	d.count = 300000;
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = differ_body, .arg = &d));
}

static void root(void)
{
	struct differ d = {"root", 1, 100, false};

	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = differ_body, .arg = &d));
	d.count = 300000;
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = differ_body, .arg = &d));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = differ_body, .arg = &d));
}

/* One rank passes 0. It is one for which nobody waits, so the others learn it in a later call. */
static int nothing_of(struct mp_job *job, int op, size_t count, struct tutti_comm *comm)
{
	static char in[15000], out[15000];

	count = job->rank == (op == 3 ? 0 : 1) ? 0 : count;
	switch (op) {
	case 0:
		return tutti_bcast(in, count, TUTTI_UINT8, 0, comm);
	case 1:
		return tutti_gather(in, out, count, TUTTI_UINT8, 0, comm);
	case 2:
		return tutti_scatter(in, out, count, TUTTI_UINT8, 0, comm);
	case 3:
		return tutti_reduce(in, out, count, TUTTI_UINT8, TUTTI_SUM, 0, comm);
	default:
		return tutti_scan(in, out, count, TUTTI_UINT8, TUTTI_SUM, comm);
	}
}

/* The same as a persistent operation, which is started once. */
static int nothing_started(struct mp_job *job, int op, size_t count, struct tutti_comm *comm)
{
	static const enum tutti_coll colls[] = {TUTTI_COLL_BCAST, TUTTI_COLL_GATHER,
						TUTTI_COLL_SCATTER, TUTTI_COLL_REDUCE,
						TUTTI_COLL_SCAN};
	static char in[15000], out[15000];
	const struct tutti_call call = {.size = sizeof(call),
					.coll = colls[op],
					.flags = TUTTI_CALL_PERSISTENT,
					.sendbuf = op ? in : NULL,
					.recvbuf = out,
					.count = job->rank == (op == 3 ? 0 : 1) ? 0 : count,
					.datatype = TUTTI_UINT8,
					.op = op < 3 ? 0 : TUTTI_SUM};
	struct tutti_request *req;
	int err = tutti_call(comm, &call, &req);

	if (err)
		return err;
	err = tutti_start(req);
	if (!err)
		err = tutti_wait(&req);
	(void)tutti_request_free(req);
	return err;
}

static int nothing_body(struct mp_job *job)
{
	struct tutti_comm *comm;
	int i, k, err;
	double t0;

	for (i = 0; i < 10; i++) {
		MP_OK(tutti_comm_dup(job->world, &comm));
		err = nothing_of(job, i / 2, i % 2 ? 5000 : 100, comm);
		t0 = mp_now();
		for (k = 0; !err && mp_now() - t0 < MP_HANG_MS * 1e-3; k++)
			err = k % 2 ? tutti_barrier(comm) : nothing_of(job, 0, 8, comm);
		MP_ERR(err, -TUTTI_EMISMATCH);
		MP_SAID("(count 0, ");
		MP_OK(tutti_comm_free(comm));
	}
	return 0;
}

/* It is the last call of its communicator, which is then freed or not. From 10: persistent. */
static int last_nothing_body(struct mp_job *job)
{
	int i = *(int *)job->arg % 10, err;
	struct tutti_comm *comm;

	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(tutti_barrier(comm));
	err = *(int *)job->arg < 10 ? nothing_of(job, i / 2, 100, comm)
				    : nothing_started(job, i / 2, 100, comm);
	if (err)
		MP_ERR(err, -TUTTI_EMISMATCH);
	if (i % 2)
		MP_OK(tutti_comm_free(comm));
	MP_ERR(mp_leave(job), err ? 0 : -TUTTI_EMISMATCH);
	MP_SAID("(count 0, ");
	return 0;
}

static void last_nothing(void)
{
	int i;

	for (i = 0; i < 20; i++) {
		TT_CHECK(!MP_RUN(.n = 2, .fn = last_nothing_body, .arg = &i));
		TT_CHECK(!MP_RUN(.n = 4, .fn = last_nothing_body, .arg = &i));
		TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=off TUTTI_TRANSPORT=shm",
				 .fn = last_nothing_body, .arg = &i));
	}
}

static void nothing(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TIMEOUT=20s", .fn = nothing_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TIMEOUT=20s", .fn = nothing_body));
}

/*
 * Rank 1 frees a communicator, of which it has made no call, or has tried one that was refused. The
 * others, who wait for it in that call or in the next one, hear of it.
 */
enum frees { AT_ONCE, REFUSED, REFUSED_BEFORE, FREES };

static int freed_body(struct mp_job *job)
{
	const enum frees how = *(const enum frees *)job->arg;
	struct tutti_comm *comm;
	int v = 1, err;

	MP_OK(tutti_comm_dup(job->world, &comm));
	if (job->rank == 1) {
		if (how != AT_ONCE)
			MP_ERR(tutti_bcast(NULL, 1, TUTTI_INT32, 0, comm), -EINVAL);
		MP_OK(tutti_comm_free(comm));
	} else {
		err = how == REFUSED_BEFORE ? tutti_bcast(&v, 1, TUTTI_INT32, 0, comm) : 0;
		err = err ? err : tutti_barrier(comm);
		MP_ERR(err, how == AT_ONCE ? -TUTTI_EREVOKED : -TUTTI_EMISMATCH);
		MP_SAID("rank 1 on host");
		MP_SAID("has freed the communicator");
		TT_EXPECT(mp_said("its bcast failed: Invalid argument") == (how != AT_ONCE));
		MP_OK(tutti_comm_free(comm));
	}
	MP_OK(tutti_barrier(job->world));
	MP_ERR(mp_leave(job), job->rank == 1 && how != AT_ONCE ? -TUTTI_EMISMATCH : 0);
	return 0;
}

/* Rank 1 frees it when the others have asked for its call, and tells them by that. */
static int asked_body(struct mp_job *job)
{
	struct tutti_request *req;
	struct tutti_comm *comm;
	int done = 0, ms;

	MP_OK(tutti_comm_dup(job->world, &comm));
	if (job->rank == 1) {
		TT_EXPECT(mp_await(&job->shared->word[0], 2, MP_HANG_MS));
		MP_OK(tutti_comm_free(comm));
		TT_EXPECT(mp_log_has(job, "rank 1 on host") &&
			  mp_log_has(job, "has freed the communicator"));
	} else {
		MP_OK(tutti_ibarrier(comm, &req));
		for (ms = 0; ms < MP_HANG_MS && !mp_log_has(job, "waits for rank 1"); ms++) {
			MP_OK(tutti_test(&req, &done));
			mp_sleep_ms(1);
		}
		atomic_fetch_add(&job->shared->word[0], 1);
		MP_ERR(tutti_wait(&req), -TUTTI_EREVOKED);
		MP_SAID("has freed the communicator");
		MP_OK(tutti_comm_free(comm));
	}
	MP_OK(tutti_barrier(job->world));
	return 0;
}

static void freed(void)
{
	static const char *const envs[] = {"TUTTI_NODE=on", "TUTTI_NODE=off TUTTI_TRANSPORT=shm"};
	enum frees how;
	int i;

	for (i = 0; i < 2; i++)
		for (how = AT_ONCE; how < FREES; how++)
			TT_CHECK(!MP_RUN(.n = 3, .env = envs[i], .fn = freed_body, .arg = &how));
	TT_CHECK(!MP_RUN(.n = 3, .fn = asked_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},	  {"ofi", ofi},		{"in_place", in_place},
		{"root", root},	  {"nothing", nothing}, {"last_nothing", last_nothing},
		{"freed", freed}, {NULL, NULL},
	};

	return tt_test_main("disagree", tests, argc, argv);
}
