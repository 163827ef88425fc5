/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests, several at a time and of several contexts: test and wait for all, any and some, cancel,
 * and a test that leaves the request; ranks of one communicator in another.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>

#define SHM "TUTTI_TRANSPORT=shm"
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"

static void on_both(int n, mp_fn *fn)
{
	TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = fn));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = n, .env = OFI, .fn = fn));
}

/* ---- receives in any order, completed by a mixture of calls ---- */

enum { N = 48, SPARE = 4, LEN = 9000 };

static unsigned next(unsigned *x)
{
	*x = *x * 1103515245u + 12345u;
	return *x >> 16;
}

/* Message i: its length in elements, and its contents. */
static size_t len_of(int i)
{
	return i % 3 ? (size_t)i + 1 : (size_t)LEN - (size_t)i;
}

static int value(int i, size_t k)
{
	return i * 100003 + (int)k;
}

static void shuffle(int *order, unsigned seed)
{
	int i, k, t;

	for (i = 0; i < N; i++)
		order[i] = i;
	for (i = N - 1; i > 0; i--) {
		k = (int)(next(&seed) % (unsigned)(i + 1));
		t = order[i];
		order[i] = order[k];
		order[k] = t;
	}
}

static int send_all(struct mp_job *job, unsigned seed)
{
	int order[N], *data = malloc(LEN * sizeof(int)), i;
	size_t k;

	shuffle(order, seed);
	for (i = 0; i < N; i++) {
		for (k = 0; k < len_of(order[i]); k++)
			data[k] = value(order[i], k);
		MP_OK(tutti_send(data, len_of(order[i]), TUTTI_INT32, 0, order[i], job->world));
	}
	free(data);
	return 0;
}

struct soup {
	struct tutti_request *req[N + SPARE];
	struct tutti_status status[N];
	int *buf[N], ended[N];
	int left;
};

/* Request i has ended: once, with the message of its tag, whole. */
static int check_one(struct soup *s, int i)
{
	size_t k;

	TT_EXPECT(i >= 0 && i < N && !s->req[i] && !s->ended[i]);
	TT_EXPECT(s->status[i].source == 1 && s->status[i].tag == i);
	TT_EXPECT(s->status[i].bytes == len_of(i) * sizeof(int));
	for (k = 0; k < len_of(i); k++)
		TT_EXPECT(s->buf[i][k] == value(i, k));
	s->ended[i] = 1;
	s->left--;
	return 0;
}

static int check_some(struct soup *s, int count, const int *indices, const int *results)
{
	int i;

	for (i = 0; i < count; i++) {
		TT_EXPECT(results[i] == 0);
		TT_EXPECT(!check_one(s, indices[i]));
	}
	return 0;
}

/* One call, chosen by how; the requests that it completes are checked. */
static int one_step(struct mp_job *job, struct soup *s, unsigned how)
{
	int index = -5, done = -5, count = -5, i, indices[N + SPARE], results[N + SPARE];

	switch (how % 6) {
	case 0:
		MP_OK(tutti_waitany(N + SPARE, s->req, &index));
		return check_one(s, index);
	case 1:
		MP_OK(tutti_testany(N + SPARE, s->req, &index, &done));
		TT_EXPECT(done == (index >= 0));
		return done ? check_one(s, index) : 0;
	case 2:
		MP_OK(tutti_waitsome(N + SPARE, s->req, &count, indices, results));
		TT_EXPECT(count > 0);
		return check_some(s, count, indices, results);
	case 3:
		MP_OK(tutti_testsome(N + SPARE, s->req, &count, indices, results));
		return check_some(s, count, indices, results);
	case 4:
		MP_OK(tutti_testall(N + SPARE, s->req, &done));
		for (i = 0; done && i < N; i++)
			if (!s->ended[i])
				TT_EXPECT(!check_one(s, i));
		return 0;
	default:
		for (i = 0; i < N && s->ended[i];)
			i++;
		MP_OK(tutti_request_get_status(s->req[i], &done));
		TT_EXPECT(s->req[i]);
		if (!done)
			return 0;
		MP_OK(tutti_request_get_status(s->req[i], &done)); /* again, as nothing ended */
		TT_EXPECT(done);
		MP_OK(tutti_test(&s->req[i], &done));
		return check_one(s, i);
	}
}

