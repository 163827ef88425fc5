/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates against a serial oracle: all operators and datatypes, many origins at once, targets
 * that make no calls, and targets that die.
 */
#include "config.h"

#include "tests/mp/rma/each_transport.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE (64u << 10)

static bool callers; /* windows of memory of the caller: by messages only */

static int new_window(struct mp_job *job, size_t size, char **mine, struct tutti_win **win)
{
	if (callers) {
		MP_OK(tutti_alloc(job->ctx, size, (void **)mine));
		memset(*mine, 0, size);
		MP_OK(tutti_win_create(job->world, *mine, size, TUTTI_WIN_ACCUMULATE, win));
		return 0;
	}
	MP_OK(tutti_win_allocate(job->world, size, TUTTI_WIN_ACCUMULATE, (void **)mine, win));
	return 0;
}

/*
 * All ranks accumulate to all ranks at once. Values are such that the order of operands does not
 * change the bits.
 */
static int one_operator(struct mp_job *job, struct tutti_win *win, char *mine,
			enum tutti_datatype type, enum tutti_op op, size_t count)
{
	size_t bytes = count * tutti_datatype_size(type), at = 8 * ((size_t)op + 1);
	char *local = malloc(bytes + 1), *want = malloc(bytes + 1);
	unsigned seed = (unsigned)(type * 100 + op);
	int r;

	mp_fill_exact(type, seed, 0, 0, count, mine + at);
	mine[at - 1] = mine[at + bytes] = 0x5a;
	mp_fill_exact(type, seed, job->rank + 1, 0, count, local);
	MP_OK(tutti_barrier(job->world));
	for (r = 0; r < job->n; r++)
		MP_OK(tutti_accumulate(win, (job->rank + r) % job->n, local, count, type, op, at));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_barrier(job->world));
	mp_reduce_expect(type, op, seed, 0, job->n, job->n, 0, count, want);
	if (memcmp(want, mine + at, bytes)) {
		fprintf(stderr, "rank %d of %d: type %d, op %d, %zu elements differ\n", job->rank,
			job->n, type, op, count);
		return 1;
	}
	TT_EXPECT(mine[at - 1] == 0x5a && mine[at + bytes] == 0x5a);
	free(local);
	free(want);
	return 0;
}

static int operators_body(struct mp_job *job)
{
	static const size_t counts[] = {1, 37, 1201, 5000};
	struct tutti_win *win;
	char *mine;
	int type, op, k = 0;

	TT_EXPECT(!new_window(job, SIZE, &mine, &win));
	for (type = 0; type < TUTTI_NUM_DATATYPES; type++)
		for (op = 0; op < TUTTI_NUM_OPS; op++)
			if (op != TUTTI_AVG &&
			    mp_op_valid((enum tutti_datatype)type, (enum tutti_op)op))
				TT_EXPECT(!one_operator(job, win, mine, (enum tutti_datatype)type,
							(enum tutti_op)op, counts[k++ % 4]));
	MP_OK(tutti_win_free(win));
	return 0;
}

/*
 * Random parts of random ranks' windows, all ranks at once, some as requests: every rank knows all
 * seeds, so each knows what its own window must hold, and the sum over all is what was added.
 */
