/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: put, get, notify and flush, at targets that make no calls, too. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORDS 20000
#define UNMAPPED ((size_t)1 << 20)

static int check_errors(struct mp_job *job, struct tutti_win *win, uint32_t *local, size_t size)
{
	MP_ERR(tutti_put(win, 0, local, 8, size - 7), -ERANGE);
	MP_SAID("window");
	MP_ERR(tutti_put(win, 0, local, 8, UINT64_MAX - 3), -ERANGE);
	MP_ERR(tutti_get(win, 0, local, size + 1, 0), -ERANGE);
	MP_ERR(tutti_put_notify(win, job->n, local, 8, 0), -EINVAL);
	MP_ERR(tutti_get(win, -1, local, 8, 0), -EINVAL);
	MP_ERR(tutti_put(win, 0, NULL, 8, 0), -EINVAL);
	MP_ERR(tutti_put(NULL, 0, local, 8, 0), -EINVAL);
	MP_ERR(tutti_win_flush(win, 99), -EINVAL);
	MP_ERR(tutti_wait_notify(win, -2, 1), -EINVAL);
	MP_ERR(tutti_finalize(job->ctx), -EBUSY);
	return 0;
}

static int differs(struct mp_job *job, const char *how, const uint32_t *v, int from, int round,
		   uint32_t len)
{
	uint32_t base = (uint32_t)(from * 100000 + round), k;

	for (k = 0; k < len; k++)
		if (v[k] != base + k) {
			fprintf(stderr,
				"rank %d of %d, %s: round %d, word %u of %u of rank %d: %u, not "
				"%u\n",
				job->rank, job->n, how, round, k, len, from, v[k], base + k);
			return 1;
		}
	return 0;
}

/*
 * Every rank writes its own part of every window, gets all notifications, and reads all parts
 * back.
 */
static int write_all(struct mp_job *job, struct tutti_win *win, uint32_t *mine, uint32_t *local,
		     int round)
{
	uint32_t part = WORDS / (uint32_t)job->n, k;
	int r;

	for (k = 0; k < part; k++)
		local[k] = (uint32_t)(job->rank * 100000 + round) + k;
	for (r = 0; r < job->n; r++)
		MP_OK(tutti_put_notify(win, r, local, part * 4, (uint64_t)job->rank * part * 4));
	for (r = 0; r < job->n; r++)
		MP_OK(tutti_wait_notify(win, r, 1));
	for (r = 0; r < job->n; r++)
		TT_EXPECT(!differs(job, "notified", mine + (uint32_t)r * part, r, round, part));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_barrier(job->world));
	for (r = 0; r < job->n; r++) {
		memset(local, 0xee, part * 4);
		MP_OK(tutti_get(win, r, local, part * 4, (uint64_t)((r + 1) % job->n) * part * 4));
		MP_OK(tutti_win_flush(win, r));
		TT_EXPECT(!differs(job, "got", local, (r + 1) % job->n, round, part));
	}
	MP_OK(tutti_barrier(job->world));
	return 0;
}

/* Rank 0 computes; the others put, flush and get, and are right before it makes another call. */
static int silent_target(struct mp_job *job, struct tutti_win *win, uint32_t *mine, uint32_t *local)
{
	struct tutti_stats stats = {.size = sizeof(stats)};
	uint32_t at = (uint32_t)job->rank * 100, k;
	int round;

	mp_meet(job);
	if (job->rank == 0) {
		TT_EXPECT(mp_await(&job->shared->word[5], job->n - 1, 15000));
		/*
		 * moves nothing, but shows ThreadSanitizer an order with the library's own thread
		 */
		MP_OK(tutti_stats_get(job->ctx, &stats));
		for (round = 1; round < job->n; round++)
			for (k = 0; k < 100; k++)
				TT_EXPECT(mine[round * 100 + (int)k] ==
					  (uint32_t)round * 1000 + 49 + k);
		return 0;
	}
	for (round = 0; round < 50; round++) {
		for (k = 0; k < 100; k++)
			local[k] = (uint32_t)job->rank * 1000 + (uint32_t)round + k;
		MP_OK(tutti_put(win, 0, local, 400, at * 4));
		MP_OK(tutti_win_flush(win, 0));
		MP_OK(tutti_get(win, 0, local + 200, 400, at * 4));
		MP_OK(tutti_win_flush(win, 0));
		TT_EXPECT(!memcmp(local, local + 200, 400));
	}
	atomic_fetch_add(&job->shared->word[5], 1);
	return 0;
}

