/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of calls: all started together, whatever their order, and complete when the group has
 * ended. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>

/* All to all of blocking sends and receives, with no thought of order. */
static int alltoall_body(struct mp_job *job)
{
	static const size_t len[] = {1, 3000, 200000};
	int n = job->n, i, r, k;
	uint32_t *in, *out;
	size_t s, e;

	for (s = 0; s < 3; s++) {
		MP_OK(tutti_alloc(job->ctx, len[s] * 4 * (size_t)n, (void **)&in));
		MP_OK(tutti_alloc(job->ctx, len[s] * 4 * (size_t)n, (void **)&out));
		for (k = 0; k < 5; k++) {
			for (r = 0; r < n; r++)
				for (e = 0; e < len[s]; e++)
					out[(size_t)r * len[s] + e] =
						(uint32_t)(job->rank * 1000 + r * 10 + k);
			MP_OK(tutti_group_start());
			for (i = 0; i < n; i++) {
				r = (i + job->rank) % n;
				MP_OK(tutti_send(out + (size_t)r * len[s], len[s], TUTTI_UINT32, r,
						 0, job->world));
				MP_OK(tutti_recv(in + (size_t)r * len[s], len[s], TUTTI_UINT32, r,
						 0, job->world, NULL));
			}
			MP_OK(tutti_group_end());
			for (r = 0; r < n; r++)
				for (e = 0; e < len[s]; e++)
					TT_EXPECT(in[(size_t)r * len[s] + e] ==
						  (uint32_t)(r * 1000 + job->rank * 10 + k));
		}
		MP_OK(tutti_free(in));
		MP_OK(tutti_free(out));
	}
	return 0;
}

/* Collectives of several communicators, messages and nonblocking calls in nested groups. */
static int mixed_body(struct mp_job *job)
{
	int k, next = (job->rank + 1) % job->n, prev = (job->rank + job->n - 1) % job->n;
	struct tutti_request *req, *again;
	struct tutti_comm *dup;
	int32_t a, b, c, in, persistent;

	MP_OK(tutti_comm_dup(job->world, &dup));
	MP_OK(tutti_allreduce_init(TUTTI_IN_PLACE, &persistent, 1, TUTTI_INT32, TUTTI_SUM, dup,
				   &again));
	for (k = 0; k < 20; k++) {
		a = b = c = persistent = job->rank + k;
		MP_OK(tutti_group_start());
		if (job->rank % 2) /* messages have no order with collectives */
			MP_OK(tutti_send(&job->rank, 1, TUTTI_INT32, next, k, job->world));
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &a, 1, TUTTI_INT32, TUTTI_SUM, job->world));
		MP_OK(tutti_group_start());
		MP_OK(tutti_bcast(&b, 1, TUTTI_INT32, k % job->n, dup));
		MP_OK(tutti_start(again));
		MP_OK(tutti_group_end());
		MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &c, 1, TUTTI_INT32, TUTTI_MAX, job->world,
				       &req));
		MP_OK(tutti_recv(&in, 1, TUTTI_INT32, prev, k, job->world, NULL));
		if (job->rank % 2 == 0)
			MP_OK(tutti_send(&job->rank, 1, TUTTI_INT32, next, k, job->world));
		TT_EXPECT(a == job->rank + k);
		MP_OK(tutti_group_end());
		TT_EXPECT(a == job->n * (job->n - 1) / 2 + job->n * k && in == prev);
		TT_EXPECT(b == k % job->n + k);
		MP_OK(tutti_wait(&req));
		TT_EXPECT(c == job->n - 1 + k);
		MP_OK(tutti_wait(&again));
		TT_EXPECT(persistent == a);
	}
	MP_OK(tutti_request_free(again));
	MP_OK(tutti_comm_free(dup));
	return 0;
}

