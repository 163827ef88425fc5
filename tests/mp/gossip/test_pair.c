/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs: any ranks average with any others at once. No deadlock, sums are kept bit for bit, a dead
 * holder's lock is taken over, and calls that are wrong say why.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COUNT 5

/* How many averages all ranks begin together. */
static int total = 100000;

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* Values over the whole range: sums are taken modulo 2^64, as the averages are exact. */
static int64_t value_of(int rank, int i)
{
	uint64_t state = (uint64_t)(rank * 131 + i);

	return (int64_t)(next(&state) << 33 ^ next(&state));
}

/* ---- random pairs ---- */

struct pairs {
	enum tutti_datatype type;
	int total;
};

static int64_t element(const void *x, enum tutti_datatype type, int i)
{
	return type == TUTTI_INT64 ? ((const int64_t *)x)[i] : ((const int32_t *)x)[i];
}

static void set(void *x, enum tutti_datatype type, int rank)
{
	int i;

	for (i = 0; i < COUNT; i++)
		if (type == TUTTI_INT64)
			((int64_t *)x)[i] = value_of(rank, i);
		else
			((int32_t *)x)[i] = (int32_t)value_of(rank, i);
}

static int check_sums(struct mp_job *job, const void *x, enum tutti_datatype type)
{
	uint64_t sum[COUNT], expect;
	int i, r;

	for (i = 0; i < COUNT; i++)
		sum[i] = (uint64_t)element(x, type, i);
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, sum, COUNT, TUTTI_UINT64, TUTTI_SUM, job->world));
	for (i = 0; i < COUNT; i++) {
		for (expect = 0, r = 0; r < job->n; r++)
			expect += type == TUTTI_INT64 ? (uint64_t)value_of(r, i)
						      : (uint64_t)(int32_t)value_of(r, i);
		TT_EXPECT(sum[i] == expect);
	}
	return 0;
}

/* The elements of ranks are within a few of each other once all have mixed. */
static int check_spread(struct mp_job *job, const void *x, enum tutti_datatype type)
{
	int64_t low[COUNT], high[COUNT];
	int i;

	for (i = 0; i < COUNT; i++)
		low[i] = high[i] = element(x, type, i);
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, low, COUNT, TUTTI_INT64, TUTTI_MIN, job->world));
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, high, COUNT, TUTTI_INT64, TUTTI_MAX, job->world));
	for (i = 0; i < COUNT; i++)
		TT_EXPECT(high[i] - low[i] <= job->n);
	return 0;
}

static int pairs_body(struct mp_job *job)
{
	const struct pairs *pairs = job->arg;
	int i, r, mine = pairs->total / job->n + (job->rank < pairs->total % job->n), with;
	struct tutti_pair_state state = {.size = sizeof(state)};
	uint64_t random = (uint64_t)job->rank + 7, done;
	struct tutti_pair *pair;
	void *x;

	MP_OK(tutti_pair_create(job->world, COUNT, pairs->type, &x, &pair));
	set(x, pairs->type, job->rank);
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < mine; i++) {
		r = (job->rank + 1 + (int)(next(&random) % (uint64_t)(job->n - 1))) % job->n;
		with = -1;
		if (i % 4)
			MP_OK(tutti_pair_average(pair, r, NULL));
		else
			MP_OK(tutti_pair_average(pair, TUTTI_PAIR_ANY, &with));
		TT_EXPECT(i % 4 || (with >= 0 && with < job->n && with != job->rank));
	}
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!check_sums(job, x, pairs->type));
	if (pairs->total >= 100 * job->n)
		TT_EXPECT(!check_spread(job, x, pairs->type));
	MP_OK(tutti_pair_state(pair, &state));
	TT_EXPECT(state.averages == (uint64_t)mine && !state.broken);
	TT_EXPECT(state.bytes == state.averages * 2 * COUNT * tutti_datatype_size(pairs->type));
	done = state.averages;
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &done, 1, TUTTI_UINT64, TUTTI_SUM, job->world));
	TT_EXPECT(done == (uint64_t)pairs->total);
	MP_OK(tutti_pair_free(pair));
	return 0;
}

static void run_pairs(const char *env, int times, int n)
{
	struct pairs wide = {TUTTI_INT64, times}, narrow = {TUTTI_INT32, times / 10};

	TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = pairs_body, .arg = &wide, .timeout_ms = 120000));
	TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = pairs_body, .arg = &narrow));
}