/* More notifications than a device takes by itself come to a rank that makes no call; puts behind
 * them arrive. */
static int flood_body(struct mp_job *job)
{
	enum { NOTES = 3000 };
	uint64_t mine[2] = {0}, value = 1;
	struct tutti_win *win;
	int i;

	MP_OK(tutti_win_create(job->world, mine, sizeof(mine), 0, &win));
	MP_OK(tutti_put_notify(win, 1 - job->rank, &value, 0, 0)); /* both are connected */
	MP_OK(tutti_wait_notify(win, 1 - job->rank, 1));
	MP_OK(tutti_win_flush_all(win));
	mp_meet(job);
	if (job->rank) {
		for (i = 0; i < NOTES; i++)
			MP_OK(tutti_put_notify(win, 0, &value, sizeof(value), 0));
		MP_OK(tutti_put(win, 0, &value, sizeof(value), sizeof(value)));
		MP_OK(tutti_win_flush(win, 0));
		atomic_fetch_add(&job->shared->word[5], 1);
	} else {
		TT_EXPECT(mp_await(&job->shared->word[5], 1, 30000));
		MP_OK(tutti_wait_notify(win, 1, NOTES));
		TT_EXPECT(mine[0] == 1 && mine[1] == 1);
	}
	MP_OK(tutti_win_free(win));
	return 0;
}

static int rma_body(struct mp_job *job)
{
	uint32_t *mine, *local;
	struct tutti_win *win;
	int round;

	MP_OK(tutti_alloc(job->ctx, WORDS * 4, (void **)&mine));
	MP_OK(tutti_alloc(job->ctx, WORDS * 4, (void **)&local));
	memset(mine, 0, WORDS * 4);
	MP_OK(tutti_win_create(job->world, mine, WORDS * 4, 0, &win));
	TT_EXPECT(!check_errors(job, win, local, WORDS * 4));
	for (round = 0; round < 20; round++)
		TT_EXPECT(!write_all(job, win, mine, local, round));
	TT_EXPECT(!silent_target(job, win, mine, local));
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(mine));
	MP_OK(tutti_free(local));
	return 0;
}

/* Sizes differ, one window is empty, and many notes arrive before any rank waits for them. */
static int sizes_body(struct mp_job *job)
{
	size_t size = (size_t)job->rank * 64;
	uint64_t one = 7, got = 0;
	struct tutti_win *win;
	uint64_t *mine;
	int i;

	MP_OK(tutti_alloc(job->ctx, 1024, (void **)&mine));
	memset(mine, 0, 1024);
	MP_OK(tutti_win_create(job->world, size ? mine : NULL, size, 0, &win));
	MP_ERR(tutti_put(win, 0, &one, 8, 0), -ERANGE);
	MP_OK(tutti_put_notify(win, 0, NULL, 0, 0)); /* only rings */
	if (job->rank == 0)
		for (i = 0; i < job->n; i++)
			MP_OK(tutti_wait_notify(win, i, 1));
	MP_OK(tutti_alloc(job->ctx, 8, (void **)&mine));
	*mine = 42;
	for (i = 0; i < 300; i++)
		MP_OK(tutti_put_notify(win, job->n - 1, mine, 8, 8));
	MP_OK(tutti_win_flush_all(win));
	if (job->rank == job->n - 1) {
		for (i = 0; i < job->n; i++) {
			MP_OK(tutti_wait_notify(win, i, 100));
			MP_OK(tutti_wait_notify(win, i, 200));
		}
		MP_OK(tutti_get(win, job->rank, mine, 8, 8));
		MP_OK(tutti_win_flush(win, job->rank));
		got = *mine;
		TT_EXPECT(got == 42);
	}
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(mine));
	return 0;
}

