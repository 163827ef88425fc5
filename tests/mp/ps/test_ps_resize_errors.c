/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_ps_resize with errors: all ranks get the error, and the old parameter server continues. A
 * rank may be killed at any moment: pushed updates are in the tables exactly once.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- mismatches: reported by all ranks; the old parameter server continues ---- */

static int still_works(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t,
		       int64_t *sum)
{
	int64_t u = 1, v = 0;

	if (job->rank == 0) /* it serves */
		return 0;
	MP_OK(tutti_ps_push(t, &u, job->rank, 1, TUTTI_INT64));
	MP_OK(tutti_ps_clock(ps));
	MP_OK(tutti_ps_pull(t, &v, job->rank, 1, TUTTI_INT64));
	++*sum;
	TT_EXPECT(v == *sum);
	return 0;
}

static void plus(void *value, const void *update, size_t count, enum tutti_datatype type, void *arg)
{
	const int64_t *u = update;
	int64_t *v = value;
	size_t i;

	(void)type, (void)arg;
	for (i = 0; i < count; i++)
		v[i] += u[i];
}

static int bad_config(struct mp_job *job, struct tutti_ps *ps, struct tutti_ps_table *t,
		      int64_t *sum)
{
	static const struct {
		struct tutti_ps_config config;
		int code;
		const char *said;
	} bad[] = {
		{{.role = TUTTI_PS_WORKER}, -EINVAL, "no rank is a server"},
		{{.role = TUTTI_PS_LEAVE}, -EINVAL, "all ranks leave"},
		{{.role = 7}, -EINVAL, "7 is no role"},
		{{.staleness = 3}, -EINVAL, "it can't change"},
		{{.copies = 3}, -EINVAL, "3 copies need as many servers"},
		{{.workers = 5}, -EINVAL, "rank 0 declared 5"},
		{{.copies = -1}, -EINVAL, "copies is -1"},
	};
	struct tutti_ps *none = NULL;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct tutti_ps_config config = bad[i].config;

		config.size = sizeof(config);
		if (!config.role)
			config.role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER;
		MP_ERR(tutti_ps_resize(ps, job->world, &config, &none), bad[i].code);
		if (!mp_said(bad[i].said))
			mp_failed(job, bad[i].said, 0, __FILE__, __LINE__);
		TT_EXPECT(mp_said(bad[i].said) && !none);
		TT_EXPECT(!still_works(job, ps, t, sum));
	}
	MP_ERR(tutti_ps_resize(ps, NULL, NULL, &none), -EINVAL);
	MP_ERR(tutti_ps_resize(ps, job->world, NULL, NULL), -EINVAL);
	MP_ERR(tutti_ps_resize(NULL, job->world, NULL, &none), -EINVAL);
	MP_SAID("NULL on all ranks");
	MP_OK(tutti_group_start());
	MP_ERR(tutti_ps_resize(ps, job->world, NULL, &none), -EINVAL);
	MP_OK(tutti_group_end());
	return still_works(job, ps, t, sum);
}