/* ---- averages, exactly ---- */

/* Rank 0 averages with the last rank, then the other way round; everything is known. */
static int exact_body(struct mp_job *job)
{
	static const int64_t a[] = {0, 7, -7, INT64_MAX, INT64_MIN, -1, INT64_MAX};
	static const int64_t b[] = {0, 8, -8, INT64_MAX, INT64_MIN, 0, INT64_MIN};
	static const int64_t floor[] = {0, 7, -8, INT64_MAX, INT64_MIN, -1, -1};
	static const int64_t rest[] = {0, 8, -7, INT64_MAX, INT64_MIN, 0, 0};
	int turn, i, count = 7, last = job->n - 1;
	struct tutti_pair *pair;
	int64_t *x;

	MP_OK(tutti_pair_create(job->world, (size_t)count, TUTTI_INT64, (void **)&x, &pair));
	for (turn = 0; turn < 2; turn++) {
		for (i = 0; i < count; i++)
			x[i] = job->rank == 0 ? a[i] : job->rank == last ? b[i] : 5;
		MP_OK(tutti_barrier(job->world));
		if (job->rank == (turn ? last : 0))
			MP_OK(tutti_pair_average(pair, turn ? 0 : last, NULL));
		MP_OK(tutti_barrier(job->world));
		for (i = 0; i < count; i++)
			TT_EXPECT(x[i] == (job->rank == 0      ? floor[i]
					   : job->rank == last ? rest[i]
							       : 5));
		MP_OK(tutti_barrier(job->world));
	}
	MP_OK(tutti_pair_free(pair));
	return 0;
}

static int floats_body(struct mp_job *job)
{
	size_t i, count = 100003;
	struct tutti_pair *pair;
	struct tutti_pair *other;
	double *wide;
	float *x;

	MP_OK(tutti_pair_create(job->world, count, TUTTI_FLOAT32, (void **)&x, &pair));
	MP_OK(tutti_pair_create(job->world, 1, TUTTI_FLOAT64, (void **)&wide, &other));
	for (i = 0; i < count; i++)
		x[i] = (float)(job->rank * 1000 + (int)(i % 1000));
	*wide = job->rank;
	MP_OK(tutti_barrier(job->world));
	if (job->rank == 1) {
		MP_OK(tutti_pair_average(pair, 0, NULL));
		MP_OK(tutti_pair_average(other, 0, NULL));
	}
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < count; i++)
		TT_EXPECT(x[i] ==
			  (float)((job->rank < 2 ? 500 : job->rank * 1000) + (int)(i % 1000)));
	TT_EXPECT(*wide == (job->rank < 2 ? 0.5 : job->rank));
	MP_OK(tutti_pair_free(pair));
	MP_OK(tutti_pair_free(other));
	return 0;
}

/* ---- locks ---- */

/* Each rank adds to its own vector under its lock while others average: nothing is lost. */
static int own_body(struct mp_job *job)
{
	int64_t *x, sum;
	struct tutti_pair *pair;
	int i, k, times = *(const int *)job->arg;

	MP_OK(tutti_pair_create(job->world, COUNT, TUTTI_INT64, (void **)&x, &pair));
	for (i = 0; i < times; i++) {
		MP_OK(tutti_pair_lock(pair, job->rank));
		for (k = 0; k < COUNT; k++)
			x[k] += k + 1;
		MP_OK(tutti_pair_unlock(pair));
		MP_OK(tutti_pair_average(pair, TUTTI_PAIR_ANY, NULL));
	}
	MP_OK(tutti_barrier(job->world));
	for (k = 0; k < COUNT; k++) {
		MP_OK(tutti_allreduce(&x[k], &sum, 1, TUTTI_INT64, TUTTI_SUM, job->world));
		TT_EXPECT(sum == (int64_t)job->n * times * (k + 1));
	}
	MP_OK(tutti_pair_free(pair));
	return 0;
}

struct beside {
	struct tutti_pair *pair;
	int times;
};

static void *average_beside(void *arg)
{
	struct beside *b = arg;
	int i;

	for (i = 0; i < b->times; i++)
		if (tutti_pair_average(b->pair, TUTTI_PAIR_ANY, NULL))
			return arg;
	return NULL;
}