/* ---- requests ---- */

#define MANY 200

/* Many at once, to all ranks; the notes come after the bytes, waits in the reverse order. */
static int many_requests(struct mp_job *job, struct tutti_win *win, uint32_t *mine, uint32_t *local)
{
	struct tutti_request *req[MANY] = {NULL};
	uint32_t part = WORDS / (uint32_t)job->n, k;
	uint64_t at = (uint64_t)job->rank * part * 4;
	int i, r, done;

	for (k = 0; k < part; k++)
		local[k] = (uint32_t)job->rank * 1000000 + k;
	for (i = 0; i < MANY; i++) {
		r = i % job->n;
		k = (uint32_t)i * 13 % (part / 2);
		if (i < MANY - job->n)
			MP_OK(tutti_iput(win, r, local + k, part * 2, at + k * 4, &req[i]));
		else
			MP_OK(tutti_iput_notify(win, r, local, part * 4, at, &req[i]));
		TT_EXPECT(req[i] != NULL);
	}
	for (i = MANY; i-- > 2;)
		MP_OK(tutti_wait(&req[i]));
	do
		MP_OK(tutti_test(&req[1], &done));
	while (!done);
	MP_ERR(tutti_win_free(win), -EBUSY);
	MP_OK(tutti_waitall(MANY, req));
	for (r = 0; r < job->n; r++)
		MP_OK(tutti_wait_notify(win, r, 1));
	for (r = 0; r < job->n; r++)
		for (k = 0; k < part; k++)
			TT_EXPECT(mine[(uint32_t)r * part + k] == (uint32_t)r * 1000000 + k);
	MP_OK(tutti_barrier(job->world));
	return 0;
}

static int got_requests(struct mp_job *job, struct tutti_win *win, uint32_t *local)
{
	struct tutti_request *req[4] = {NULL};
	uint32_t part = WORDS / (uint32_t)job->n, k;
	int r;

	memset(local, 0xee, WORDS * 4);
	for (r = 0; r < job->n; r++)
		MP_OK(tutti_iget(win, r, local + (uint32_t)r * part, part * 4,
				 (uint64_t)r * part * 4, &req[r]));
	MP_OK(tutti_waitall(job->n, req));
	for (r = 0; r < job->n; r++)
		for (k = 0; k < part; k++)
			TT_EXPECT(local[(uint32_t)r * part + k] == (uint32_t)r * 1000000 + k);
	MP_OK(tutti_barrier(job->world));
	return 0;
}

/* Atomics at once with a flush in between, which waits for them. */
static int atomic_requests(struct mp_job *job, struct tutti_win *win, uint32_t *mine)
{
	struct tutti_request *req[MANY] = {NULL};
	uint64_t old[MANY], now, seen;
	int i;

	memset(mine, 0, 16);
	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < MANY; i++)
		MP_OK(tutti_ifetch_add(win, job->n - 1, 1, 0, &old[i], &req[i]));
	MP_OK(tutti_win_flush(win, job->n - 1));
	MP_OK(tutti_waitall(MANY, req));
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_fetch_add(win, job->n - 1, 0, 0, &now));
	TT_EXPECT(now == (uint64_t)job->n * MANY);
	for (i = 0; i < MANY; i++)
		TT_EXPECT(old[i] < now && (!i || old[i] != old[i - 1]));
	do { /* until it was this rank's turn */
		MP_OK(tutti_icompare_swap(win, 0, (uint64_t)job->rank, (uint64_t)job->rank + 1, 8,
					  &seen, &req[0]));
		MP_OK(tutti_wait(&req[0]));
	} while (seen != (uint64_t)job->rank);
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_fetch_add(win, 0, 0, 8, &now));
	TT_EXPECT(now == (uint64_t)job->n);
	return 0;
}

