/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives one by one. Blocks of a buffer have data of different seeds, so a misplaced
 * block is detected. Sizes and factors are those of nccl-tests (its doc/PERFORMANCE.md): the
 * minimum bytes on the wire for each byte of the size. A scan must bring every rank one vector.
 */
#include "perf/coll.h"

#include <string.h>

const struct perf_coll_kind perf_coll_kinds[PERF_COLLS] = {
	[PERF_ALLREDUCE] = {.name = "allreduce", .reduces = true, .busbw = 2, .scales = true},
	[PERF_BCAST] = {.name = "bcast", .places = PERF_IN_PLACE, .rooted = true, .busbw = 1},
	[PERF_BARRIER] = {.name = "barrier"},
	[PERF_REDUCE] = {.name = "reduce", .reduces = true, .rooted = true, .busbw = 1},
	[PERF_REDUCE_SCATTER] = {.name = "reduce_scatter",
				 .reduces = true,
				 .blocks = true,
				 .sends = true,
				 .busbw = 1,
				 .scales = true},
	[PERF_ALLGATHER] =
		{.name = "allgather", .blocks = true, .recvs = true, .busbw = 1, .scales = true},
	[PERF_GATHER] = {.name = "gather",
			 .rooted = true,
			 .blocks = true,
			 .recvs = true,
			 .busbw = 1,
			 .scales = true},
	[PERF_SCATTER] = {.name = "scatter",
			  .rooted = true,
			  .blocks = true,
			  .sends = true,
			  .busbw = 1,
			  .scales = true},
	[PERF_ALLTOALL] = {.name = "alltoall",
			   .blocks = true,
			   .sends = true,
			   .recvs = true,
			   .busbw = 1,
			   .scales = true},
	[PERF_SCAN] = {.name = "scan", .reduces = true, .busbw = 1},
	[PERF_EXSCAN] = {.name = "exscan", .reduces = true, .busbw = 1},
	[PERF_SENDRECV] = {.name = "sendrecv", .places = PERF_OUT_OF_PLACE, .busbw = 1},
	[PERF_HYPERCUBE] =
		{.name = "hypercube", .blocks = true, .recvs = true, .busbw = 1, .scales = true},
	[PERF_REDUCE_SCATTERV] = {.name = "reduce_scatterv",
				  .reduces = true,
				  .blocks = true,
				  .sends = true,
				  .busbw = 1,
				  .scales = true},
	[PERF_ALLGATHERV] =
		{.name = "allgatherv", .blocks = true, .recvs = true, .busbw = 1, .scales = true},
	[PERF_GATHERV] = {.name = "gatherv",
			  .rooted = true,
			  .blocks = true,
			  .recvs = true,
			  .busbw = 1,
			  .scales = true},
	[PERF_SCATTERV] = {.name = "scatterv",
			   .rooted = true,
			   .blocks = true,
			   .sends = true,
			   .busbw = 1,
			   .scales = true},
	[PERF_ALLTOALLV] = {.name = "alltoallv",
			    .blocks = true,
			    .sends = true,
			    .recvs = true,
			    .busbw = 1,
			    .scales = true},
	[PERF_NEIGHBOR_ALLREDUCE] = {.name = "neighbor_allreduce", .busbw = 1, .neighbors = true},
	[PERF_NEIGHBOR_ALLGATHER] = {.name = "neighbor_allgather",
				     .places = PERF_OUT_OF_PLACE,
				     .blocks = true,
				     .recvs = true,
				     .busbw = 1,
				     .neighbors = true},
	[PERF_NEIGHBOR_ALLTOALL] = {.name = "neighbor_alltoall",
				    .places = PERF_OUT_OF_PLACE,
				    .blocks = true,
				    .sends = true,
				    .recvs = true,
				    .busbw = 1,
				    .neighbors = true},
};

const char *const *perf_coll_names(void)
{
	static const char *names[PERF_NEIGHBOR_ALLREDUCE + 1];
	int i;

	for (i = 0; i < PERF_NEIGHBOR_ALLREDUCE; i++)
		names[i] = perf_coll_kinds[i].name;
	return names;
}

size_t perf_coll_width(const struct perf_coll_job *job)
{
	int peers = job->graph ? job->degree : job->perf->nranks;
	size_t width = tutti_datatype_size(job->datatype);

	return job->kind->blocks ? width * (size_t)peers : width;
}

void perf_coll_resize(struct perf_coll_job *job, size_t size, bool some)
{
	size_t width = perf_coll_width(job), i;

	job->count = size / width;
	if (some && !job->count && job->coll != PERF_BARRIER)
		job->count = 1;
	job->bytes = job->count * width;
	for (i = 0; i < (size_t)job->perf->nranks; i++)
		job->counts[i] = job->count;
}

static bool scatters(const struct perf_coll_job *job)
{
	return job->coll == PERF_SCATTER || job->coll == PERF_SCATTERV;
}

static bool gathers(const struct perf_coll_job *job)
{
	return job->coll == PERF_GATHER || job->coll == PERF_GATHERV;
}

static bool at_root(const struct perf_coll_job *job)
{
	return !job->kind->rooted || job->perf->rank == job->root;
}

/* ---- data ---- */

static size_t block_bytes(const struct perf_coll_job *job)
{
	return job->count * tutti_datatype_size(job->datatype);
}

