/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that run far ahead of others, and many operations under way at once on several
 * communicators: early messages must be parked within bounds, senders held back, and nothing may
 * get stuck.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <stdio.h>

/* ---- a root far ahead ---- */

struct ahead {
	int calls, window;
	size_t words;
};

/*
 * A rank that posts no receive and polls gets the root's messages early: more than fit into slots.
 * Until one of the others has seen that; not all do, as one behind a late one gets its messages
 * late. Injected delays may hide it.
 */
static int see_parked(struct mp_job *job)
{
	struct tutti_stats stats = {.size = sizeof(stats)};
	int i, flag;

	for (i = 0; i < 5000 && !atomic_load(&job->shared->word[1]); i++) {
		MP_OK(tutti_iprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, job->world, &flag, NULL));
		MP_OK(tutti_stats_get(job->ctx, &stats));
		if (stats.parked_messages > 0)
			atomic_store(&job->shared->word[1], 1);
		else
			mp_sleep_ms(1);
	}
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which are slow: by luck */
	TT_EXPECT(atomic_load(&job->shared->word[1]) > 0);
#endif
	return 0;
}

/* The root starts thousands of broadcasts before the others start their first. */
static int ahead_body(struct mp_job *job)
{
	const struct ahead *a = job->arg;
	struct tutti_request **req = calloc((size_t)a->calls, sizeof(*req));
	uint32_t *data = calloc((size_t)a->calls, a->words * 4);
	int i, done, root = job->n - 1;
	size_t k;

	for (i = 0; job->rank == root && i < a->calls; i++)
		for (k = 0; k < a->words; k++)
			data[(size_t)i * a->words + k] = (uint32_t)i * 7 + (uint32_t)k;
	MP_OK(tutti_barrier(job->world));
	if (job->rank != root)
		TT_EXPECT(mp_await(&job->shared->word[0], 1, 20000));
	if (job->rank != root && a->calls > 500 && !getenv("TUTTI_FAULT"))
		TT_EXPECT(!see_parked(job));
	for (i = 0; i < a->calls; i++) {
		MP_OK(tutti_ibcast(data + (size_t)i * a->words, a->words, TUTTI_UINT32, root,
				   job->world, &req[i]));
		if (job->rank == root && i == a->calls * 3 / 4)
			atomic_store(&job->shared->word[0], 1);
		if (i % 16 == 0) /* give it a chance to move */
			MP_OK(tutti_test(&req[i], &done));
		if (job->rank != root && i >= a->window)
			MP_OK(tutti_wait(&req[i - a->window]));
	}
	MP_OK(tutti_waitall(a->calls, req));
	for (i = 0; i < a->calls; i++)
		for (k = 0; k < a->words; k++)
			TT_EXPECT(data[(size_t)i * a->words + k] == (uint32_t)i * 7 + (uint32_t)k);
	MP_OK(tutti_barrier(job->world));
	free(req);
	free(data);
	return 0;
}

static void ahead_on(const char *env)
{
	static const struct ahead a[] = {{2000, 1, 2}, {1000, 100, 33}, {300, 1000, 2000}};
	size_t i;

	for (i = 0; i < 3; i++) {
		int failed =
			MP_RUN(.n = i ? 3 : 4, .env = env, .fn = ahead_body, .arg = (void *)&a[i]);

		if (failed)
			fprintf(stderr, "case %zu, %s\n", i, env);
		TT_CHECK(!failed);
	}
}

static void ahead_shm(void)
{
	ahead_on("TUTTI_TRANSPORT=shm TUTTI_PARKED=1 TUTTI_SLOTS=4");
	ahead_on("TUTTI_TRANSPORT=shm TUTTI_PARKED=3 TUTTI_SLOTS=4");
	ahead_on("TUTTI_TRANSPORT=shm");
	ahead_on("TUTTI_TRANSPORT=shm TUTTI_PARKED=2 TUTTI_SLOTS=4 TUTTI_PROGRESS=thread");
}

static void ahead_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	ahead_on("TUTTI_TRANSPORT=ofi TUTTI_PARKED=1 TUTTI_SLOTS=4");
	ahead_on("TUTTI_TRANSPORT=ofi TUTTI_PARKED=4 TUTTI_SLOTS=4");
	ahead_on("TUTTI_TRANSPORT=ofi");
}

