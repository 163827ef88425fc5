/* SPDX-License-Identifier: BSD-3-Clause */
/* Notification ids: counts, sets of ids, and the two examples of tutti_wait_notify(3). */
#include "config.h"

#include "tests/mp/rma/each_transport.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int check_errors(struct mp_job *job, struct tutti_win *win)
{
	struct tutti_request *req = NULL;
	int ids[] = {3, TUTTI_NOTIFY_IDS}, got = 7;

	MP_ERR(tutti_put_notify_id(win, 0, NULL, 0, 0, TUTTI_NOTIFY_IDS), -EINVAL);
	MP_SAID("notification id");
	MP_ERR(tutti_put_notify_id(win, 0, NULL, 0, 0, -1), -EINVAL);
	MP_ERR(tutti_put_notify_id(win, job->n, NULL, 0, 0, 0), -EINVAL);
	MP_ERR(tutti_put_notify_id(win, 0, ids, 8, UINT64_MAX, 0), -ERANGE);
	MP_ERR(tutti_iput_notify_id(win, 0, NULL, 0, 0, 0, NULL), -EINVAL);
	MP_ERR(tutti_iput_notify_id(win, 0, NULL, 0, 0, TUTTI_NOTIFY_IDS, &req), -EINVAL);
	MP_ERR(tutti_wait_notify_id(win, -1, 1), -EINVAL);
	MP_ERR(tutti_test_notify_id(win, 0, 1, NULL), -EINVAL);
	MP_ERR(tutti_test_notify(win, job->n, 1, &got), -EINVAL);
	MP_ERR(tutti_wait_notify_any(win, 2, ids, &got), -EINVAL);
	MP_ERR(tutti_wait_notify_any(win, -1, ids, &got), -EINVAL);
	MP_ERR(tutti_wait_notify_all(win, 1, NULL), -EINVAL);
	MP_ERR(tutti_test_notify_all(NULL, 1, ids, &got), -EINVAL);
	TT_EXPECT(!req && got == 7);
	MP_OK(tutti_test_notify_any(win, 0, NULL, &got));
	TT_EXPECT(got == -1);
	MP_OK(tutti_test_notify_all(win, 0, NULL, &got));
	TT_EXPECT(got == 1);
	return 0;
}

/* Nothing comes to any of these any more. */
static int none_left(struct tutti_win *win, struct mp_job *job)
{
	int all[TUTTI_NOTIFY_IDS], i, got;

	for (i = 0; i < TUTTI_NOTIFY_IDS; i++)
		all[i] = i;
	MP_OK(tutti_test_notify_any(win, TUTTI_NOTIFY_IDS, all, &got));
	TT_EXPECT(got == -1);
	for (i = 0; i < job->n; i++) {
		MP_OK(tutti_test_notify(win, i, 1, &got));
		TT_EXPECT(!got);
	}
	return 0;
}

/*
 * Every rank sends every rank random ids, all ranks from the same seeds, so each knows what it
 * gets; ids and ranks are counted apart.
 */
