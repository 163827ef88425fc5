/* SPDX-License-Identifier: BSD-3-Clause */
/* Send and receive with errors: lengths, arguments, missing peers, dead peers. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>

/* ---- a message that does not fit ---- */

/* Short and long, expected and not; the sender and later messages do not notice. */
static int truncate_body(struct mp_job *job)
{
	static const size_t len[] = {8, 4096, 5000, 3000000};
	char *buf = malloc(3000000), *room;
	struct tutti_status status;
	struct tutti_request *req;
	int i, k;

	MP_OK(tutti_alloc(job->ctx, 4096, (void **)&room));
	memset(buf, 1, 3000000);
	for (i = 0; i < 8; i++) {
		size_t n = len[i % 4];

		if (job->rank == 0) {
			if (i / 4)
				MP_OK(tutti_barrier(job->world));
			MP_OK(tutti_send(buf, n, TUTTI_UINT8, 1, 3, job->world));
			MP_OK(tutti_send(&i, 1, TUTTI_INT32, 1, 4, job->world));
			continue;
		}
		memset(room, 0x55, 4096);
		MP_OK(tutti_irecv(room, 5, TUTTI_UINT8, 0, 3, job->world, &status, &req));
		if (i / 4)
			MP_OK(tutti_barrier(job->world));
		MP_ERR(tutti_wait(&req), -EMSGSIZE);
		MP_SAID("rank 0");
		MP_SAID("tag 3");
		MP_SAID("the buffer 5");
		TT_EXPECT(!req && status.source == 0 && status.tag == 3 && status.bytes == n);
		for (k = 0; k < 4096; k++)
			TT_EXPECT(room[k] == 0x55);
		MP_OK(tutti_recv(&k, 1, TUTTI_INT32, 0, 4, job->world, NULL));
		TT_EXPECT(k == i);
	}
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_free(room));
	free(buf);
	return 0;
}

static void truncation(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = truncate_body));
	TT_CHECK(!MP_RUN(.n = 2,
			 .env = "TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=8,delay=0.1:100,reorder=0.4,again=0.2",
			 .fn = truncate_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi", .fn = truncate_body));
}

/* ---- arguments ---- */

static int arguments_body(struct mp_job *job)
{
	static int32_t below; /* the stack and the pool */
	struct tutti_comm *w = job->world;
	struct tutti_request *req = NULL;
	struct tutti_status status = {7, 7, 7, TUTTI_INT8, {0}};
	static int w2; /* outside of what the long send would cover */
	int v = 3, found = 5;
	char *p;

	MP_ERR(tutti_send(&v, 1, TUTTI_INT32, 2, 0, w), -EINVAL);
	MP_SAID("dest 2 is not a rank");
	MP_ERR(tutti_send(&v, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, 0, w), -EINVAL);
	MP_ERR(tutti_send(&v, 1, TUTTI_INT32, 0, -1, w), -EINVAL);
	MP_SAID("tag -1 is out of range");
	MP_ERR(tutti_send(NULL, 1, TUTTI_INT32, 0, 0, w), -EINVAL);
	MP_SAID("the buffer is NULL");
	MP_ERR(tutti_send(&v, SIZE_MAX / 2, TUTTI_INT32, 0, 0, w), -EINVAL);
	MP_ERR(tutti_send(&v, 1, TUTTI_NUM_DATATYPES, 0, 0, w), -EINVAL);
	MP_SAID("not a datatype");
	MP_ERR(tutti_send(&v, 1, TUTTI_INT32, 0, 0, NULL), -EINVAL);
	MP_ERR(tutti_recv(&v, 1, TUTTI_INT32, -2, 0, w, &status), -EINVAL);
	MP_SAID("TUTTI_ANY_SOURCE");
	MP_ERR(tutti_recv(&v, 1, TUTTI_INT32, 0, -2, w, &status), -EINVAL);
	MP_ERR(tutti_irecv(&v, 1, TUTTI_INT32, 0, 0, w, &status, NULL), -EINVAL);
	MP_SAID("request is NULL");
	MP_ERR(tutti_isend(&v, 1, TUTTI_INT32, 0, 0, w, NULL), -EINVAL);
	MP_ERR(tutti_probe(3, 0, w, &status), -EINVAL);
	MP_ERR(tutti_iprobe(0, 0, w, NULL, &status), -EINVAL);
	MP_ERR(tutti_iprobe(0, -3, w, &found, &status), -EINVAL);
	MP_ERR(tutti_sendrecv(&v, 1, TUTTI_INT32, 0, 0, &v, 1, TUTTI_INT32, 0, 0, w, &status),
	       -EINVAL);
	MP_SAID("overlap");
	MP_OK(tutti_alloc(job->ctx, 64, (void **)&p));
	MP_ERR(tutti_irecv(p + 64 - 4, (size_t)1 << 40, TUTTI_UINT8, 0, 0, w, NULL, &req), -EINVAL);
	MP_SAID("partly in memory of tutti_alloc");
	/* the receive must not stay behind when the send is impossible */
	MP_ERR(tutti_sendrecv(p + 64 - 4, (size_t)1 << 40, TUTTI_UINT8, !job->rank, 0, &w2, 1,
			      TUTTI_INT32, !job->rank, 0, w, NULL),
	       -EINVAL);
	MP_SAID("partly in memory of tutti_alloc");
	TT_EXPECT(status.source == 7 && status.bytes == 7 && found == 5 && !req && v == 3);
	/* a wrong call uses no number: the next message arrives */
	if (job->rank == 0)
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, 0, w));
	else
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 0, w, NULL));
	/* nor must the message go when the receive is impossible */
	MP_OK(tutti_sendrecv(&v, 1, TUTTI_INT32, !job->rank, 0, &w2, 1, TUTTI_INT32, !job->rank, 0,
			     w, NULL));
	MP_ERR(tutti_sendrecv(&below, 1, TUTTI_INT32, !job->rank, 8, p + 64 - 4, (size_t)1 << 40,
			      TUTTI_UINT8, !job->rank, 8, w, NULL),
	       -EINVAL);
	MP_SAID("partly in memory of tutti_alloc");
	MP_OK(tutti_barrier(w));
	MP_OK(tutti_iprobe(!job->rank, 8, w, &found, NULL));
	TT_EXPECT(!found);
	MP_OK(tutti_free(p));
	return 0;
}

