/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads on one communicator: each sends, receives, waits, tests and cancels as it likes, beside
 * the others. Prints how many messages 1, 2 and 4 threads exchange in a second.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>

#define SHM "TUTTI_TRANSPORT=shm"
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"

enum { MOST = 4, LONG = 20000 };

struct worker {
	struct mp_job *job;
	int id, rounds, failed;
	int (*fn)(struct worker *w);
};

static void *run_worker(void *arg)
{
	struct worker *w = arg;

	w->failed = w->fn(w);
	return NULL;
}

static int run_threads(struct mp_job *job, int n, int rounds, int (*fn)(struct worker *))
{
	struct worker w[MOST];
	pthread_t thread[MOST];
	int i, failed = 0;

	for (i = 0; i < n; i++) {
		w[i] = (struct worker){.job = job, .id = i, .rounds = rounds, .fn = fn};
		TT_EXPECT(!pthread_create(&thread[i], NULL, run_worker, &w[i]));
	}
	for (i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		failed |= w[i].failed;
	}
	return failed;
}

/* ---- two threads wait for different requests; the second one's message comes first ---- */

static int wait_for_one(struct worker *w)
{
	struct mp_job *job = w->job;
	struct tutti_request *req;
	int got = 0, i, v;

	for (i = 0; i < w->rounds; i++) {
		MP_OK(tutti_irecv(&got, 1, TUTTI_INT32, 1, w->id, job->world, NULL, &req));
		MP_OK(tutti_wait(&req));
		TT_EXPECT(got == i * 10 + w->id);
		if (w->id == 1) { /* lets the other thread's message follow */
			v = i;
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, 99, job->world));
		}
	}
	return 0;
}

static int two_body(struct mp_job *job)
{
	enum { ROUNDS = 200 };
	int i, id, v;

	if (job->rank == 0)
		return run_threads(job, 2, ROUNDS, wait_for_one);
	for (i = 0; i < ROUNDS; i++) {
		id = 1;
		v = i * 10 + id;
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, id, job->world));
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 99, job->world, NULL));
		id = 0;
		v = i * 10 + id;
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, id, job->world));
	}
	return 0;
}

static void two(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = two_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_WAIT=sleep", .fn = two_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_PROGRESS=thread", .fn = two_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = OFI, .fn = two_body));
}

/* ---- each thread with its tag, by different calls ---- */

static int exchange(struct worker *w, int i, int *in, const int *out, size_t n)
{
	struct mp_job *job = w->job;
	struct tutti_request *req[3];
	struct tutti_status status;
	int peer = !job->rank, index, done, unused;

	MP_OK(tutti_irecv(in, n, TUTTI_INT32, peer, w->id, job->world, &status, &req[0]));
	if (i % 2)
		MP_OK(tutti_isend(out, n, TUTTI_INT32, peer, w->id, job->world, &req[1]));
	else
		MP_OK(tutti_issend(out, n, TUTTI_INT32, peer, w->id, job->world, &req[1]));
	MP_OK(tutti_irecv(&unused, 1, TUTTI_INT32, peer, 1000 + w->id, job->world, NULL, &req[2]));
	switch ((i + w->id) % 3) {
	case 0:
		MP_OK(tutti_waitall(2, req));
		break;
	case 1:
		for (done = 0; !done;)
			MP_OK(tutti_testall(2, req, &done));
		break;
	default:
		MP_OK(tutti_waitany(2, req, &index));
		MP_OK(tutti_wait(&req[!index]));
	}
	TT_EXPECT(status.source == peer && status.tag == w->id && status.bytes == 4 * n);
	MP_OK(tutti_cancel(req[2]));
	MP_ERR(tutti_wait(&req[2]), -ECANCELED);
	return 0;
}

static int mix(struct worker *w)
{
	int *in = malloc(LONG * sizeof(int)), *out = malloc(LONG * sizeof(int)), i, k, n;
	struct mp_job *job = w->job;

	for (i = 0; i < w->rounds; i++) {
		n = i % 5 == 0 ? LONG - i : i + 1;
		for (k = 0; k < n; k++) {
			out[k] = (job->rank * 100 + w->id) * 1000000 + i * 1000 + k % 1000;
			in[k] = -1;
		}
		TT_EXPECT(!exchange(w, i, in, out, (size_t)n));
		for (k = 0; k < n; k++)
			TT_EXPECT(in[k] ==
				  (!job->rank * 100 + w->id) * 1000000 + i * 1000 + k % 1000);
	}
	free(in);
	free(out);
	return 0;
}

/* One thread makes collectives meanwhile. */
static int mix_or_reduce(struct worker *w)
{
	struct mp_job *job = w->job;
	int i, v;

	if (w->id < MOST - 1)
		return mix(w);
	for (i = 0; i < w->rounds; i++) {
		v = i + job->rank;
		MP_OK(tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT32, TUTTI_SUM, job->world));
		TT_EXPECT(v == 2 * i + 1);
	}
	return 0;
}

static int mixed_body(struct mp_job *job)
{
	return run_threads(job, MOST, 60, mix_or_reduce);
}

static void mixed(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = mixed_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_PROGRESS=thread", .fn = mixed_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = OFI, .fn = mixed_body));
}

/* ---- throughput ---- */

static int swap(struct worker *w)
{
	struct mp_job *job = w->job;
	int i, in = 0, peer = !job->rank;

	for (i = 0; i < w->rounds; i++) {
		MP_OK(tutti_sendrecv(&i, 1, TUTTI_INT32, peer, w->id, &in, 1, TUTTI_INT32, peer,
				     w->id, job->world, NULL));
		TT_EXPECT(in == i);
	}
	return 0;
}

static int rate_body(struct mp_job *job)
{
	enum { TOTAL = 4000 };
	double start, took;
	int n;

	for (n = 1; n <= MOST; n *= 2) {
		MP_OK(tutti_barrier(job->world));
		start = mp_now();
		TT_EXPECT(!run_threads(job, n, TOTAL / n, swap));
		took = mp_now() - start;
		if (job->rank == 0)
			printf("  %d thread%s: %.0f messages of 4 bytes a second each way\n", n,
			       n == 1 ? "" : "s", TOTAL / took);
	}
	return 0;
}

static void rate(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = rate_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"two", two}, {"mixed", mixed}, {"rate", rate}, {NULL, NULL}};

	return tt_test_main("p2p_threads", tests, argc, argv);
}
