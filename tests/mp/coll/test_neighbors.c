/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of neighbours in graphs: values against a dense matrix, all forms, types and
 * transports; 1,000 rounds; the bytes sent; refused arguments, graphs that differ; deaths in a
 * tolerant communicator.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define SHM "TUTTI_TRANSPORT=shm "
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo "
#define VERBS "TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=30s"
#define FAULT                                                                                      \
	"TUTTI_TRANSPORT=fault:shm "                                                               \
	"TUTTI_FAULT=seed=9,delay=0.1:100,reorder=0.3,again=0.2,max_put=70001"
#define MAX_N 8
#define LONG 200003 /* elements: many slices */

enum kind { RING, TORUS, STAR, COMPLETE, EXPONENTIAL, ONE_PEER, REGULAR, DIRECTED, KINDS };

static const struct tutti_edge directed[] = {{0, 1, 0.5},  {0, 0, 0.5}, {1, 0, 0.25},
					     {1, 1, 0.75}, {2, 2, 1},	{0, 2, 0.125}};

static int graph_of(enum kind kind, int n, struct tutti_graph **g)
{
	switch (kind) {
	case RING:
		return tutti_graph_ring(n, g);
	case TORUS:
		return n % 2 ? tutti_graph_torus(1, n, g) : tutti_graph_torus(2, n / 2, g);
	case STAR:
		return tutti_graph_star(n, g);
	case COMPLETE:
		return tutti_graph_complete(n, g);
	case EXPONENTIAL:
		return tutti_graph_exponential(n, g);
	case ONE_PEER:
		return tutti_graph_one_peer(n, g);
	case REGULAR:
		return n > 3 ? tutti_graph_regular(n, 3 - n % 2, 3, g) : tutti_graph_ring(n, g);
	default:
		return tutti_graph_edges(n, directed, n > 2 ? 6 : 4, TUTTI_WEIGHTS_GIVEN, g);
	}
}

/* A small whole number: sums with weights of powers of two are exact, others close. */
static double value(int rank, size_t i, uint64_t step)
{
	return (double)((rank * 31 + (int)(i % 97) * 7 + (int)step * 3) % 61 - 30);
}

static double expect(const struct tutti_graph *g, uint64_t step, int n, int rank, size_t i)
{
	double sum = 0;
	int j;

	for (j = 0; j < n; j++)
		sum += tutti_graph_weight(g, step, rank, j) * value(j, i, step);
	return sum;
}

static double load(enum tutti_datatype type, const void *v, size_t i)
{
	uint32_t u;
	float f;

	if (type == TUTTI_FLOAT64)
		return ((const double *)v)[i];
	if (type == TUTTI_FLOAT32)
		return (double)((const float *)v)[i];
	u = ((const uint16_t *)v)[i];
	if (type == TUTTI_BFLOAT16) {
		u <<= 16;
		memcpy(&f, &u, sizeof(f));
		return (double)f;
	}
	f = ldexpf((float)(u & 0x3ff) + (u >> 10 & 31 ? 1024.0f : 0),
		   (int)(u >> 10 & 31 ? u >> 10 & 31 : 1) - 25);
	return (double)(u & 0x8000 ? -f : f);
}

static void store(enum tutti_datatype type, void *v, size_t i, double x)
{
	float f = (float)x;
	uint32_t u;
	int e;

	if (type == TUTTI_FLOAT64) {
		((double *)v)[i] = x;
	} else if (type == TUTTI_FLOAT32) {
		((float *)v)[i] = f;
	} else if (type == TUTTI_BFLOAT16) { /* whole numbers up to 30 are exact in both */
		memcpy(&u, &f, sizeof(u));
		((uint16_t *)v)[i] = (uint16_t)(u >> 16);
	} else {
		f = frexpf(fabsf(f), &e);
		u = x == 0 ? 0 : (uint32_t)(e + 14) << 10 | ((uint32_t)(f * 2048) & 0x3ff);
		((uint16_t *)v)[i] = (uint16_t)(u | (x < 0 ? 0x8000 : 0));
	}
}

static double tolerance(enum tutti_datatype type)
{
	return type == TUTTI_FLOAT64   ? 1e-13
	       : type == TUTTI_FLOAT32 ? 3e-5
	       : type == TUTTI_FLOAT16 ? 0.5 * 30 / 1024
				       : 0.5 * 30 / 128;
}

