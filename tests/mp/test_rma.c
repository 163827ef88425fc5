/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: put, get, notify and flush, at targets that make no calls, too. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define WORDS 20000

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
	MP_ERR(tutti_win_wait_notify(win, -2, 1), -EINVAL);
	MP_ERR(tutti_finalize(job->ctx), -EBUSY);
	return 0;
}

static int differs(struct mp_job *job, const char *how, const uint32_t *v, int from, int round,
		   uint32_t len)
{
	uint32_t base = (uint32_t)(from * 100000 + round), k;

	for (k = 0; k < len; k++)
		if (v[k] != base + k) {
			fprintf(stderr, "rank %d of %d, %s: round %d, word %u of %u of rank %d: %u, not %u\n",
				job->rank, job->n, how, round, k, len, from, v[k], base + k);
			return 1;
		}
	return 0;
}

/* Every rank writes its own part of every window, is told of all, and reads all back. */
static int everybody(struct mp_job *job, struct tutti_win *win, uint32_t *mine, uint32_t *local,
		     int round)
{
	uint32_t part = WORDS / (uint32_t)job->n, k;
	int r;

	for (k = 0; k < part; k++)
		local[k] = (uint32_t)(job->rank * 100000 + round) + k;
	for (r = 0; r < job->n; r++)
		MP_OK(tutti_put_notify(win, r, local, part * 4, (uint64_t)job->rank * part * 4));
	for (r = 0; r < job->n; r++)
		MP_OK(tutti_win_wait_notify(win, r, 1));
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
		/* moves nothing, but shows ThreadSanitizer an order with the library's own thread */
		MP_OK(tutti_stats_get(job->ctx, &stats));
		for (round = 1; round < job->n; round++)
			for (k = 0; k < 100; k++)
				TT_EXPECT(mine[round * 100 + (int)k] == (uint32_t)round * 1000 + 49 + k);
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

static int rma_body(struct mp_job *job)
{
	uint32_t *mine, *local;
	struct tutti_win *win;
	int round;

	MP_OK(tutti_alloc(job->ctx, WORDS * 4, (void **)&mine));
	MP_OK(tutti_alloc(job->ctx, WORDS * 4, (void **)&local));
	memset(mine, 0, WORDS * 4);
	MP_OK(tutti_win_create(job->world, mine, WORDS * 4, &win));
	TT_EXPECT(!check_errors(job, win, local, WORDS * 4));
	for (round = 0; round < 20; round++)
		TT_EXPECT(!everybody(job, win, mine, local, round));
	TT_EXPECT(!silent_target(job, win, mine, local));
	MP_OK(tutti_barrier(job->world));
	MP_OK(tutti_win_free(win));
	MP_OK(tutti_free(mine));
	MP_OK(tutti_free(local));
	return 0;
}

/* Sizes differ, one window is empty, and many notes arrive before anybody waits for them. */
static int sizes_body(struct mp_job *job)
{
	size_t size = (size_t)job->rank * 64;
	uint64_t one = 7, got = 0;
	struct tutti_win *win;
	uint64_t *mine;
	int i;

	MP_OK(tutti_alloc(job->ctx, 1024, (void **)&mine));
	memset(mine, 0, 1024);
	MP_OK(tutti_win_create(job->world, size ? mine : NULL, size, &win));
	MP_ERR(tutti_put(win, 0, &one, 8, 0), -ERANGE);
	MP_OK(tutti_put_notify(win, 0, NULL, 0, 0)); /* only rings */
	if (job->rank == 0)
		for (i = 0; i < job->n; i++)
			MP_OK(tutti_win_wait_notify(win, i, 1));
	MP_OK(tutti_alloc(job->ctx, 8, (void **)&mine));
	*mine = 42;
	for (i = 0; i < 300; i++)
		MP_OK(tutti_put_notify(win, job->n - 1, mine, 8, 8));
	MP_OK(tutti_win_flush_all(win));
	if (job->rank == job->n - 1) {
		for (i = 0; i < job->n; i++) {
			MP_OK(tutti_win_wait_notify(win, i, 100));
			MP_OK(tutti_win_wait_notify(win, i, 200));
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

static void run(const char *env)
{
	int n;

	for (n = 1; n <= 4; n++) {
		int failed = MP_RUN(.n = n, .env = env, .fn = rma_body) +
			     (n > 1 && MP_RUN(.n = n, .env = env, .fn = sizes_body));

		if (failed)
			fprintf(stderr, "%d ranks, %s\n", n, env);
		TT_CHECK(!failed);
	}
}

static void shm(void)
{
	run("TUTTI_TRANSPORT=shm");
}

static void shm_fault(void)
{
	run("TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=3,delay=0.1:100,reorder=0.3,again=0.2,finish=1");
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

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	run("TUTTI_TRANSPORT=verbs");
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm},	    {"shm_fault", shm_fault}, {"ofi", ofi},
		{"ofi_rdm", ofi_rdm}, {"verbs", verbs},
		{NULL, NULL},
	};

	return tt_test_main("rma", tests, argc, argv);
}