static int counts_body(struct mp_job *job)
{
	enum { NOTES = 120 };
	int want[TUTTI_NOTIFY_IDS] = {0}, ids[TUTTI_NOTIFY_IDS], from, to, i, n = 0, got, left;
	uint64_t *mine;
	struct tutti_win *win;

	MP_OK(tutti_alloc(job->ctx, 4096, (void **)&mine));
	memset(mine, 0, 4096);
	MP_OK(tutti_win_create(job->world, mine, 4096, 0, &win));
	TT_EXPECT(!check_errors(job, win));
	for (from = 0; from < job->n; from++) {
		unsigned seed = (unsigned)from * 7 + 1;

		for (i = 0; i < NOTES; i++) {
			int id = rand_r(&seed) % TUTTI_NOTIFY_IDS;
			uint64_t value = (uint64_t)id, at = (uint64_t)id * 8;

			to = rand_r(&seed) % job->n;
			want[id] += to == job->rank;
			if (from != job->rank)
				continue;
			MP_OK(tutti_put_notify_id(win, to, &value, 8, at, id));
			MP_OK(tutti_win_flush(win, to)); /* value goes out of scope */
			if (i % 16 == 0)
				MP_OK(tutti_put_notify(win, to, NULL, 0, 0));
		}
	}
	for (i = 0, left = 0; i < TUTTI_NOTIFY_IDS; i++) {
		left += want[i];
		if (want[i])
			ids[n++] = i;
	}
	MP_OK(n ? tutti_wait_notify_all(win, n, ids) : 0); /* one of each */
	for (i = 0; i < n; i++) {
		TT_EXPECT(mine[ids[i]] == (uint64_t)ids[i]);
		want[ids[i]]--;
	}
	for (left -= n; left; left--) { /* the rest one by one */
		MP_OK(tutti_wait_notify_any(win, n, ids, &got));
		TT_EXPECT(got >= 0 && got < n && want[ids[got]] > 0);
		want[ids[got]]--;
	}
	MP_OK(tutti_barrier(job->world));
	for (from = 0; from < job->n; from++) {
		unsigned seed = (unsigned)from * 7 + 1;

		for (i = 0; i < NOTES; i++) {
			(void)rand_r(&seed);
			if (rand_r(&seed) % job->n == job->rank && i % 16 == 0)
				MP_OK(tutti_wait_notify(win, from, 1));
		}
	}
	TT_EXPECT(!none_left(win, job));
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(mine));
	return 0;
}

/* All or none: what is there is kept until the last id is. */
static int sets_body(struct mp_job *job)
{
	int pair[] = {5, 9}, twice[] = {5, 5}, got, to = (job->rank + 1) % job->n;
	struct tutti_request *req = NULL;
	struct tutti_win *win;

	MP_OK(tutti_win_create(job->world, NULL, 0, 0, &win));
	MP_OK(tutti_put_notify_id(win, to, NULL, 0, 0, 5));
	MP_OK(tutti_win_flush(win, to));
	MP_OK(tutti_barrier(job->world));
	do { /* a notification may come after the flush */
		MP_OK(tutti_test_notify_all(win, 2, pair, &got));
		TT_EXPECT(!got);
		MP_OK(tutti_test_notify_id(win, 5, 1, &got));
	} while (!got);
	MP_OK(tutti_test_notify_id(win, 5, 1, &got));
	TT_EXPECT(!got);
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_iput_notify_id(win, to, NULL, 0, 0, 9, &req));
	MP_OK(tutti_wait(&req));
	MP_OK(tutti_put_notify_id(win, to, NULL, 0, 0, 5));
	MP_OK(tutti_wait_notify_all(win, 2, pair));
	MP_OK(tutti_put_notify_id(win, to, NULL, 0, 0, 5));
	MP_OK(tutti_wait_notify_id(win, 5, 1));
	MP_OK(tutti_test_notify_all(win, 2, twice, &got));
	TT_EXPECT(!got);
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_put_notify_id(win, to, NULL, 0, 0, 5));
	MP_OK(tutti_put_notify_id(win, to, NULL, 0, 0, 5));
	MP_OK(tutti_wait_notify_all(win, 2, twice));
	TT_EXPECT(!none_left(win, job));
	MP_OK(tutti_win_free(win));
	return 0;
}

/* ---- the examples ---- */

struct halo {
	double from_left[2], from_right[2];
};