static int soup_body(struct mp_job *job)
{
	struct soup *s = calloc(1, sizeof(*s));
	int round, i, done = -1, index = -1, count = -1, idle = 0, got[N];
	unsigned x = 5;

	for (i = 0; i < N; i++)
		s->buf[i] = malloc(LEN * sizeof(int));
	/* the spares: NULL, and persistent ones that are not running */
	MP_OK(tutti_recv_init(&idle, 1, TUTTI_INT32, 0, 1000, job->world, NULL, &s->req[N]));
	MP_OK(tutti_recv_init(&idle, 1, TUTTI_INT32, 0, 1001, job->world, NULL, &s->req[N + 2]));
	for (round = 0; round < 6; round++) {
		s->left = N;
		memset(s->ended, 0, sizeof(s->ended));
		for (i = 0; job->rank == 0 && i < N; i++)
			MP_OK(tutti_irecv(s->buf[i], LEN, TUTTI_INT32, 1, i, job->world,
					  &s->status[i], &s->req[i]));
		if (round % 2)
			MP_OK(tutti_barrier(job->world));
		if (job->rank == 1)
			TT_EXPECT(!send_all(job, (unsigned)round));
		if (job->rank)
			continue;
		while (s->left > (round == 5 ? N / 2 : 0))
			TT_EXPECT(!one_step(job, s, round < 5 ? next(&x) : 0));
		MP_OK(tutti_waitall(N + SPARE, s->req));
		for (i = 0; i < N; i++)
			TT_EXPECT(s->ended[i] || !check_one(s, i));
	}
	/* nothing is active: nothing is waited for */
	MP_OK(tutti_waitany(N + SPARE, s->req, &index));
	MP_OK(tutti_waitsome(N + SPARE, s->req, &count, got, NULL));
	TT_EXPECT(index == -1 && count == 0);
	MP_OK(tutti_testany(N + SPARE, s->req, &index, &done));
	TT_EXPECT(index == -1 && done == 1);
	MP_OK(tutti_testall(0, NULL, &done));
	TT_EXPECT(done == 1);
	MP_OK(tutti_request_free(s->req[N]));
	MP_OK(tutti_request_free(s->req[N + 2]));
	for (i = 0; i < N; i++)
		free(s->buf[i]);
	free(s);
	return 0;
}

static void soup(void)
{
	on_both(2, soup_body);
	TT_CHECK(!MP_RUN(.n = 2,
			 .env = "TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=31,delay=0.1:100,reorder=0.4,again=0.2",
			 .fn = soup_body));
}

/* ---- results of several, some of them errors ---- */

static int mixed_body(struct mp_job *job)
{
	struct tutti_request *req[3];
	int v[4] = {1, 2, 3, 4}, got[4] = {0}, count, indices[3], results[3], i, k, seen = 0;

	if (job->rank == 1) {
		MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_send(v, 4, TUTTI_INT32, 0, 0, job->world));
		MP_OK(tutti_send(v, 1, TUTTI_INT32, 0, 1, job->world));
		return 0;
	}
	for (i = 0; i < 3; i++) /* the first is too short, the last is never sent */
		MP_OK(tutti_irecv(&got[i], 1, TUTTI_INT32, 1, i, job->world, NULL, &req[i]));
	MP_OK(tutti_request_set_timeout(req[2], 50));
	MP_OK(tutti_barrier(job->world));
	for (k = 0; k < 3; k += count) {
		int err = tutti_waitsome(3, req, &count, indices, results), first = 0;

		for (i = 0; i < count; i++) {
			TT_EXPECT(results[i] == (indices[i] == 0   ? -EMSGSIZE
						 : indices[i] == 1 ? 0
								   : -ETIMEDOUT));
			first = first ? first : results[i];
			seen |= 1 << indices[i];
		}
		MP_ERR(err, first);
		TT_EXPECT(count > 0);
	}
	TT_EXPECT(seen == 7 && got[0] == 0 && got[1] == 1);
	return 0;
}