static void arguments(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = arguments_body));
}

/* ---- missing peers ---- */

#define PATIENCE 30000 /* ms, where the deadline is not the subject */

enum { NOT_SENT, OTHER_TAG, ANYBODY, NOT_RECEIVED, PROBED };

static int waiting_body(struct mp_job *job)
{
	static char big[100000];
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_comm *dup;
	int v = 0, how = *(const int *)job->arg;

	MP_OK(tutti_comm_set_timeout(job->world, PATIENCE));
	MP_OK(tutti_comm_dup(job->world, &dup));
	if (job->rank == 1 && how == OTHER_TAG)
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, 6, dup));
	MP_OK(tutti_barrier(job->world));
	if (job->rank == 0) {
		if (how == ANYBODY)
			MP_ERR(tutti_recv(&v, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, 5, dup, NULL),
			       -ETIMEDOUT);
		else if (how == NOT_RECEIVED)
			MP_ERR(tutti_send(big, sizeof(big), TUTTI_INT8, 1, 5, dup), -ETIMEDOUT);
		else if (how == PROBED)
			MP_ERR(tutti_probe(1, 5, dup, NULL), -ETIMEDOUT);
		else
			MP_ERR(tutti_recv(&v, 1, TUTTI_INT32, 1, 5, dup, NULL), -ETIMEDOUT);
		MP_SAID("tag 5");
		MP_SAID("TUTTI_TIMEOUT");
		MP_OK(tutti_comm_error(dup, &info));
		TT_EXPECT(info.rank == (how == ANYBODY ? -1 : 1));
		if (how == NOT_SENT || how == OTHER_TAG || how == PROBED)
			MP_SAID("has not sent it");
		if (how == OTHER_TAG)
			MP_SAID("1 message with other tags waits, the first with tag 6");
		if (how == ANYBODY)
			MP_SAID("no rank has sent it");
		if (how == NOT_RECEIVED)
			MP_SAID("has not received it");
		TT_EXPECT(!strcmp(info.call, how == NOT_RECEIVED ? "send"
					     : how == PROBED	 ? "probe"
								 : "recv"));
	}
	mp_meet(job);
	MP_OK(tutti_comm_set_timeout(dup, PATIENCE));
	/* a receive or probe that ends is all that ends; a send takes its communicator along */
	MP_ERR(tutti_sendrecv(big, 10, TUTTI_INT8, !job->rank, 1, big + 50000, 10, TUTTI_INT8,
			      !job->rank, 1, dup, NULL),
	       how == NOT_RECEIVED ? -ETIMEDOUT : 0);
	/* other communicators are not concerned */
	MP_OK(tutti_sendrecv(big, 50000, TUTTI_INT8, !job->rank, 1, big + 50000, 50000, TUTTI_INT8,
			     !job->rank, 1, job->world, NULL));
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_comm_free(dup));
	return 0;
}

