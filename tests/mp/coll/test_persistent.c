/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collectives are matched by the order of their _init calls: four of them in every order
 * of start, another on each rank, among ordinary collectives; freed in any order. _init calls that
 * differ fail on all ranks; a rank that does not start an operation is named. Starts of several
 * while one communicator has failed.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HOSTS "TUTTI_HOST_ID=h%h "

#define OPS 4
#define ORDERS 24

/* Of ORDERS permutations, one. */
static void order_of(int number, int order[OPS])
{
	int left[OPS], i, k, at;

	for (i = 0; i < OPS; i++)
		left[i] = i;
	for (i = OPS; i > 0; i--) {
		at = number % i;
		number /= i;
		order[OPS - i] = left[at];
		for (k = at; k < i - 1; k++)
			left[k] = left[k + 1];
	}
}

struct ops {
	size_t count;
	int64_t *sum, *from, *all, *mine;
	struct tutti_request *req[OPS];
};

/* An all-reduce, a broadcast, a barrier and an all-gather. */
static int make(struct mp_job *job, struct ops *o, size_t count)
{
	struct tutti_comm *w = job->world;

	*o = (struct ops){.count = count};
	o->sum = calloc(count, sizeof(int64_t));
	o->from = calloc(count, sizeof(int64_t));
	o->mine = calloc(count, sizeof(int64_t));
	o->all = calloc(count * (size_t)job->n, sizeof(int64_t));
	TT_EXPECT(o->sum && o->from && o->mine && o->all);
	MP_OK(tutti_allreduce_init(TUTTI_IN_PLACE, o->sum, count, TUTTI_INT64, TUTTI_SUM, w,
				   &o->req[0]));
	MP_OK(tutti_bcast_init(o->from, count, TUTTI_INT64, job->n - 1, w, &o->req[1]));
	MP_OK(tutti_barrier_init(w, &o->req[2]));
	MP_OK(tutti_allgather_init(o->mine, o->all, count, TUTTI_INT64, w, &o->req[3]));
	return 0;
}

static int64_t value(int rank, int round, size_t i)
{
	return (int64_t)rank * 1000003 + round * 101 + (int64_t)i;
}

static void fill(struct mp_job *job, struct ops *o, int round)
{
	size_t i;

	for (i = 0; i < o->count; i++) {
		o->sum[i] = o->mine[i] = value(job->rank, round, i);
		o->from[i] = job->rank == job->n - 1 ? value(77, round, i) : -1;
	}
	memset(o->all, 0xff, o->count * (size_t)job->n * sizeof(int64_t));
}

static int check(struct mp_job *job, const struct ops *o, int round)
{
	size_t i;
	int r;

	for (i = 0; i < o->count; i++) {
		int64_t sum = 0;

		for (r = 0; r < job->n; r++) {
			sum += value(r, round, i);
			TT_EXPECT(o->all[(size_t)r * o->count + i] == value(r, round, i));
		}
		TT_EXPECT(o->sum[i] == sum);
		TT_EXPECT(o->from[i] == value(77, round, i));
	}
	return 0;
}

static int drop(struct mp_job *job, struct ops *o, const int order[OPS])
{
	int i;

	for (i = 0; i < OPS; i++)
		MP_OK(tutti_request_free(o->req[order[i]]));
	free(o->sum);
	free(o->from);
	free(o->mine);
	free(o->all);
	return 0;
}

/* Starts in an order of this rank's own, with ordinary collectives in between, in one order. */
static int one_round(struct mp_job *job, struct ops *o, int round)
{
	struct tutti_request *ordinary = NULL;
	int order[OPS], i, one = 1, sum = 0;

	order_of((round + 7 * job->rank) % ORDERS, order);
	fill(job, o, round);
	for (i = 0; i < OPS; i++) {
		MP_OK(tutti_start(o->req[order[i]]));
		if (i == round % OPS)
			MP_OK(tutti_iallreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, job->world,
					       &ordinary));
	}
	if (round % 3 == 0)
		MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_wait(&ordinary));
	TT_EXPECT(sum == job->n);
	for (i = OPS - 1; i >= 0; i--)
		MP_OK(tutti_wait(&o->req[order[i]]));
	MP_OK(tutti_allreduce(&one, &sum, 1, TUTTI_INT32, TUTTI_MAX, job->world));
	TT_EXPECT(sum == 1);
	return check(job, o, round);
}

