/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that is killed while it pushes with a codec: the servers apply whole blocks of its
 * pushes or nothing, and the other workers go on.
 */
#include "config.h"

#define COUNT 4096 /* each of two servers has whole blocks */
#include "tests/mp/ps/ps_codec_table.h"

#include <signal.h>
#include <stdio.h>

#define SERVERS 2
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo TUTTI_CHECKSUM=1"
#define UNIT 127       /* int8 sends it exactly: the scale of a block of it is 1 */
#define MANY (1 << 17) /* times UNIT it is exact in float32 */
enum { STARTED = 1, SURE, DONE };

/* Every block is whole: a number of pushes, the same for all of its elements. */
static int whole(struct mp_job *job, struct tutti_ps_table *t, int least, int most)
{
	float v[COUNT];
	int i;

	MP_OK(tutti_ps_pull(t, v, 0, COUNT, TUTTI_FLOAT32));
	for (i = 0; i < COUNT; i++)
		if (v[i] != v[i / BLOCK * BLOCK] || (int)v[i] % UNIT ||
		    v[i] < (float)(least * UNIT) || v[i] > (float)(most * UNIT)) {
			fprintf(stderr, "element %d: %g, not %d to %d times %d, or not %g\n", i,
				(double)v[i], least, most, UNIT, (double)v[i / BLOCK * BLOCK]);
			return 1;
		}
	return 0;
}

/* Pushes until it is killed. The servers have applied every push before a pull. */
static int victim(struct mp_job *job, struct tutti_ps_table *t, const float *u)
{
	int n;

	for (n = 1;; n++) {
		atomic_store(&job->shared->word[STARTED], n);
		MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
		if (n % 8)
			continue;
		TT_EXPECT(!whole(job, t, n, MANY));
		atomic_store(&job->shared->word[SURE], n);
	}
}

/* All workers have come this far. */
static bool together(struct mp_job *job, int point, int workers)
{
	atomic_fetch_add(&job->shared->word[point], 1);
	return mp_await(&job->shared->word[point], workers, 30000);
}

/* The servers have handled this worker's pushes when they have handled a later one. */
static int handled(struct mp_job *job, struct tutti_ps_table *sync)
{
	static float none[COUNT], got[COUNT];

	MP_OK(tutti_ps_push_pull(sync, none, got, 0, COUNT, TUTTI_FLOAT32));
	return 0;
}

static int survivor(struct mp_job *job, struct tutti_ps_table *t, struct tutti_ps_table *sync,
		    const float *u)
{
	int others = job->n - SERVERS - 1, n, killer = job->rank == SERVERS;

	for (n = 0; n < 60; n++) {
		MP_OK(tutti_ps_push(t, u, 0, COUNT, TUTTI_FLOAT32));
		TT_EXPECT(!whole(job, t, n + 1, MANY));
		if (n != 30)
			continue;
		if (killer) {
			TT_EXPECT(mp_await(&job->shared->word[SURE], 16, 20000));
			kill(atomic_load(&job->shared->pid[job->n - 1]), SIGKILL);
		}
		TT_EXPECT(!mp_await_death(job));
	}
	TT_EXPECT(!handled(job, sync) && together(job, DONE, others));
	return whole(job, t, 60 * others + atomic_load(&job->shared->word[SURE]),
		     60 * others + atomic_load(&job->shared->word[STARTED]));
}

static int killed_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t, *sync;
	struct tutti_ps *ps;
	float u[COUNT];
	int i;

	for (i = 0; i < COUNT; i++)
		u[i] = UNIT;
	MP_OK(mp_ps_open(job, SERVERS, TUTTI_PS_ASYNC, &ps));
	TT_EXPECT(!make(job, ps, "int8:block=64", "t", (struct tutti_ps_options){0}, &t));
	opt.block = BLOCK * sizeof(float);
	MP_OK(tutti_ps_dense(ps, "sync", COUNT, TUTTI_FLOAT32, &opt, &sync));
	if (job->rank == job->n - 1)
		TT_EXPECT(!victim(job, t, u));
	else if (job->rank >= SERVERS)
		TT_EXPECT(!survivor(job, t, sync, u));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void killed(void)
{
	int n = SERVERS + 3;

	TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = killed_body, .killed = 1u << (n - 1)));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = n, .env = OFI, .fn = killed_body, .killed = 1u << (n - 1)));
}

static void killed_verbs(void)
{
	int n = SERVERS + 3;

	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = n, .env = "TUTTI_TRANSPORT=verbs", .fn = killed_body,
			 .killed = 1u << (n - 1)));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"killed", killed}, {"killed_verbs", killed_verbs}, {NULL, NULL}};

	return tt_test_main("ps_codec_killed", tests, argc, argv);
}