static int request_errors(struct mp_job *job, struct tutti_win *win, uint32_t *local)
{
	struct tutti_request *req = NULL;
	uint64_t old = 5;

	MP_ERR(tutti_iput(win, 0, local, 8, WORDS * 4 - 7, &req), -ERANGE);
	MP_ERR(tutti_iget(win, 0, local, 8, 0, NULL), -EINVAL);
	MP_ERR(tutti_iput_notify(NULL, 0, local, 8, 0, &req), -EINVAL);
	MP_ERR(tutti_ifetch_add(win, 0, 1, 0, NULL, &req), -EINVAL);
	MP_ERR(tutti_ifetch_add(win, 0, 1, 4, &old, &req), -EINVAL);
	MP_ERR(tutti_icompare_swap(win, 0, 1, 1, WORDS * 4, &old, &req), -ERANGE);
	MP_ERR(tutti_ifetch_add(win, 0, 1, 0, &old, NULL), -EINVAL);
	TT_EXPECT(!req && old == 5);
	return 0;
}

static int requests_body(struct mp_job *job)
{
	uint32_t *mine, *local;
	struct tutti_win *win;

	MP_OK(tutti_alloc(job->ctx, WORDS * 4, (void **)&mine));
	local = malloc(WORDS *
		       4); /* as it comes: registered for the operation where that is needed */
	memset(mine, 0, WORDS * 4);
	MP_OK(tutti_win_create(job->world, mine, WORDS * 4, 0, &win));
	TT_EXPECT(!request_errors(job, win, local));
	TT_EXPECT(!many_requests(job, win, mine, local));
	TT_EXPECT(!got_requests(job, win, local));
	TT_EXPECT(!atomic_requests(job, win, mine));
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(mine));
	free(local);
	return 0;
}

/* ---- flushes as requests, and windows that were freed ---- */

static int freed_errors(struct mp_job *job, struct tutti_win *win, uint32_t *local)
{
	struct tutti_request *req = NULL;
	uint64_t old = 3;

	MP_ERR(tutti_put(win, 0, local, 8, 0), -EINVAL);
	MP_SAID("freed");
	MP_ERR(tutti_get(win, 0, local, 8, 0), -EINVAL);
	MP_ERR(tutti_iput_notify(win, 0, local, 8, 0, &req), -EINVAL);
	MP_ERR(tutti_fetch_add(win, 0, 1, 0, &old), -EINVAL);
	MP_ERR(tutti_win_flush_all(win), -EINVAL);
	MP_ERR(tutti_win_iflush(win, 0, &req), -EINVAL);
	MP_ERR(tutti_wait_notify(win, 0, 1), -EINVAL);
	MP_ERR(tutti_win_free(win), -EINVAL);
	TT_EXPECT(!req && old == 3);
	return 0;
}

/* Other handles in place of a window. */
static int not_a_window(struct mp_job *job, void *other, void *local)
{
	struct tutti_request *req = NULL;
	struct tutti_win *win = other;
	uint64_t old = 3;

	MP_ERR(tutti_put(win, 0, local, 8, 0), -EINVAL);
	MP_SAID("tutti_put: win is not a window");
	MP_ERR(tutti_get(win, 0, local, 8, 0), -EINVAL);
	MP_ERR(tutti_put_notify(win, 0, local, 8, 0), -EINVAL);
	MP_ERR(tutti_put_notify_id(win, 0, local, 8, 0, 0), -EINVAL);
	MP_ERR(tutti_iput(win, 0, local, 8, 0, &req), -EINVAL);
	MP_ERR(tutti_iget(win, 0, local, 8, 0, &req), -EINVAL);
	MP_ERR(tutti_fetch_add(win, 0, 1, 0, &old), -EINVAL);
	MP_ERR(tutti_compare_swap(win, 0, 1, 2, 0, &old), -EINVAL);
	MP_ERR(tutti_ifetch_add(win, 0, 1, 0, &old, &req), -EINVAL);
	MP_ERR(tutti_win_flush(win, 0), -EINVAL);
	MP_ERR(tutti_win_iflush(win, 0, &req), -EINVAL);
	MP_ERR(tutti_win_set_priority(win, 1), -EINVAL);
	MP_ERR(tutti_wait_notify(win, 0, 1), -EINVAL);
	MP_ERR(tutti_win_free(win), -EINVAL);
	TT_EXPECT(!req && old == 3);
	return 0;
}

