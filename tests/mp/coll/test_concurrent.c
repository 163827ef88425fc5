/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of several threads on one communicator. The caller orders them: in the same order on
 * all ranks every result is right; in another order all ranks get -TUTTI_EMISMATCH, soon, and no
 * result is mixed.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define THREADS 4
#define CALLS 160 /* of all threads */
#define LONG 30000

/* ---- in order ---- */

struct crew {
	struct mp_job *job;
	pthread_mutex_t lock;
	pthread_cond_t turn;
	int next; /* the number of the next call */
};

struct worker {
	struct crew *crew;
	int id, failed;
	int32_t v[LONG];
};

static size_t len_of(int number)
{
	return number % 3 == 0 ? LONG : number % 3 == 1 ? 1 : 2000;
}

static int begin_call(struct worker *w, int number, struct tutti_request **req)
{
	struct mp_job *job = w->crew->job;
	size_t i, n = len_of(number);

	*req = NULL;
	for (i = 0; i < n; i++)
		w->v[i] = job->rank + number + (int32_t)(i % 10);
	if (number % 5 == 4) /* in its turn: the other threads wait for theirs meanwhile */
		return tutti_allreduce(TUTTI_IN_PLACE, w->v, n, TUTTI_INT32, TUTTI_SUM, job->world);
	if (number % 2)
		return tutti_ibcast(w->v, n, TUTTI_INT32, number % job->n, job->world, req);
	return tutti_iallreduce(TUTTI_IN_PLACE, w->v, n, TUTTI_INT32, TUTTI_SUM, job->world, req);
}

static int check_call(struct worker *w, int number)
{
	struct mp_job *job = w->crew->job;
	bool sum = number % 5 == 4 || number % 2 == 0;
	int32_t want, ranks = job->n * (job->n - 1) / 2;
	size_t i, n = len_of(number);

	for (i = 0; i < n; i++) {
		want = number + (int32_t)(i % 10);
		want = sum ? job->n * want + ranks : want + number % job->n;
		TT_EXPECT(w->v[i] == want);
	}
	return 0;
}

static int work(struct worker *w)
{
	struct crew *crew = w->crew;
	struct mp_job *job = crew->job;
	struct tutti_request *req;
	int number, err;

	for (number = w->id; number < CALLS; number += THREADS) {
		pthread_mutex_lock(&crew->lock);
		while (crew->next != number)
			pthread_cond_wait(&crew->turn, &crew->lock);
		err = begin_call(w, number, &req);
		crew->next++;
		pthread_cond_broadcast(&crew->turn);
		pthread_mutex_unlock(&crew->lock);
		MP_OK(err);
		MP_OK(tutti_wait(&req));
		TT_EXPECT(!check_call(w, number));
	}
	return 0;
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;

	w->failed = work(w);
	if (w->failed)
		_exit(1); /* the other threads must not wait for this one */
	return NULL;
}