static void mixed(void)
{
	on_both(2, mixed_body);
}

/* ---- cancel ---- */

static int cancel_body(struct mp_job *job)
{
	struct tutti_request *req, *again, *out;
	int v = 5, got = 0, other = 0, done, i;

	if (job->rank == 0) {
		MP_OK(tutti_irecv(&got, 1, TUTTI_INT32, 1, 3, job->world, NULL, &req));
		MP_OK(tutti_irecv(&other, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, 3, job->world, NULL,
				  &again));
		MP_OK(tutti_cancel(req));
		MP_ERR(tutti_request_get_status(req, &done), -ECANCELED);
		MP_ERR(tutti_wait(&req), -ECANCELED);
		MP_SAID("recv from rank 1 (tag 3");
		MP_SAID("was cancelled");
		TT_EXPECT(!req && done == 1);
	}
	MP_OK(tutti_barrier(job->world));
	if (job->rank == 1)
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, 3, job->world));
	MP_OK(tutti_barrier(job->world));
	if (job->rank == 0) { /* the message went to the other receive */
		MP_OK(tutti_request_get_status(again, &done));
		if (done)
			MP_OK(tutti_cancel(again)); /* too late */
		MP_OK(tutti_wait(&again));
		TT_EXPECT(other == 5 && got == 0);
		MP_OK(tutti_recv_init(&got, 1, TUTTI_INT32, 1, 3, job->world, NULL, &req));
		MP_OK(tutti_cancel(req)); /* not running */
		for (i = 0; i < 3; i++) {
			MP_OK(tutti_start(req));
			MP_OK(tutti_cancel(req));
			MP_ERR(tutti_wait(&req), -ECANCELED);
			TT_EXPECT(req);
		}
		MP_OK(tutti_start(req));
	}
	MP_OK(tutti_barrier(job->world));
	if (job->rank == 1) {
		MP_OK(tutti_isend(&v, 1, TUTTI_INT32, 0, 3, job->world, &out));
		MP_ERR(tutti_cancel(out), -EINVAL);
		MP_SAID("not a receive (it is send)");
		MP_OK(tutti_wait(&out));
	} else {
		MP_OK(tutti_wait(&req));
		TT_EXPECT(got == 5);
		MP_OK(tutti_request_free(req));
	}
	MP_ERR(tutti_cancel(NULL), -EINVAL);
	return 0;
}

static void cancel(void)
{
	on_both(2, cancel_body);
}

/* ---- copies of pointers to freed requests ---- */

static int check_stale(struct mp_job *job, struct tutti_request *copy)
{
	struct tutti_request *two[2] = {NULL, copy};
	int n = 7, places[2], results[2];

	MP_ERR(tutti_wait(&copy), -EINVAL);
	MP_SAID("tutti_wait: the request was freed");
	MP_ERR(tutti_test(&copy, &n), -EINVAL);
	MP_ERR(tutti_request_get_status(copy, &n), -EINVAL);
	MP_ERR(tutti_start(copy), -EINVAL);
	MP_SAID("tutti_start: the request was freed");
	MP_ERR(tutti_startall(2, two), -EINVAL);
	MP_ERR(tutti_cancel(copy), -EINVAL);
	MP_ERR(tutti_request_set_timeout(copy, 10), -EINVAL);
	MP_ERR(tutti_request_free(copy), -EINVAL);
	MP_ERR(tutti_waitall(2, two), -EINVAL);
	MP_SAID("tutti_waitall: the request was freed");
	MP_ERR(tutti_testall(2, two, &n), -EINVAL);
	MP_ERR(tutti_waitany(2, two, &n), -EINVAL);
	MP_ERR(tutti_testany(2, two, &n, &n), -EINVAL);
	MP_ERR(tutti_waitsome(2, two, &n, places, results), -EINVAL);
	MP_ERR(tutti_testsome(2, two, &n, places, results), -EINVAL);
	TT_EXPECT(copy && two[1] == copy && n == 7);
	return 0;
}