/* ---- all-reduce ---- */

struct vectors {
	void *in, *out;
	size_t count;
	enum tutti_datatype type;
};

static int vectors_new(struct mp_job *job, struct vectors *v, size_t count,
		       enum tutti_datatype type, uint64_t step)
{
	size_t i;

	v->count = count;
	v->type = type;
	MP_OK(tutti_alloc(job->ctx, count * 8 + 8, &v->in));
	MP_OK(tutti_alloc(job->ctx, count * 8 + 8, &v->out));
	memset(v->out, 0x5a, count * 8 + 8);
	for (i = 0; i < count; i++)
		store(type, v->in, i, value(job->rank, i, step));
	return 0;
}

static int vectors_free(struct mp_job *job, struct vectors *v)
{
	MP_OK(tutti_free(v->in));
	MP_OK(tutti_free(v->out));
	return 0;
}

static int check_vector(struct mp_job *job, const struct tutti_graph *g, uint64_t step,
			const struct vectors *v, const void *out)
{
	size_t i, hop = v->count > 1000 ? 89 : 1;

	for (i = 0; i < v->count; i += hop) {
		double want = expect(g, step, job->n, job->rank, i), got = load(v->type, out, i);

		if (!(fabs(got - want) <= tolerance(v->type))) {
			fprintf(stderr, "rank %d of %d, step %d, element %zu: %.17g, not %.17g\n",
				job->rank, job->n, (int)step, i, got, want);
			return 1;
		}
	}
	return 0;
}

static int one_allreduce(struct mp_job *job, const struct tutti_graph *g, uint64_t step,
			 size_t count, enum tutti_datatype type)
{
	struct tutti_request *req = NULL;
	struct vectors v;

	TT_EXPECT(!vectors_new(job, &v, count, type, step));
	MP_OK(tutti_neighbor_allreduce(v.in, v.out, count, type, g, step, job->world));
	TT_EXPECT(!check_vector(job, g, step, &v, v.out));
	memset(v.out, 0, count * 8);
	MP_OK(tutti_ineighbor_allreduce(v.in, v.out, count, type, g, step, job->world, &req));
	MP_OK(tutti_wait(&req));
	TT_EXPECT(!check_vector(job, g, step, &v, v.out));
	MP_OK(tutti_neighbor_allreduce(TUTTI_IN_PLACE, v.in, count, type, g, step, job->world));
	TT_EXPECT(!check_vector(job, g, step, &v, v.in));
	return vectors_free(job, &v);
}

static int allreduce_body(struct mp_job *job)
{
	static const enum tutti_datatype types[] = {TUTTI_FLOAT64, TUTTI_FLOAT32, TUTTI_FLOAT16,
						    TUTTI_BFLOAT16};
	static const size_t counts[] = {1, 0, 1000, 20000, 7};
	struct tutti_graph *g;
	uint64_t step;
	int k;

	for (k = 0; k < KINDS; k++) {
		if (job->n < 2 && k == DIRECTED)
			continue;
		MP_OK(graph_of((enum kind)k, job->n, &g));
		for (step = 0; step < 4; step++)
			TT_EXPECT(!one_allreduce(job, g, step, counts[(step + (uint64_t)k) % 5],
						 types[step]));
		if (k == STAR || k == EXPONENTIAL)
			TT_EXPECT(!one_allreduce(job, g, 0, LONG, TUTTI_FLOAT32));
		MP_OK(tutti_graph_free(g));
	}
	return 0;
}

/* ---- blocks ---- */

static int one_exchange(struct mp_job *job, const struct tutti_graph *g, uint64_t step,
			size_t count, bool all)
{
	int in[MAX_N], out[MAX_N], back[MAX_N], nin, nout, nback, j, k;
	int32_t *send, *recv;
	size_t i;

	MP_OK(tutti_graph_in(g, step, job->rank, in, MAX_N, &nin));
	MP_OK(tutti_graph_out(g, step, job->rank, out, MAX_N, &nout));
	send = calloc(count * (size_t)(nout + 1) + 1, 4);
	recv = calloc(count * (size_t)nin + 1, 4);
	TT_EXPECT(send && recv);
	recv[count * (size_t)nin] = 77;
	for (k = 0; k < (all ? nout : 1); k++)
		for (i = 0; i < count; i++)
			send[(size_t)k * count + i] = job->rank * 1000 + k * 100 + (int)(i % 100);
	if (all)
		MP_OK(tutti_neighbor_alltoall(send, recv, count, TUTTI_INT32, g, step, job->world));
	else
		MP_OK(tutti_neighbor_allgather(send, recv, count, TUTTI_INT32, g, step,
					       job->world));
	for (j = 0; j < nin; j++) {
		MP_OK(tutti_graph_out(g, step, in[j], back, MAX_N, &nback));
		for (k = 0; all && back[k] != job->rank; k++)
			;
		for (i = 0; i < count; i++)
			TT_EXPECT(recv[(size_t)j * count + i] ==
				  in[j] * 1000 + (all ? k : 0) * 100 + (int)(i % 100));
	}
	TT_EXPECT(recv[count * (size_t)nin] == 77);
	free(send);
	free(recv);
	return 0;
}