static int exchange(struct tutti_win *win, struct tutti_comm *comm, const double *cell, size_t n,
		    int step)
{
	int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm), odd = step % 2, err;
	int left = (rank + size - 1) % size, right = (rank + 1) % size;
	int ids[] = {odd, 2 + odd};
	size_t to_left = offsetof(struct halo, from_right) + (size_t)odd * sizeof(double);
	size_t to_right = offsetof(struct halo, from_left) + (size_t)odd * sizeof(double);

	err = tutti_put_notify_id(win, left, &cell[0], sizeof(double), to_left, ids[1]);
	if (!err)
		err = tutti_put_notify_id(win, right, &cell[n - 1], sizeof(double), to_right,
					  ids[0]);
	if (!err)
		err = tutti_wait_notify_all(win, 2, ids);
	return err ? err : tutti_win_flush_all(win);
}

static void smooth(const double *in, double *out, size_t n, double left, double right)
{
	size_t i;

	for (i = 0; i < n; i++)
		out[i] = (i ? in[i - 1] : left) / 4 + in[i] / 2 +
			 (i + 1 < n ? in[i + 1] : right) / 4;
}

/* The cells of all ranks, smoothed step by step, are as if one rank had them all. */
static int halo_body(struct mp_job *job)
{
	enum { CELLS = 5, STEPS = 60 };
	double all[2][CELLS * MP_MAX], cell[2][CELLS];
	size_t n = (size_t)job->n * CELLS, at = (size_t)job->rank * CELLS, i;
	struct halo *halo;
	struct tutti_win *win;
	int step;

	MP_OK(tutti_alloc(job->ctx, sizeof(*halo), (void **)&halo));
	MP_OK(tutti_win_create(job->world, halo, sizeof(*halo), 0, &win));
	for (i = 0; i < n; i++)
		all[0][i] = (double)(i * i % 17);
	memcpy(cell[0], all[0] + at, sizeof(cell[0]));
	for (step = 0; step < STEPS; step++) {
		const double *now = cell[step % 2], *whole = all[step % 2];

		MP_OK(exchange(win, job->world, now, CELLS, step));
		if (job->rank == step % (job->n + 1)) /* the others run ahead */
			mp_sleep_ms(1);
		smooth(now, cell[!(step % 2)], CELLS, halo->from_left[step % 2],
		       halo->from_right[step % 2]);
		smooth(whole, all[!(step % 2)], n, whole[n - 1], whole[0]);
		TT_EXPECT(!memcmp(cell[!(step % 2)], all[!(step % 2)] + at, sizeof(cell[0])));
	}
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(halo));
	return 0;
}

enum { CHUNK = 1 << 14, CHUNKS = 40, FULL = 0, FREE = 2 };

static char byte_of(int chunk, int i)
{
	return (char)(chunk * 31 + i * 7 + 1);
}

static int produce(struct mp_job *job, struct tutti_win *win, int to, char *data)
{
	int i, k;

	for (i = 0; i < CHUNKS; i++)
		for (k = 0; k < CHUNK; k++)
			data[i * CHUNK + k] = byte_of(i, k);
	for (i = 0; i < CHUNKS; i++) {
		if (i >= 2)
			MP_OK(tutti_wait_notify_id(win, FREE + i % 2, 1));
		MP_OK(tutti_put_notify_id(win, to, data + i * CHUNK, CHUNK,
					  (uint64_t)(i % 2) * CHUNK, FULL + i % 2));
	}
	MP_OK(tutti_win_flush(win, to));
	return 0;
}

static int consume(struct mp_job *job, struct tutti_win *win, int from, const char *mine)
{
	int i, k;

	for (i = 0; i < CHUNKS; i++) {
		MP_OK(tutti_wait_notify_id(win, FULL + i % 2, 1));
		for (k = 0; k < CHUNK; k++)
			TT_EXPECT(mine[(i % 2) * CHUNK + k] == byte_of(i, k));
		if (i + 2 < CHUNKS)
			MP_OK(tutti_put_notify_id(win, from, NULL, 0, 0, FREE + i % 2));
	}
	MP_OK(tutti_win_flush(win, from));
	return 0;
}

