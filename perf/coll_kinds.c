/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives one by one. Blocks of a buffer have data of different seeds, so a misplaced
 * block is detected. Sizes and factors are those of nccl-tests (its doc/PERFORMANCE.md): the
 * minimum bytes on the wire for each byte of the size. A scan must bring every rank one vector.
 */
#include "perf/coll.h"

#include <errno.h>
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
};

static bool at_root(const struct perf_coll_job *job)
{
	return !job->kind->rooted || job->perf->rank == job->root;
}

#define TAG 7

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

static int call(const struct perf_coll_job *job)
{
	bool place = job->send == job->recv && at_root(job);
	struct tutti_comm *world = job->perf->world;
	size_t count = job->count;
	const void *in;
	void *out;

	if (job->coll == PERF_BARRIER)
		return tutti_barrier(world);
	in = place ? TUTTI_IN_PLACE : job->send->data;
	out = job->recv->data;
	switch (job->coll) {
	case PERF_BCAST:
		return tutti_bcast(out, count, job->datatype, job->root, world);
	case PERF_REDUCE:
		return tutti_reduce(in, out, count, job->datatype, job->op, job->root, world);
	case PERF_REDUCE_SCATTER:
		return tutti_reduce_scatter_block(in, out, count, job->datatype, job->op, world);
	case PERF_ALLGATHER:
		return tutti_allgather(in, out, count, job->datatype, world);
	case PERF_GATHER:
		return tutti_gather(in, out, count, job->datatype, job->root, world);
	case PERF_SCATTER:
		return tutti_scatter(job->send->data, place ? TUTTI_IN_PLACE : out, count,
				     job->datatype, job->root, world);
	case PERF_ALLTOALL:
		return tutti_alltoall(in, out, count, job->datatype, world);
	case PERF_SCAN:
		return tutti_scan(in, out, count, job->datatype, job->op, world);
	case PERF_SENDRECV:
		return ring_step(job);
	case PERF_HYPERCUBE:
		return hypercube(job);
	case PERF_EXSCAN:
		return tutti_exscan(in, out, count, job->datatype, job->op, world);
	default:
		return tutti_allreduce(in, out, count, job->datatype, job->op, world);
	}
}

int perf_coll_call(const struct perf_coll_job *job)
{
	int err = call(job);

	return err ? perf_call_failed(job->perf, job->kind->name, err) : 0;
}

/* ---- data ---- */

static size_t block_bytes(const struct perf_coll_job *job)
{
	return job->count * tutti_datatype_size(job->datatype);
}

/* Bytes of a buffer that has, or has not, a block for each rank; in place it is both. */
static size_t extent(const struct perf_coll_job *job, bool many)
{
	return many || job->send == job->recv ? job->bytes : block_bytes(job);
}

/* The data of block b, in seed. */
static void prepare(const struct perf_coll_job *job, uint64_t seed, int b)
{
	struct perf_oracle *oracle = job->oracle;

	oracle->seed = seed * 1000003 + (uint64_t)b;
	oracle->datatype = job->datatype;
	oracle->op =
		job->kind->reduces ? job->op : TUTTI_MAX; /* moved values: any that the type has */
}

/* This rank's input for block b. */
static const void *given(const struct perf_coll_job *job, uint64_t seed, int b)
{
	prepare(job, seed, b);
	perf_oracle_given(job->oracle, job->count, job->perf->rank);
	return job->oracle->input;
}

/* The expected block i of this rank's result. */
static const void *expected(const struct perf_coll_job *job, uint64_t seed, int i)
{
	int rank = job->perf->rank, last = job->perf->nranks - 1;

	if (job->coll == PERF_SENDRECV) {
		prepare(job, seed, 0);
		perf_oracle_given(job->oracle, job->count, rank ? rank - 1 : last);
		return job->oracle->input;
	}
	if (!job->kind->reduces) {
		prepare(job, seed, job->kind->sends ? rank : 0);
		perf_oracle_given(job->oracle, job->count, job->kind->recvs ? i : job->root);
		return job->oracle->input;
	}
	if (job->coll == PERF_SCAN)
		last = rank;
	if (job->coll == PERF_EXSCAN)
		last = rank - 1;
	prepare(job, seed, job->kind->sends ? rank : 0);
	perf_oracle_reduce(job->oracle, job->count, last);
	return job->oracle->expected;
}

/* The blocks of the input: where, and how many. */
static unsigned char *inputs(const struct perf_coll_job *job, int *n)
{
	unsigned char *at = job->send->data;

	*n = job->kind->sends ? job->perf->nranks : 1;
	if (job->coll == PERF_BCAST || job->coll == PERF_SCATTER)
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

	memset(job->send->data, 0xa5, extent(job, job->kind->sends));
	memset(job->recv->data, 0xa5, extent(job, job->kind->recvs));
	perf_guard_set(job->send, extent(job, job->kind->sends));
	perf_guard_set(job->recv, extent(job, job->kind->recvs));
	at = inputs(job, &n);
	for (b = 0; b < n; b++) {
		data = given(job, seed, b); /* works out the period, too */
		perf_repeat(at + (size_t)b * bytes, data, job->oracle->period, job->count, size);
	}
}

size_t perf_coll_wrong(const struct perf_coll_job *job, uint64_t seed)
{
	bool place = job->send == job->recv && at_root(job), scatter = job->coll == PERF_SCATTER;
	size_t size = tutti_datatype_size(job->datatype), bytes = block_bytes(job), wrong = 0;
	int i, n = job->kind->recvs ? job->perf->nranks : 1, rank = job->perf->rank;
	const unsigned char *at = job->recv->data;
	const void *want;

	if ((job->coll == PERF_EXSCAN && !rank) ||
	    ((job->coll == PERF_REDUCE || job->coll == PERF_GATHER) && !at_root(job)))
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

	n = perf_guard_violations(job->recv, extent(job, job->kind->recvs));
	if (job->send == job->recv)
		return n;
	n += perf_guard_violations(job->send, extent(job, job->kind->sends));
	at = inputs(job, &blocks);
	for (b = 0; b < blocks; b++) {
		data = given(job, seed, b);
		n += perf_count_wrong(at + (size_t)b * bytes, data, job->oracle->period, job->count,
				      size);
	}
	return n;
}