static int stale_body(struct mp_job *job)
{
	static int late; /* outlives this function, as its receive may */
	struct tutti_request *req, *two[1];
	int v = job->rank, sum;

	MP_OK(tutti_iallreduce(&v, &sum, 1, TUTTI_INT32, TUTTI_SUM, job->world, &req));
	two[0] = req;
	MP_OK(tutti_wait(&req));
	TT_EXPECT(!check_stale(job, two[0]));
	MP_OK(tutti_isend(&v, 1, TUTTI_INT32, job->rank, 3, job->world, &req));
	MP_OK(tutti_recv(&sum, 1, TUTTI_INT32, job->rank, 3, job->world, NULL));
	MP_OK(tutti_wait(&req));
	MP_OK(tutti_recv_init(&sum, 1, TUTTI_INT32, job->rank, 3, job->world, NULL, &req));
	MP_OK(tutti_request_free(req));
	TT_EXPECT(!check_stale(job, req));
	MP_OK(tutti_iallreduce(&v, &sum, 1, TUTTI_INT32, TUTTI_SUM, job->world, &req));
	MP_OK(tutti_wait(&req));
	TT_EXPECT(sum == job->n * (job->n - 1) / 2);
	MP_OK(tutti_irecv(&late, 1, TUTTI_INT32, job->rank, 4, job->world, NULL, &req));
	MP_OK(tutti_request_free(req)); /* it still runs */
	TT_EXPECT(!check_stale(job, req));
	MP_OK(tutti_send(&v, 1, TUTTI_INT32, job->rank, 4, job->world));
	return 0;
}

/* An active request that is listed twice: every call refuses it at once, and ends no request. */
static int listed_twice_body(struct mp_job *job)
{
	struct tutti_request *list[4] = {NULL};
	int v = 1, got[2] = {0}, n, done, index, indices[4];

	MP_OK(tutti_irecv(&got[0], 1, TUTTI_INT32, job->rank, 3, job->world, NULL, &list[1]));
	MP_OK(tutti_irecv(&got[1], 1, TUTTI_INT32, job->rank, 4, job->world, NULL, &list[2]));
	list[3] = list[1];
	MP_ERR(tutti_waitall(4, list), -EINVAL);
	MP_SAID("tutti_waitall: requests[1] and requests[3] are the same request");
	MP_ERR(tutti_waitany(4, list, &index), -EINVAL);
	MP_ERR(tutti_waitsome(4, list, &n, indices, NULL), -EINVAL);
	MP_ERR(tutti_testall(4, list, &done), -EINVAL);
	MP_ERR(tutti_testany(4, list, &index, &done), -EINVAL);
	MP_ERR(tutti_testsome(4, list, &n, indices, NULL), -EINVAL);
	MP_SAID("tutti_testsome: requests[1] and requests[3] are the same request");
	for (n = 3; n < 5; n++)
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, job->rank, n, job->world));
	MP_OK(tutti_waitall(3, list)); /* the same as in the refused calls */
	TT_EXPECT(got[0] == 1 && got[1] == 1 && !list[1] && !list[2]);
	MP_OK(tutti_barrier_init(job->world, &list[0]));
	list[1] = list[0];
	MP_OK(tutti_waitall(2, list)); /* not active */
	MP_OK(tutti_start(list[0]));
	MP_ERR(tutti_waitall(2, list), -EINVAL);
	MP_SAID("requests[0] and requests[1]");
	MP_OK(tutti_wait(&list[0]));
	return tutti_request_free(list[0]);
}