/* Puts, a flush, and more puts; when the flush is done, the first puts are in place. */
/*
 * On shm alone the puts are over at once, and the flushes with them; under fault and ofi they have
 * to wait.
 */
static int iflush_body(struct mp_job *job)
{
	struct tutti_request *req[3] = {NULL};
	uint32_t *mine, *local, k;
	struct tutti_win *win;
	int round, r, i;

	MP_OK(tutti_alloc(job->ctx, WORDS * 4, (void **)&mine));
	MP_OK(tutti_alloc(job->ctx, WORDS * 4, (void **)&local));
	MP_OK(tutti_win_create(job->world, mine, WORDS * 4, 0, &win));
	MP_ERR(tutti_win_iflush(win, job->n, &req[0]), -EINVAL);
	MP_ERR(tutti_win_iflush_all(win, NULL), -EINVAL);
	MP_OK(tutti_win_iflush_all(win, &req[0])); /* nothing to wait for */
	MP_OK(tutti_wait(&req[0]));
	for (round = 0; round < 10; round++) {
		for (k = 0; k < 64; k++)
			local[k] = (uint32_t)(round * 1000 + job->rank * 100) + k;
		r = (job->rank + 1 + round) % job->n;
		for (i = 0; i < 64; i++)
			MP_OK(tutti_put(win, r, local + i, 4, (uint64_t)(job->rank * 64 + i) * 4));
		if (round % 2)
			MP_OK(tutti_win_iflush(win, r, &req[0]));
		else
			MP_OK(tutti_win_iflush_all(win, &req[0]));
		MP_OK(tutti_iput(win, r, local, 4, WORDS * 4 - 4, &req[1]));
		MP_OK(tutti_put(win, r, local + 1000, 40000, 20000));
		MP_ERR(tutti_win_free(win), -EBUSY);
		MP_OK(tutti_wait(&req[0]));
		mp_meet(job);
		r = (job->rank + 10 * job->n - 1 - round) % job->n; /* the rank that wrote here */
		for (k = 0; k < 64; k++)
			TT_EXPECT(mine[(uint32_t)r * 64 + k] ==
				  (uint32_t)(round * 1000 + r * 100) + k);
		MP_OK(tutti_win_iflush_all(win, &req[2]));
		MP_OK(tutti_waitall(3, req));
		MP_OK(tutti_barrier(job->world));
	}
	MP_OK(tutti_win_free(win));
	TT_EXPECT(!freed_errors(job, win, local));
	TT_EXPECT(!not_a_window(job, job->world, local) && !not_a_window(job, job->ctx, local));
	MP_OK(tutti_free(mine));
	MP_OK(tutti_free(local));
	return 0;
}

/* Rank 0 gives up waiting for the others in win_free; from then on nothing changes its memory. */
static int late_body(struct mp_job *job)
{
	struct tutti_win *win;
	unsigned char *mine;
	uint64_t old;
	int err, i;

	MP_OK(tutti_comm_set_timeout(job->world, 30000)); /* of the collectives before win_free */
	MP_OK(tutti_alloc(job->ctx, 4096, (void **)&mine));
	memset(mine, 0x11, 4096);
	MP_OK(tutti_win_create(job->world, mine, 4096, 0, &win));
	MP_OK(tutti_put(win, 0, mine, 64, 0));
	MP_OK(tutti_win_flush(win, 0));
	mp_meet(job);
	MP_OK(tutti_comm_set_timeout(job->world, 0));
	if (job->rank == 0) {
		usleep(20000);
		TT_EXPECT(tutti_win_free(win) < 0);
		memset(mine, 0x77, 4096);
		usleep(100000);
		for (i = 0; i < 4096; i++)
			TT_EXPECT(mine[i] == 0x77);
		atomic_store(&job->shared->word[5], 1);
	} else {
		do {
			err = tutti_put(win, 0, mine + 1024, 1024, 1024);
			if (!err)
				err = tutti_win_flush(win, 0);
			if (!err)
				err = tutti_fetch_add(win, 0, 1, 512, &old);
		} while (!err);
		TT_EXPECT(mp_await(&job->shared->word[5], 1, 15000));
		err = tutti_put(win, 0, mine, 64, 0);
		TT_EXPECT((err ? err : tutti_win_flush(win, 0)) <
			  0); /* a put may fail after its call */
		TT_EXPECT(tutti_fetch_add(win, 0, 1, 512, &old) < 0);
		tutti_win_free(win); /* rank 0 was there, so this may well succeed */
	}
	mp_meet(job);
	MP_OK(tutti_free(mine));
	mp_leave(job); /* the failed end of the window is one of the job's, on rank 0 */
	return 0;
}

