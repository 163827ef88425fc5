/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that combine. Operator, datatype and count are the same at all ranks. */
#include <stdlib.h>
#include <string.h>

#include "mpi/preload.h"

/* The least elements with which the MPI refuses an MPI_Allreduce of one buffer to itself. */
#ifdef OPEN_MPI
#define LEAST_ALIASED 2
#else
#define LEAST_ALIASED 1
#endif

/* The communicator if the call is taken, which then has all but root and counts. */
static struct tm_comm *take(enum tm_coll coll, const void *sendbuf, void *recvbuf, int count,
			    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
			    struct tutti_call *call)
{
	struct tm_comm *c = tm_comm_of(comm);
	const struct tm_type *type;
	int code;

	if (!c->tutti) {
		tm_passed(coll, TM_COMM);
		return NULL;
	}
	type = tm_type_of(datatype);
	code = tm_op_of(op);
	if (!type || code < 0 || !(type->ops & 1u << code) || count <= 0 ||
	    (sendbuf == recvbuf && coll == TM_ALLREDUCE && count >= LEAST_ALIASED)) {
		tm_passed(coll, TM_KIND);
		return NULL;
	}
	if (!tm_takes(c, coll, (uint64_t)count * (uint64_t)type->bytes))
		return NULL;
	call->sendbuf = sendbuf == MPI_IN_PLACE ? TUTTI_IN_PLACE : sendbuf;
	call->recvbuf = recvbuf;
	call->count = (size_t)count;
	call->datatype = (enum tutti_datatype)type->tutti;
	call->op = (enum tutti_op)code;
	return c;
}

static int tm_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
			MPI_Op op, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_ALLREDUCE};
	struct tm_comm *c = take(TM_ALLREDUCE, sendbuf, recvbuf, count, datatype, op, comm, &call);

	return c ? tm_run(c, TM_ALLREDUCE, &call)
		 : tm_real.Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}
TM_ENTRY(Allreduce,
	 (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
	  MPI_Comm comm),
	 (sendbuf, recvbuf, count, datatype, op, comm))

static int tm_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
		     MPI_Op op, int root, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_REDUCE, .root = root};
	struct tm_comm *c = take(TM_REDUCE, sendbuf, recvbuf, count, datatype, op, comm, &call);

	if (!c || !tm_has_root(c, TM_REDUCE, root))
		return tm_real.Reduce(sendbuf, recvbuf, count, datatype, op, root, comm);
	if (c->rank != root)
		call.recvbuf = NULL;
	return tm_run(c, TM_REDUCE, &call);
}
TM_ENTRY(Reduce,
	 (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
	  MPI_Comm comm),
	 (sendbuf, recvbuf, count, datatype, op, root, comm))

static int tm_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int count,
				   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_REDUCE_SCATTER_BLOCK};
	struct tm_comm *c =
		take(TM_REDUCE_SCATTER_BLOCK, sendbuf, recvbuf, count, datatype, op, comm, &call);

	if (!c)
		return tm_real.Reduce_scatter_block(sendbuf, recvbuf, count, datatype, op, comm);
	return tm_run(c, TM_REDUCE_SCATTER_BLOCK, &call);
}
TM_ENTRY(Reduce_scatter_block,
	 (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
	  MPI_Comm comm),
	 (sendbuf, recvbuf, count, datatype, op, comm))

/* The mean block, rounded up; 0 if a count is negative or all are 0. */
static int mean_count(const int *counts, int n)
{
	int64_t sum = 0;
	int i;

	for (i = 0; i < n; i++) {
		if (counts[i] < 0)
			return 0;
		sum += counts[i];
	}
	return (int)((sum + n - 1) / n);
}

/*
 * Where some ranks get nothing, MPI lets only others be in place; tutti has one choice for all.
 * Then none is: input in recvbuf becomes a copy, and a rank that gets nothing passes the list of
 * counts as recvbuf. copy is NULL if there is none.
 */
