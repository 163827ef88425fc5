/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of the collectives, blocking and nonblocking. The v forms have the same count for each
 * rank, so that their data and results are those of the other forms.
 */
#include "perf/coll.h"

#include <errno.h>
#include <string.h>

#define TAG 7

/* The arguments of a call. */
struct args {
	const void *in;
	void *out;
	const void *send; /* as in, but never TUTTI_IN_PLACE: the root of a scatter */
	void *into;	  /* where a scatter goes to */
	size_t count;
	const size_t *counts;
	enum tutti_datatype type;
	enum tutti_op op;
	int root;
	struct tutti_comm *world;
};

static struct args args_of(const struct perf_coll_job *job)
{
	bool place = job->send == job->recv && (!job->kind->rooted || job->perf->rank == job->root);

	return (struct args){.in = place ? TUTTI_IN_PLACE : job->send->data,
			     .out = job->recv->data,
			     .send = job->send->data,
			     .into = place ? TUTTI_IN_PLACE : job->recv->data,
			     .count = job->count,
			     .counts = job->counts,
			     .type = job->datatype,
			     .op = job->op,
			     .root = job->root,
			     .world = job->perf->world};
}

/* To the next rank, from the one before. */
static int ring_step(const struct perf_coll_job *job)
{
	int rank = job->perf->rank, n = job->perf->nranks;

	return tutti_sendrecv(job->send->data, job->count, job->datatype, (rank + 1) % n, TAG,
			      job->recv->data, job->count, job->datatype, (rank + n - 1) % n, TAG,
			      job->perf->world, NULL);
}

/* All-gather for a power of two: in each dimension two ranks swap all the blocks that they have. */
static int hypercube(const struct perf_coll_job *job)
{
	size_t bytes = job->count * tutti_datatype_size(job->datatype);
	int rank = job->perf->rank, n = job->perf->nranks, have, mine, its, err = 0;
	char *to = (char *)job->recv->data;

	if (n & (n - 1)) {
		perf_print(job->perf, "hypercube needs a power of two of ranks, not %d\n", n);
		return -EINVAL;
	}
	if (job->send != job->recv && bytes)
		memcpy(to + (size_t)rank * bytes, job->send->data, bytes);
	for (have = 1; have < n && !err; have *= 2) {
		mine = rank & ~(have - 1);
		its = mine ^ have;
		err = tutti_sendrecv(to + (size_t)mine * bytes, (size_t)have * job->count,
				     job->datatype, rank ^ have, TAG, to + (size_t)its * bytes,
				     (size_t)have * job->count, job->datatype, rank ^ have, TAG,
				     job->perf->world, NULL);
	}
	return err;
}

/* --codec */
static int coded(const struct perf_coll_job *job, const struct args *a)
{
	const struct tutti_call call = {.size = sizeof(call),
					.coll = TUTTI_COLL_ALLREDUCE,
					.sendbuf = a->in,
					.recvbuf = a->out,
					.count = a->count,
					.datatype = a->type,
					.op = a->op,
					.codec = job->codec,
					.feedback = job->feedback};

	return tutti_call(a->world, &call, NULL);
}

static int call_v(enum perf_coll coll, const struct args *a)
{
	switch (coll) {
	case PERF_REDUCE_SCATTERV:
		return tutti_reduce_scatter(a->in, a->out, a->counts, a->type, a->op, a->world);
	case PERF_ALLGATHERV:
		return tutti_allgatherv(a->in, a->count, a->out, a->counts, NULL, a->type,
					a->world);
	case PERF_GATHERV:
		return tutti_gatherv(a->in, a->count, a->out, a->counts, NULL, a->type, a->root,
				     a->world);
	case PERF_SCATTERV:
		return tutti_scatterv(a->send, a->counts, NULL, a->into, a->count, a->type, a->root,
				      a->world);
	default:
		return tutti_alltoallv(a->in, a->counts, NULL, a->out, a->counts, NULL, a->type,
				       a->world);
	}
}

static int call_neighbors(const struct perf_coll_job *job, const struct args *a)
{
	switch (job->coll) {
	case PERF_NEIGHBOR_ALLREDUCE:
		return tutti_neighbor_allreduce(a->in, a->out, a->count, a->type, job->graph,
						job->step, a->world);
	case PERF_NEIGHBOR_ALLGATHER:
		return tutti_neighbor_allgather(a->in, a->out, a->count, a->type, job->graph,
						job->step, a->world);
	default:
		return tutti_neighbor_alltoall(a->in, a->out, a->count, a->type, job->graph,
					       job->step, a->world);
	}
}