/* A communicator is freed inside a group, before the calls of the group on it have started. */
static int freed_body(struct mp_job *job)
{
	enum { N = 5000 };
	int next = (job->rank + 1) % job->n, prev = (job->rank + job->n - 1) % job->n, i, k;
	static int32_t sum[N], out[N], in[N], late;
	struct tutti_request *req = NULL;
	struct tutti_comm *dup;

	for (k = 0; k < 3; k++) {
		MP_OK(tutti_comm_dup(job->world, &dup));
		for (i = 0; i < N; i++)
			sum[i] = out[i] = job->rank + i;
		MP_OK(tutti_group_start());
		MP_OK(tutti_irecv(&late, 1, TUTTI_INT32, prev, 2, dup, NULL, &req));
		MP_OK(tutti_send(out, N, TUTTI_INT32, next, 1, dup));
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, sum, N, TUTTI_INT32, TUTTI_SUM, dup));
		MP_OK(tutti_recv(in, N, TUTTI_INT32, prev, 1, dup, NULL));
		MP_OK(tutti_send(&job->rank, 1, TUTTI_INT32, next, 2, dup));
		MP_OK(tutti_comm_free(dup));
		MP_ERR(tutti_barrier(dup), -EINVAL);
		MP_OK(tutti_group_end());
		MP_OK(tutti_wait(&req));
		TT_EXPECT(late == prev);
		for (i = 0; i < N; i++)
			TT_EXPECT(in[i] == prev + i &&
				  sum[i] == job->n * (job->n - 1) / 2 + job->n * i);
	}
	return 0;
}

/* A running request that was fused cannot be freed. */
static int fused_busy(struct mp_job *job)
{
	struct tutti_request *req[2];
	int32_t a = 1, b = 2;

	if (job->rank)
		mp_meet(job);
	MP_OK(tutti_group_start());
	MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &a, 1, TUTTI_INT32, TUTTI_SUM, job->world, &req[0]));
	MP_OK(tutti_iallreduce(TUTTI_IN_PLACE, &b, 1, TUTTI_INT32, TUTTI_SUM, job->world, &req[1]));
	MP_OK(tutti_group_end());
	if (!job->rank) {
		MP_ERR(tutti_request_free(req[0]), -EBUSY);
		mp_meet(job);
	}
	MP_OK(tutti_waitall(2, req));
	TT_EXPECT(a == job->n && b == 2 * job->n);
	return 0;
}

/* Errors in a group. */
static int wrong_body(struct mp_job *job)
{
	struct tutti_request *req = NULL;
	struct tutti_comm *dup = NULL;
	int v = 1, w = 0, done = -1, small[4] = {0};

	MP_ERR(tutti_group_end(), -EINVAL);
	MP_SAID("no group");
	MP_OK(tutti_group_start());
	MP_ERR(tutti_send(&v, 1, TUTTI_INT32, 99, 0, job->world), -EINVAL);
	MP_ERR(tutti_comm_dup(job->world, &dup), -EINVAL);
	MP_SAID("tutti_group_start");
	MP_ERR(tutti_probe(0, 0, job->world, NULL), -EINVAL);
	MP_OK(tutti_isend(small, 4, TUTTI_INT32, !job->rank, 0, job->world, &req));
	MP_ERR(tutti_wait(&req), -EINVAL);
	MP_ERR(tutti_test(&req, &done), -EINVAL);
	TT_EXPECT(done == -1);
	MP_ERR(tutti_request_free(req), -EBUSY);
	MP_SAID("call tutti_group_end first");
	MP_ERR(tutti_finalize(job->ctx), -EINVAL);
	MP_OK(tutti_recv(&w, 1, TUTTI_INT32, !job->rank, 0, job->world, NULL)); /* too short */
	MP_OK(tutti_send(&v, 1, TUTTI_INT32, !job->rank, 1, job->world));
	MP_OK(tutti_recv(&w, 1, TUTTI_INT32, !job->rank, 1, job->world, NULL));
	MP_ERR(tutti_group_end(), -EMSGSIZE);
	MP_SAID("tag 0");
	TT_EXPECT(w == 1); /* the others of the group are complete */
	MP_OK(tutti_wait(&req));
	MP_OK(tutti_group_start());
	MP_OK(tutti_group_end());
	MP_OK(tutti_barrier(job->world));
	return 0;
}

/*
 * Floats, of different lengths: where an algorithm combines all elements in one order it does them
 * together.
 */