static int random_body(struct mp_job *job)
{
	enum { WORDS = 20000, ROUNDS = 60 };
	int32_t *mine, *want = calloc(WORDS, 4), *local[ROUNDS];
	struct tutti_request *req[ROUNDS] = {NULL};
	uint64_t total[2] = {0, 0}, got[2] = {0, 0};
	struct tutti_win *win;
	int from, round, i;

	TT_EXPECT(!new_window(job, WORDS * 4, (char **)&mine, &win));
	for (from = 0; from < job->n; from++) {
		unsigned seed = (unsigned)from * 31 + 5;

		for (round = 0; round < ROUNDS; round++) {
			int to = rand_r(&seed) % job->n, at = rand_r(&seed) % WORDS;
			int n = rand_r(&seed) % (round % 8 ? 300 : WORDS), *v;

			n = n < WORDS - at ? n : WORDS - at;
			v = malloc((size_t)n * 4 + 4);
			for (i = 0; i < n; i++) {
				v[i] = rand_r(&seed) % 2000000 - 1000000;
				total[0] += (uint64_t)v[i];
				if (to == job->rank)
					want[at + i] =
						(int32_t)((uint32_t)want[at + i] + (uint32_t)v[i]);
			}
			if (from != job->rank) {
				free(v);
				continue;
			}
			local[round] = v;
			if (round % 3)
				MP_OK(tutti_accumulate(win, to, v, (size_t)n, TUTTI_INT32,
						       TUTTI_SUM, (uint64_t)at * 4));
			else
				MP_OK(tutti_iaccumulate(win, to, v, (size_t)n, TUTTI_INT32,
							TUTTI_SUM, (uint64_t)at * 4, &req[round]));
			if (round % 20 == 7)
				MP_OK(tutti_win_flush(win, to));
		}
	}
	MP_ERR(tutti_win_free(win), -EBUSY);
	MP_OK(tutti_waitall(ROUNDS, req));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(!memcmp(mine, want, WORDS * 4));
	for (i = 0; i < WORDS; i++)
		got[0] += (uint64_t)mine[i];
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, got, 1, TUTTI_UINT64, TUTTI_SUM, job->world));
	TT_EXPECT(got[0] == total[0]); /* conserved */
	MP_OK(tutti_win_free(win));
	for (round = 0; round < ROUNDS; round++)
		free(local[round]);
	free(want);
	return 0;
}

/* Every element is counted up by all ranks at once: each old value is seen once. */
static int fetch_body(struct mp_job *job)
{
	enum { WORDS = 900, ROUNDS = 25, LONG = 10000 };
	uint64_t *mine, *one = malloc(LONG * 8), *old = malloc(LONG * 8), last = 0, seen = 0;
	struct tutti_request *req = NULL;
	uint64_t n = (uint64_t)job->n * ROUNDS;
	struct tutti_win *win;
	int round, i;

	TT_EXPECT(!new_window(job, LONG * 8, (char **)&mine, &win));
	for (i = 0; i < LONG; i++)
		one[i] = 1;
	for (round = 0; round < ROUNDS; round++) {
		MP_OK(tutti_get_accumulate(win, job->n - 1, one, old, WORDS, TUTTI_UINT64,
					   TUTTI_SUM, 800));
		MP_OK(tutti_win_flush(win, job->n - 1));
		TT_EXPECT(round == 0 || old[5] > last);
		last = old[5];
		for (i = 0; i < WORDS; i++)
			seen += old[i];
	}
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &seen, 1, TUTTI_UINT64, TUTTI_SUM, job->world));
	TT_EXPECT(seen == WORDS * (n * (n - 1) / 2));
	/* an atomic get of all, then what was there is replaced, in turn */
	MP_OK(tutti_iget_accumulate(win, job->n - 1, NULL, old, LONG, TUTTI_UINT64, TUTTI_NO_OP, 0,
				    &req));
	MP_OK(tutti_wait(&req));
	for (i = 0; i < LONG; i++)
		TT_EXPECT(old[i] == (i >= 100 && i < 100 + WORDS ? n : 0));
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < LONG; i++)
		one[i] = (uint64_t)(job->rank + 1) * 1000000 + (uint64_t)i;
	MP_OK(tutti_get_accumulate(win, 0, one, old, LONG, TUTTI_UINT64, TUTTI_REPLACE, 0));
	MP_OK(tutti_win_flush(win, 0));
	MP_OK(tutti_barrier(job->world));
	for (seen = 0, i = 0; job->rank == 0 && i < LONG; i++) {
		TT_EXPECT(mine[i] % 1000000 == (uint64_t)i && mine[i] / 1000000 >= 1 &&
			  mine[i] / 1000000 <= (uint64_t)job->n);
		seen += mine[i] / 1000000;
	}
	if (job->n > 1 || job->rank)
		for (i = 0; i < LONG; i++) /* what others put, or what was there before */
			seen += old[i] / 1000000;
	MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &seen, 1, TUTTI_UINT64, TUTTI_SUM, job->world));
	TT_EXPECT(job->n == 1 ||
		  seen == LONG * (uint64_t)job->n * (uint64_t)(job->n + 1) / 2); /* each once */
	MP_OK(tutti_win_free(win));
	free(one);
	free(old);
	return 0;
}

