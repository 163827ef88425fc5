/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checksums: each bit that the fault transport changes in a message is found, and nothing that was
 * said to be right is wrong; without checksums it is. Prints how many were changed and found.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#define N 3
#define LONG 60000
#define CALLS 12

struct trial {
	bool wrong_expected;
	bool window;	   /* puts that notify, instead of messages */
	atomic_int *wrong; /* without checksums: wrong results are added up here */
};

static int check(struct mp_job *job, const float *v, size_t count, float want)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (memcmp(&v[i], &want, sizeof(want))) {
			atomic_fetch_add(&job->shared->word[2], 1);
			return 1;
		}
	return 0;
}

static int one_call(struct mp_job *job, int i, float *v)
{
	size_t count = i % 3 == 0 ? 7 : LONG, k;
	int err, next = (job->rank + 1) % N, prev = (job->rank + N - 1) % N;

	for (k = 0; k < count; k++)
		v[k] = (float)(job->rank + 1);
	if (i % 3 < 2) {
		err = tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_FLOAT32, TUTTI_SUM,
				      job->world);
		return err ? err : check(job, v, count, 6);
	}
	err = tutti_sendrecv(v, count, TUTTI_FLOAT32, next, 1, v + LONG, count, TUTTI_FLOAT32, prev,
			     1, job->world, NULL);
	return err ? err : check(job, v + LONG, count, (float)(prev + 1));
}

/* Each rank puts into the next rank's window, and checks the data of its notifications. */
static int one_put(struct mp_job *job, int i, float *v, struct tutti_win *win)
{
	size_t count = i % 3 == 0 ? 7 : LONG, k;
	int err, next = (job->rank + 1) % N, prev = (job->rank + N - 1) % N;

	for (k = 0; k < count; k++)
		v[k] = (float)(job->rank + 1);
	err = tutti_put_notify(win, next, v, count * sizeof(*v), 0);
	if (!err)
		err = tutti_wait_notify(win, prev, 1);
	if (!err && check(job, v + LONG, count, (float)(prev + 1)))
		return 1;
	if (!err)
		err = tutti_win_flush(win, next);
	return err ? err : tutti_barrier(job->world);
}

static int calls(struct mp_job *job, float *v)
{
	const struct trial *t = job->arg;
	struct tutti_win *win = NULL;
	int err = 0, i;

	if (t->window)
		err = tutti_win_create(job->world, v + LONG, LONG * sizeof(*v), 0, &win);
	for (i = 0; i < CALLS && err >= 0; i++)
		err = t->window ? one_put(job, i, v, win) : one_call(job, i, v);
	if (win)
		tutti_win_free(win);
	return err;
}

static int trial_body(struct mp_job *job)
{
	const struct trial *t = job->arg;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_config config = {0};
	int err, flips = 0;
	const char *at;
	float *v;

	mp_log_level(job, TUTTI_LOG_INFO);
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(tutti_alloc(job->ctx, 2 * LONG * sizeof(*v), (void **)&v));
	err = calls(job, v);
	if (err < 0)
		tutti_comm_error(job->world, &info);
	if (strstr(getenv("TUTTI_FAULT") ? getenv("TUTTI_FAULT") : "", "flip") == NULL)
		TT_EXPECT(!err);
	for (at = job->log; (at = strstr(at, "arrives with bit")); at++)
		flips++;
	atomic_fetch_add(&job->shared->word[0], flips);
	if (strstr(info.text, "checksum"))
		atomic_fetch_add(&job->shared->word[1], 1);
	/* The rank that detects it returns the code; it tells the other ranks. */
	if (info.code == -EBADMSG)
		TT_EXPECT(strstr(info.text, "arrived damaged") && info.rank >= 0);
	tutti_free(v);
	atomic_fetch_add(&job->shared->word[3], 1);
	TT_EXPECT(mp_await(&job->shared->word[3], N, 30000));
	if (t->wrong) {
		atomic_fetch_add(t->wrong, job->rank ? 0 : atomic_load(&job->shared->word[2]));
	} else if (t->wrong_expected) {
		TT_EXPECT(atomic_load(&job->shared->word[2]) > 0);
	} else {
		TT_EXPECT(atomic_load(&job->shared->word[2]) == 0);
		TT_EXPECT(!atomic_load(&job->shared->word[0]) ==
			  !atomic_load(&job->shared->word[1]));
	}
	if (job->rank == 0) {
		printf("integrity: %d flips, found by %d ranks, %d wrong results\n",
		       atomic_load(&job->shared->word[0]), atomic_load(&job->shared->word[1]),
		       atomic_load(&job->shared->word[2]));
		fflush(stdout);
	}
	mp_leave(job);
	return 0;
}

