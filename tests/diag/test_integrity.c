/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checksums: each bit that the fault transport changes in a message is found, and nothing that was said to be
 * right is wrong; without checksums it is. Prints how many were changed and found.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>

#define N 3
#define LONG 60000
#define CALLS 12

struct trial {
	bool wrong_expected;
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
		err = tutti_allreduce(TUTTI_IN_PLACE, v, count, TUTTI_FLOAT32, TUTTI_SUM, job->world);
		return err ? err : check(job, v, count, 6);
	}
	err = tutti_sendrecv(v, count, TUTTI_FLOAT32, next, 1, v + LONG, count, TUTTI_FLOAT32, prev, 1,
			     job->world, NULL);
	return err ? err : check(job, v + LONG, count, (float)(prev + 1));
}

static int trial_body(struct mp_job *job)
{
	const struct trial *t = job->arg;
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_config config = {0};
	int err = 0, i, flips = 0;
	const char *at;
	float *v;

	mp_log_level(job, TUTTI_LOG_INFO);
	MP_OK(mp_join(job, MP_ID, &config));
	MP_OK(tutti_alloc(job->ctx, 2 * LONG * sizeof(*v), (void **)&v));
	for (i = 0; i < CALLS && err >= 0; i++)
		err = one_call(job, i, v);
	if (err < 0)
		tutti_comm_error(job->world, &info);
	if (strstr(getenv("TUTTI_FAULT") ? getenv("TUTTI_FAULT") : "", "flip") == NULL)
		TT_EXPECT(!err);
	for (at = job->log; (at = strstr(at, "arrives with bit")); at++)
		flips++;
	atomic_fetch_add(&job->shared->word[0], flips);
	if (strstr(info.text, "checksum"))
		atomic_fetch_add(&job->shared->word[1], 1);
	/* The one that finds it says so by its code; the others hear it from that. */
	if (info.code == -EBADMSG)
		TT_EXPECT(strstr(info.text, "arrived damaged") && info.rank >= 0);
	tutti_free(v);
	atomic_fetch_add(&job->shared->word[3], 1);
	TT_EXPECT(mp_await(&job->shared->word[3], N, 30000));
	if (t->wrong_expected) {
		TT_EXPECT(atomic_load(&job->shared->word[2]) > 0);
	} else {
		TT_EXPECT(atomic_load(&job->shared->word[2]) == 0);
		TT_EXPECT(!atomic_load(&job->shared->word[0]) == !atomic_load(&job->shared->word[1]));
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

static void trials(const char *transport, int count)
{
	struct trial t = {false};
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
	trials("shm", 16 * times());
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	trials("ofi", 4 * times());
}

/* The same without checksums: long messages only, as a damaged head may also be a message that is never met. */
static void without(void)
{
	struct trial t = {true};

	TT_CHECK(!MP_RUN(.n = N, .fn = trial_body, .arg = &t, .no_init = true,
			 .env = "TUTTI_TIMEOUT=3s TUTTI_TRANSPORT=fault:shm TUTTI_EAGER=0 "
				"TUTTI_FAULT=seed=3,flip=0.05"));
}

/* And nothing is found where nothing is wrong, whatever the order in which things arrive. */
static void clean(void)
{
	struct trial t = {false};

	TT_CHECK(!MP_RUN(.n = N, .fn = trial_body, .arg = &t, .no_init = true,
			 .env = "TUTTI_CHECKSUM=1 TUTTI_TRANSPORT=fault:shm "
				"TUTTI_FAULT=seed=3,delay=0.3,reorder=0.5,again=0.2"));
	TT_CHECK(!MP_RUN(.n = N, .fn = trial_body, .arg = &t, .no_init = true,
			 .env = "TUTTI_CHECKSUM=1 TUTTI_TRANSPORT=shm"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"shm", shm}, {"ofi", ofi}, {"without", without}, {"clean", clean}, {NULL, NULL}};

	return tt_test_main("integrity", tests, argc, argv);
}