/* Rank 0 makes no call; what the others add is there when their flush has ended. */
static int silent_body(struct mp_job *job)
{
	enum { WORDS = 30000 };
	struct tutti_stats stats = {.size = sizeof(stats)};
	double *mine, *local = malloc(WORDS * 8), *old = malloc(WORDS * 8);
	struct tutti_request *req = NULL;
	struct tutti_win *win;
	int round, i;

	TT_EXPECT(!new_window(job, WORDS * 8, (char **)&mine, &win));
	for (i = 0; i < WORDS; i++)
		local[i] = i + job->rank;
	mp_meet(job);
	if (job->rank == 0) {
		TT_EXPECT(mp_await(&job->shared->word[5], job->n - 1, 20000));
		MP_OK(tutti_stats_get(job->ctx, &stats)); /* an order for ThreadSanitizer */
		for (i = 0; i < WORDS; i++)
			TT_EXPECT(mine[i] == 4.0 * ((job->n - 1) * i + job->n * (job->n - 1) / 2));
	} else {
		for (round = 0; round < 4; round++) {
			MP_OK(tutti_get_accumulate(win, 0, local, old, WORDS, TUTTI_FLOAT64,
						   TUTTI_SUM, 0));
			MP_OK(tutti_win_iflush(win, 0, &req));
			MP_OK(tutti_wait(&req));
			TT_EXPECT(old[WORDS - 1] >= round * local[WORDS - 1]);
		}
		atomic_fetch_add(&job->shared->word[5], 1);
	}
	MP_OK(tutti_win_free(win));
	free(local);
	free(old);
	return 0;
}

/* Opaque elements are replaced and got whole, up to the longest that a piece has room for. */
static int opaque_body(struct mp_job *job)
{
	enum { BYTES = 1000, COUNT = 90, TOO_LONG = 32769 };
	char *mine, *local = malloc(BYTES * COUNT), *old = calloc(BYTES, COUNT);
	struct tutti_win *win;
	int i;

	TT_EXPECT(!new_window(job, BYTES * COUNT, &mine, &win));
	memset(local, job->rank + 1, BYTES * COUNT);
	MP_OK(tutti_accumulate(win, 0, local, COUNT, TUTTI_OPAQUE(BYTES), TUTTI_REPLACE, 0));
	MP_OK(tutti_win_flush(win, 0));
	MP_OK(tutti_get_accumulate(win, 0, NULL, old, COUNT, TUTTI_OPAQUE(BYTES), TUTTI_NO_OP, 0));
	MP_OK(tutti_win_flush(win, 0));
	for (i = 0; i < COUNT; i++) {
		TT_EXPECT(old[i * BYTES] >= 1 && old[i * BYTES] <= job->n);
		TT_EXPECT(!memcmp(old + i * BYTES, old + i * BYTES + 1, BYTES - 1));
	}
	MP_ERR(tutti_accumulate(win, 0, local, 1, TUTTI_OPAQUE(TOO_LONG), TUTTI_REPLACE, 0),
	       -EINVAL);
	MP_SAID("an element has 32769 bytes; it must have at most");
	MP_OK(tutti_win_free(win));
	free(local);
	free(old);
	return 0;
}

/* ---- refused ---- */