static int blocks_body(struct mp_job *job)
{
	static const size_t counts[] = {5, 0, 70001};
	struct tutti_graph *g;
	int k, i;

	for (k = 0; k < KINDS; k++) {
		if (job->n < 2 && k == DIRECTED)
			continue;
		MP_OK(graph_of((enum kind)k, job->n, &g));
		for (i = 0; i < (k % 3 ? 2 : 3); i++) {
			TT_EXPECT(!one_exchange(job, g, (uint64_t)i, counts[i], false));
			TT_EXPECT(!one_exchange(job, g, (uint64_t)i, counts[i], true));
		}
		MP_OK(tutti_graph_free(g));
	}
	return 0;
}

/* ---- persistent ---- */

static int persistent_body(struct mp_job *job)
{
	struct tutti_request *step[3], *gather, *exchange, *set[2];
	double x = job->rank + 1, sum = job->n * (job->n + 1) / 2.0;
	int32_t mine = job->rank, got[1], told[1];
	struct tutti_graph *g;
	int t, round;

	MP_OK(tutti_graph_one_peer(job->n, &g));
	for (t = 0; t < tutti_graph_period(g); t++)
		MP_OK(tutti_neighbor_allreduce_init(TUTTI_IN_PLACE, &x, 1, TUTTI_FLOAT64, g,
						    (uint64_t)t, job->world, &step[t]));
	MP_OK(tutti_neighbor_allgather_init(&mine, got, 1, TUTTI_INT32, g, 0, job->world, &gather));
	MP_OK(tutti_neighbor_alltoall_init(&mine, told, 1, TUTTI_INT32, g, 1, job->world,
					   &exchange));
	MP_OK(tutti_graph_free(g)); /* they keep what they need */
	for (round = 0; round < 20; round++) {
		x = job->rank + 1;
		for (t = 0; t < 3; t++) {
			MP_OK(tutti_start(step[t]));
			MP_OK(tutti_wait(&step[t]));
		}
		TT_EXPECT(x == sum / job->n); /* exact after log2 n steps */
		mine = job->rank + round;
		set[0] = job->rank % 2 ? gather : exchange; /* in any order */
		set[1] = job->rank % 2 ? exchange : gather;
		MP_OK(tutti_startall(2, set));
		MP_OK(tutti_waitall(2, set));
		TT_EXPECT(got[0] == (job->rank + job->n - 1) % job->n + round);
		TT_EXPECT(told[0] == (job->rank + job->n - 2) % job->n + round);
	}
	for (t = 0; t < 3; t++)
		MP_OK(tutti_request_free(step[t]));
	MP_OK(tutti_request_free(gather));
	MP_OK(tutti_request_free(exchange));
	return 0;
}

/* ---- 1,000 rounds ---- */

#define WIDE 16

/* The mean, and the disagreement, over all ranks. */
static int spread(struct mp_job *job, const double *x, double *mean, double *off)
{
	double all[WIDE], d = 0;
	int i;

	MP_OK(tutti_allreduce(x, all, WIDE, TUTTI_FLOAT64, TUTTI_SUM, job->world));
	for (*mean = 0, i = 0; i < WIDE; i++)
		*mean += all[i] / job->n / WIDE;
	for (i = 0; i < WIDE; i++)
		d += (x[i] - all[i] / job->n) * (x[i] - all[i] / job->n);
	MP_OK(tutti_allreduce(&d, off, 1, TUTTI_FLOAT64, TUTTI_SUM, job->world));
	*off = sqrt(*off);
	return 0;
}