/* Blocks that this rank sends, and those that it receives. */
static int outgoing(const struct perf_coll_job *job)
{
	if (!job->kind->sends)
		return 1;
	return job->graph ? job->nout : job->perf->nranks;
}

static int incoming(const struct perf_coll_job *job)
{
	if (!job->kind->recvs)
		return 1;
	return job->graph ? job->nin : job->perf->nranks;
}

/* Bytes of a buffer of so many blocks; in place it has as many as either side. */
static size_t extent(const struct perf_coll_job *job, int blocks)
{
	return job->send == job->recv ? job->bytes : (size_t)blocks * block_bytes(job);
}

void perf_coll_prepare(const struct perf_coll_job *job, uint64_t seed, int b)
{
	struct perf_oracle *oracle = job->oracle;

	oracle->seed = seed * 1000003 + (uint64_t)b;
	oracle->datatype = job->datatype;
	oracle->op =
		job->kind->reduces ? job->op : TUTTI_MAX; /* moved values: any that the type has */
}

/* This rank's input for its block b. */
static const void *given(const struct perf_coll_job *job, uint64_t seed, int b)
{
	perf_coll_prepare(job, seed, job->graph && job->kind->sends ? job->out[b] : b);
	perf_oracle_given(job->oracle, job->count, job->perf->rank);
	return job->oracle->input;
}

/* The expected block i of this rank's result. */
static const void *expected(const struct perf_coll_job *job, uint64_t seed, int i)
{
	int rank = job->perf->rank, last = job->perf->nranks - 1, from;

	if (job->coll == PERF_SENDRECV) {
		perf_coll_prepare(job, seed, 0);
		perf_oracle_given(job->oracle, job->count, rank ? rank - 1 : last);
		return job->oracle->input;
	}
	if (!job->kind->reduces) {
		perf_coll_prepare(job, seed, job->kind->sends ? rank : 0);
		from = job->kind->recvs ? i : job->root;
		perf_oracle_given(job->oracle, job->count, job->graph ? job->in[i] : from);
		return job->oracle->input;
	}
	if (job->coll == PERF_SCAN)
		last = rank;
	if (job->coll == PERF_EXSCAN)
		last = rank - 1;
	perf_coll_prepare(job, seed, job->kind->sends ? rank : 0);
	perf_oracle_reduce(job->oracle, job->count, last);
	return job->oracle->expected;
}

/* The blocks of the input: where, and how many. */
static unsigned char *inputs(const struct perf_coll_job *job, int *n)
{
	unsigned char *at = job->send->data;

	*n = outgoing(job);
	if (job->coll == PERF_BCAST || scatters(job))
		*n = at_root(job) ? *n : 0;
	if (job->send == job->recv && at_root(job) && job->kind->recvs && !job->kind->sends)
		at += (size_t)job->perf->rank * block_bytes(job); /* in place among the others */
	return at;
}

void perf_coll_fill(const struct perf_coll_job *job, uint64_t seed)
{
	size_t size = tutti_datatype_size(job->datatype), bytes = block_bytes(job);
	const void *data;
	unsigned char *at;
	int b, n;

	memset(job->send->data, 0xa5, extent(job, outgoing(job)));
	memset(job->recv->data, 0xa5, extent(job, incoming(job)));
	perf_guard_set(job->send, extent(job, outgoing(job)));
	perf_guard_set(job->recv, extent(job, incoming(job)));
	at = inputs(job, &n);
	for (b = 0; b < n; b++) {
		data = given(job, seed, b); /* works out the period, too */
		perf_repeat(at + (size_t)b * bytes, data, job->oracle->period, job->count, size);
	}
}

size_t perf_coll_wrong(const struct perf_coll_job *job, uint64_t seed)
{
	bool place = job->send == job->recv && at_root(job), scatter = scatters(job);
	size_t size = tutti_datatype_size(job->datatype), bytes = block_bytes(job), wrong = 0;
	int i, n = incoming(job), rank = job->perf->rank;
	const unsigned char *at = job->recv->data;
	const void *want;

	if (job->coll == PERF_NEIGHBOR_ALLREDUCE)
		return perf_neighbors_wrong(job, seed);
	if ((job->coll == PERF_EXSCAN && !rank) ||
	    ((job->coll == PERF_REDUCE || gathers(job)) && !at_root(job)))
		return 0;     /* no result here */
	if (scatter && place) /* stays where it is */
		at += (size_t)rank * bytes;
	for (i = 0; i < n; i++) {
		want = expected(job, seed, i);
		wrong += perf_count_wrong(at + (size_t)i * bytes, want, job->oracle->period,
					  job->count, size);
	}
	return wrong;
}

size_t perf_coll_violations(const struct perf_coll_job *job, uint64_t seed)
{
	size_t size = tutti_datatype_size(job->datatype), bytes = block_bytes(job), n;
	const unsigned char *at;
	const void *data;
	int b, blocks;

	n = perf_guard_violations(job->recv, extent(job, incoming(job)));
	if (job->send == job->recv)
		return n;
	n += perf_guard_violations(job->send, extent(job, outgoing(job)));
	at = inputs(job, &blocks);
	for (b = 0; b < blocks; b++) {
		data = given(job, seed, b);
		n += perf_count_wrong(at + (size_t)b * bytes, data, job->oracle->period, job->count,
				      size);
	}
	return n;
}