static void waiting(void)
{
	int how;

	for (how = NOT_SENT; how <= PROBED; how++) {
		int failed = MP_RUN(.n = 2, .env = "TUTTI_TIMEOUT=700ms", .fn = waiting_body,
				    .arg = &how);

		if (failed)
			fprintf(stderr, "case %d\n", how);
		TT_CHECK(!failed);
	}
}

/*
 * The header of a long message has arrived, its sender sleeps, the receive times out. Then the
 * buffer belongs to the caller: the sender must not write to it when it wakes.
 */
static int fence_body(struct mp_job *job)
{
	struct tutti_request *req;
	size_t n = 4u << 20, i;
	struct tutti_comm *dup;
	int v = 0, done;
	char *buf;

	MP_OK(tutti_comm_set_timeout(job->world, PATIENCE));
	MP_OK(tutti_comm_dup(job->world, &dup));
	MP_OK(tutti_comm_set_timeout(dup, PATIENCE));
	MP_OK(tutti_alloc(job->ctx, n, (void **)&buf));
	memset(buf, 1, n);
	MP_OK(tutti_sendrecv(&v, 1, TUTTI_INT32, !job->rank, 0, &done, 1, TUTTI_INT32, !job->rank,
			     0, dup, NULL)); /* connected */
	if (job->rank == 1) {
		MP_OK(tutti_isend(buf, n, TUTTI_UINT8, 0, 3, dup, &req));
		while (!atomic_load(&job->shared->word[0]))
			MP_OK(tutti_test(&req, &done));
		mp_meet(job);
		mp_meet(job); /* asleep until rank 0 has given up */
		for (i = 0; i < 50; i++) {
			if (req)
				(void)tutti_test(&req, &done);
			mp_sleep_ms(2);
		}
		mp_meet(job);
		if (req)
			(void)tutti_wait(&req);
	} else {
		MP_OK(tutti_probe(1, 3, dup, NULL)); /* the header is here */
		atomic_store(&job->shared->word[0], 1);
		mp_meet(job);
		MP_OK(tutti_comm_set_timeout(dup, 0));
		MP_ERR(tutti_recv(buf, n, TUTTI_UINT8, 1, 3, dup, NULL), -ETIMEDOUT);
		MP_SAID("it came from rank 1");
		MP_SAID("but not all of its 4194304 bytes");
		memset(buf, 0x55, n);
		mp_meet(job);
		mp_meet(job);
		for (i = 0; i < n; i++)
			TT_EXPECT(buf[i] == 0x55);
	}
	mp_leave(job);
	return 0;
}

static void fence(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=1s", .fn = fence_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi TUTTI_TIMEOUT=1s",
				 .fn = fence_body));
}

/*
 * A receive that waits for long is no reason to suspect a rank; later collectives are still
 * checked.
 */
static int beside_body(struct mp_job *job)
{
	struct tutti_request *req;
	float v[8] = {0};
	int got = 0;

	MP_OK(tutti_irecv(&got, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, 1, job->world, NULL, &req));
	mp_sleep_ms(400);
	MP_ERR(tutti_allreduce(TUTTI_IN_PLACE, v, job->rank ? 8 : 7, TUTTI_FLOAT32, TUTTI_SUM,
			       job->world),
	       -TUTTI_EMISMATCH);
	MP_SAID("count");
	MP_ERR(tutti_wait(&req), -TUTTI_EMISMATCH);
	MP_ERR(tutti_send(&got, 1, TUTTI_INT32, 0, 1, job->world), -TUTTI_EMISMATCH);
	mp_leave(job);
	return 0;
}

static void beside(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = beside_body));
}