/* The same by two threads of a rank, one of which only averages. */
static int threads_body(struct mp_job *job)
{
	struct beside beside = {.times = *(const int *)job->arg};
	struct tutti_pair *pair;
	int64_t *x, sum;
	pthread_t thread;
	void *failed;
	int i;

	MP_OK(tutti_pair_create(job->world, 1, TUTTI_INT64, (void **)&x, &pair));
	beside.pair = pair;
	TT_EXPECT(!pthread_create(&thread, NULL, average_beside, &beside));
	for (i = 0; i < beside.times; i++) {
		MP_OK(tutti_pair_lock(pair, job->rank));
		*x += 3;
		MP_OK(tutti_pair_unlock(pair));
	}
	pthread_join(thread, &failed);
	TT_EXPECT(!failed);
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_allreduce(x, &sum, 1, TUTTI_INT64, TUTTI_SUM, job->world));
	TT_EXPECT(sum == (int64_t)3 * beside.times * job->n);
	MP_OK(tutti_pair_free(pair));
	return 0;
}

/* Beside a thread that averages, locks of other ranks' vectors: neither breaks the other's waits.
 */
static int others_body(struct mp_job *job)
{
	struct beside beside = {.times = 100 * *(const int *)job->arg};
	struct tutti_pair *pair;
	pthread_t thread;
	void *failed;
	int64_t *x;
	int i;

	MP_OK(tutti_pair_create(job->world, 1, TUTTI_INT64, (void **)&x, &pair));
	beside.pair = pair;
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!pthread_create(&thread, NULL, average_beside, &beside));
	for (i = 0; i < beside.times; i++) {
		MP_OK(tutti_pair_lock(pair, (job->rank + 1 + i % (job->n - 1)) % job->n));
		MP_OK(tutti_pair_unlock(pair));
	}
	pthread_join(thread, &failed);
	TT_EXPECT(!failed);
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_pair_free(pair));
	return 0;
}

/* Rank 0 keeps a lock: the others fail at their deadline, and say who has it. */
static int kept_body(struct mp_job *job)
{
	struct tutti_pair *pair;
	int64_t *x;

	MP_OK(tutti_pair_create(job->world, 1, TUTTI_INT64, (void **)&x, &pair));
	if (job->rank == 0)
		MP_OK(tutti_pair_lock(pair, 1));
	mp_meet(job);
	if (job->rank == 1) {
		MP_ERR(tutti_pair_average(pair, 2, NULL), -ETIMEDOUT);
		MP_SAID("rank 0 has the lock of rank 1's vector");
	}
	mp_meet(job);
	if (job->rank == 0)
		MP_OK(tutti_pair_unlock(pair));
	mp_meet(job);
	if (job->rank == 1)
		MP_OK(tutti_pair_average(pair, 2, NULL));
	MP_OK(tutti_pair_free(pair));
	return 0;
}

/* Rank 1 does not come: the other one learns which of its calls has waited. */
static int no_free_body(struct mp_job *job)
{
	struct tutti_gossip_config config = {
		.size = sizeof(config), .count = 1, .datatype = TUTTI_FLOAT32};
	struct tutti_gossip *gossip;
	struct tutti_pair *pair;
	int64_t *x;

	MP_OK(tutti_pair_create(job->world, 1, TUTTI_INT64, (void **)&x, &pair));
	MP_OK(tutti_gossip_create(job->world, &config, &gossip));
	if (job->rank == 0) {
		MP_ERR(tutti_pair_free(pair), -ETIMEDOUT);
		MP_SAID("tutti_pair_free did not finish within 1000 ms");
		MP_ERR(tutti_gossip_free(gossip), -ETIMEDOUT);
		MP_SAID("tutti_gossip_free did not finish within 1000 ms");
	}
	mp_meet(job);
	if (job->rank) {
		TT_EXPECT(tutti_pair_free(pair));
		TT_EXPECT(tutti_gossip_free(gossip));
	}
	mp_meet(job);
	return mp_leave_failed(job);
}

static void *lock_one(void *arg)
{
	struct tutti_pair *pair = arg;

	return tutti_pair_lock(pair, 1) || tutti_pair_unlock(pair) ? arg : NULL;
}