static int double_body(struct mp_job *job)
{
	struct tutti_win *win;
	char *mine, *data;

	MP_OK(tutti_alloc(job->ctx, (size_t)2 * CHUNK, (void **)&mine));
	MP_OK(tutti_alloc(job->ctx, (size_t)CHUNKS * CHUNK, (void **)&data));
	MP_OK(tutti_win_create(job->world, mine, (size_t)2 * CHUNK, 0, &win));
	if (job->rank == 0)
		TT_EXPECT(!produce(job, win, 1, data));
	else
		TT_EXPECT(!consume(job, win, 0, mine));
	TT_EXPECT(!none_left(win, job));
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(mine));
	MP_OK(tutti_free(data));
	return 0;
}

/* ---- nothing comes ---- */

static int late_body(struct mp_job *job)
{
	int ids[] = {1, 2}, got = 5;
	struct tutti_win *win;

	MP_OK(tutti_comm_set_timeout(job->world, 30000)); /* of the collectives */
	MP_OK(tutti_win_create(job->world, NULL, 0, 0, &win));
	if (job->rank == 0) {
		MP_ERR(tutti_wait_notify_id(win, 4, 1), -ETIMEDOUT);
		MP_SAID("id 4");
		MP_ERR(tutti_wait_notify_any(win, 2, ids, &got), -ETIMEDOUT);
		TT_EXPECT(got == -1);
	}
	mp_meet(job);
	if (job->rank == 1) {
		MP_OK(tutti_put_notify_id(win, 0, NULL, 0, 0, 2));
		MP_OK(tutti_win_flush(win, 0));
	}
	mp_meet(job);
	if (job->rank == 0)
		MP_OK(tutti_wait_notify_any(win, 2, ids, &got)); /* the window is as good as ever */
	TT_EXPECT(got == (job->rank ? 5 : 1));
	MP_OK(tutti_win_free(win));
	return 0;
}

/* The rank that should notify dies: the waits and tests of the others end with the error. */
static int dead_body(struct mp_job *job)
{
	struct tutti_win *win;
	int ids[] = {1, 2}, got, err;

	MP_OK(tutti_win_create(job->world, NULL, 0, 0, &win));
	mp_meet(job);
	if (job->rank == 0)
		kill(getpid(), SIGKILL);
	if (job->rank == 1) {
		err = tutti_wait_notify_any(win, 2, ids, &got);
	} else {
		do
			err = tutti_test_notify_all(win, 2, ids, &got);
		while (!err && !got);
	}
	TT_EXPECT(err == -TUTTI_EPEER);
	tutti_win_free(win);
	mp_leave(job);
	return 0;
}

static void run(const char *env)
{
	char with[256];
	bool few = mp_few_sizes(env);
	int n;

	for (n = few ? 3 : 1; n <= (few ? 3 : 4); n++) {
		int failed = MP_RUN(.n = n, .env = env, .fn = counts_body) +
			     MP_RUN(.n = n, .env = env, .fn = sets_body) +
			     MP_RUN(.n = n, .env = env, .fn = halo_body);

		if (failed)
			fprintf(stderr, "%d ranks, %s\n", n, env);
		TT_CHECK(!failed);
	}
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = double_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = dead_body, .killed = 1));
	snprintf(with, sizeof(with), "%s TUTTI_TIMEOUT=1s", env);
	TT_CHECK(!MP_RUN(.n = 2, .env = with, .fn = late_body));
}