static void begin(const struct mp_job *job, double *x)
{
	int i;

	for (i = 0; i < WIDE; i++)
		x[i] = sin(job->rank * 17 + i * i * 3 + 1);
}

static int rounds_body(struct mp_job *job)
{
	double x[WIDE], mean, last, from = 0, off, lambda2, rate;
	struct tutti_graph *g;
	int k, r;

	for (k = RING; k <= REGULAR; k++) {
		MP_OK(graph_of((enum kind)k, job->n, &g));
		MP_OK(tutti_graph_lambda2(g, &lambda2));
		begin(job, x);
		TT_EXPECT(!spread(job, x, &mean, &off));
		for (r = 0; r < 1000; r++) {
			MP_OK(tutti_neighbor_allreduce(TUTTI_IN_PLACE, x, WIDE, TUTTI_FLOAT64, g,
						       (uint64_t)r, job->world));
			if (r == 19 || r == 39) {
				TT_EXPECT(!spread(job, x, &last, &off));
				rate = r == 39 ? pow(off / from, 1 / 20.0) : 0;
				from = off;
			}
			if (r == 39 && lambda2 > 0.2 && k <= REGULAR && k != EXPONENTIAL)
				TT_EXPECT(fabs(rate / lambda2 - 1) < 0.05);
			if (r == 39 && k == RING && job->n == 8)
				TT_EXPECT(fabs(rate / 0.8047 - 1) < 0.05);
			if (r == tutti_graph_period(g) - 1 && lambda2 == 0) {
				TT_EXPECT(!spread(job, x, &last, &off));
				TT_EXPECT(off < 1e-14 * WIDE);
			}
		}
		TT_EXPECT(!spread(job, x, &last, &off));
		TT_EXPECT(fabs(last - mean) < 1e-12);
		MP_OK(tutti_graph_free(g));
	}
	return 0;
}

/* ---- bytes ---- */

static uint64_t sent_bytes(struct mp_job *job)
{
	struct tutti_stats s = {.size = sizeof(s)};

	tutti_stats_get(job->ctx, &s);
	return s.put_bytes;
}

static int bytes_body(struct mp_job *job)
{
	const size_t len = (size_t)LONG * 4;
	struct tutti_graph *g;
	struct vectors v;
	uint64_t before;
	int k, nout;

	TT_EXPECT(!vectors_new(job, &v, LONG, TUTTI_FLOAT32, 0));
	for (k = 0; k < KINDS; k++) {
		MP_OK(graph_of((enum kind)k, job->n, &g));
		MP_OK(tutti_graph_out(g, 0, job->rank, NULL, 0, &nout));
		MP_OK(tutti_barrier(job->world));
		before = sent_bytes(job);
		MP_OK(tutti_neighbor_allreduce(v.in, v.out, LONG, TUTTI_FLOAT32, g, 0, job->world));
		TT_EXPECT(sent_bytes(job) - before == (uint64_t)nout * len);
		MP_OK(tutti_graph_free(g));
	}
	return vectors_free(job, &v);
}

/* ---- refused, and different ---- */