/* Both threads of rank 1 wait while rank 0 has the lock, and then both get it. */
static int siblings_body(struct mp_job *job)
{
	struct tutti_pair *pair;
	pthread_t thread[2];
	void *failed;
	int64_t *x;
	int i, k;

	MP_OK(tutti_pair_create(job->world, 1, TUTTI_INT64, (void **)&x, &pair));
	for (i = 0; i < 60; i++) {
		if (job->rank == 0)
			MP_OK(tutti_pair_lock(pair, 1));
		mp_meet(job);
		for (k = 0; job->rank == 1 && k < 2; k++)
			TT_EXPECT(!pthread_create(&thread[k], NULL, lock_one, pair));
		mp_sleep_ms(3); /* they come to sleep between their tries */
		if (job->rank == 0)
			MP_OK(tutti_pair_unlock(pair));
		for (k = 0; job->rank == 1 && k < 2; k++) {
			pthread_join(thread[k], &failed);
			TT_EXPECT(!failed);
		}
		mp_meet(job);
	}
	MP_OK(tutti_pair_free(pair));
	return 0;
}

static void *lock_two(void *arg)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	if (tutti_pair_lock(arg, 2) != -EBUSY)
		return arg;
	tutti_last_error(&info);
	return strstr(info.text, "another thread of this rank has a lock") ? NULL : arg;
}

/* Of a pair that another thread has locked. */
static void *free_it(void *arg)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	if (tutti_pair_free(arg) != -EBUSY)
		return arg;
	tutti_last_error(&info);
	return strstr(info.text, "another thread has the lock of rank 1") ? NULL : arg;
}

/* A rank has one lock at a time: that of the second thread is given back. */
static int one_lock_body(struct mp_job *job)
{
	struct tutti_pair *pair;
	pthread_t thread;
	void *failed;
	int64_t *x;

	MP_OK(tutti_pair_create(job->world, 1, TUTTI_INT64, (void **)&x, &pair));
	if (job->rank == 0) {
		MP_OK(tutti_pair_lock(pair, 1));
		TT_EXPECT(!pthread_create(&thread, NULL, lock_two, pair));
		pthread_join(thread, &failed);
		TT_EXPECT(!failed);
		TT_EXPECT(!pthread_create(&thread, NULL, free_it, pair));
		pthread_join(thread, &failed);
		TT_EXPECT(!failed);
		MP_OK(tutti_pair_unlock(pair));
	}
	mp_meet(job);
	if (job->rank == 1)
		MP_OK(tutti_pair_average(pair, 2, NULL));
	MP_OK(tutti_pair_free(pair));
	return 0;
}

/* ---- deaths ---- */

static bool victim(int rank)
{
	return rank == 1 || rank == 6;
}

/* A barrier of the live ranks, which uses nothing of the library. */
static int meet_live(struct mp_job *job, int word)
{
	atomic_fetch_add(&job->shared->word[word], 1);
	TT_EXPECT(mp_await(&job->shared->word[word], job->n - 2, 20000));
	return 0;
}

static bool said_needs(const char *call, int rank)
{
	char text[64];

	snprintf(text, sizeof(text), "%s needs rank %d on host", call, rank);
	return mp_said(text);
}

/* A dead rank is an error in itself, and from then on every rank knows of the death. */
static int learn(struct mp_job *job, struct tutti_pair *pair)
{
	int r, err;

	for (r = 0; r < job->n; r++)
		for (err = 0; victim(r) && !err;) {
			err = tutti_pair_average(pair, r, NULL);
			TT_EXPECT(!err || err == -TUTTI_EPEER);
			TT_EXPECT(!err || said_needs("tutti_pair_average", r));
		}
	for (r = 0; r < job->n; r++) {
		if (!victim(r))
			continue;
		MP_ERR(tutti_pair_lock(pair, r), -TUTTI_EPEER);
		TT_EXPECT(said_needs("tutti_pair_lock", r));
	}
	return 0;
}

/*
 * Ranks 1 and 6 die, each with the lock of a live rank, while all average. The others break the
 * locks and go on. From when all know of the deaths, their sum stays.
 */