/* ---- dead peers ---- */

/*
 * Rank 1 dies while rank 0 receives from it, 2 sends to it, 3 receives from any rank, and half of
 * a message to 4 has arrived.
 */
static int kill_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	size_t n = 64u << 20;
	char *buf;
	int err = 0;

	MP_OK(tutti_alloc(job->ctx, n, (void **)&buf));
	MP_OK(tutti_barrier(job->world));
	mp_meet(job);
	if (job->rank == 1) {
		struct tutti_request *req;
		int done;

		MP_OK(tutti_isend(buf, n, TUTTI_INT8, 4, 8, job->world, &req));
		MP_OK(tutti_test(&req, &done));
		mp_sleep_ms(100);
		raise(SIGKILL);
	}
	if (job->rank == 0)
		err = tutti_recv(buf, n, TUTTI_INT8, 1, 5, job->world, NULL);
	else if (job->rank == 2)
		err = tutti_send(buf, n, TUTTI_INT8, 1, 5, job->world);
	else if (job->rank == 3)
		err = tutti_recv(buf, n, TUTTI_INT8, TUTTI_ANY_SOURCE, 5, job->world, NULL);
	else
		err = tutti_recv(buf, n, TUTTI_INT8, 1, TUTTI_ANY_TAG, job->world, NULL);
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == 1);
	MP_ERR(tutti_send(buf, 1, TUTTI_INT8, 0, 5, job->world), -TUTTI_EPEER);
	mp_leave(job);
	return 0;
}

static void dead(void)
{
	TT_CHECK(!MP_RUN(.n = 5, .env = "TUTTI_TRANSPORT=shm", .fn = kill_body, .killed = 2));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 5, .env = "TUTTI_TRANSPORT=ofi", .fn = kill_body,
				 .killed = 2));
}

/* ---- receivers that have freed the communicator ---- */

enum { BEFORE, UNUSED, ARRIVED, TAKEN, FREES };
#define BURST 300 /* more than a sender may be ahead */

/* Rank 1 frees comm at some time; it has received the message with tag 1, if it uses comm. */
static int free_unreceived(struct mp_job *job, struct tutti_comm *comm, int when)
{
	struct tutti_message *msg;
	int v;

	if (when == BEFORE)
		MP_OK(tutti_comm_free(comm));
	mp_meet(job);
	if (when != BEFORE)
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 9, job->world,
				 NULL)); /* they may be here */
	if (when >= ARRIVED) {
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 1, comm, NULL));
		MP_OK(tutti_probe(0, 3, comm, NULL));
	}
	if (when == TAKEN)
		MP_OK(tutti_mprobe(0, 2, comm, &msg, NULL));
	return when == BEFORE ? 0 : tutti_comm_free(comm);
}

/* The sends end soon, alone, and say why; later sends, too. */
static int to_freed(struct mp_job *job, struct tutti_comm *comm, char *big)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *req[BURST + 3];
	int i, v = 0;

	MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, 1, comm)); /* nobody need receive it */
	MP_OK(tutti_isend(big, 100000, TUTTI_UINT8, 1, 2, comm, &req[0]));
	MP_OK(tutti_issend(&v, 1, TUTTI_INT32, 1, 3, comm, &req[1]));
	for (i = 2; i < BURST; i++)
		MP_OK(tutti_isend(big, i % 9 ? 100000 : 4, TUTTI_UINT8, 1, 4, comm, &req[i]));
	MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, 9, job->world));
	for (i = 0; i < BURST; i++) {
		int err = tutti_wait(&req[i]);

		if (!err && i > 1 && i % 9 == 0)
			continue;
		MP_ERR(err, -EACCES);
		MP_OK(tutti_last_error(&info));
		TT_EXPECT(info.rank == 1 && info.host[0] && strstr(info.text, "send to rank 1 (") &&
			  strstr(info.text, "rank 1 on host ") &&
			  strstr(info.text, " has freed communicator "));
	}
	MP_ERR(tutti_send(big, 100000, TUTTI_UINT8, 1, 5, comm), -EACCES);
	MP_ERR(tutti_send(&v, 1, TUTTI_INT32, 1, 5, comm), -EACCES);
	return tutti_comm_free(comm);
}