static void ahead_fault(void)
{
	ahead_on("TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=5,delay=0.1:100,reorder=0.3,again=0.2 "
		 "TUTTI_PARKED=2 TUTTI_SLOTS=4");
}

/* ---- many at once on three communicators ---- */

#define COMMS 3
#define OUT 70 /* on each communicator */

struct one {
	struct tutti_request *req;
	int32_t *v;
	size_t count;
};

/* A different length for each call; some broadcasts, some barriers among the all-reduces. */
static size_t count_of(int c, int i)
{
	return i % 7 == 6 ? 20000 + (size_t)(c * 100 + i) : (size_t)(i * 3 + c);
}

static int launch(struct mp_job *job, struct tutti_comm *comm, int c, int i, struct one *o)
{
	size_t k;

	o->count = count_of(c, i);
	for (k = 0; k < o->count; k++)
		o->v[k] = job->rank + 1 + (int32_t)k + c;
	if (i % 5 == 3)
		return tutti_ibcast(o->v, o->count, TUTTI_INT32, i % job->n, comm, &o->req);
	if (i % 11 == 10) {
		o->count = 0;
		return tutti_ibarrier(comm, &o->req);
	}
	return tutti_iallreduce(TUTTI_IN_PLACE, o->v, o->count, TUTTI_INT32, TUTTI_SUM, comm,
				&o->req);
}

static int right(struct mp_job *job, int c, int i, const struct one *o)
{
	size_t k;
	int32_t want;

	for (k = 0; k < o->count; k++) {
		if (i % 5 == 3)
			want = i % job->n + 1 + (int32_t)k + c;
		else
			want = job->n * (job->n + 1) / 2 + job->n * ((int32_t)k + c);
		if (o->v[k] != want) {
			fprintf(stderr, "communicator %d call %d element %zu: %d, not %d\n", c, i,
				k, o->v[k], want);
			return 0;
		}
	}
	return 1;
}

/* Every rank interleaves the communicators in its own order; within one the order is the same. */
static int tangle_body(struct mp_job *job)
{
	static struct one o[COMMS][OUT];
	struct tutti_comm *comm[COMMS];
	struct tutti_request *all[COMMS * OUT];
	int next[COMMS] = {0}, c, i, left = COMMS * OUT, index;
	unsigned pick = (unsigned)job->rank * 2654435761u + 1;

	comm[0] = job->world;
	MP_OK(tutti_comm_dup(job->world, &comm[1]));
	MP_OK(tutti_comm_dup(comm[1], &comm[2]));
	for (c = 0; c < COMMS; c++)
		for (i = 0; i < OUT; i++)
			if (i % 2)
				MP_OK(tutti_alloc(job->ctx, 21000 * 4, (void **)&o[c][i].v));
			else
				o[c][i].v = malloc(21000 * 4);
	while (left) {
		pick = pick * 1103515245u + 12345;
		c = (int)(pick >> 16) % COMMS;
		if (next[c] == OUT)
			continue;
		MP_OK(launch(job, comm[c], c, next[c], &o[c][next[c]]));
		next[c]++;
		left--;
	}
	for (i = 0; i < COMMS * OUT; i++)
		all[i] = o[i % COMMS][i / COMMS].req;
	for (i = 0; i < 50; i++)
		MP_OK(tutti_waitany(COMMS * OUT, all, &index));
	MP_OK(tutti_waitall(COMMS * OUT, all));
	for (c = 0; c < COMMS; c++)
		for (i = 0; i < OUT; i++) {
			TT_EXPECT(right(job, c, i, &o[c][i]));
			if (i % 2)
				MP_OK(tutti_free(o[c][i].v));
			else
				free(o[c][i].v);
		}
	MP_OK(tutti_comm_free(comm[1]));
	MP_OK(tutti_comm_free(comm[2]));
	return 0;
}

static void tangle_on(const char *env)
{
	static const int sizes[] = {2, 3, 5, 0};
	const int *n;

	for (n = sizes; *n; n++) {
		int failed = MP_RUN(.n = *n, .env = env, .fn = tangle_body);

		if (failed)
			fprintf(stderr, "%d ranks, %s\n", *n, env);
		TT_CHECK(!failed);
	}
}