static void listed_twice(void)
{
	on_both(2, listed_twice_body);
}

/* Takes memory that the library gave back, if it did. */
static int overwrite_freed(void)
{
	enum { BLOCKS = 4000 };
	char *block[BLOCKS];
	size_t len;
	int i;

	for (i = 0; i < BLOCKS; i++) {
		len = 200 + (size_t)i % 400 * 8;
		block[i] = malloc(len);
		TT_EXPECT(block[i]);
		memset(block[i], 0x5a, len);
	}
	for (i = 0; i < BLOCKS; i++)
		free(block[i]);
	return 0;
}

/* Copies outlive the cache of plans, their communicator and their window. */
static int stale_later_body(struct mp_job *job)
{
	enum { LATER = 200, KINDS = 5 };
	struct tutti_layout whole = {.size = sizeof(whole),
				     .datatype = TUTTI_INT32,
				     .count = 1,
				     .block = 1,
				     .stride = 1};
	const struct tutti_layout *layouts[2] = {&whole, &whole};
	struct tutti_request *req[KINDS], *copy[KINDS];
	static int v[LATER], sum[LATER];
	struct tutti_comm *comm, *made;
	struct tutti_win *win;
	void *base;
	int i;

	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(tutti_win_allocate(comm, 64, 0, &base, &win));
	MP_OK(tutti_iallreduce(v, sum, 1, TUTTI_INT32, TUTTI_SUM, comm, &req[0]));
	MP_OK(tutti_irecv(sum + 1, 1, TUTTI_INT32, job->rank, 3, comm, NULL, &req[1]));
	MP_OK(tutti_iput(win, !job->rank, v, 8, 0, &req[2]));
	MP_OK(tutti_ialltoallw(v, NULL, NULL, layouts, sum + 4, NULL, NULL, layouts, comm,
			       &req[3]));
	MP_OK(tutti_comm_idup(comm, &made, &req[4]));
	memcpy(copy, req, sizeof(copy));
	MP_OK(tutti_send(v, 1, TUTTI_INT32, job->rank, 3, comm));
	MP_OK(tutti_waitall(KINDS, req));
	for (i = 1; i < LATER; i++)
		MP_OK(tutti_allreduce(v, sum, (size_t)i, TUTTI_INT32, TUTTI_SUM, comm));
	for (i = 1; i < LATER; i++) {
		MP_OK(tutti_iallreduce(v, sum, (size_t)i, TUTTI_INT32, TUTTI_MAX, comm, &req[0]));
		MP_OK(tutti_wait(&req[0]));
	}
	for (i = 0; i < 2; i++) {
		TT_EXPECT(!overwrite_freed());
		TT_EXPECT(!check_stale(job, copy[0]) && !check_stale(job, copy[1]));
		TT_EXPECT(!check_stale(job, copy[2]) && !check_stale(job, copy[3]));
		TT_EXPECT(!check_stale(job, copy[4]));
		if (i == 0) {
			MP_OK(tutti_win_free(win));
			MP_OK(tutti_comm_free(made));
			MP_OK(tutti_comm_free(comm));
		}
	}
	return 0;
}

static void stale_later(void)
{
	on_both(2, stale_later_body);
}

static void stale(void)
{
	on_both(2, stale_body);
}

/* ---- start-all, and wrong arguments ---- */