static int call(const struct perf_coll_job *job)
{
	struct args a;

	if (job->coll == PERF_BARRIER)
		return tutti_barrier(job->perf->world);
	a = args_of(job);
	switch (job->coll) {
	case PERF_ALLREDUCE:
		return job->codec ? coded(job, &a)
				  : tutti_allreduce(a.in, a.out, a.count, a.type, a.op, a.world);
	case PERF_BCAST:
		return tutti_bcast(a.out, a.count, a.type, a.root, a.world);
	case PERF_REDUCE:
		return tutti_reduce(a.in, a.out, a.count, a.type, a.op, a.root, a.world);
	case PERF_REDUCE_SCATTER:
		return tutti_reduce_scatter_block(a.in, a.out, a.count, a.type, a.op, a.world);
	case PERF_ALLGATHER:
		return tutti_allgather(a.in, a.out, a.count, a.type, a.world);
	case PERF_GATHER:
		return tutti_gather(a.in, a.out, a.count, a.type, a.root, a.world);
	case PERF_SCATTER:
		return tutti_scatter(a.send, a.into, a.count, a.type, a.root, a.world);
	case PERF_ALLTOALL:
		return tutti_alltoall(a.in, a.out, a.count, a.type, a.world);
	case PERF_SCAN:
		return tutti_scan(a.in, a.out, a.count, a.type, a.op, a.world);
	case PERF_EXSCAN:
		return tutti_exscan(a.in, a.out, a.count, a.type, a.op, a.world);
	case PERF_SENDRECV:
		return ring_step(job);
	case PERF_HYPERCUBE:
		return hypercube(job);
	default:
		return job->graph ? call_neighbors(job, &a) : call_v(job->coll, &a);
	}
}

int perf_coll_call(const struct perf_coll_job *job)
{
	int err = call(job);

	return err ? perf_call_failed(job->perf, job->kind->name, err) : 0;
}

/* ---- nonblocking ---- */

bool perf_coll_has_start(enum perf_coll coll)
{
	return coll < PERF_NEIGHBOR_ALLREDUCE && coll != PERF_SENDRECV && coll != PERF_HYPERCUBE;
}

static int start_v(enum perf_coll coll, const struct args *a, struct tutti_request **req)
{
	switch (coll) {
	case PERF_REDUCE_SCATTERV:
		return tutti_ireduce_scatter(a->in, a->out, a->counts, a->type, a->op, a->world,
					     req);
	case PERF_ALLGATHERV:
		return tutti_iallgatherv(a->in, a->count, a->out, a->counts, NULL, a->type,
					 a->world, req);
	case PERF_GATHERV:
		return tutti_igatherv(a->in, a->count, a->out, a->counts, NULL, a->type, a->root,
				      a->world, req);
	case PERF_SCATTERV:
		return tutti_iscatterv(a->send, a->counts, NULL, a->into, a->count, a->type,
				       a->root, a->world, req);
	default:
		return tutti_ialltoallv(a->in, a->counts, NULL, a->out, a->counts, NULL, a->type,
					a->world, req);
	}
}

static int start(const struct perf_coll_job *job, struct tutti_request **req)
{
	struct args a;

	if (job->coll == PERF_BARRIER)
		return tutti_ibarrier(job->perf->world, req);
	a = args_of(job);
	switch (job->coll) {
	case PERF_ALLREDUCE:
		return tutti_iallreduce(a.in, a.out, a.count, a.type, a.op, a.world, req);
	case PERF_BCAST:
		return tutti_ibcast(a.out, a.count, a.type, a.root, a.world, req);
	case PERF_REDUCE:
		return tutti_ireduce(a.in, a.out, a.count, a.type, a.op, a.root, a.world, req);
	case PERF_REDUCE_SCATTER:
		return tutti_ireduce_scatter_block(a.in, a.out, a.count, a.type, a.op, a.world,
						   req);
	case PERF_ALLGATHER:
		return tutti_iallgather(a.in, a.out, a.count, a.type, a.world, req);
	case PERF_GATHER:
		return tutti_igather(a.in, a.out, a.count, a.type, a.root, a.world, req);
	case PERF_SCATTER:
		return tutti_iscatter(a.send, a.into, a.count, a.type, a.root, a.world, req);
	case PERF_ALLTOALL:
		return tutti_ialltoall(a.in, a.out, a.count, a.type, a.world, req);
	case PERF_SCAN:
		return tutti_iscan(a.in, a.out, a.count, a.type, a.op, a.world, req);
	case PERF_EXSCAN:
		return tutti_iexscan(a.in, a.out, a.count, a.type, a.op, a.world, req);
	default:
		return start_v(job->coll, &a, req);
	}
}

int perf_coll_start(const struct perf_coll_job *job, struct tutti_request **req)
{
	int err = start(job, req);

	return err ? perf_call_failed(job->perf, job->kind->name, err) : 0;
}

int perf_coll_wait(const struct perf_coll_job *job, struct tutti_request **req)
{
	int err = tutti_wait(req);

	return err ? perf_call_failed(job->perf, "wait", err) : 0;
}