static int refused_body(struct mp_job *job)
{
	struct tutti_graph *g, *small;
	struct tutti_request *req = NULL;
	double x[4] = {0}, y[4] = {5, 5, 5, 5};
	int32_t i[4] = {0};

	MP_OK(tutti_graph_complete(job->n, &g));
	MP_OK(tutti_graph_ring(job->n + 1, &small));
	MP_ERR(tutti_neighbor_allreduce(x, y, 4, TUTTI_FLOAT64, NULL, 0, job->world), -EINVAL);
	MP_ERR(tutti_neighbor_allreduce(x, y, 4, TUTTI_FLOAT64, small, 0, job->world), -EINVAL);
	MP_SAID("make a graph of its size");
	MP_ERR(tutti_neighbor_allreduce(x, y, 4, TUTTI_FLOAT64, g, 0, NULL), -EINVAL);
	MP_ERR(tutti_neighbor_allreduce(i, y, 4, TUTTI_INT32, g, 0, job->world), -EINVAL);
	MP_SAID("int32 has no weighted sums");
	MP_ERR(tutti_neighbor_allreduce(x, y, 4, (enum tutti_datatype)99, g, 0, job->world),
	       -EINVAL);
	MP_ERR(tutti_neighbor_allreduce(NULL, y, 4, TUTTI_FLOAT64, g, 0, job->world), -EINVAL);
	MP_ERR(tutti_neighbor_allreduce(x, NULL, 4, TUTTI_FLOAT64, g, 0, job->world), -EINVAL);
	MP_ERR(tutti_neighbor_allreduce(x, TUTTI_IN_PLACE, 4, TUTTI_FLOAT64, g, 0, job->world),
	       -EINVAL);
	MP_ERR(tutti_neighbor_allreduce(y, y + 1, 3, TUTTI_FLOAT64, g, 0, job->world), -EINVAL);
	MP_SAID("overlap");
	MP_ERR(tutti_neighbor_allreduce(x, y, SIZE_MAX / 4, TUTTI_FLOAT64, g, 0, job->world),
	       -EINVAL);
	MP_ERR(tutti_neighbor_allgather(TUTTI_IN_PLACE, y, 1, TUTTI_FLOAT64, g, 0, job->world),
	       -EINVAL);
	MP_ERR(tutti_neighbor_alltoall(x, x, 1, TUTTI_FLOAT64, g, 0, job->world), -EINVAL);
	MP_SAID("tutti_neighbor_alltoall: sendbuf and recvbuf overlap");
	MP_ERR(tutti_ineighbor_allreduce(x, y, 4, TUTTI_FLOAT64, g, 0, job->world, NULL), -EINVAL);
	MP_SAID("tutti_ineighbor_allreduce: request is NULL");
	MP_ERR(tutti_ineighbor_alltoall(x, y, 4, TUTTI_FLOAT64, small, 0, job->world, &req),
	       -EINVAL);
	MP_SAID("tutti_ineighbor_alltoall: the graph has");
	MP_ERR(tutti_neighbor_allgather_init(x, NULL, 4, TUTTI_FLOAT64, g, 0, job->world, &req),
	       -EINVAL);
	MP_SAID("tutti_neighbor_allgather_init: recvbuf is NULL");
	TT_EXPECT(!req && y[0] == 5 && y[3] == 5);
	MP_OK(tutti_neighbor_allreduce(x, y, 4, TUTTI_FLOAT64, g, 0, job->world));
	TT_EXPECT(y[0] == 0);
	MP_OK(tutti_graph_free(g));
	MP_OK(tutti_graph_free(small));
	return 0;
}

/* arg: 0: rank 1 has another graph, 1: it is another step, 2: another call */
static int differ_body(struct mp_job *job)
{
	int how = *(int *)job->arg;
	bool odd = job->rank == 1;
	double x = 1, y[MAX_N];
	struct tutti_graph *g;
	int err;

	if (how == 0 && odd)
		MP_OK(tutti_graph_ring(job->n, &g));
	else
		MP_OK(how == 0 ? tutti_graph_exponential(job->n, &g)
			       : tutti_graph_one_peer(job->n, &g));
	if (how == 2 && odd)
		err = tutti_neighbor_allgather(&x, y, 1, TUTTI_FLOAT64, g, 0, job->world);
	else
		err = tutti_neighbor_allreduce(&x, y, 1, TUTTI_FLOAT64, g, how == 1 && odd,
					       job->world);
	if (!err) /* both neighbours of this rank called alike */
		err = tutti_barrier(job->world);
	MP_ERR(err, -TUTTI_EMISMATCH);
	if (how == 2)
		MP_SAID("neighbor_all");
	else
		MP_SAID("graph");
	MP_OK(tutti_graph_free(g));
	MP_OK(mp_leave_failed(job));
	return 0;
}

/* Rank 1 starts a persistent operation, the others make the blocking call. */
static int forms_body(struct mp_job *job)
{
	struct tutti_request *req = NULL;
	double x = 1, y = 0;
	struct tutti_graph *g;
	int err;

	MP_OK(tutti_graph_complete(job->n, &g));
	if (job->rank == 1) {
		MP_OK(tutti_neighbor_allreduce_init(&x, &y, 1, TUTTI_FLOAT64, g, 0, job->world,
						    &req));
		err = tutti_start(req);
		err = err ? err : tutti_wait(&req);
	} else {
		err = tutti_neighbor_allreduce(&x, &y, 1, TUTTI_FLOAT64, g, 0, job->world);
	}
	MP_ERR(err, -TUTTI_EMISMATCH);
	MP_SAID("disagree on form");
	MP_SAID("rank 1 called neighbor_allreduce init #1, start #1");
	if (req)
		MP_OK(tutti_request_free(req));
	MP_OK(tutti_graph_free(g));
	return mp_leave_failed(job);
}