static int fused_floats(struct mp_job *job)
{
	enum { N = 6, LEN = 40 };
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	const char *algo = getenv("TUTTI_ALGO");
	float f[N][LEN], want[N][LEN];
	uint64_t one, bytes = 0;
	int i;

	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < N; i++) {
		mp_fill(TUTTI_FLOAT32, (unsigned)i + 50, job->rank, LEN, f[i]);
		MP_OK(tutti_stats_get(job->ctx, &a));
		MP_OK(tutti_allreduce(f[i], want[i], (size_t)(LEN - i), TUTTI_FLOAT32, TUTTI_AVG,
				      job->world));
		MP_OK(tutti_stats_get(job->ctx, &b));
		bytes += (uint64_t)(LEN - i) * 4;
	}
	one = b.eager_messages - a.eager_messages;
	mp_meet(job);
	MP_OK(tutti_stats_get(job->ctx, &a));
	MP_OK(tutti_group_start());
	for (i = 0; i < N; i++)
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, f[i], (size_t)(LEN - i), TUTTI_FLOAT32,
				      TUTTI_AVG, job->world));
	MP_OK(tutti_group_end());
	MP_OK(tutti_stats_get(job->ctx, &b));
	for (i = 0; i < N; i++)
		TT_EXPECT(!memcmp(f[i], want[i], (size_t)(LEN - i) * 4));
	if (algo && strstr(algo, "recursive_doubling"))
		TT_EXPECT(one && b.eager_messages - a.eager_messages == one);
	if (algo && strstr(algo, "ring"))
		TT_EXPECT(one && b.eager_messages - a.eager_messages == N * one);
	if (algo && strstr(algo, "node_")) /* packed and unpacked */
		TT_EXPECT(b.copied_bytes - a.copied_bytes >= 2 * bytes);
	return 0;
}

/* Small all-reduces of a group are the same bits as one by one, in fewer messages; others are not
 * touched. */
static int fused_body(struct mp_job *job)
{
	enum { N = 8, LEN = 17 };
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	int32_t v[N][LEN], in[N][LEN], want[N][LEN];
	float f[N][LEN], fwant[N][LEN];
	uint64_t one, grouped;
	int i, k, last[2] = {1, 2};

	for (i = 0; i < N; i++) {
		mp_fill(TUTTI_INT32, (unsigned)i, job->rank, LEN, in[i]);
		mp_fill(TUTTI_FLOAT32, (unsigned)i, job->rank, LEN, f[i]);
		MP_OK(tutti_allreduce(in[i], want[i], LEN, TUTTI_INT32, TUTTI_AVG, job->world));
		MP_OK(tutti_allreduce(f[i], fwant[i], LEN, TUTTI_FLOAT32, TUTTI_SUM, job->world));
	}
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_stats_get(job->ctx, &a));
	MP_OK(tutti_allreduce(in[0], v[0], LEN, TUTTI_INT32, TUTTI_AVG, job->world));
	MP_OK(tutti_stats_get(job->ctx, &b));
	one = b.eager_messages - a.eager_messages;
	for (k = 0; k < 4; k++) {
		struct tutti_request *req[2];

		memcpy(v, in, sizeof(v));
		MP_OK(tutti_stats_get(job->ctx, &a));
		MP_OK(tutti_group_start());
		for (i = 0; i < N; i++) {
			const void *src = i % 2 ? TUTTI_IN_PLACE : in[i];

			if (i == 2 || i == 3)
				MP_OK(tutti_iallreduce(src, v[i], LEN, TUTTI_INT32, TUTTI_AVG,
						       job->world, &req[i - 2]));
			else
				MP_OK(tutti_allreduce(src, v[i], LEN, TUTTI_INT32, TUTTI_AVG,
						      job->world));
		}
		MP_OK(tutti_group_end());
		MP_OK(tutti_waitall(2, req));
		MP_OK(tutti_stats_get(job->ctx, &b));
		grouped = b.eager_messages - a.eager_messages;
		TT_EXPECT(!memcmp(v, want, sizeof(v)));
		TT_EXPECT(grouped == one);
		mp_meet(job);
	}
	MP_OK(tutti_group_start());
	for (i = 0; i < N; i++) {
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, f[i], LEN, TUTTI_FLOAT32, TUTTI_SUM,
				      job->world));
		MP_OK(tutti_allreduce(in[i], v[i], LEN, TUTTI_INT32, i % 2 ? TUTTI_AVG : TUTTI_MAX,
				      job->world));
	}
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, last, 2, TUTTI_INT32, TUTTI_MAX, job->world));
	MP_OK(tutti_group_end());
	TT_EXPECT(!memcmp(f, fwant, sizeof(f)) && last[1] == 2);
	TT_EXPECT(!fused_floats(job));
	for (i = 1; i < N; i += 2)
		TT_EXPECT(!memcmp(v[i], want[i], sizeof(v[i])));
	return 0;
}