static int bad_body(struct mp_job *job)
{
	struct tutti_ps_config config = {.size = sizeof(config),
					 .role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_BOTH};
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps *ps, *other, *none = NULL;
	struct tutti_ps_table *t, *c, *found;
	struct tutti_request *req;
	int64_t sum = 0, u = 1, v = 0;

	config.role = job->rank ? TUTTI_PS_WORKER : TUTTI_PS_SERVER;
	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 100, TUTTI_INT64, &opt, &t));
	opt.rule = TUTTI_PS_CALLBACK;
	opt.update = job->rank ? NULL : plus; /* servers alone need it */
	MP_OK(tutti_ps_dense(ps, "c", 9000, TUTTI_INT64, &opt, &c));
	TT_EXPECT(!bad_config(job, ps, t, &sum));
	/* another one on one rank; updates of a clock that has not ended; a request */
	MP_OK(tutti_ps_open(job->world, NULL, &other));
	MP_ERR(tutti_ps_resize(job->rank == 1 ? other : ps, job->world, NULL, &none),
	       -TUTTI_EMISMATCH);
	MP_SAID("rank 1 gave another");
	MP_OK(tutti_ps_close(other));
	if (job->rank == 1) {
		MP_OK(tutti_ps_push(t, &u, 1, 1, TUTTI_INT64));
		sum++;
	}
	MP_ERR(tutti_ps_resize(ps, job->world, NULL, &none), -EBUSY);
	TT_EXPECT(job->rank || mp_said("right after tutti_ps_clock"));
	TT_EXPECT(!still_works(job, ps, t, &sum));
	if (job->rank == 2) {
		MP_OK(tutti_ps_ipull(t, &v, 0, 1, TUTTI_INT64, &req));
		MP_ERR(tutti_ps_resize(ps, job->world, NULL, &none), -EBUSY);
		MP_SAID("have not been waited for");
		MP_OK(tutti_wait(&req));
	} else {
		MP_ERR(tutti_ps_resize(ps, job->world, NULL, &none), -EBUSY);
		MP_SAID("rank 2");
	}
	TT_EXPECT(!still_works(job, ps, t, &sum));
	/* rank 2 also serves; it does not have the function until the table is made once more */
	config.role = job->rank == 2 ? TUTTI_PS_BOTH : config.role;
	MP_OK(tutti_ps_resize(ps, job->world, &config, &ps));
	MP_OK(tutti_ps_find(ps, "t", &t));
	MP_OK(tutti_ps_find(ps, "c", &c));
	opt.update = plus;
	MP_ERR(tutti_ps_dense(ps, "c", 9001, TUTTI_INT64, &opt, &found), -EINVAL);
	MP_SAID("9000 elements");
	MP_ERR(tutti_ps_dense(ps, "c", 9000 + (size_t)job->rank, TUTTI_INT64, &opt, &found),
	       -TUTTI_EMISMATCH);
	opt.rate = 3;
	MP_ERR(tutti_ps_dense(ps, "c", 9000, TUTTI_INT64, &opt, &found), -EINVAL);
	MP_SAID("other options");
	opt.rate = 0;
	if (job->rank == 1) { /* told when it was dealt with, see tutti_ps_push */
		int err = tutti_ps_push(c, &u, 8999, 1, TUTTI_INT64);

		MP_ERR(err ? err : tutti_ps_clock(ps), -ENOTSUP);
		MP_SAID("does not know the table's function");
	} else if (job->rank) {
		MP_OK(tutti_ps_clock(ps));
	}
	MP_OK(tutti_ps_dense(ps, "c", 9000, TUTTI_INT64, &opt, &found));
	TT_EXPECT(found == c);
	MP_ERR(tutti_ps_dense(ps, "c", 9000, TUTTI_INT64, &opt, &found), -EEXIST);
	if (job->rank) {
		MP_OK(tutti_ps_push(c, &u, 8999, 1, TUTTI_INT64));
		MP_OK(tutti_ps_clock(ps));
		MP_OK(tutti_ps_pull(c, &v, 8999, 1, TUTTI_INT64));
		TT_EXPECT(v == 2);
	}
	TT_EXPECT(!still_works(job, ps, t, &sum));
	MP_OK(tutti_ps_close(ps));
	return 0;
}

static void bad_input(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .fn = bad_body));
}

/* ---- a rank is killed at any moment of it ---- */

#define CHANGES 10

static void *die_soon(void *arg)
{
	struct timespec t = {.tv_nsec = *(long *)arg};

	nanosleep(&t, NULL);
	kill(getpid(), SIGKILL);
	return NULL;
}

/* After a death: the others, until it has gone well. */
static int survive(struct mp_job *job, struct tutti_ps **ps, struct tutti_comm **comm,
		   struct tutti_ps_config *config, int *deaths)
{
	int err, tries;

	for (tries = 0; tries < 5; tries++) {
		err = tutti_ps_resize(*ps, *comm, config, ps);
		if (!err)
			return 0;
		MP_ERR(err, -TUTTI_EPEER);
		++*deaths;
		MP_OK(tutti_comm_shrink(*comm, comm));
	}
	return 1;
}

static int storm_rounds(struct mp_job *job, struct tutti_ps *ps, struct tutti_comm *comm)
{
	struct tutti_ps_config config = {.size = sizeof(config), .copies = 2, .staleness = 1};
	int i, deaths = 0, n = 0, me = job->rank;
	uint64_t key = (uint64_t)me;
	struct tutti_ps_table *t, *r;
	int64_t u = 1, v;

	for (i = 0; i < CHANGES; i++) {
		/* the servers beside these three change */
		config.role = me < 3 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER;
		if (me >= 3 && i % 2)
			config.role = TUTTI_PS_BOTH;
		TT_EXPECT(!survive(job, &ps, &comm, &config, &deaths));
		if (!(config.role & TUTTI_PS_WORKER))
			continue;
		MP_OK(tutti_ps_find(ps, "t", &t));
		MP_OK(tutti_ps_find(ps, "r", &r));
		if (n) {
			MP_OK(tutti_ps_pull(t, &v, (size_t)me * 5000, 1, TUTTI_INT64));
			TT_EXPECT(v == n);
			MP_OK(tutti_ps_pull_rows(r, &key, 1, &v, TUTTI_INT64));
			TT_EXPECT(v == n);
		}
		MP_OK(tutti_ps_push(t, &u, (size_t)me * 5000, 1, TUTTI_INT64));
		MP_OK(tutti_ps_push_rows(r, &key, 1, &u, TUTTI_INT64));
		n++;
		MP_OK(tutti_ps_clock(ps));
	}
	TT_EXPECT(deaths <= 1);
	(void)tutti_ps_close(ps); /* a rank may have died since */
	return 0;
}