/* A put after the flush of a notified one changes bytes that the target has compared. */
static int overwritten_body(struct mp_job *job)
{
	enum { BYTES = 1 << 14 };
	static char data[BYTES];
	struct tutti_win *win;
	void *mine;
	int i, to;

	MP_OK(tutti_win_allocate(job->world, BYTES, 0, &mine, &win));
	for (to = 0; to < job->n && !job->rank; to++)
		for (i = 0; i < 40; i++) {
			memset(data, 1 + i, BYTES);
			MP_OK(i % 2 ? tutti_put_notify_id(win, to, data, BYTES, 0, 3)
				    : tutti_put_notify(win, to, data, BYTES, 0));
			MP_OK(tutti_win_flush(win, to));
			memset(data, 100 + i, BYTES);
			MP_OK(tutti_put(win, to, data, BYTES, 0));
			MP_OK(tutti_win_flush(win, to));
		}
	if (!job->rank)
		atomic_store(&job->shared->word[0], 1);
	/* no call here: the notifications are counted all the same */
	TT_EXPECT(mp_await(&job->shared->word[0], 1, MP_HANG_MS));
	MP_OK(tutti_wait_notify(win, 0, 20));
	MP_OK(tutti_wait_notify_id(win, 3, 20));
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(((char *)mine)[0] == (char)139 && ((char *)mine)[BYTES - 1] == (char)139);
	TT_EXPECT(!none_left(win, job));
	MP_OK(tutti_win_free(win));
	return 0;
}

static void checksums(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_CHECKSUM=1", .fn = overwritten_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=shm TUTTI_CHECKSUM=1", .fn = counts_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm TUTTI_CHECKSUM=1", .fn = double_body));
}

/* The last error is about this rank of the world, on some host. */
static int blames(struct mp_job *job, int world)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	MP_OK(tutti_last_error(&info));
	TT_EXPECT(info.rank == world && info.host[0]);
	return 0;
}

/* Errors name ranks of the world: the communicator numbers its ranks the other way round. */
static int names_body(struct mp_job *job)
{
	struct tutti_layout l = {
		.size = sizeof(l), .datatype = TUTTI_UINT8, .count = 9, .block = 8};
	struct tutti_strides s = {.size = sizeof(s), .block = 8, .count = 9, .stride = 8};
	struct tutti_ps_config c = {.size = sizeof(c), .workers = job->rank ? 0 : 7};
	int last = job->n - 1;
	struct tutti_win *win, *fixed;
	struct tutti_comm *comm;
	struct tutti_ps *ps;
	uint64_t mine[8] = {0}, v[9] = {0};

	MP_OK(tutti_comm_split(job->world, 0, -job->rank, &comm));
	MP_OK(tutti_win_create(comm, mine, sizeof(mine), 0, &win));
	MP_OK(tutti_win_create(comm, (char *)mine + 4, 8, TUTTI_WIN_READ_ONLY, &fixed));
	MP_ERR(tutti_put(win, 0, v, sizeof(v), 0), -ERANGE);
	TT_EXPECT(!blames(job, last));
	MP_ERR(tutti_put_strided(win, 0, v, 0, &s), -ERANGE);
	TT_EXPECT(!blames(job, last));
	MP_ERR(tutti_put_layout(win, 0, v, &l, 0, NULL), -ERANGE);
	TT_EXPECT(!blames(job, last));
	MP_ERR(tutti_put(fixed, last, v, 1, 0), -EACCES);
	TT_EXPECT(!blames(job, 0));
	MP_ERR(tutti_fetch_add(fixed, last, 1, 0, v), -EACCES);
	TT_EXPECT(!blames(job, 0));
	mp_meet(job);
	MP_ERR(tutti_wait_notify(win, 0, 1), -ETIMEDOUT);
	MP_SAID("rank 0 did not notify");
	TT_EXPECT(!blames(job, last));
	mp_meet(job);
	MP_ERR(tutti_ps_open(comm, &c, &ps), -EINVAL);
	MP_SAID("rank 0 declared 7");
	TT_EXPECT(!blames(job, 0));
	MP_OK(tutti_win_free(fixed));
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_comm_free(comm));
	return 0;
}

static void names(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TIMEOUT=2s", .fn = names_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},	  {"shm_fault", shm_fault}, {"ofi", ofi}, {"verbs", verbs},
		{"names", names}, {"checksums", checksums}, {NULL, NULL}};

	return tt_test_main("notify", tests, argc, argv);
}
