/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "lib/base/hash.h"
#include "tests/mp/coll/torn.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define MOST_BLOCKS 48
#define MARK 0x5a

static bool is_marked(const char *p, size_t size)
{
	return p[0] == MARK && !memcmp(p, p + 1, size - 1);
}

/*
 * A call has failed: reuses vectors and pool memory at once; their new contents must not change
 * until this many ranks have come here.
 */
static int untouched(struct mp_job *job, char *v, int ranks)
{
	const struct torn *t = job->arg;
	char *block[MOST_BLOCKS];
	int k;

	TT_EXPECT(t->blocks <= MOST_BLOCKS);
	memset(v, MARK, 2 * t->bytes);
	for (k = 0; k < t->blocks; k++) {
		MP_OK(tutti_alloc(job->ctx, t->block, (void **)&block[k]));
		memset(block[k], MARK, t->block);
	}
	atomic_fetch_add(&job->shared->word[0], 1);
	TT_EXPECT(mp_await(&job->shared->word[0], ranks, 20000));
	mp_sleep_ms(2);
	TT_EXPECT(is_marked(v, 2 * t->bytes));
	for (k = 0; k < t->blocks; k++) {
		TT_EXPECT(is_marked(block[k], t->block));
		MP_OK(tutti_free(block[k]));
	}
	return 0;
}

static int prepare(struct mp_job *job, char **v)
{
	const struct torn *t = job->arg;

	*v = calloc(2, t->bytes);
	TT_EXPECT(*v && (!t->join || !t->join(job)));
	return 0;
}

int torn_late(struct mp_job *job)
{
	const struct torn *t = job->arg;
	struct tutti_request *req;
	char *v;

	TT_EXPECT(!prepare(job, &v));
	mp_meet(job);
	if (job->rank == 1) {
		MP_OK(t->begin(job, v, &req));
		TT_EXPECT(mp_await(&job->shared->word[0], job->n - 1, 20000));
		TT_EXPECT(tutti_wait(&req) < 0);
	} else {
		TT_EXPECT(t->call(job, job->world, 1, v) < 0);
	}
	TT_EXPECT(!untouched(job, v, job->n));
	mp_leave(job);
	free(v);
	return 0;
}

struct end {
	struct tutti_comm *comm; /* NULL: the process's */
	int us;
};

static void *end_it(void *arg)
{
	struct end *end = arg;

	usleep((useconds_t)end->us);
	if (end->comm)
		tutti_comm_revoke(end->comm);
	else
		kill(getpid(), SIGKILL);
	return NULL;
}

static int until_failure(struct mp_job *job, struct tutti_comm *comm, int kind, char *v)
{
	const struct torn *t = job->arg;
	int err = 0;

	while (!err)
		err = t->call(job, comm, kind, v);
	TT_EXPECT(err == -TUTTI_EPEER || err == -TUTTI_EREVOKED);
	return 0;
}

int torn_revoked(struct mp_job *job)
{
	const struct torn *t = job->arg;
	uint64_t seed = 7;
	struct end end;
	pthread_t thread;
	char *v;
	int k;

	TT_EXPECT(!prepare(job, &v));
	for (k = 0; k < t->rounds; k++) {
		MP_OK(tutti_comm_dup(job->world, &end.comm));
		end.us = (int)(tt_random(&seed) % 8000);
		mp_meet(job);
		if (job->rank == k % job->n)
			TT_EXPECT(!pthread_create(&thread, NULL, end_it, &end));
		TT_EXPECT(!until_failure(job, end.comm, k, v) &&
			  !untouched(job, v, (k + 1) * job->n));
		if (job->rank == k % job->n)
			pthread_join(thread, NULL);
		MP_OK(tutti_comm_free(end.comm));
	}
	free(v);
	if (t->join)
		MP_OK(mp_leave(job));
	return 0;
}

int torn_killed(struct mp_job *job)
{
	const struct torn *t = job->arg;
	struct end end = {.us = t->us};
	pthread_t thread;
	char *v;

	TT_EXPECT(!prepare(job, &v));
	mp_meet(job);
	if (job->rank == 1)
		TT_EXPECT(!pthread_create(&thread, NULL, end_it, &end));
	TT_EXPECT(!until_failure(job, job->world, end.us, v) && !untouched(job, v, job->n - 1));
	mp_leave(job);
	free(v);
	return 0;
}