static int deaths_body(struct mp_job *job)
{
	struct tutti_pair_state state = {.size = sizeof(state)};
	atomic_int *word = job->shared->word;
	int i, with, times = *(const int *)job->arg / 6;
	struct tutti_pair *pair;
	int64_t *x;

	MP_OK(tutti_pair_create(job->world, 1, TUTTI_INT64, (void **)&x, &pair));
	*x = job->rank * 1000 + 3;
	mp_meet(job);
	for (i = 0; i < times; i++)
		MP_OK(tutti_pair_average(pair, TUTTI_PAIR_ANY, NULL));
	if (victim(job->rank)) {
		MP_OK(tutti_pair_lock(pair, job->rank == 1 ? 0 : 7));
		kill(getpid(), SIGKILL);
	}
	for (i = 0; i < times; i++) /* ranks 0 and 7 need their own lock, which the dead have */
		MP_OK(tutti_pair_average(pair, TUTTI_PAIR_ANY, NULL));
	TT_EXPECT(!learn(job, pair) && !meet_live(job, 10));
	atomic_fetch_add(&word[12], (int)*x);
	TT_EXPECT(!meet_live(job, 13));
	for (i = 0; i < times; i++) {
		MP_OK(tutti_pair_average(pair, TUTTI_PAIR_ANY, &with));
		TT_EXPECT(!victim(with));
	}
	MP_OK(tutti_pair_state(pair, &state));
	atomic_fetch_add(&word[11], (int)state.broken);
	TT_EXPECT(!meet_live(job, 14));
	atomic_fetch_add(&word[15], (int)*x);
	TT_EXPECT(!meet_live(job, 16));
	/* one of the dead may have broken the other's lock before */
	TT_EXPECT(word[11] >= 1 && word[11] <= 2 && word[15] == word[12]);
	MP_OK(tutti_pair_free(pair));
	return mp_leave_failed(job);
}

/* Both of two ranks but one die: no other rank lives. */
static int alone_body(struct mp_job *job)
{
	struct tutti_pair *pair;
	int with = 77, err;
	float *x;

	MP_OK(tutti_pair_create(job->world, 9, TUTTI_FLOAT32, (void **)&x, &pair));
	mp_meet(job);
	if (job->rank)
		kill(getpid(), SIGKILL);
	do {
		with = 77;
		err = tutti_pair_average(pair, TUTTI_PAIR_ANY, &with);
	} while (!err);
	MP_ERR(err, -TUTTI_EPEER);
	MP_SAID("no other rank lives");
	TT_EXPECT(with == 77);
	MP_OK(tutti_pair_lock(pair, 0));
	MP_OK(tutti_pair_unlock(pair));
	MP_OK(tutti_pair_free(pair));
	return mp_leave_failed(job);
}

/* ---- refused calls ---- */

static int refuse_create(struct mp_job *job)
{
	struct tutti_pair *pair = NULL;
	struct tutti_comm *turned;
	char text[64];
	void *x = NULL;

	MP_ERR(tutti_pair_create(NULL, 1, TUTTI_INT64, &x, &pair), -EINVAL);
	MP_ERR(tutti_pair_create(job->world, 1, TUTTI_UINT8, &x, &pair), -EINVAL);
	MP_SAID("must be int32, int64, float32 or float64");
	MP_ERR(tutti_pair_create(job->world, 1, TUTTI_INT64, NULL, &pair), -EINVAL);
	MP_ERR(tutti_pair_create(job->world, 1, TUTTI_INT64, &x, NULL), -EINVAL);
	MP_ERR(tutti_pair_create(job->world, SIZE_MAX / 2, TUTTI_INT64, &x, &pair), -EINVAL);
	MP_SAID("do not fit in memory");
	/* one rank is wrong: all fail */
	MP_ERR(tutti_pair_create(job->world, 1, job->rank == 1 ? TUTTI_UINT8 : TUTTI_INT64, &x,
				 &pair),
	       -EINVAL);
	MP_SAID("must be int32");
	MP_ERR(tutti_pair_create(job->world, job->rank == 1 ? 2 : 1, TUTTI_INT64, &x, &pair),
	       -EINVAL);
	MP_SAID("rank 1 passes count 2");
	MP_ERR(tutti_pair_create(job->world, 1, job->rank == 1 ? TUTTI_FLOAT32 : TUTTI_INT64, &x,
				 &pair),
	       -EINVAL);
	MP_SAID("and datatype float32, rank 0 passes count 1 and datatype int64");
	MP_OK(tutti_comm_split(job->world, 0, -job->rank, &turned));
	MP_ERR(tutti_pair_create(turned, job->rank == 0 ? 2 : 1, TUTTI_INT64, &x, &pair), -EINVAL);
	snprintf(text, sizeof(text), "rank %d passes count 1", job->n - 1);
	TT_EXPECT(mp_said("rank 0 passes count 2") && mp_said(text));
	MP_OK(tutti_comm_free(turned));
	TT_EXPECT(!x && !pair);
	return 0;
}