static int freed_body(struct mp_job *job)
{
	char *big = calloc(1, 100000);
	struct tutti_comm *comm;
	int when;

	for (when = BEFORE; when < FREES; when++) {
		MP_OK(tutti_comm_dup(job->world, &comm));
		if (job->rank == 1)
			MP_OK(free_unreceived(job, comm, when));
		else
			mp_meet(job);
		if (!job->rank)
			MP_OK(to_freed(job, comm, big));
		if (job->rank == 2)
			MP_OK(tutti_comm_free(comm));
		if (job->rank == 1 && when == BEFORE)
			MP_OK(tutti_recv(&when, 1, TUTTI_INT32, 0, 9, job->world, NULL));
		MP_OK(tutti_barrier(job->world));
	}
	free(big);
	return 0;
}

/*
 * Both have sent, so that short messages go whole. A synchronous one waits to be matched, and after
 * many others a send waits for credit.
 */
static int freed_open_body(struct mp_job *job)
{
	struct tutti_comm *comm;
	int i, err = 0, v = 0, other = !job->rank;

	MP_OK(tutti_comm_dup(job->world, &comm));
	for (i = 0; i < 4; i++)
		MP_OK(tutti_sendrecv(&i, 1, TUTTI_INT32, other, 1, &v, 1, TUTTI_INT32, other, 1,
				     comm, NULL));
	if (job->rank == 1)
		MP_OK(tutti_comm_free(comm));
	mp_meet(job);
	if (job->rank == 1)
		return tutti_recv(&v, 1, TUTTI_INT32, 0, 9, job->world, NULL);
	if (job->arg)
		MP_ERR(tutti_ssend(&v, 1, TUTTI_INT32, 1, 2, comm), -EACCES);
	for (i = 0; i < BURST && !err; i++)
		err = tutti_send(&v, 1, TUTTI_INT32, 1, 2, comm);
	MP_ERR(err, -EACCES);
	MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, 9, job->world));
	return tutti_comm_free(comm);
}

/*
 * Rank 1 has asked rank 0, which does nothing, to stop sending, and frees the communicator before
 * the answer. What rank 0 holds back then is dropped there: no send waits.
 */
static int freed_stopped_body(struct mp_job *job)
{
	struct tutti_request *req[BURST];
	struct tutti_comm *comm;
	int i = 0, v = 0, other = !job->rank;

	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(tutti_sendrecv(&i, 1, TUTTI_INT32, other, 1, &v, 1, TUTTI_INT32, other, 1, job->world,
			     NULL));
	for (i = 0; i < BURST && !job->rank; i++)
		MP_OK(tutti_isend(&v, 1, TUTTI_INT32, 1, 1, comm, &req[i]));
	mp_meet(job);
	for (i = 0; i < 1000 && job->rank; i++) /* takes in what has come */
		MP_OK(tutti_iprobe(0, 1, job->world, &v, NULL));
	if (job->rank)
		MP_OK(tutti_comm_free(comm));
	mp_meet(job);
	for (i = 0; i < BURST && !job->rank; i++) {
		int err = tutti_wait(&req[i]);

		TT_EXPECT(!err || err == -EACCES);
	}
	MP_OK(tutti_barrier(job->world));
	return job->rank ? 0 : tutti_comm_free(comm);
}

/* Rank 1 frees a failed communicator: a send ends with the failure, of which the news may be late.
 */
static int freed_failed_body(struct mp_job *job)
{
	static char big[100000];
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *req;
	struct tutti_comm *comm;
	int i, v;

	for (i = 0; i < 30; i++) {
		MP_OK(tutti_comm_dup(job->world, &comm));
		if (!job->rank)
			MP_OK(tutti_isend(big, sizeof(big), TUTTI_UINT8, 1, 2, comm, &req));
		MP_OK(tutti_sendrecv(&i, 1, TUTTI_INT32, !job->rank, 1, &v, 1, TUTTI_INT32,
				     !job->rank, 1, job->world, NULL));
		if (job->rank) {
			MP_OK(tutti_comm_revoke(comm));
		} else {
			MP_ERR(tutti_wait(&req), -TUTTI_EREVOKED);
			MP_OK(tutti_last_error(&info));
			TT_EXPECT(info.rank == 1 && !strcmp(info.call, "send"));
		}
		MP_OK(tutti_comm_free(comm));
	}
	return 0;
}