/* The call of rank 1 is refused. arg: its next call is a barrier, else none. */
static int not_made_body(struct mp_job *job)
{
	bool next = *(bool *)job->arg;
	double x = 1, y = 0;
	struct tutti_graph *g;
	int err = 0;

	MP_OK(tutti_graph_complete(job->n, &g));
	if (job->rank == 1) {
		MP_ERR(tutti_neighbor_allreduce(NULL, &y, 1, TUTTI_FLOAT64, g, 0, job->world),
		       -EINVAL);
		err = next ? tutti_barrier(job->world) : 0;
	} else {
		err = tutti_neighbor_allreduce(&x, &y, 1, TUTTI_FLOAT64, g, 0, job->world);
	}
	if (next || job->rank != 1) {
		MP_ERR(err, next ? -TUTTI_EMISMATCH : -ETIMEDOUT);
		MP_SAID("(its neighbor_allreduce failed: Invalid argument)");
		MP_SAID("rank 1");
	}
	mp_meet(job);
	MP_OK(tutti_graph_free(g));
	return mp_leave_failed(job);
}

/* ---- deaths ---- */

#define BEFORE 20
#define AFTER 200

struct plan_of_death {
	enum kind kind;
	int victim;
	bool in_call; /* its neighbours are waiting for it */
	size_t count;
};

/* The mean over the living of the first element, by messages outside of the library. */
static double living_mean(struct mp_job *job, int victim, double mine, int slot)
{
	double *board = (double *)(void *)job->shared->gather, sum = 0;
	int r;

	board[slot * MAX_N + job->rank] = mine;
	atomic_fetch_add(&job->shared->word[slot], 1);
	if (!mp_await(&job->shared->word[slot], job->n - 1, 30000))
		return NAN;
	for (r = 0; r < job->n; r++)
		sum += r == victim ? 0 : board[slot * MAX_N + r];
	return sum / (job->n - 1);
}

/* Until this rank knows. */
static bool knows(struct mp_job *job)
{
	struct tutti_failed failed;
	double until = mp_now() + 20;
	int n = 0;

	while (!n && mp_now() < until) {
		if (tutti_comm_failed(job->world, &failed, 1, &n))
			return false;
		if (!n)
			mp_sleep_ms(1);
	}
	return n == 1;
}

static int steps(struct mp_job *job, const struct tutti_graph *g, double *x, size_t count,
		 int first, int n)
{
	int t;

	for (t = first; t < first + n; t++)
		MP_OK(tutti_neighbor_allreduce(TUTTI_IN_PLACE, x, count, TUTTI_FLOAT64, g,
					       (uint64_t)t, job->world));
	return 0;
}

static int death_body(struct mp_job *job)
{
	const struct plan_of_death *p = job->arg;
	double *x = calloc(p->count, sizeof(*x)), mean, last;
	struct tutti_graph *g;
	size_t i;

	TT_EXPECT(x != NULL);
	MP_OK(graph_of(p->kind, job->n, &g));
	for (i = 0; i < p->count; i++)
		x[i] = job->rank + 1;
	TT_EXPECT(!steps(job, g, x, p->count, 0, BEFORE));
	if (job->rank == p->victim) {
		if (p->in_call)
			mp_sleep_ms(30);
		kill(getpid(), SIGKILL);
	}
	if (p->in_call) /* a few steps while it dies: they must end, with no error */
		TT_EXPECT(!steps(job, g, x, p->count, BEFORE, 3));
	TT_EXPECT(knows(job));
	mean = living_mean(job, p->victim, x[0], 0);
	TT_EXPECT(!steps(job, g, x, p->count, BEFORE + 3, AFTER));
	last = living_mean(job, p->victim, x[0], 1);
	if (!(fabs(last - mean) < 1e-12 * job->n)) {
		fprintf(stderr, "rank %d: the mean was %.17g, is %.17g\n", job->rank, mean, last);
		return 1;
	}
	TT_EXPECT(fabs(x[0] - mean) < 1 && x[p->count - 1] > 0);
	MP_OK(tutti_graph_free(g));
	free(x);
	MP_OK(mp_leave_failed(job));
	return 0;
}