static void trials(const char *transport, int count, bool window)
{
	struct trial t = {.window = window};
	char env[256];
	int i, after;

	for (i = 0; i < count; i++) {
		after = 1 + i * 3;
		snprintf(env, sizeof(env),
			 "TUTTI_CHECKSUM=1 TUTTI_TIMEOUT=10s TUTTI_TRANSPORT=fault:%s "
			 "TUTTI_FAULT=seed=%d,flip_after=%d,rank=%d",
			 transport, i + 1, after, i % N);
		TT_CHECK(!MP_RUN(.n = N, .env = env, .fn = trial_body, .arg = &t, .no_init = true));
	}
}

static int times(void)
{
	const char *t = getenv("TT_TIMES");

	return t && atoi(t) > 0 ? atoi(t) : 1;
}

static void shm(void)
{
	trials("shm", 16 * times(), false);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	trials("ofi", 4 * times(), false);
}

static void puts_shm(void)
{
	trials("shm", 8 * times(), true);
}

static void puts_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	trials("ofi", 3 * times(), true);
}

/*
 * A damaged put is seen by this test: sooner or later the operation is one, whatever the others
 * are.
 */
static void puts_without(void)
{
	struct trial t = {.window = true, .wrong = mp_shared_mem(sizeof(*t.wrong))};
	char env[128];
	int after;

	for (after = 8; after < 48 && !*t.wrong; after++) {
		snprintf(env, sizeof(env),
			 "TUTTI_TIMEOUT=1s TUTTI_TRANSPORT=fault:shm "
			 "TUTTI_FAULT=seed=3,flip_after=%d,rank=0",
			 after);
		TT_CHECK(!MP_RUN(.n = N, .env = env, .fn = trial_body, .arg = &t, .no_init = true));
	}
	TT_CHECK(*t.wrong > 0);
	munmap(t.wrong, sizeof(*t.wrong));
}

/*
 * The same without checksums: long messages only, as a damaged head may also be a message that is
 * never met.
 */
static void without(void)
{
	struct trial t = {.wrong_expected = true};

	TT_CHECK(!MP_RUN(.n = N, .fn = trial_body, .arg = &t, .no_init = true,
			 .env = "TUTTI_TIMEOUT=3s TUTTI_TRANSPORT=fault:shm TUTTI_EAGER=0 "
				"TUTTI_FAULT=seed=3,flip=0.05"));
}

/* And nothing is found where nothing is wrong, whatever the order in which things arrive. */
static void clean(void)
{
	struct trial t = {.window = false};

	do {
		TT_CHECK(!MP_RUN(.n = N, .fn = trial_body, .arg = &t, .no_init = true,
				 .env = "TUTTI_CHECKSUM=1 TUTTI_TRANSPORT=fault:shm "
					"TUTTI_FAULT=seed=3,delay=0.3,reorder=0.5,again=0.2"));
		TT_CHECK(!MP_RUN(.n = N, .fn = trial_body, .arg = &t, .no_init = true,
				 .env = "TUTTI_CHECKSUM=1 TUTTI_TRANSPORT=shm"));
		t.window = !t.window;
	} while (t.window);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"shm", shm},
					       {"ofi", ofi},
					       {"puts_shm", puts_shm},
					       {"puts_ofi", puts_ofi},
					       {"puts_without", puts_without},
					       {"without", without},
					       {"clean", clean},
					       {NULL, NULL}};

	return tt_test_main("integrity", tests, argc, argv);
}