static int orders(struct mp_job *job)
{
	/* in small slots; in more than a small slot; in more than a slot */
	static const size_t counts[] = {3, 384, 1500, 20000};
	int order[OPS], round;
	struct ops o;
	size_t k;

	for (k = 0; k < 4; k++) {
		TT_EXPECT(!make(job, &o, counts[k]));
		for (round = 0; round < ORDERS; round++)
			TT_EXPECT(!one_round(job, &o, round));
		order_of((5 * job->rank + (int)k) % ORDERS, order);
		TT_EXPECT(!drop(job, &o, order));
	}
	return 0;
}

/* Ranks make and free many, among them some that are never started. */
static int many(struct mp_job *job)
{
	struct tutti_request *req[200];
	int32_t x[200];
	int i, round, fds = 0;

	for (round = 0; round < 4; round++) {
		if (round == 1)
			fds = tt_open_fds();
		for (i = 0; i < 200; i++)
			MP_OK(tutti_allreduce_init(TUTTI_IN_PLACE, &x[i], 1, TUTTI_INT32, TUTTI_SUM,
						   job->world, &req[i]));
		for (i = 0; i < 200; i += 3) {
			int k = job->rank % 2 ? 198 - i : i;

			x[k] = k + job->rank;
			MP_OK(tutti_start(req[k]));
		}
		for (i = 0; i < 200; i += 3) {
			MP_OK(tutti_wait(&req[i]));
			TT_EXPECT(x[i] == job->n * i + job->n * (job->n - 1) / 2);
		}
		for (i = 0; i < 200; i++)
			MP_OK(tutti_request_free(req[job->rank % 2 ? 199 - i : i]));
	}
	TT_EXPECT(tt_open_fds() <= fds + 3); /* of the last areas, until all ranks have them */
	return 0;
}

/* _init, start and free wait for no other rank: each in turn does all of it first. */
static int alone(struct mp_job *job)
{
	atomic_int *turn = &job->shared->word[1];
	struct tutti_request *req[130];
	int64_t x[130];
	int i, k, first;

	for (first = 0; first < job->n; first++) {
		k = (job->rank - first + job->n) % job->n;
		TT_EXPECT(mp_await(turn, first * job->n + k, 30000));
		for (i = 0; i < 130; i++) {
			x[i] = i;
			MP_OK(tutti_allreduce_init(TUTTI_IN_PLACE, &x[i], 1, TUTTI_INT64, TUTTI_SUM,
						   job->world, &req[i]));
		}
		for (i = 0; i < 129; i++)
			MP_OK(tutti_request_free(req[i]));
		MP_OK(tutti_start(req[129]));
		atomic_fetch_add(turn, 1);
		MP_OK(tutti_wait(&req[129]));
		TT_EXPECT(x[129] == 129 * job->n);
		MP_OK(tutti_request_free(req[129]));
	}
	return 0;
}

/* _init calls differ: how, is the job's argument. */
enum { ANOTHER_COLL, ANOTHER_COUNT, ANOTHER_ORDER, ANOTHER_ROOT };

static int differ(struct mp_job *job)
{
	int how = *(int *)job->arg, i, err = 0;
	bool odd = job->rank == job->n - 1;
	struct tutti_comm *w = job->world;
	struct tutti_request *req[2];
	float x[16] = {0}, y[16] = {0};

	if (how == ANOTHER_ORDER && odd)
		MP_OK(tutti_barrier_init(w, &req[1]));
	if (how == ANOTHER_COLL && odd)
		MP_OK(tutti_reduce_init(x, y, 8, TUTTI_FLOAT32, TUTTI_SUM, 0, w, &req[0]));
	else if (how == ANOTHER_ROOT)
		MP_OK(tutti_bcast_init(x, 8, TUTTI_FLOAT32, odd, w, &req[0]));
	else
		MP_OK(tutti_allreduce_init(x, y, how == ANOTHER_COUNT && odd ? 9 : 8, TUTTI_FLOAT32,
					   TUTTI_SUM, w, &req[0]));
	if (how != ANOTHER_ORDER || !odd)
		MP_OK(tutti_barrier_init(w, &req[1]));
	mp_meet(job); /* a start can fail the communicator, and with it an _init call */
	for (i = 0; i < 4 && !err; i++) {
		err = tutti_start(req[0]);
		err = err ? err : tutti_wait(&req[0]);
		err = err ? err : tutti_start(req[1]);
		err = err ? err : tutti_wait(&req[1]);
	}
	TT_EXPECT(err == -TUTTI_EMISMATCH);
	MP_SAID("disagree");
	TT_EXPECT(mp_said("init #1, start #1") || mp_said("init #2, start #1"));
	MP_OK(tutti_request_free(req[1]));
	MP_OK(tutti_request_free(req[0]));
	return 0;
}

