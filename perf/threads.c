/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Throughput of 1, 2 and 4 threads of each rank that call at once: messages on one communicator,
 * all-reduces on a communicator for each thread, and all-reduces of all threads on one
 * communicator, which start in turn, as they must, and wait at once. Each call moves 8 bytes; every
 * result is compared.
 */
#include "perf/perf.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MOST 4

enum call { SENDRECV, OWN, SHARED, CALLS };
static const char *const names[] = {"sendrecv", "allreduce", "allreduce"};
static const char *const places[] = {"one", "own", "one"};

struct run {
	struct perf *perf;
	struct tutti_comm *one, *own[MOST];
	enum call call;
	int threads;
	atomic_int turn; /* SHARED: the number of the next call */
	pthread_barrier_t begin, end;
};

struct thread {
	pthread_t id;
	struct run *run;
	int place, err;
	int64_t wrong;
};

static const struct perf_column columns[] = {
	{"call", "call", "", 11, 0, PERF_TEXT},
	{"communicators", "comms", "", 7, 0, PERF_TEXT},
	{"threads", "#threads", "", 9, 0, PERF_INT},
	{"calls", "#calls", "", 9, 0, PERF_INT},
	{"time_us", "time", "(us)", 12, 0, PERF_USEC},
	{"calls_per_ms", "calls", "(1/ms)", 10, 1, PERF_FIXED},
	{"speedup", "speedup", "", 8, 2, PERF_FIXED},
	{"wrong", "#wrong", "", 7, 0, PERF_INT},
};

static int exchange(struct thread *t, int64_t i)
{
	const struct run *r = t->run;
	int n = r->perf->nranks, me = r->perf->rank, from = (me + n - 1) % n;
	int64_t out = 1000 * me + i, in = -1;
	int err = tutti_sendrecv(&out, 1, TUTTI_INT64, (me + 1) % n, t->place, &in, 1, TUTTI_INT64,
				 from, t->place, r->one, NULL);

	t->wrong += in != 1000 * from + i;
	return err ? perf_call_failed(r->perf, "sendrecv", err) : 0;
}

/* number: among the calls of all threads */
static int start_in_turn(struct run *r, int number, int64_t *v, struct tutti_request **req)
{
	int err;

	while (atomic_load(&r->turn) != number)
		sched_yield();
	err = tutti_iallreduce(TUTTI_IN_PLACE, v, 1, TUTTI_INT64, TUTTI_SUM, r->one, req);
	atomic_store(&r->turn, number + 1); /* also after an error: the others wait for it */
	return err;
}

static int add(struct thread *t, int64_t i)
{
	struct run *r = t->run;
	int64_t n = r->perf->nranks, v = i + r->perf->rank + t->place;
	struct tutti_request *req = NULL;
	int err;

	if (r->call == OWN)
		err = tutti_allreduce(TUTTI_IN_PLACE, &v, 1, TUTTI_INT64, TUTTI_SUM,
				      r->own[t->place]);
	else
		err = start_in_turn(r, (int)i * r->threads + t->place, &v, &req);
	if (!err)
		err = tutti_wait(&req);
	t->wrong += v != n * (i + t->place) + n * (n - 1) / 2;
	return err && !t->err ? perf_call_failed(r->perf, "allreduce", err) : err;
}

static void *work(void *arg)
{
	struct thread *t = arg;
	struct run *r = t->run;
	int i, err, warmup = r->perf->opt.warmup;

	for (i = 0; i < warmup + r->perf->opt.iters; i++) {
		if (i == warmup)
			pthread_barrier_wait(&r->begin);
		if (t->err && r->call != SHARED) /* there the others wait for its turns */
			continue;
		err = r->call == SENDRECV ? exchange(t, i) : add(t, i);
		t->err = t->err ? t->err : err;
	}
	pthread_barrier_wait(&r->end);
	return NULL;
}

/* A rank without all its threads would leave the others waiting, so none begins. */
static int start(struct run *r, struct thread *t)
{
	double failed = 0;
	int i, n, err;

	for (n = 0; n < r->threads && !failed; n++) {
		t[n] = (struct thread){.run = r, .place = n};
		failed = pthread_create(&t[n].id, NULL, work, &t[n]);
	}
	n -= failed != 0;
	if (!failed)
		return 0;
	err = perf_call_failed(r->perf, "making threads", -EAGAIN);
	tutti_comm_abort(r->perf->world, 1);
	for (i = 0; i < n; i++)
		pthread_detach(t[i].id);
	return err;
}

static int measure(struct run *r, double *usec, double *wrong)
{
	struct thread t[MOST];
	uint64_t begin;
	int i, err;

	atomic_store(&r->turn, 0);
	pthread_barrier_init(&r->begin, NULL, (unsigned)r->threads + 1);
	pthread_barrier_init(&r->end, NULL, (unsigned)r->threads + 1);
	err = start(r, t);
	if (err)
		return err;
	pthread_barrier_wait(&r->begin);
	begin = perf_now_ns();
	pthread_barrier_wait(&r->end);
	*usec = (double)(perf_now_ns() - begin) / 1e3;
	for (*wrong = 0, i = 0; i < r->threads; i++) {
		pthread_join(t[i].id, NULL);
		*wrong += (double)t[i].wrong;
		err = err ? err : t[i].err;
	}
	pthread_barrier_destroy(&r->begin);
	pthread_barrier_destroy(&r->end);
	if (!err)
		err = perf_agree(r->perf, usec, TUTTI_MAX);
	return err ? err : perf_agree_found(r->perf, wrong, 0);
}

static int one_row(struct run *r, double *alone)
{
	struct perf *perf = r->perf;
	double usec, wrong, rate;
	int64_t calls = (int64_t)r->threads * perf->opt.iters;
	int err;

	perf_progress_row(perf, sizeof(int64_t));
	err = measure(r, &usec, &wrong);
	if (err)
		return err;
	rate = (double)calls / (usec > 0 ? usec : 1) * 1e3;
	if (r->threads == 1)
		*alone = rate;
	if (perf->rank)
		return 0;
	return perf_table_row(&perf->table, (struct perf_cell[]){{.text = names[r->call]},
								 {.text = places[r->call]},
								 {.number = r->threads},
								 {.number = calls},
								 {.real = usec},
								 {.real = rate},
								 {.real = rate / *alone},
								 {.number = (int64_t)wrong}});
}

static int all_rows(struct run *r)
{
	double alone = 1;
	int call, err = 0;

	for (call = 0; call < CALLS; call++)
		for (r->threads = 1; r->threads <= MOST && !err; r->threads *= 2) {
			r->call = (enum call)call;
			err = one_row(r, &alone);
		}
	return err;
}

int perf_run_threads(struct perf *perf)
{
	struct run r = {.perf = perf};
	int i, err;

	err = tutti_comm_dup(perf->world, &r.one);
	for (i = 0; i < MOST && !err; i++)
		err = tutti_comm_dup(perf->world, &r.own[i]);
	if (err)
		return perf_call_failed(perf, "comm_dup", err);
	perf_table_begin(&perf->table, columns, sizeof(columns) / sizeof(*columns));
	if (!perf->rank)
		perf_table_heading(&perf->table);
	err = all_rows(&r);
	for (i = 0; i < MOST; i++)
		tutti_comm_free(r.own[i]);
	tutti_comm_free(r.one);
	return err;
}