static int errors_body(struct mp_job *job)
{
	struct tutti_win *win, *plain = NULL;
	struct tutti_request *req = NULL;
	uint64_t v[4] = {0}, old[4] = {7}, word;
	enum tutti_op own;
	char *mine;
	int r;

	TT_EXPECT(!new_window(job, 64, &mine, &win));
	MP_ERR(tutti_fetch_add(win, 0, 1, 0, &word), -EINVAL);
	MP_SAID("TUTTI_WIN_ACCUMULATE");
	MP_ERR(tutti_icompare_swap(win, 0, 1, 0, 0, &word, &req), -EINVAL);
	MP_ERR(tutti_accumulate(win, 0, v, 4, TUTTI_UINT64, TUTTI_SUM, 40), -ERANGE);
	MP_ERR(tutti_accumulate(win, 0, v, SIZE_MAX / 4, TUTTI_UINT64, TUTTI_SUM, 0), -ERANGE);
	MP_ERR(tutti_accumulate(win, job->n, v, 1, TUTTI_UINT64, TUTTI_SUM, 0), -EINVAL);
	MP_ERR(tutti_accumulate(win, 0, NULL, 1, TUTTI_UINT64, TUTTI_SUM, 0), -EINVAL);
	MP_ERR(tutti_accumulate(NULL, 0, v, 1, TUTTI_UINT64, TUTTI_SUM, 0), -EINVAL);
	MP_ERR(tutti_accumulate(win, 0, v, 1, (enum tutti_datatype)999, TUTTI_SUM, 0), -EINVAL);
	MP_ERR(tutti_accumulate(win, 0, v, 1, TUTTI_FLOAT32, TUTTI_BOR, 0), -EINVAL);
	MP_ERR(tutti_accumulate(win, 0, v, 1, TUTTI_FLOAT32, TUTTI_AVG, 0), -EINVAL);
	MP_ERR(tutti_accumulate(win, 0, v, 1, TUTTI_FLOAT32, TUTTI_NO_OP, 0), -EINVAL);
	MP_SAID("tutti_get_accumulate");
	MP_OK(tutti_op_create_premul_sum(job->ctx, v, TUTTI_UINT64, &own));
	MP_ERR(tutti_accumulate(win, 0, v, 1, TUTTI_UINT64, own, 0), -EINVAL);
	MP_OK(tutti_op_free(job->ctx, own));
	MP_ERR(tutti_get_accumulate(win, 0, v, NULL, 1, TUTTI_UINT64, TUTTI_SUM, 0), -EINVAL);
	MP_ERR(tutti_iaccumulate(win, 0, v, 1, TUTTI_UINT64, TUTTI_SUM, 0, NULL), -EINVAL);
	MP_ERR(tutti_iget_accumulate(win, 0, v, old, 1, TUTTI_UINT64, TUTTI_SUM, 64, &req),
	       -ERANGE);
	TT_EXPECT(!req && old[0] == 7);
	MP_OK(tutti_accumulate(win, 0, NULL, 0, TUTTI_UINT64, TUTTI_SUM, 64)); /* nothing */
	MP_OK(tutti_put(win, 0, v, 8, 8 * (uint64_t)job->rank)); /* plain puts are as ever */
	MP_OK(tutti_win_free(win));
	MP_ERR(tutti_accumulate(win, 0, v, 1, TUTTI_UINT64, TUTTI_SUM, 0), -EINVAL);
	/* one rank disagrees: on all ranks */
	for (r = 0; r < job->n && job->n > 1; r++) {
		MP_ERR(tutti_win_create(job->world, v, 32,
					job->rank == r ? TUTTI_WIN_ACCUMULATE : 0, &plain),
		       -EINVAL);
		MP_SAID("does not");
		TT_EXPECT(!plain);
	}
	MP_OK(tutti_win_create(job->world, v, 32, 0, &plain));
	MP_ERR(tutti_accumulate(plain, 0, old, 1, TUTTI_UINT64, TUTTI_SUM, 0), -EINVAL);
	MP_SAID("without TUTTI_WIN_ACCUMULATE");
	MP_OK(tutti_win_free(plain));
	MP_OK(tutti_win_create(job->world, v, 32,
			       TUTTI_WIN_ACCUMULATE | (job->rank ? 0 : TUTTI_WIN_READ_ONLY),
			       &plain));
	MP_ERR(tutti_accumulate(plain, 0, old, 1, TUTTI_UINT64, TUTTI_SUM, 0), -EACCES);
	MP_OK(tutti_get_accumulate(plain, 0, NULL, old, 1, TUTTI_UINT64, TUTTI_NO_OP, 0));
	MP_OK(tutti_win_free(plain));
	TT_EXPECT(old[0] == 0);
	return 0;
}

/* ---- under fault ---- */