/* As before, where ranks that have finished free the operation at once. */
static int differ_freed(struct mp_job *job)
{
	struct tutti_request *req;
	float x[16] = {0};
	int err;

	MP_OK(tutti_bcast_init(x, job->rank == job->n - 1 ? 9 : 8, TUTTI_FLOAT32, 0, job->world,
			       &req));
	mp_meet(job);
	err = tutti_start(req);
	err = err ? err : tutti_wait(&req);
	MP_OK(tutti_request_free(req));
	while (!err)
		err = tutti_barrier(job->world);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_SAID("count");
	MP_SAID("init #1, start #1");
	return 0;
}

/* The last rank starts a persistent operation, the others make the blocking call. */
static int forms(struct mp_job *job)
{
	struct tutti_request *req = NULL;
	int x = 1, y = 0, err;

	if (job->rank == job->n - 1) {
		MP_OK(tutti_allreduce_init(&x, &y, 1, TUTTI_INT32, TUTTI_SUM, job->world, &req));
		err = tutti_start(req);
		err = err ? err : tutti_wait(&req);
	} else {
		err = tutti_allreduce(&x, &y, 1, TUTTI_INT32, TUTTI_SUM, job->world);
	}
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_SAID("disagree on form");
	MP_SAID("rank 2 called allreduce init #1, start #1");
	if (req)
		MP_OK(tutti_request_free(req));
	return 0;
}

static void mismatches(const char *env)
{
	int how;

	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = differ_freed));
	for (how = ANOTHER_COLL; how <= ANOTHER_ROOT; how++) {
		int failed = MP_RUN(.n = 3, .env = env, .fn = differ, .arg = &how);

		if (failed)
			fprintf(stderr, "case %d, %s\n", how, env);
		TT_CHECK(!failed);
	}
}

/* The last rank does not start what the others wait in. */
static int late(struct mp_job *job)
{
	struct tutti_request *req[2];
	double end = mp_now() + 30;
	int x = 1, err = 0, done;
	struct tutti_comm *w;

	MP_OK(tutti_comm_dup(job->world, &w));
	MP_OK(tutti_allreduce_init(TUTTI_IN_PLACE, &x, 1, TUTTI_INT32, TUTTI_SUM, w, &req[0]));
	MP_OK(tutti_barrier_init(w, &req[1]));
	MP_OK(tutti_start(req[0]));
	MP_OK(tutti_wait(&req[0]));
	TT_EXPECT(x == job->n);
	if (job->rank == job->n - 1) {
		TT_EXPECT(mp_await(&job->shared->word[0], job->n - 1, 30000));
	} else {
		/* Both start at once: neither counts as late. */
		atomic_fetch_add(&job->shared->word[1], 1);
		TT_EXPECT(mp_await(&job->shared->word[1], job->n - 1, 30000));
		MP_OK(tutti_start(req[1]));
		while (!err && !mp_log_has(job, "waits for rank 2") && mp_now() < end)
			err = tutti_test(&req[1], &done);
		if (!err)
			err = tutti_request_set_timeout(req[1], 100);
		MP_ERR(err ? err : tutti_wait(&req[1]), -ETIMEDOUT);
		MP_SAID("barrier init #2, start #1");
		MP_SAID("it waits for rank 2");
		atomic_fetch_add(&job->shared->word[0], 1);
	}
	MP_OK(tutti_request_free(req[0]));
	MP_OK(tutti_request_free(req[1]));
	MP_OK(tutti_comm_free(w));
	return 0;
}