static void tangle_shm(void)
{
	tangle_on("TUTTI_TRANSPORT=shm");
	tangle_on("TUTTI_TRANSPORT=shm TUTTI_PARKED=1 TUTTI_SLOTS=4");
	tangle_on("TUTTI_TRANSPORT=shm TUTTI_PARKED=4 TUTTI_SLOTS=4 TUTTI_EAGER=64");
	tangle_on("TUTTI_TRANSPORT=shm TUTTI_PARKED=2 TUTTI_SLOTS=4 TUTTI_PROGRESS=thread");
}

static void tangle_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	tangle_on("TUTTI_TRANSPORT=ofi");
	tangle_on("TUTTI_TRANSPORT=ofi TUTTI_PARKED=1 TUTTI_SLOTS=4");
}

static void tangle_fault(void)
{
	tangle_on("TUTTI_TRANSPORT=fault:shm "
		  "TUTTI_FAULT=seed=11,delay=0.1:100,reorder=0.4,again=0.2,hold=0.1 "
		  "TUTTI_PARKED=1 TUTTI_SLOTS=4");
	if (!mp_no_ofi())
		tangle_on("TUTTI_TRANSPORT=fault:ofi "
			  "TUTTI_FAULT=seed=12,delay=0.1:100,reorder=0.4,again=0.2 "
			  "TUTTI_PARKED=2 TUTTI_SLOTS=4");
}

/* ---- heads of messages that must wait ---- */

#define WAITING 200 /* more than may come with their payload */

/* Rank 1 takes the last message first: some of the others are heads alone until it takes them. */
static int heads_body(struct mp_job *job)
{
	struct tutti_request *req[WAITING];
	uint64_t v[WAITING], got;
	int i = 0, other = !job->rank;

	MP_OK(tutti_sendrecv(&i, 1, TUTTI_UINT8, other, 9, &got, 1, TUTTI_UINT8, other, 9,
			     job->world, NULL));
	for (i = 0; i < WAITING && !job->rank; i++) {
		v[i] = 1000 + (uint64_t)i;
		MP_OK(tutti_isend(&v[i], 1, TUTTI_UINT64, 1, i == WAITING - 1, job->world,
				  &req[i]));
	}
	if (!job->rank)
		return tutti_waitall(WAITING, req);
	MP_OK(tutti_recv(&got, 1, TUTTI_UINT64, 0, 1, job->world, NULL));
	TT_EXPECT(got == 1000 + WAITING - 1);
	for (i = 0; i < WAITING - 1; i++) {
		MP_OK(tutti_recv(&got, 1, TUTTI_UINT64, 0, 0, job->world, NULL));
		TT_EXPECT(got == 1000 + (uint64_t)i);
	}
	return 0;
}

static void heads(void)
{
	/* 8 bytes are more than the limit, and as many as the length in a head */
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm TUTTI_EAGER=4", .fn = heads_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm TUTTI_EAGER=7", .fn = heads_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=shm", .fn = heads_body));
}

/* ---- more freed sends than a peer has room for, and no receives ---- */

#define UNRECEIVED 90

static int unreceived_body(struct mp_job *job)
{
	static char v[4000];
	struct tutti_request *req;
	double t0;
	int i;

	MP_OK(tutti_barrier(job->world));
	for (i = 0; i < UNRECEIVED; i++) {
		MP_OK(tutti_isend(v, sizeof(v), TUTTI_UINT8, !job->rank, 7, job->world, &req));
		MP_OK(tutti_request_free(req));
	}
	t0 = mp_now();
	MP_OK(mp_leave(job)); /* not after TUTTI_TIMEOUT */
	TT_EXPECT(mp_now() - t0 < 45);
	return 0;
}

static void unreceived(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = unreceived_body,
			 .env = "TUTTI_TRANSPORT=shm TUTTI_NODE=off TUTTI_PARKED=1 "
				"TUTTI_TIMEOUT=60s"));
	TT_CHECK(!MP_RUN(.n = 2, .fn = unreceived_body, .env = "TUTTI_TIMEOUT=60s"));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"ahead_shm", ahead_shm},
		{"ahead_ofi", ahead_ofi},
		{"ahead_fault", ahead_fault},
		{"tangle_shm", tangle_shm},
		{"tangle_ofi", tangle_ofi},
		{"tangle_fault", tangle_fault},
		{"heads", heads},
		{"unreceived", unreceived},
		{NULL, NULL},
	};

	return tt_test_main("flow", tests, argc, argv);
}