/* Rank 1 frees comm with a request that is left: nothing that it could still receive. */
static int left(struct tutti_comm *comm, int kind, struct tutti_request **req)
{
	static int v;

	switch (kind) {
	case 0:
		return tutti_irecv(&v, 1, TUTTI_INT32, 0, 7, comm, NULL, req);
	case 1:
		return tutti_send_init(&v, 1, TUTTI_INT32, 0, 7, comm, req);
	case 2:
		return tutti_barrier_init(comm, req);
	default:
		return tutti_irecv(&v, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, 7, comm, NULL, req);
	}
}

/* The sends of rank 0 come before or after rank 1 frees; the last persistent receive goes later. */
static int freed_busy_body(struct mp_job *job)
{
	struct tutti_request *req, *sends[2], *renewable;
	int i, v = 0, kind, late;
	struct tutti_comm *comm;
	char big[100000];

	for (i = 0; i < 16; i++) {
		kind = i % 4, late = i / 4 % 2;
		MP_OK(tutti_comm_dup(job->world, &comm));
		if (job->rank) {
			MP_OK(left(comm, kind, &req));
			if (i / 8)
				MP_OK(tutti_recv_init(&v, 1, TUTTI_INT32, 0, 8, comm, NULL,
						      &renewable));
		}
		if (job->rank && late)
			MP_OK(tutti_comm_free(comm));
		MP_OK(tutti_barrier(job->world));
		if (!job->rank) {
			MP_OK(tutti_issend(&v, 1, TUTTI_INT32, 1, 9, comm, &sends[0]));
			MP_OK(tutti_isend(big, sizeof(big), TUTTI_UINT8, 1, 9, comm, &sends[1]));
		}
		MP_OK(tutti_sendrecv(&i, 1, TUTTI_INT32, !job->rank, 1, &v, 1, TUTTI_INT32,
				     !job->rank, 1, job->world, NULL));
		if (job->rank && !late)
			MP_OK(tutti_comm_free(comm));
		if (job->rank && i / 8)
			MP_OK(tutti_request_free(renewable));
		if (job->rank) {
			MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 2, job->world, NULL));
			if (kind == 0 || kind == 3)
				MP_OK(tutti_cancel(req));
			else
				MP_OK(tutti_request_free(req));
			if (kind == 0 || kind == 3)
				MP_ERR(tutti_wait(&req), -ECANCELED);
			continue;
		}
		MP_ERR(tutti_wait(&sends[0]), -EACCES);
		MP_ERR(tutti_wait(&sends[1]), -EACCES);
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, 2, job->world));
		MP_OK(tutti_comm_free(comm));
	}
	return 0;
}

/* A receive that was posted before gets its message after the communicator was freed. */
static int freed_waiting_body(struct mp_job *job)
{
	struct tutti_request *req[2];
	struct tutti_comm *comm;
	int v[2] = {0, 0}, i;

	MP_OK(tutti_comm_dup(job->world, &comm));
	for (i = 0; i < 2 && job->rank; i++) {
		if (!i)
			MP_OK(tutti_irecv(&v[i], 1, TUTTI_INT32, 0, i, comm, NULL, &req[i]));
		else
			MP_OK(tutti_recv_init(&v[i], 1, TUTTI_INT32, 0, i, comm, NULL, &req[i]));
	}
	if (job->rank)
		MP_OK(tutti_comm_free(comm));
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < 2 && !job->rank; i++) {
		v[i] = 10 + i;
		MP_OK(tutti_isend(&v[i], 1, TUTTI_INT32, 1, i, comm, &req[i]));
	}
	MP_OK(tutti_barrier(job->world));
	if (job->rank)
		MP_OK(tutti_start(req[1]));
	MP_OK(tutti_wait(&req[0]));
	MP_OK(tutti_wait(&req[1]));
	TT_EXPECT(v[0] == 10 && v[1] == 11);
	return job->rank ? tutti_request_free(req[1]) : tutti_comm_free(comm);
}