static int startall_body(struct mp_job *job)
{
	struct tutti_request *req[9] = {NULL}, *once;
	int in[4], out[4], i, round, done;

	for (i = 0; i < 4; i++) {
		MP_OK(tutti_recv_init(&in[i], 1, TUTTI_INT32, !job->rank, i, job->world, NULL,
				      &req[i]));
		MP_OK(tutti_send_init(&out[i], 1, TUTTI_INT32, !job->rank, i, job->world,
				      &req[5 + i]));
	}
	for (round = 0; round < 20; round++) {
		for (i = 0; i < 4; i++)
			out[i] = round * 10 + i + job->rank * 1000;
		MP_OK(tutti_startall(9, req));
		if (round == 0) {
			MP_ERR(tutti_startall(9, req), -EBUSY);
			for (done = 0; !done;)
				MP_OK(tutti_request_get_status(req[5], &done));
			MP_ERR(tutti_start(req[5]), -EBUSY);
			MP_SAID("must be waited for");
		}
		MP_OK(tutti_waitall(9, req));
		for (i = 0; i < 4; i++)
			TT_EXPECT(in[i] == round * 10 + i + !job->rank * 1000);
	}
	MP_OK(tutti_irecv(&in[0], 1, TUTTI_INT32, !job->rank, 9, job->world, NULL, &once));
	req[4] = once;
	MP_ERR(tutti_startall(9, req), -EINVAL); /* and starts none of the others */
	MP_SAID("not persistent");
	MP_OK(tutti_cancel(once));
	MP_ERR(tutti_waitall(9, req), -ECANCELED);
	for (i = 0; i < 9; i++)
		MP_OK(tutti_request_free(req[i]));
	MP_ERR(tutti_startall(-1, NULL), -EINVAL);
	MP_ERR(tutti_startall(1, NULL), -EINVAL);
	MP_ERR(tutti_testall(1, req, NULL), -EINVAL);
	MP_SAID("done is NULL");
	MP_ERR(tutti_testany(1, req, NULL, &done), -EINVAL);
	MP_ERR(tutti_waitsome(1, req, &done, NULL, NULL), -EINVAL);
	MP_SAID("indices is NULL");
	MP_ERR(tutti_testsome(-1, req, &done, &done, NULL), -EINVAL);
	MP_ERR(tutti_request_get_status(NULL, NULL), -EINVAL);
	MP_ERR(tutti_request_set_timeout(NULL, 1), -EINVAL);
	return 0;
}

static void startall(void)
{
	on_both(2, startall_body);
}

/* ---- two contexts ---- */

/* Another job of the same processes. */
static int second_job(struct mp_job *job, struct tutti_context **ctx)
{
	struct tutti_config config = {.size = sizeof(config), .nranks = job->n, .rank = job->rank};
	struct tutti_unique_id id;

	if (job->rank == 0)
		MP_OK(tutti_unique_id_get(&id));
	MP_OK(tutti_bcast(&id, sizeof(id), TUTTI_UINT8, 0, job->world));
	config.id = &id;
	MP_OK(tutti_init(&config, ctx));
	return 0;
}

static int contexts_body(struct mp_job *job)
{
	struct tutti_context *ctx;
	struct tutti_comm *world[2] = {job->world, NULL};
	struct tutti_request *req[2];
	size_t n = 2u << 20, k;
	char *buf[2];
	int round, i, index, peer = !job->rank, seen;

	TT_EXPECT(!second_job(job, &ctx));
	world[1] = tutti_world(ctx);
	for (i = 0; i < 2; i++)
		buf[i] = malloc(n);
	for (round = 0; round < 6; round++) {
		for (i = 0; job->rank == 1 && i < 2; i++) { /* long: both need the receiver */
			int which = (round + i) % 2;

			memset(buf[which], round * 2 + which + 1, n);
			MP_OK(tutti_send(buf[which], n, TUTTI_UINT8, peer, 4, world[which]));
		}
		for (i = 0; job->rank == 0 && i < 2; i++) {
			memset(buf[i], 0, n);
			MP_OK(tutti_irecv(buf[i], n, TUTTI_UINT8, peer, 4, world[i], NULL,
					  &req[i]));
		}
		if (job->rank)
			continue;
		for (seen = 0; round < 3 && seen != 3; seen |= 1 << index)
			MP_OK(tutti_waitany(2, req, &index));
		MP_OK(tutti_waitall(2, req));
		for (i = 0; i < 2; i++)
			for (k = 0; k < n; k++)
				TT_EXPECT(buf[i][k] == (char)(round * 2 + i + 1));
	}
	/* a deadline in one of them */
	if (job->rank == 0) {
		for (i = 0; i < 2; i++)
			MP_OK(tutti_irecv(buf[i], n, TUTTI_UINT8, peer, 4, world[i], NULL,
					  &req[i]));
		MP_OK(tutti_request_set_timeout(req[1], 200));
		MP_ERR(tutti_waitany(2, req, &index), -ETIMEDOUT);
		TT_EXPECT(index == 1 && req[0] && !req[1]);
		MP_OK(tutti_cancel(req[0]));
		MP_ERR(tutti_waitall(2, req), -ECANCELED);
		i = 0;
		MP_ERR(tutti_comm_translate_ranks(world[0], 1, &i, world[1], &i), -EINVAL);
		MP_SAID("different contexts");
	}
	for (i = 0; i < 2; i++)
		MP_OK(tutti_barrier(world[i]));
	for (i = 0; i < 2; i++)
		free(buf[i]);
	MP_OK(tutti_finalize(ctx));
	return 0;
}