/* One of two communicators has failed: requests of the other start, too. */
static int one_failed(struct mp_job *job)
{
	struct tutti_request *req[2];
	int x[2] = {1, 1}, y[2], err;
	struct tutti_comm *w[2];

	MP_OK(tutti_comm_dup(job->world, &w[0]));
	MP_OK(tutti_comm_dup(job->world, &w[1]));
	MP_OK(tutti_allreduce_init(TUTTI_IN_PLACE, &x[0], 1, TUTTI_INT32, TUTTI_SUM, w[0],
				   &req[0]));
	MP_OK(tutti_allreduce_init(TUTTI_IN_PLACE, &x[1], 1, TUTTI_INT32, TUTTI_SUM, w[1],
				   &req[1]));
	mp_meet(job); /* as in differ */
	err = tutti_bcast(y, job->rank ? 1 : 2, TUTTI_INT32, 0, w[0]);
	while (!err)
		err = tutti_barrier(w[0]);
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_ERR(tutti_start(req[0]), -TUTTI_EMISMATCH);
	MP_OK(tutti_startall(2, req));
	MP_ERR(tutti_wait(&req[0]), -TUTTI_EMISMATCH);
	MP_SAID("disagree on count");
	MP_OK(tutti_wait(&req[1]));
	TT_EXPECT(x[0] == 1 && x[1] == job->n);
	MP_OK(tutti_startall(2, req));
	MP_ERR(tutti_waitall(2, req), -TUTTI_EMISMATCH);
	TT_EXPECT(x[1] == job->n * job->n);
	MP_OK(tutti_request_free(req[0]));
	MP_OK(tutti_request_free(req[1]));
	MP_OK(tutti_comm_free(w[0]));
	MP_OK(tutti_comm_free(w[1]));
	return 0;
}

static void all_on(const char *env)
{
	int n;

	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = orders));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = many));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = alone));
}

#define MOST 20000

/* A persistent reduction has the bits of the plain call, also where its slot is too small. */
static int same_bits(struct mp_job *job)
{
	static const size_t counts[] = {100, 1600, 2000, 6000, MOST};
	static uint16_t in[MOST], plain[MOST], out[MOST]; /* bfloat16 */
	struct tutti_request *req;
	uint32_t bits;
	size_t i, k;
	float v;

	for (i = 0; i < MOST; i++) {
		v = 1 / (float)(3 + i + (size_t)job->rank * 7);
		memcpy(&bits, &v, sizeof(bits));
		in[i] = (uint16_t)(bits >> 16);
	}
	for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		MP_OK(tutti_allreduce(in, plain, counts[k], TUTTI_BFLOAT16, TUTTI_SUM, job->world));
		MP_OK(tutti_allreduce_init(in, out, counts[k], TUTTI_BFLOAT16, TUTTI_SUM,
					   job->world, &req));
		MP_OK(tutti_start(req));
		MP_OK(tutti_wait(&req));
		MP_OK(tutti_request_free(req));
		TT_EXPECT(!memcmp(plain, out, counts[k] * sizeof(*out)));
	}
	return 0;
}

static void self(void)
{
	TT_CHECK(!MP_RUN(.n = 1, .fn = orders));
	TT_CHECK(!MP_RUN(.n = 1, .fn = many));
}

static void node(void)
{
	int n;

	all_on("");
	for (n = 2; n <= 7; n++)
		TT_CHECK(!MP_RUN(.n = n, .fn = same_bits));
	mismatches("TUTTI_LATE_AFTER=200ms");
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_LATE_AFTER=50ms", .fn = one_failed));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_LATE_AFTER=1s TUTTI_TIMEOUT=60s", .fn = late));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TIMEOUT=3s", .fn = forms));
}

static void shm(void)
{
	all_on("TUTTI_TRANSPORT=shm");
	mismatches("TUTTI_TRANSPORT=shm TUTTI_LATE_AFTER=200ms");
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=off TUTTI_LATE_AFTER=50ms", .fn = one_failed));
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	all_on("TUTTI_TRANSPORT=ofi TUTTI_IF=lo");
	mismatches("TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_LATE_AFTER=200ms");
}

/* Two hosts of two ranks. */
static void hosts(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = HOSTS, .fn = orders));
	TT_CHECK(!MP_RUN(.n = 4, .env = HOSTS, .fn = many));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"self", self}, {"node", node},	  {"shm", shm},
		{"ofi", ofi},	{"hosts", hosts}, {NULL, NULL},
	};

	return tt_test_main("persistent", tests, argc, argv);
}