/* The target dies with accumulates under way: they end with the error, and the window can go. */
static int dead_body(struct mp_job *job)
{
	enum { WORDS = 40000 };
	struct tutti_request *req[3] = {NULL};
	double *mine, *local = calloc(WORDS, 8), *old = calloc(WORDS, 8);
	struct tutti_win *win;
	int err, i;

	TT_EXPECT(!new_window(job, WORDS * 8, (char **)&mine, &win));
	mp_meet(job);
	if (job->rank == 0) {
		usleep(20000); /* in the middle */
		kill(getpid(), SIGKILL);
	}
	do {
		err = tutti_iaccumulate(win, 0, local, WORDS, TUTTI_FLOAT64, TUTTI_SUM, 0, &req[0]);
		if (!err)
			err = tutti_iget_accumulate(win, 0, local, old, WORDS, TUTTI_FLOAT64,
						    TUTTI_MAX, 0, &req[1]);
		for (i = 0; !err && i < 20; i++)
			err = tutti_accumulate(win, 0, local, 10, TUTTI_FLOAT64, TUTTI_SUM, 80);
		if (!err)
			err = tutti_win_iflush(win, 0, &req[2]);
		if (!err)
			err = tutti_waitall(3, req);
	} while (!err);
	TT_EXPECT(!mp_died(job, err, 3, req));
	TT_EXPECT(tutti_win_free(win) != -EBUSY);
	mp_leave(job);
	free(local);
	free(old);
	return 0;
}

/* Rank 0 is stopped: the others' flush ends in time, and nothing of theirs is touched later. */
static int stopped_body(struct mp_job *job)
{
	enum { WORDS = 20000 };
	struct tutti_comm_state state = {.size = sizeof(state)};
	double *mine, *local, *old;
	struct tutti_win *win;
	bool begun;
	int err, i;

	MP_OK(tutti_comm_set_timeout(job->world, 30000)); /* of the collectives */
	callers = true;					  /* else it is combined without rank 0 */
	TT_EXPECT(!new_window(job, WORDS * 8, (char **)&mine, &win));
	MP_OK(tutti_accumulate(win, 0, mine + 1, 1, TUTTI_FLOAT64, TUTTI_SUM, 0));
	MP_OK(tutti_win_flush_all(win));
	atomic_store(&job->shared->pid[job->rank], (int)getpid());
	mp_meet(job);
	if (job->rank == 0) {
		TT_EXPECT(mp_await(&job->shared->word[5], 1, 30000));
		tutti_win_free(win);
		mp_leave(job);
		return 0;
	}
	local = calloc(WORDS, 8);
	old = calloc(WORDS, 8);
	TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[0])));
	err = tutti_get_accumulate(win, 0, local, old, WORDS, TUTTI_FLOAT64, TUTTI_SUM, 0);
	begun = !err;
	if (begun)
		err = tutti_win_flush(win, 0);
	TT_EXPECT(err == -ETIMEDOUT || err == -TUTTI_EPEER || err == -TUTTI_EABORTED);
	MP_OK(tutti_comm_state(job->world, &state));
	TT_EXPECT(!begun || state.code == err); /* that is what the communicator has failed with */
	memset(old, 0x33, WORDS * 8);
	atomic_store(&job->shared->word[5], 1);
	kill(atomic_load(&job->shared->pid[0]), SIGCONT);
	tutti_win_free(win);
	for (i = 0; i < WORDS * 8; i++)
		TT_EXPECT(((char *)old)[i] == 0x33);
	mp_leave(job);
	free(local);
	free(old);
	return 0;
}

/*
 * After a death in a tolerant communicator, rank 1 frees the window alone. Accumulates on it end
 * with an error, whether they came before that (arg NULL) or after; those before wait for long
 * results. The connection stays: another communicator of the two ranks works on.
 */