/* A message that nothing can receive is refused, and a later one finds its receive. */
static int freed_later_body(struct mp_job *job)
{
	struct tutti_request *req;
	struct tutti_comm *comm;
	int v = 5, got = 0;

	MP_OK(tutti_comm_dup(job->world, &comm));
	if (job->rank) {
		MP_OK(tutti_irecv(&got, 1, TUTTI_INT32, 0, 7, comm, NULL, &req));
		MP_OK(tutti_comm_free(comm));
	}
	MP_OK(tutti_barrier(job->world));
	if (job->rank) {
		MP_OK(tutti_wait(&req));
		TT_EXPECT(got == 5);
		return 0;
	}
	MP_ERR(tutti_ssend(&v, 1, TUTTI_INT32, 1, 9, comm), -EACCES);
	MP_OK(tutti_ssend(&v, 1, TUTTI_INT32, 1, 7, comm));
	return tutti_comm_free(comm);
}

/* A receive of a group that is still open gets what has come; a message taken by a probe is lost.
 */
static int freed_held_body(struct mp_job *job)
{
	struct tutti_request *req, *probed;
	struct tutti_message *msg;
	struct tutti_comm *comm;
	int v = 5, got = 0;

	MP_OK(tutti_comm_dup(job->world, &comm));
	if (!job->rank) {
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, 7, comm));
		MP_OK(tutti_issend(&v, 1, TUTTI_INT32, 1, 9, comm, &probed));
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, 1, job->world));
		MP_ERR(tutti_wait(&probed), -EACCES);
		return tutti_comm_free(comm);
	}
	MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 1, job->world, NULL));
	MP_OK(tutti_mprobe(0, 9, comm, &msg, NULL));
	MP_OK(tutti_group_start());
	MP_OK(tutti_irecv(&got, 1, TUTTI_INT32, 0, 7, comm, NULL, &req));
	MP_OK(tutti_comm_free(comm));
	MP_OK(tutti_group_end());
	MP_OK(tutti_wait(&req));
	TT_EXPECT(got == 5);
	return 0;
}

/*
 * Rank 0 frees each communicator before it is asked to stop: rank 1 hears of no message that it has
 * not counted, and keeps nothing.
 */
static int freed_first_body(struct mp_job *job)
{
	enum { ROUNDS = 200, MANY = 6 };
	struct tutti_request *req[MANY];
	struct tutti_comm *comm;
	size_t before = 0;
	int i, k, v = 0;

	for (k = 0; k < ROUNDS; k++) {
		if (k == ROUNDS / 2)
			before = mallinfo2().uordblks;
		MP_OK(tutti_comm_dup(job->world, &comm));
		for (i = 0; i < MANY && !job->rank; i++)
			MP_OK(tutti_isend(&v, 1, TUTTI_INT32, 1, 1, comm, &req[i]));
		if (!job->rank) {
			MP_OK(tutti_waitall(MANY, req));
			MP_OK(tutti_comm_free(comm));
		}
		MP_OK(tutti_barrier(job->world));
		for (i = 0; i < MANY && job->rank; i++)
			MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 1, comm, NULL));
		if (job->rank)
			MP_OK(tutti_comm_free(comm));
		MP_OK(tutti_barrier(job->world));
	}
	TT_EXPECT(mallinfo2().uordblks < before + 40 * (ROUNDS / 2)); /* a flow has 80 bytes */
	return 0;
}

static void freed(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_PARKED=5 TUTTI_TRANSPORT=shm",
			 .fn = freed_first_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = freed_failed_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = freed_busy_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = freed_waiting_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = freed_later_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = freed_held_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_PARKED=5 TUTTI_TRANSPORT=shm",
			 .fn = freed_stopped_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = freed_open_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = freed_open_body, .arg = "ssend"));
	TT_CHECK(!MP_RUN(.n = 3, .fn = freed_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_NODE=off", .fn = freed_body));
	TT_CHECK(!MP_RUN(.n = 2,
			 .env = "TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=8,delay=0.1:100,reorder=0.4,again=0.2",
			 .fn = freed_body));
	if (mp_no_ofi())
		return;
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi", .fn = freed_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi", .fn = freed_busy_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi", .fn = freed_waiting_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_PARKED=5 TUTTI_TRANSPORT=ofi",
			 .fn = freed_stopped_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"truncation", truncation}, {"arguments", arguments},
		{"waiting", waiting},	    {"beside", beside},
		{"fence", fence},	    {"dead", dead},
		{"freed", freed},	    {NULL, NULL},
	};

	return tt_test_main("p2p_errors", tests, argc, argv);
}