static int set_buffers(struct tutti_call *call, int rank, int n, void **copy)
{
	void *recvbuf = call->recvbuf;
	size_t total = 0;
	bool some_empty = false;
	int i;

	*copy = NULL;
	for (i = 0; i < n; i++) {
		total += call->recvcounts[i];
		some_empty |= !call->recvcounts[i];
	}
	if (!call->recvcounts[rank])
		call->recvbuf = (void *)call->recvcounts;
	if (!some_empty || (call->sendbuf != TUTTI_IN_PLACE && call->sendbuf != recvbuf))
		return MPI_SUCCESS;
	total *= tutti_datatype_size(call->datatype);
	*copy = malloc(total);
	if (!*copy)
		return MPI_ERR_NO_MEM;
	call->sendbuf = memcpy(*copy, recvbuf, total);
	return MPI_SUCCESS;
}

static int tm_Reduce_scatter(const void *sendbuf, void *recvbuf, const int *counts,
			     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_REDUCE_SCATTER};
	int n = tm_comm_of(comm)->size, i, err;
	struct tm_comm *c = take(TM_REDUCE_SCATTER, sendbuf, recvbuf, n ? mean_count(counts, n) : 0,
				 datatype, op, comm, &call);
	size_t *list;
	void *copy;

	if (!c)
		return tm_real.Reduce_scatter(sendbuf, recvbuf, counts, datatype, op, comm);
	list = malloc((size_t)n * sizeof(*list));
	if (!list)
		return tm_fail(c, MPI_ERR_NO_MEM, "no memory for a reduce-scatter");
	for (i = 0; i < n; i++)
		list[i] = (size_t)counts[i];
	call.count = 0;
	call.recvcounts = list;
	err = set_buffers(&call, c->rank, n, &copy);
	err = err ? tm_fail(c, err, "no memory for a reduce-scatter")
		  : tm_run(c, TM_REDUCE_SCATTER, &call);
	free(copy);
	free(list);
	return err;
}
TM_ENTRY(Reduce_scatter,
	 (const void *sendbuf, void *recvbuf, const int *counts, MPI_Datatype datatype, MPI_Op op,
	  MPI_Comm comm),
	 (sendbuf, recvbuf, counts, datatype, op, comm))

/*
 * MPI lets each rank choose whether it is in place; tutti has one choice for all. Nobody receives
 * the result of rank 0 of an exclusive scan.
 */
static int run_scan(struct tm_comm *c, enum tm_coll coll, struct tutti_call *call)
{
	size_t len = call->count * tutti_datatype_size(call->datatype);
	bool in_place = call->sendbuf == TUTTI_IN_PLACE;
	bool unused = coll == TM_EXSCAN && !call->recvbuf && !c->rank;
	void *copy = NULL;
	int err;

	if (in_place || unused) {
		copy = malloc(len);
		if (!copy)
			return tm_fail(c, MPI_ERR_NO_MEM, "no memory for a scan");
		if (call->recvbuf)
			memcpy(copy, call->recvbuf, len);
	}
	if (in_place)
		call->sendbuf = copy;
	if (unused)
		call->recvbuf = copy;
	err = tm_run(c, coll, call);
	free(copy);
	return err;
}

static int tm_Scan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
		   MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_SCAN};
	struct tm_comm *c = take(TM_SCAN, sendbuf, recvbuf, count, datatype, op, comm, &call);

	return c ? run_scan(c, TM_SCAN, &call)
		 : tm_real.Scan(sendbuf, recvbuf, count, datatype, op, comm);
}
TM_ENTRY(Scan,
	 (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
	  MPI_Comm comm),
	 (sendbuf, recvbuf, count, datatype, op, comm))

static int tm_Exscan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
		     MPI_Op op, MPI_Comm comm)
{
	struct tutti_call call = {.coll = TUTTI_COLL_EXSCAN};
	struct tm_comm *c = take(TM_EXSCAN, sendbuf, recvbuf, count, datatype, op, comm, &call);

	return c ? run_scan(c, TM_EXSCAN, &call)
		 : tm_real.Exscan(sendbuf, recvbuf, count, datatype, op, comm);
}
TM_ENTRY(Exscan,
	 (const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
	  MPI_Comm comm),
	 (sendbuf, recvbuf, count, datatype, op, comm))