/* Rank 0 dies with requests under way: each ends with the error, and then the window can go. */
static int dead_body(struct mp_job *job)
{
	struct tutti_request *req[3] = {NULL};
	uint64_t *mine, old;
	struct tutti_win *win;
	int err;

	MP_OK(tutti_alloc(job->ctx, WORDS * 4, (void **)&mine));
	MP_OK(tutti_win_create(job->world, mine, WORDS * 4, 0, &win));
	mp_meet(job);
	if (job->rank == 0)
		kill(getpid(), SIGKILL);
	do {
		err = tutti_iput(win, 0, mine, WORDS * 4, 0, &req[0]);
		if (!err)
			err = tutti_iget(win, 0, mine, WORDS * 4, 0, &req[1]);
		if (!err)
			err = tutti_ifetch_add(win, 0, 1, 0, &old, &req[2]);
		if (!err)
			err = tutti_waitall(3, req);
	} while (!err);
	TT_EXPECT(!mp_died(job, err, 3, req));
	TT_EXPECT(tutti_win_free(win) != -EBUSY);
	return 0;
}

/* ---- read-only windows, and windows that can't be made ---- */

static int read_only_body(struct mp_job *job)
{
	struct tutti_request *req = NULL;
	struct tutti_win *win;
	uint64_t *mine, *local, old = 9;
	int r;

	MP_OK(tutti_alloc(job->ctx, 64, (void **)&mine));
	MP_OK(tutti_alloc(job->ctx, 64, (void **)&local));
	mine[0] = 100 + (uint64_t)job->rank;
	/* rank 0's alone is read-only */
	MP_OK(tutti_win_create(job->world, mine, 64, job->rank ? 0 : TUTTI_WIN_READ_ONLY, &win));
	MP_ERR(tutti_put(win, 0, local, 8, 0), -EACCES);
	MP_SAID("read-only");
	MP_ERR(tutti_put_notify(win, 0, local, 1, 63), -EACCES);
	MP_ERR(tutti_fetch_add(win, 0, 1, 0, &old), -EACCES);
	MP_ERR(tutti_compare_swap(win, 0, 100, 1, 0, &old), -EACCES);
	MP_ERR(tutti_iput(win, 0, local, 8, 0, &req), -EACCES);
	MP_ERR(tutti_ifetch_add(win, 0, 1, 0, &old, &req), -EACCES);
	MP_ERR(tutti_put(win, 0, local, 8, 60), -ERANGE);
	TT_EXPECT(old == 9 && !req);
	MP_OK(tutti_put_notify(win, 0, NULL, 0, 0)); /* writes nothing */
	for (r = 0; r < job->n; r++) {
		MP_OK(tutti_get(win, r, local, 8, 0));
		MP_OK(tutti_win_flush(win, r));
		TT_EXPECT(*local == 100 + (uint64_t)r);
		if (job->rank == 0)
			MP_OK(tutti_wait_notify(win, r, 1));
	}
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_put(win, job->n - 1, local, 8, 8 * (uint64_t)(1 + job->rank)));
	MP_OK(tutti_fetch_add(win, job->n - 1, 1, 56, &old));
	MP_OK(tutti_win_free(win));
	TT_EXPECT(mine[0] == 100 + (uint64_t)job->rank);
	MP_OK(tutti_free(mine));
	MP_OK(tutti_free(local));
	return 0;
}