static void contexts(void)
{
	on_both(2, contexts_body);
}

/* ---- ranks ---- */

static int ranks_body(struct mp_job *job)
{
	struct tutti_comm *half, *back;
	int all[6], theirs[6], i, members[6], n = 0;

	MP_OK(tutti_comm_split(job->world, job->rank % 2, -job->rank, &half));
	MP_OK(tutti_comm_split(job->world, 0, -job->rank, &back));
	for (i = job->n - 1; i >= 0; i--)
		if (i % 2 == job->rank % 2)
			members[n++] = i; /* the oracle: rank in half, world rank */
	for (i = 0; i < job->n; i++)
		all[i] = i;
	TT_EXPECT(tutti_comm_size(half) == n);
	for (i = 0; i < n; i++)
		TT_EXPECT(tutti_comm_world_rank(half, i) == members[i]);
	MP_OK(tutti_comm_translate_ranks(half, n, all, back, theirs));
	for (i = 0; i < n; i++)
		TT_EXPECT(theirs[i] == job->n - 1 - members[i]);
	MP_OK(tutti_comm_translate_ranks(back, job->n, all, half, theirs));
	for (i = 0; i < job->n; i++) {
		int k, want = TUTTI_UNDEFINED;

		for (k = 0; k < n; k++)
			if (members[k] == job->n - 1 - i)
				want = k;
		TT_EXPECT(theirs[i] == want);
	}
	MP_ERR(tutti_comm_world_rank(half, n), -EINVAL);
	MP_SAID("not a rank of the communicator");
	all[1] = job->n;
	theirs[0] = 77;
	MP_ERR(tutti_comm_translate_ranks(back, 2, all, half, theirs), -EINVAL);
	TT_EXPECT(theirs[0] == 77);
	MP_ERR(tutti_comm_translate_ranks(back, -1, all, half, theirs), -EINVAL);
	MP_ERR(tutti_comm_translate_ranks(back, 1, NULL, half, theirs), -EINVAL);
	MP_OK(tutti_comm_free(half));
	MP_OK(tutti_comm_free(back));
	return 0;
}

static void ranks(void)
{
	TT_CHECK(!MP_RUN(.n = 5, .env = SHM, .fn = ranks_body));
	TT_CHECK(!MP_RUN(.n = 1, .fn = ranks_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"soup", soup},
		{"mixed", mixed},
		{"cancel", cancel},
		{"stale", stale},
		{"stale_later", stale_later},
		{"listed_twice", listed_twice},
		{"startall", startall},
		{"contexts", contexts},
		{"ranks", ranks},
		{NULL, NULL},
	};

	return tt_test_main("requests", tests, argc, argv);
}
