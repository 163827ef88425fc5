/* SPDX-License-Identifier: BSD-3-Clause */
/* The death of a server without replicas ends all calls; workers survive that of a worker. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- a rank dies: no rank hangs ---- */

static int dead_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	int dies = 1, err = 0;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	float *v = calloc(100000, sizeof(float));

	MP_OK(mp_ps_open(job, 2, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 100000, TUTTI_FLOAT32, &opt, &t));
	mp_meet(job);
	if (job->rank == dies) {
		mp_sleep_ms(50);
		kill(getpid(), SIGKILL);
	}
	while (job->rank >= 2 && !err) {
		err = tutti_ps_push_pull(t, v, v, 0, 100000, TUTTI_FLOAT32);
		if (!err)
			err = tutti_ps_clock(ps);
	}
	if (!err)
		err = tutti_ps_close(ps);
	else
		tutti_ps_close(ps);
	if (err != -TUTTI_EPEER)
		mp_failed(job, "the dead rank is the error", err, __FILE__, __LINE__);
	free(v);
	return err != -TUTTI_EPEER;
}

static void dead(void)
{
	TT_CHECK(!MP_RUN(.n = 4, .env = "TUTTI_TRANSPORT=shm", .fn = dead_body, .killed = 1u << 1));
}

/* ---- a worker dies: the others go on ---- */

#define LAST 40	  /* clocks of live workers */
#define WIDE 5000 /* elements, in several blocks */

struct dying {
	int staleness, signal, after_us;
	const char *env;
};

static void *die(void *arg)
{
	const struct dying *d = ((struct mp_job *)arg)->arg;

	usleep((unsigned)d->after_us);
	kill(getpid(), d->signal);
	return NULL;
}

/*
 * Element 0 counts the victim's pushes, the elements behind it those of all other workers, each of
 * which must be there exactly once. Within a block, all elements of a push of the victim are
 * there, or none.
 */
static int orphans(struct mp_job *job, const struct dying *d, struct tutti_ps *ps,
		   struct tutti_ps_table *t)
{
	int64_t *u = calloc(WIDE, sizeof(*u)), *v = calloc(WIDE, sizeof(*v));
	int victim = job->n - 1, lives = job->n - 3, c, i;
	struct tutti_ps_table *none;
	int64_t least;

	for (i = 0; i < WIDE; i++)
		u[i] = i % 2 ? 1 : job->rank == victim;
	for (c = 0; c < LAST || job->rank == victim; c++) {
		MP_OK(tutti_ps_push(t, u, 0, WIDE, TUTTI_INT64));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(t, v, 0, WIDE, TUTTI_INT64));
		/* all that has come of clocks that have ended */
		least = (int64_t)lives * (c + 1 - (d->staleness > 0 ? d->staleness : 0));
		if (d->staleness < 0)
			least = job->rank == victim ? 0 : c + 1;
		for (i = 0; i < WIDE; i += 2)
			TT_EXPECT(v[i + 1] - v[i] >= least);
		mp_sleep_ms(1);
	}
	TT_EXPECT(mp_await(&job->shared->word[1], 1, 10000));
	MP_ERR(tutti_ps_dense(ps, "new", 10, TUTTI_INT64, NULL, &none), -TUTTI_EPEER);
	atomic_fetch_add(&job->shared->word[0], 1);
	TT_EXPECT(mp_await(&job->shared->word[0], lives, MP_HANG_MS));
	if (d->staleness > 0)
		MP_OK(tutti_ps_clock_to(ps, LAST + (uint64_t)d->staleness));
	if (d->staleness >= 0) {
		MP_OK(tutti_ps_pull(t, v, 0, WIDE, TUTTI_INT64));
		for (i = 0; i < WIDE; i += 2)
			TT_EXPECT(v[i + 1] - v[i] == (int64_t)lives * LAST);
	}
	free(u);
	free(v);
	return 0;
}

static int orphan_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO, .block = 8000};
	const struct dying *d = job->arg;
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	pthread_t thread;

	MP_OK(mp_ps_open(job, 2, d->staleness, &ps));
	MP_OK(tutti_ps_dense(ps, "t", WIDE, TUTTI_INT64, &opt, &t));
	mp_meet(job);
	if (job->rank == job->n - 1)
		TT_EXPECT(!pthread_create(&thread, NULL, die, job));
	else if (job->rank == 0) { /* the process that was killed is not there any more */
		mp_sleep_ms(d->after_us / 1000 + (d->signal == SIGSTOP ? 1500 : 200));
		atomic_store(&job->shared->word[1], 1);
	}
	if (job->rank >= 2)
		TT_EXPECT(!orphans(job, d, ps, t));
	MP_OK(tutti_ps_close(ps));
	if (d->signal == SIGSTOP && !job->rank)
		kill(atomic_load(&job->shared->pid[job->n - 1]), SIGKILL);
	return 0;
}

static void orphan(const char *env, int tries, int signal)
{
	static const int staleness[] = {0, 2, TUTTI_PS_ASYNC};
	struct dying d = {.signal = signal};
	int i;

	for (i = 0; i < tries; i++) {
		d.staleness = staleness[i % 3];
		d.after_us = (i * 7919) % 40000;
		if (MP_RUN(.n = 5, .env = env, .fn = orphan_body, .arg = &d, .killed = 1u << 4)) {
			fprintf(stderr, "staleness %d, after %d us\n", d.staleness, d.after_us);
			TT_CHECK(false);
		}
	}
}

static int tries(int usual)
{
	return getenv("TUTTI_TEST_TRIES") ? atoi(getenv("TUTTI_TEST_TRIES")) : usual;
}

static void worker_dies(void)
{
	orphan("TUTTI_TRANSPORT=shm", tries(6), SIGKILL);
	orphan("TUTTI_TRANSPORT=shm TUTTI_HEARTBEAT=100ms TUTTI_HEARTBEAT_LIMIT=1s", 1, SIGSTOP);
}

static void worker_dies_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	orphan("TUTTI_TRANSPORT=ofi", tries(3), SIGKILL);
}

static void worker_dies_verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	orphan("TUTTI_TRANSPORT=verbs", 2, SIGKILL);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"dead", dead},
					       {"worker_dies", worker_dies},
					       {"worker_dies_ofi", worker_dies_ofi},
					       {"worker_dies_verbs", worker_dies_verbs},
					       {NULL, NULL}};

	return tt_test_main("ps_deaths", tests, argc, argv);
}