/* A failure on one rank fails on all, and the communicator still works. */
static int refused_body(struct mp_job *job)
{
	struct tutti_win *win = NULL;
	uint64_t word[2], old;
	int bad, how, code;

	for (bad = 0; bad < job->n; bad++)
		for (how = 0; how < 3; how++) {
			bool me = job->rank == bad;

			code = tutti_win_create(job->world, me && how == 0 ? NULL : word,
						me && how == 2 ? SIZE_MAX - 4096 : sizeof(word),
						me && how == 1 ? 1u << 30 : 0, &win);
			MP_ERR(code, -EINVAL);
			TT_EXPECT(!win);
			if (!me)
				TT_EXPECT(mp_said(bad == 0   ? "rank 0"
						  : bad == 1 ? "rank 1"
							     : "rank 2"));
		}
	word[0] = 0;
	MP_OK(tutti_win_create(job->world, word, sizeof(word), 0, &win));
	MP_OK(tutti_fetch_add(win, 0, 1, 0, &old));
	MP_OK(tutti_win_free(win));
	return 0;
}

/* ---- threads ---- */

#define FLUSHES 1000

struct beside {
	struct tutti_win *win;
	uint64_t word[2];
	atomic_bool stop;
};

/* Puts and never flushes. */
static void *put_beside(void *arg)
{
	struct beside *b = arg;

	do {
		if (tutti_put(b->win, 1, &b->word[1], 8, 8))
			return arg;
	} while (!atomic_load(&b->stop));
	return NULL;
}

/* A flush waits for the puts before it, and leaves alone those that another thread begins. */
static int beside_body(struct mp_job *job)
{
	struct beside b = {.word = {0, 7}};
	pthread_t thread;
	void *mine, *failed;
	int i;

	MP_OK(tutti_win_allocate(job->world, 16, 0, &mine, &b.win));
	if (job->rank == 0) {
		TT_EXPECT(!pthread_create(&thread, NULL, put_beside, &b));
		for (i = 0; i < FLUSHES; i++) {
			b.word[0]++;
			MP_OK(tutti_put(b.win, 1, b.word, 8, 0));
			if (i % 2)
				MP_OK(tutti_win_flush(b.win, 1));
			else
				MP_OK(tutti_win_flush_all(b.win));
		}
		atomic_store(&b.stop, true);
		pthread_join(thread, &failed);
		TT_EXPECT(!failed);
		MP_OK(tutti_win_flush(b.win, 1));
	}
	MP_OK(tutti_barrier(job->world));
	TT_EXPECT(job->rank == 0 ||
		  (((uint64_t *)mine)[0] == FLUSHES && ((uint64_t *)mine)[1] == 7));
	MP_OK(tutti_win_free(b.win));
	return 0;
}

static void run(const char *env)
{
	char short_env[256];
	bool few = mp_few_sizes(env);
	int n;

	for (n = few ? 3 : 1; n <= (few ? 3 : 4); n++) {
		int failed = MP_RUN(.n = n, .env = env, .fn = rma_body) +
			     (n > 1 && MP_RUN(.n = n, .env = env, .fn = sizes_body)) +
			     MP_RUN(.n = n, .env = env, .fn = iflush_body) +
			     MP_RUN(.n = n, .env = env, .fn = requests_body);

		if (failed)
			fprintf(stderr, "%d ranks, %s\n", n, env);
		TT_CHECK(!failed);
	}
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = flood_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = beside_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = env, .fn = dead_body, .killed = 1));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = read_only_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = env, .fn = refused_body));
	snprintf(short_env, sizeof(short_env), "%s TUTTI_TIMEOUT=1s", env);
	TT_CHECK(!MP_RUN(.n = 2, .env = short_env, .fn = late_body));
}

static void shm(void)
{
	run("TUTTI_TRANSPORT=shm");
}

static void shm_fault(void)
{
	run("TUTTI_TRANSPORT=fault:shm "
	    "TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2,finish=1");
}

/* Operations longer than the transport takes: in pieces, the note after the last. */
static void pieces(void)
{
	run("TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=4,again=0.2,max_put=5003");
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .fn = requests_body,
				 .env = "TUTTI_TRANSPORT=fault:ofi "
					"TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2,"
					"max_put=5003"));
}