static int freed_body(struct mp_job *job)
{
	struct tutti_comm_config how = {.size = sizeof(how), .flags = TUTTI_COMM_TOLERANT};
	double *mine, local[1000] = {0}, old[1000];
	struct tutti_comm *comm, *pair, *left;
	struct tutti_failed failed[3];
	struct tutti_win *win;
	int err, n;

	MP_OK(tutti_comm_create(job->world, &how, &comm));
	MP_OK(tutti_comm_split(job->world, job->rank == 2, 0, &pair));
	MP_OK(tutti_win_allocate(comm, sizeof(local), TUTTI_WIN_ACCUMULATE, (void **)&mine, &win));
	mp_meet(job);
	if (job->rank == 2)
		kill(getpid(), SIGKILL);
	do
		MP_OK(tutti_comm_failed(comm, failed, 3, &n));
	while (!n);
	if (job->rank == 1) {
		MP_ERR(tutti_win_free(win), -TUTTI_EPEER);
		atomic_store(&job->shared->word[5], 1);
	} else {
		while (job->arg && !atomic_load(&job->shared->word[5]))
			usleep(1000);
		do {
			err = tutti_get_accumulate(win, 1, local, old, 1000, TUTTI_FLOAT64,
						   TUTTI_SUM, 0);
			if (!err)
				err = tutti_win_flush(win, 1);
		} while (!err);
		TT_EXPECT(err == -EACCES);
		MP_SAID("rank 1 has freed its window");
		MP_OK(tutti_get_accumulate(win, 1, local, old, 10, TUTTI_FLOAT64, TUTTI_SUM, 0));
		MP_ERR(tutti_win_flush(win, 1), -EACCES);
		if (getenv("TUTTI_CHECKSUM")) {
			MP_OK(tutti_put_notify(win, 1, local, 100, 0));
			MP_ERR(tutti_win_flush(win, 1), -EACCES);
			MP_SAID("rank 1 has freed its window");
		}
		MP_ERR(tutti_win_free(win), -TUTTI_EPEER);
	}
	MP_OK(tutti_barrier(pair));
	MP_OK(tutti_comm_shrink(comm, &left));
	MP_OK(tutti_barrier(left));
	mp_leave(job);
	return 0;
}

static void values(const char *env, int n, bool of_callers)
{
	int failed;

	callers = of_callers;
	failed = MP_RUN(.n = n, .env = env, .fn = operators_body) +
		 MP_RUN(.n = n, .env = env, .fn = random_body) +
		 MP_RUN(.n = n, .env = env, .fn = fetch_body) +
		 MP_RUN(.n = n, .env = env, .fn = silent_body) +
		 MP_RUN(.n = n, .env = env, .fn = opaque_body) +
		 MP_RUN(.n = n, .env = env, .fn = errors_body);

	if (failed)
		fprintf(stderr, "%d ranks, %s\n", n, env);
	TT_CHECK(!failed);
}

static void run(const char *env)
{
	char with[256];
	bool few = mp_few_sizes(env);
	int n;

	for (n = few ? 3 : 1; n <= (few ? 3 : 4); n++)
		values(env, n, false);
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = dead_body, .killed = 1));
	snprintf(with, sizeof(with), "%s TUTTI_TIMEOUT=2s", env);
	TT_CHECK(!MP_RUN(.n = 2, .env = with, .fn = stopped_body));
	snprintf(with, sizeof(with), "%s TUTTI_TIMEOUT=20s", env);
	TT_CHECK(!MP_RUN(.n = 3, .env = with, .fn = freed_body, .killed = 4));
	TT_CHECK(!MP_RUN(.n = 3, .env = with, .fn = freed_body, .arg = with, .killed = 4));
	snprintf(with, sizeof(with), "%s TUTTI_TIMEOUT=20s TUTTI_CHECKSUM=1", env);
	TT_CHECK(!MP_RUN(.n = 3, .env = with, .fn = freed_body, .arg = with, .killed = 4));
}

/* All requests and replies go by offers. */
static void offers(void)
{
	callers = true;
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_EAGER=0", .fn = operators_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_EAGER=0", .fn = fetch_body));
}

static void checksums(void)
{
	callers = true;
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_CHECKSUM=1", .fn = fetch_body));
}

/* Between ranks of a host by messages. */
static void messages(void)
{
	values("TUTTI_TRANSPORT=shm", 4, true);
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm", .fn = dead_body, .killed = 1));
}

/* Two ranks on each of two hosts: in mapped memory and by messages at once. */
static void hosts(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	values("TUTTI_TRANSPORT=shm,ofi TUTTI_IF=lo TUTTI_HOST_ID=h%h", 4, false);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},	  {"shm_fault", shm_fault}, {"ofi", ofi},
		{"verbs", verbs}, {"offers", offers},	    {"checksums", checksums},
		{"hosts", hosts}, {"messages", messages},   {NULL, NULL}};

	return tt_test_main("accumulate", tests, argc, argv);
}