static int in_order_body(struct mp_job *job)
{
	struct crew crew = {job, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
	struct worker *w = calloc(THREADS, sizeof(*w));
	pthread_t t[THREADS];
	int i;

	TT_EXPECT(w);
	for (i = 0; i < THREADS; i++) {
		w[i].crew = &crew;
		w[i].id = i;
		TT_EXPECT(!pthread_create(&t[i], NULL, run_worker, &w[i]));
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	free(w);
	return 0;
}

/* ---- out of order ---- */

struct pair {
	struct mp_job *job;
	struct tutti_comm *comm;
	pthread_barrier_t *begin;
	int which, err; /* its call, and the result */
	int32_t v[100];
};

static int call_of(struct pair *p, struct tutti_request **req)
{
	int i;

	for (i = 0; i < 100; i++)
		p->v[i] = i + p->which;
	if (p->which)
		return req ? tutti_ibcast(p->v, 7, TUTTI_INT32, 0, p->comm, req)
			   : tutti_bcast(p->v, 7, TUTTI_INT32, 0, p->comm);
	return req ? tutti_iallreduce(TUTTI_IN_PLACE, p->v, 100, TUTTI_INT32, TUTTI_SUM, p->comm,
				      req)
		   : tutti_allreduce(TUTTI_IN_PLACE, p->v, 100, TUTTI_INT32, TUTTI_SUM, p->comm);
}

static int check_pair(struct pair *p)
{
	int i;

	for (i = 0; !p->err && i < 100; i++)
		TT_EXPECT(p->v[i] == (p->which ? i + 1 : i * p->job->n));
	return 0;
}

/* Each thread starts and waits for its own; rank 0 starts them in another order than the rest. */
static void *wait_for_pair(void *arg)
{
	struct pair *p = arg;
	struct tutti_request *req = NULL;

	pthread_barrier_wait(p->begin);
	if (p->which == (p->job->rank == 0)) { /* the second */
		pthread_barrier_wait(p->begin);
		p->err = call_of(p, &req);
	} else {
		p->err = call_of(p, &req);
		pthread_barrier_wait(p->begin);
	}
	if (!p->err)
		p->err = tutti_wait(&req);
	return NULL;
}

/* Without any order: the threads race. */
static void *race(void *arg)
{
	struct pair *p = arg;

	pthread_barrier_wait(p->begin);
	p->err = call_of(p, NULL);
	return NULL;
}

static int both(struct mp_job *job, void *(*fn)(void *), bool *failed)
{
	struct pair pair[2];
	pthread_barrier_t begin;
	struct tutti_comm *comm;
	pthread_t t[2];
	int i, err;

	MP_OK(tutti_comm_dup(job->world, &comm));
	pthread_barrier_init(&begin, NULL, 2);
	for (i = 0; i < 2; i++) {
		pair[i] = (struct pair){.job = job, .comm = comm, .begin = &begin, .which = i};
		TT_EXPECT(!pthread_create(&t[i], NULL, fn, &pair[i]));
	}
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	*failed = pair[0].err || pair[1].err;
	for (i = 0; i < 2; i++) {
		TT_EXPECT(!pair[i].err || pair[i].err == -TUTTI_EMISMATCH);
		/* a root may have sent a broadcast before the others called something else */
		TT_EXPECT((*failed && i) || !check_pair(&pair[i]));
	}
	err = tutti_barrier(comm);
	TT_EXPECT(err == (*failed ? -TUTTI_EMISMATCH : 0));
	TT_EXPECT(!*failed || mp_said("allreduce"));
	pthread_barrier_destroy(&begin);
	MP_OK(tutti_comm_free(comm));
	return 0;
}

static int opposite_body(struct mp_job *job)
{
	bool failed;
	int i;

	for (i = 0; i < 3; i++) {
		TT_EXPECT(!both(job, wait_for_pair, &failed));
		TT_EXPECT(failed);
	}
	MP_OK(tutti_barrier(job->world));
	return 0;
}

static int race_body(struct mp_job *job)
{
	int32_t v[2];
	bool failed;
	int i, wrong = 0;

	for (i = 0; i < 12; i++) {
		TT_EXPECT(!both(job, race, &failed));
		v[0] = failed;
		v[1] = 1;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, v, 2, TUTTI_INT32, TUTTI_SUM, job->world));
		TT_EXPECT(v[0] == 0 || v[0] == job->n); /* all ranks, or none */
		wrong += failed;
	}
	if (!job->rank)
		printf("  %d of 12 races were lost\n", wrong);
	return 0;
}

#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"

static void in_order(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = in_order_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = in_order_body, .env = "TUTTI_NODE=off"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = in_order_body, .env = "TUTTI_PROGRESS=thread"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = in_order_body, .env = OFI));
}

static void opposite(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = opposite_body));
	TT_CHECK(!MP_RUN(.n = 3, .fn = opposite_body, .env = "TUTTI_NODE=off"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 3, .fn = opposite_body, .env = OFI));
}

static void races(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = race_body));
	TT_CHECK(!MP_RUN(.n = 2, .fn = race_body, .env = "TUTTI_NODE=off"));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .fn = race_body, .env = OFI));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"in_order", in_order},
		{"opposite", opposite},
		{"races", races},
		{NULL, NULL},
	};

	return tt_test_main("concurrent", tests, argc, argv);
}