static void cached(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 3, .fn = requests_body,
			 .env = "TUTTI_TRANSPORT=ofi TUTTI_REG_CACHE=1M"));
}

static void ofi_fault(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=fault:ofi TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2");
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=ofi");
}

static void ofi_rdm(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	run("TUTTI_TRANSPORT=ofi TUTTI_OFI_EP=rdm TUTTI_OFI_PROVIDER=tcp;ofi_rxm");
}

static int names_own_memory(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	MP_SAID("the local memory is not mapped");
	TT_EXPECT(!tutti_last_error(&info) && info.rank == job->rank);
	return 0;
}

/* Puts from or gets into memory that is not mapped: at once, as a request, and of long blocks. */
static int use_unmapped(struct mp_job *job, struct tutti_win *win, char *bad, bool get)
{
	struct tutti_strides s = {sizeof(s), UNMAPPED / 8, 4, UNMAPPED / 4, UNMAPPED / 4};
	struct tutti_request *req;
	int peer = 1 - job->rank, err;

	err = get ? tutti_get(win, peer, bad, UNMAPPED, 0) : tutti_put(win, peer, bad, UNMAPPED, 0);
	MP_ERR(err ? err : tutti_win_flush(win, peer), -EFAULT);
	MP_OK(names_own_memory(job));
	err = get ? tutti_iget(win, peer, bad, UNMAPPED, 0, &req)
		  : tutti_iput(win, peer, bad, UNMAPPED, 0, &req);
	MP_ERR(err ? err : tutti_wait(&req), -EFAULT);
	MP_OK(names_own_memory(job));
	MP_OK(get ? tutti_get_strided(win, peer, bad, 0, &s)
		  : tutti_put_strided(win, peer, bad, 0, &s));
	MP_ERR(tutti_win_flush(win, peer), -EFAULT);
	MP_OK(names_own_memory(job));
	err = get ? tutti_iget_strided(win, peer, bad, 0, &s, &req)
		  : tutti_iput_strided(win, peer, bad, 0, &s, &req);
	MP_ERR(err ? err : tutti_wait(&req), -EFAULT);
	return names_own_memory(job);
}

/* The operations fail, the window does not. */
static int unmapped_body(struct mp_job *job)
{
	char *bad, *at, *good;
	struct tutti_win *win;

	mp_log_level(job, TUTTI_LOG_NONE);
	MP_OK(tutti_win_allocate(job->world, UNMAPPED, 0, (void **)&at, &win));
	MP_OK(tutti_alloc(job->ctx, UNMAPPED, (void **)&good));
	MP_OK(tutti_get(win, 1 - job->rank, good, UNMAPPED, 0)); /* connects */
	MP_OK(tutti_win_flush_all(win));
	bad = mmap(NULL, UNMAPPED, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TT_EXPECT(bad != MAP_FAILED && !munmap(bad, UNMAPPED));
	MP_OK(use_unmapped(job, win, bad, false));
	MP_OK(use_unmapped(job, win, bad, true));
	MP_OK(tutti_put(win, 1 - job->rank, good, UNMAPPED, 0));
	MP_OK(tutti_win_flush_all(win));
	MP_OK(tutti_free(good));
	return tutti_win_free(win);
}

static void unmapped_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs", .fn = unmapped_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs TUTTI_REG_CACHE=1M",
			 .fn = unmapped_body));
}

static void unmapped_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=ofi", .fn = unmapped_body));
}

static void flood_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=30s",
			 .fn = flood_body));
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run("TUTTI_TRANSPORT=verbs");
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},
		{"shm_fault", shm_fault},
		{"ofi", ofi},
		{"pieces", pieces},
		{"ofi_fault", ofi_fault},
		{"cached", cached},
		{"ofi_rdm", ofi_rdm},
		{"verbs", verbs},
		{"flood_verbs", flood_verbs},
		{"unmapped_verbs", unmapped_verbs},
		{"unmapped_ofi", unmapped_ofi},
		{NULL, NULL},
	};

	return tt_test_main("rma", tests, argc, argv);
}