static int storm_body(struct mp_job *job)
{
	int seed = *(int *)job->arg, victim = seed % 5;
	struct tutti_ps_config config = {.size = sizeof(config),
					 .copies = 2,
					 .staleness = 1,
					 .role = job->rank < 3 ? TUTTI_PS_SERVER : TUTTI_PS_WORKER};
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_ps_table *t;
	struct tutti_ps *ps;
	pthread_t thread;
	long ns;

	srand((unsigned)seed);
	ns = (long)(rand() % 60) * 1000000;
	MP_OK(tutti_ps_open(job->world, &config, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 40000, TUTTI_INT64, &opt, &t));
	MP_OK(tutti_ps_rows(ps, "r", 1, 100, TUTTI_INT64, &opt, &t));
	if (job->rank == victim && pthread_create(&thread, NULL, die_soon, &ns))
		return 1;
	if (storm_rounds(job, ps, job->world) && job->rank != victim)
		return 1;
	while (job->rank == victim)
		mp_sleep_ms(1000);
	(void)mp_leave(job);
	return 0;
}

static void storm_on(const char *env, int n)
{
	bool fine = true;
	int seed;

	if (getenv("TT_RESIZES"))
		n = atoi(getenv("TT_RESIZES"));
	for (seed = 0; seed < n && fine; seed++)
		fine = !MP_RUN(.n = 5, .env = env, .fn = storm_body, .arg = &seed,
			       .killed = 1u << seed % 5);
	if (!fine)
		fprintf(stderr, "seed %d\n", seed - 1);
	TT_CHECK(fine);
}

static void storm(void)
{
	storm_on("TUTTI_TRANSPORT=shm", 5);
}

static void storm_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	storm_on("TUTTI_TRANSPORT=ofi", 3);
}

/* ---- dedicated servers ---- */

/*
 * It comes early, and serves for several times TUTTI_TIMEOUT; when a worker has come, it waits for
 * the other no longer than that.
 */
static int patient_body(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	bool misses = *(bool *)job->arg;
	int64_t one = 1, i;
	struct tutti_ps_table *t;
	struct tutti_comm *comm;
	struct tutti_ps *ps;

	MP_OK(tutti_comm_dup(job->world, &comm));
	MP_OK(mp_ps_open(job, 1, 1, &ps));
	MP_OK(tutti_ps_dense(ps, "t", 1, TUTTI_INT64, &opt, &t));
	for (i = 0; i < 15 && job->rank; i++) {
		mp_sleep_ms(100);
		MP_OK(tutti_ps_push(t, &one, 0, 1, TUTTI_INT64));
		MP_OK(tutti_ps_clock(ps));
	}
	if (!misses || job->rank < 2)
		MP_ERR(tutti_ps_resize(ps, comm, NULL, &ps), misses ? -ETIMEDOUT : 0);
	if (misses && job->rank < 2)
		atomic_fetch_add(&job->shared->word[0], 1);
	if (misses)
		TT_EXPECT(mp_await(&job->shared->word[0], 2, 20000));
	MP_OK(tutti_ps_find(ps, "t", &t));
	if (job->rank) {
		MP_OK(tutti_ps_push_pull(t, &one, &i, 0, 1, TUTTI_INT64));
		TT_EXPECT(i >= 17 && i <= 32);
	}
	MP_OK(tutti_ps_close(ps));
	(void)tutti_comm_free(comm);
	return 0;
}

static void patient(void)
{
	bool misses;
	int i;

	for (i = 0; i < 2; i++) {
		misses = i;
		TT_CHECK(!MP_RUN(.n = 3, .fn = patient_body, .arg = &misses, .timeout_ms = 20000,
				 .env = "TUTTI_TRANSPORT=shm TUTTI_TIMEOUT=600ms"));
	}
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"bad_input", bad_input}, {"patient", patient}, {"storm", storm},
		{"storm_ofi", storm_ofi}, {NULL, NULL},
	};

	return tt_test_main("ps_resize_errors", tests, argc, argv);
}