/* A gather without a dead neighbour: all other blocks are there, and the call says so. */
static int gather_death_body(struct mp_job *job)
{
	int32_t mine = job->rank + 10, got[2] = {-1, -1};
	int in[2], nin, i, err;
	struct tutti_graph *g;
	bool lost = false;

	MP_OK(tutti_graph_ring(job->n, &g));
	MP_OK(tutti_graph_in(g, 0, job->rank, in, 2, &nin));
	MP_OK(tutti_neighbor_allgather(&mine, got, 1, TUTTI_INT32, g, 0, job->world));
	if (job->rank == 1)
		kill(getpid(), SIGKILL);
	TT_EXPECT(knows(job));
	got[0] = got[1] = -1;
	err = tutti_neighbor_allgather(&mine, got, 1, TUTTI_INT32, g, 0, job->world);
	for (i = 0; i < 2; i++) {
		lost |= in[i] == 1;
		TT_EXPECT(got[i] == (in[i] == 1 ? -1 : in[i] + 10));
	}
	TT_EXPECT(err == (lost ? -TUTTI_EPEER : 0));
	if (lost)
		MP_SAID("rank 1");
	MP_OK(tutti_graph_free(g));
	MP_OK(mp_leave_failed(job));
	return 0;
}

static void deaths(const char *env, int hop)
{
	static const struct plan_of_death plans[] = {
		{RING, 3, true, 1},	{RING, 0, false, 40000}, {COMPLETE, 2, true, 40000},
		{STAR, 0, true, 100},	{TORUS, 5, true, 100},	 {REGULAR, 1, false, 1},
		{STAR, 4, true, 100000}};
	int i;

	for (i = 0; i < (int)(sizeof(plans) / sizeof(plans[0])); i += hop)
		TT_CHECK(!MP_RUN(.n = 6, .env = env, .fn = death_body,
				 .arg = (void *)(uintptr_t)&plans[i],
				 .killed = 1u << plans[i].victim, .timeout_ms = 60000));
	TT_CHECK(!MP_RUN(.n = 5, .env = env, .fn = gather_death_body, .killed = 1u << 1));
}

/* ---- the tests ---- */

static void all_values(const char *env, int most)
{
	int n;

	for (n = 1; n <= most; n += n < 3 ? 1 : 2 + n / 5) { /* 1, 2, 3, 5, 8 */
		TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = allreduce_body));
		TT_CHECK(!MP_RUN(.n = n, .env = env, .fn = blocks_body));
	}
	TT_CHECK(!MP_RUN(.n = 8, .env = env, .fn = persistent_body));
}

static void shm(void)
{
	all_values(SHM, 8);
}

static void shm_fault(void)
{
	all_values(FAULT, 4);
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	all_values(OFI, 4);
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	all_values(VERBS, 3);
}

static void rounds(void)
{
	TT_CHECK(!MP_RUN(.n = 8, .env = SHM, .fn = rounds_body, .timeout_ms = 120000));
	TT_CHECK(!MP_RUN(.n = 5, .env = SHM, .fn = rounds_body, .timeout_ms = 120000));
}

static void bytes(void)
{
	TT_CHECK(!MP_RUN(.n = 6, .env = SHM, .fn = bytes_body));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 4, .env = OFI, .fn = bytes_body));
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = refused_body));
}

static void differ(void)
{
	bool next = true;
	int how;

	for (how = 0; how < 3; how++)
		TT_CHECK(!MP_RUN(.n = 4, .env = SHM, .fn = differ_body, .arg = &how));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_TIMEOUT=3s", .fn = forms_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM, .fn = not_made_body, .arg = &next));
	next = false;
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM "TUTTI_TIMEOUT=1500ms TUTTI_LATE_AFTER=50ms",
			 .fn = not_made_body, .arg = &next));
}

static void deaths_shm(void)
{
	deaths(SHM "TUTTI_TOLERANT=1", 1);
}

static void deaths_ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	deaths(OFI "TUTTI_TOLERANT=1", 2);
}

static const struct tt_test tests[] = {{"shm", shm},
				       {"shm_fault", shm_fault},
				       {"ofi", ofi},
				       {"verbs", verbs},
				       {"rounds", rounds},
				       {"bytes", bytes},
				       {"refused", refused},
				       {"differ", differ},
				       {"deaths_shm", deaths_shm},
				       {"deaths_ofi", deaths_ofi},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("neighbors", tests, argc, argv);
}