/* All of a fused group learn of a failure. */
static int fused_late(struct mp_job *job, struct tutti_comm *comm, int ms)
{
	int v[2] = {1, 2};

	MP_OK(tutti_comm_set_timeout(comm, ms));
	MP_OK(tutti_group_start());
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v[0], 1, TUTTI_INT32, TUTTI_SUM, comm));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v[1], 1, TUTTI_INT32, TUTTI_SUM, comm));
	MP_ERR(tutti_group_end(), -ETIMEDOUT);
	TT_EXPECT(v[0] == 1 && v[1] == 2);
	return 0;
}

/* Beside heavy load the time can pass before rank 1 has answered that it has not called. */
static int fused_late_body(struct mp_job *job)
{
	atomic_int *told = &job->shared->word[0];
	struct tutti_comm *comm;
	int ms;

	for (ms = 700; ms < 30000 && !atomic_load(told); ms *= 4) {
		MP_OK(tutti_comm_dup(job->world, &comm));
		if (job->rank == 0) {
			TT_EXPECT(!fused_late(job, comm, ms));
			atomic_store(told, mp_said("waits for rank 1"));
		}
		mp_meet(job);
		MP_OK(tutti_comm_free(comm));
	}
	TT_EXPECT(atomic_load(told));
	return 0;
}

/* A second group of the same calls allocates nothing. */
static int steady_body(struct mp_job *job)
{
	struct tutti_stats a = {.size = sizeof(a)}, b = a;
	int k, r, in[MP_MAX], v[MP_MAX] = {0};
	struct tutti_request *req[MP_MAX];

	for (r = 0; r < job->n; r++) /* memory for messages that come early, as many as can later */
		MP_OK(tutti_isend(&v[r], 1, TUTTI_INT32, r, 0, job->world, &req[r]));
	MP_OK(tutti_barrier(job->world));
	for (r = 0; r < job->n; r++)
		MP_OK(tutti_recv(&in[r], 1, TUTTI_INT32, r, 0, job->world, NULL));
	MP_OK(tutti_waitall(job->n, req));
	for (k = 0; k < 30; k++) {
		if (k == 20) {
			mp_meet(job);
			MP_OK(tutti_stats_get(job->ctx, &a));
		}
		MP_OK(tutti_group_start());
		for (r = 0; r < job->n; r++) {
			MP_OK(tutti_send(&v[r], 1, TUTTI_INT32, r, 0, job->world));
			MP_OK(tutti_recv(&in[r], 1, TUTTI_INT32, r, 0, job->world, NULL));
		}
		MP_OK(tutti_group_end());
		mp_meet(job);
	}
	MP_OK(tutti_stats_get(job->ctx, &b));
	TT_EXPECT(a.allocations == b.allocations);
	return 0;
}

static void all_on(const char *env)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = alltoall_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = mixed_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = wrong_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = freed_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = fused_busy));
	TT_CHECK(!MP_RUN(.n = 4, .env = env, .fn = fused_body));
}

static void self(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = alltoall_body));
	TT_CHECK(!MP_RUN(.n = 1, .fn = fused_body));
}

static void shm(void)
{
	all_on("TUTTI_TRANSPORT=shm");
	all_on("TUTTI_TRANSPORT=shm TUTTI_PROGRESS=thread");
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = steady_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm TUTTI_ALGO=allreduce:ring",
			 .fn = fused_body));
	TT_CHECK(!MP_RUN(.n = 4,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_ALGO=allreduce:recursive_doubling",
			 .fn = fused_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = fused_late_body));
}

/* In the memory of the host, which a named transport switches off. */
static void node(void)
{
	all_on("TUTTI_NODE=on");
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_ALGO=allreduce:node_slots", .fn = fused_body));
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_ALGO=allreduce:node_pull", .fn = fused_body));
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	all_on("TUTTI_TRANSPORT=ofi");
}

static void fault(void)
{
	all_on("TUTTI_TRANSPORT=fault:shm "
	       "TUTTI_FAULT=seed=31,delay=0.1:100,reorder=0.4,again=0.2,finish=1");
	if (!mp_no_ofi())
		all_on("TUTTI_TRANSPORT=fault:ofi "
		       "TUTTI_FAULT=seed=32,delay=0.1:100,reorder=0.4,again=0.2");
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"self", self}, {"shm", shm},	  {"node", node},
		{"ofi", ofi},	{"fault", fault}, {NULL, NULL},
	};

	return tt_test_main("group", tests, argc, argv);
}
