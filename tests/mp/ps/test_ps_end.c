/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers with replicas at the end: which are done, and which may leave. The tests look into the
 * servers, as in test_ps_chain.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <signal.h>

#include "lib/ps/server/server.h"

/* The first ranks serve, each with a replica of the server before it; the other ranks work. */
static int open_ps(struct mp_job *job, int servers, struct tutti_ps **ps)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .staleness = TUTTI_PS_ASYNC,
					 .copies = 2,
					 .role = job->rank < servers ? TUTTI_PS_SERVER
								     : TUTTI_PS_WORKER};

	return tutti_ps_open(job->world, &config, ps);
}

#define ENDS 40

/*
 * Repeatedly: dedicated servers inspect their threads when the last worker leaves, after all
 * earlier messages have been passed on. ThreadSanitizer checks these accesses.
 */
static int leaving_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	int64_t one[2] = {1, 1}, got[2];
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	int i;

	for (i = 0; i < ENDS; i++) {
		MP_OK(open_ps(job, 2, &ps));
		MP_OK(tutti_ps_dense(ps, "t", 2, TUTTI_INT64, &opt, &t));
		if (job->rank == 2) {
			MP_OK(tutti_ps_push_pull(t, one, got, 0, 2, TUTTI_INT64));
			TT_EXPECT(got[0] == 1 && got[1] == 1);
		}
		MP_OK(tutti_ps_close(ps));
	}
	return 0;
}

static void leaving(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = leaving_body, .env = "TUTTI_TRANSPORT=shm"));
}

#define THROUGH 1 /* words: ranks that have closed; the worker is about to */
#define LEAVES 2

/*
 * Server 2 does not report the end to its worker, and dies when its replica, on rank 3, has left
 * or has had time to.
 */
static void *last_to_die(void *arg)
{
	struct mp_job *job = arg;

	mp_await(&job->shared->word[LEAVES], 1, 20000);
	mp_await(&job->shared->word[THROUGH], 2, 500);
	raise(SIGKILL);
	return NULL;
}

/*
 * A rank with nothing left to do may hold the replica that others need, also after a death.
 */
static int last_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	int64_t v[4] = {1, 1, 1, 1};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	pthread_t thread;

	MP_OK(open_ps(job, 4, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 4, TUTTI_INT64, &opt, &t));
	if (job->rank == 2) {
		tt_wire_lock(ps->comm->ctx->wire);
		ps->win->pending[4]++; /* as if something were on its way to the worker */
		tt_wire_unlock(ps->comm->ctx->wire);
		TT_EXPECT(!pthread_create(&thread, NULL, last_to_die, job));
	}
	mp_meet(job);
	if (job->rank == 4) {
		MP_OK(tutti_ps_push(t, v, 0, 4, TUTTI_INT64));
		if (*(bool *)job->arg) {
			TT_EXPECT(!kill(atomic_load(&job->shared->pid[0]), SIGKILL));
			TT_EXPECT(mp_log_await(job, "server 0 (rank 0) has failed"));
		}
		MP_OK(tutti_ps_pull(t, v, 0, 4, TUTTI_INT64));
		atomic_store(&job->shared->word[LEAVES], 1);
	}
	MP_OK(tutti_ps_close(ps));
	atomic_fetch_add(&job->shared->word[THROUGH], 1);
	return 0;
}

static void last(void)
{
	bool before;
	int i;

	for (i = 0; i < 2; i++) {
		before = i;
		TT_CHECK(!MP_RUN(.n = 5, .fn = last_body, .arg = &before,
				 .killed = 4u | (before ? 1 : 0),
				 .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=5s",
				 .timeout_ms = 15000));
	}
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"leaving", leaving}, {"last", last}, {NULL, NULL}};

	return tt_test_main("ps_end", tests, argc, argv);
}