static int refuse_body(struct mp_job *job)
{
	struct tutti_pair_state state = {.size = 3};
	struct tutti_pair *pair;
	int64_t *x;

	TT_EXPECT(!refuse_create(job));
	MP_OK(tutti_pair_create(job->world, 0, TUTTI_INT64, (void **)&x, &pair));
	MP_OK(tutti_pair_average(pair, TUTTI_PAIR_ANY, NULL));
	MP_OK(tutti_pair_free(pair));
	MP_OK(tutti_pair_create(job->world, 1, TUTTI_INT64, (void **)&x, &pair));
	MP_ERR(tutti_pair_average(NULL, 1, NULL), -EINVAL);
	MP_ERR(tutti_pair_average(pair, job->rank, NULL), -EINVAL);
	MP_SAID("another rank of the communicator (0 to 2)");
	MP_ERR(tutti_pair_average(pair, -2, NULL), -EINVAL);
	MP_ERR(tutti_pair_average(pair, job->n, NULL), -EINVAL);
	MP_ERR(tutti_pair_lock(pair, -1), -EINVAL);
	MP_ERR(tutti_pair_lock(pair, job->n), -EINVAL);
	MP_ERR(tutti_pair_unlock(pair), -EPERM);
	MP_SAID("call tutti_pair_lock first");
	MP_OK(tutti_pair_lock(pair, job->rank));
	MP_ERR(tutti_pair_lock(pair, job->rank), -EDEADLK);
	MP_ERR(tutti_pair_average(pair, (job->rank + 1) % job->n, NULL), -EDEADLK);
	MP_SAID("call tutti_pair_unlock first");
	MP_ERR(tutti_pair_free(pair), -EBUSY);
	MP_OK(tutti_pair_unlock(pair));
	MP_ERR(tutti_pair_state(pair, &state), -EINVAL);
	MP_ERR(tutti_pair_state(pair, NULL), -EINVAL);
	MP_OK(tutti_group_start());
	MP_ERR(tutti_pair_average(pair, (job->rank + 1) % job->n, NULL), -EINVAL);
	MP_OK(tutti_group_end());
	MP_OK(tutti_pair_free(pair));
	MP_OK(tutti_pair_free(NULL));
	return 0;
}

/* ---- cases ---- */

#define SHM "TUTTI_TRANSPORT=shm"
#define TCP "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"

static void pairs_shm(void)
{
	int n;

	for (n = 2; n <= 8; n += n == 5 ? 3 : 1)
		run_pairs(SHM,
			  mp_sanitized()     ? total / 10
			  : n == 8 || n == 2 ? total
					     : total / 4,
			  n);
}

static void pairs_fault(void)
{
	run_pairs("TUTTI_TRANSPORT=fault:shm "
		  "TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2,finish=1",
		  1000, 3);
}

static void each(const char *env, int times)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = exact_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = exact_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = floats_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = own_body, .arg = &times));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = threads_body, .arg = &times));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = others_body, .arg = &times));
	TT_CHECK(!MP_RUN(.n = 8, .env = env, .fn = deaths_body, .arg = &times,
			 .killed = 1u << 1 | 1u << 6));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = alone_body, .killed = 2));
}

static void shm(void)
{
	each(SHM, 300);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run_pairs(TCP, 300, 3);
	each(TCP, 30);
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run_pairs("TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=60s", 200, 3);
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs", .fn = exact_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=verbs", .fn = floats_body));
}

static void kept(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM " TUTTI_TIMEOUT=1500ms", .fn = kept_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_TIMEOUT=1s", .fn = no_free_body));
}

static void threads(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_TIMEOUT=5s", .fn = siblings_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM " TUTTI_TIMEOUT=5s", .fn = one_lock_body));
}

static void refuse(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = refuse_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"pairs_shm", pairs_shm},
		{"pairs_fault", pairs_fault},
		{"shm", shm},
		{"ofi", ofi},
		{"verbs", verbs},
		{"kept", kept},
		{"threads", threads},
		{"refuse", refuse},
		{NULL, NULL},
	};

	return tt_test_main("pair", tests, argc, argv);
}
