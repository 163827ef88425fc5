/* SPDX-License-Identifier: BSD-3-Clause */
/* Any MPI: built by that MPI's mpicc, started by its mpirun. */
#include <mpi.h>
#include <stdlib.h>

#include "perf/compare/drive.h"

#define WORLD MPI_COMM_WORLD
#define F MPI_FLOAT

static MPI_Request requests[2 * DRIVE_WINDOW];
static int started;
static MPI_Win win;
static int locked;

static int call(enum drive_call call, const struct drive_args *a)
{
	int n = a ? (int)a->count : 0;

	switch (call) {
	case DRIVE_ALLREDUCE:
		return MPI_Allreduce(a->in, a->out, n, F, MPI_SUM, WORLD);
	case DRIVE_REDUCE:
		return MPI_Reduce(a->in, a->out, n, F, MPI_SUM, 0, WORLD);
	case DRIVE_REDUCE_SCATTER:
		return MPI_Reduce_scatter(a->in, a->out, a->icounts, F, MPI_SUM, WORLD);
	case DRIVE_REDUCE_SCATTER_BLOCK:
		return MPI_Reduce_scatter_block(a->in, a->out, n, F, MPI_SUM, WORLD);
	case DRIVE_SCAN:
		return MPI_Scan(a->in, a->out, n, F, MPI_SUM, WORLD);
	case DRIVE_EXSCAN:
		return MPI_Exscan(a->in, a->out, n, F, MPI_SUM, WORLD);
	case DRIVE_BCAST:
		return MPI_Bcast(a->out, n, F, 0, WORLD);
	case DRIVE_ALLGATHER:
		return MPI_Allgather(a->in, n, F, a->out, n, F, WORLD);
	case DRIVE_ALLGATHERV:
		return MPI_Allgatherv(a->in, n, F, a->out, a->icounts, a->idispls, F, WORLD);
	case DRIVE_ALLTOALL:
		return MPI_Alltoall(a->in, n, F, a->out, n, F, WORLD);
	case DRIVE_ALLTOALLV:
		return MPI_Alltoallv(a->in, a->icounts, a->idispls, F, a->out, a->icounts,
				     a->idispls, F, WORLD);
	case DRIVE_GATHER:
		return MPI_Gather(a->in, n, F, a->out, n, F, 0, WORLD);
	case DRIVE_SCATTER:
		return MPI_Scatter(a->in, n, F, a->out, n, F, 0, WORLD);
	default:
		return MPI_Barrier(WORLD);
	}
}

/* A barrier of messages, which no preloaded library makes: ranks leave it alike with and without.
 */
static int meet(void)
{
	int rank, size, step, err = 0;

	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_size(WORLD, &size);
	for (step = 1; step < size && !err; step *= 2)
		err = MPI_Sendrecv(NULL, 0, MPI_CHAR, (rank + step) % size, 2, NULL, 0, MPI_CHAR,
				   (rank + size - step) % size, 2, WORLD, MPI_STATUS_IGNORE);
	return err;
}

/* Where malloc puts long buffers depends on what a library has freed before. */
static void *alloc(size_t bytes)
{
	void *buf;

	return posix_memalign(&buf, 4096, bytes) ? NULL : buf;
}

static int maximum(double *values, size_t count)
{
	return MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE, MPI_MAX, WORLD);
}

static int send_one(const void *buf, size_t bytes, int rank)
{
	return MPI_Send(buf, (int)bytes, MPI_CHAR, rank, 1, WORLD);
}

static int recv_one(void *buf, size_t bytes, int rank)
{
	return MPI_Recv(buf, (int)bytes, MPI_CHAR, rank, 1, WORLD, MPI_STATUS_IGNORE);
}

static int isend(const void *buf, size_t bytes, int rank)
{
	return MPI_Isend(buf, (int)bytes, MPI_CHAR, rank, 1, WORLD, &requests[started++]);
}

static int irecv(void *buf, size_t bytes, int rank)
{
	return MPI_Irecv(buf, (int)bytes, MPI_CHAR, rank, 1, WORLD, &requests[started++]);
}

static int wait_all(void)
{
	int n = started;

	started = 0;
	return MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

/* As the OSU micro-benchmarks do by default: a window that the library allocates, flushes. */
static int expose(size_t bytes, int shared, int accumulates, void **base)
{
	int rank, err;

	(void)accumulates;
	MPI_Comm_rank(WORLD, &rank);
	locked = shared || !rank;
	err = MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, WORLD, (void *)base, &win);
	return err || !locked ? err : MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
}

static int put(const void *buf, size_t bytes)
{
	return MPI_Put(buf, (int)bytes, MPI_CHAR, 1, 0, (int)bytes, MPI_CHAR, win);
}

static int get(void *buf, size_t bytes)
{
	return MPI_Get(buf, (int)bytes, MPI_CHAR, 1, 0, (int)bytes, MPI_CHAR, win);
}

static int accumulate(const void *buf, size_t bytes)
{
	return MPI_Accumulate(buf, (int)(bytes / 4), MPI_UINT32_T, 1, 0, (int)(bytes / 4),
			      MPI_UINT32_T, MPI_SUM, win);
}

static int get_accumulate(const void *buf, void *old, size_t bytes)
{
	int n = (int)(bytes / 4);

	return MPI_Get_accumulate(buf, n, MPI_UINT32_T, old, n, MPI_UINT32_T, 1, 0, n, MPI_UINT32_T,
				  MPI_SUM, win);
}

static int fetch_add(uint64_t value, uint64_t *old)
{
	int err = MPI_Fetch_and_op(&value, old, MPI_UINT64_T, 1, 0, MPI_SUM, win);

	return err ? err : MPI_Win_flush(1, win);
}

static int compare_swap(uint64_t compare, uint64_t value, uint64_t *old)
{
	int err = MPI_Compare_and_swap(&value, &compare, old, MPI_UINT64_T, 1, 0, win);

	return err ? err : MPI_Win_flush(1, win);
}

static int flush(void)
{
	return MPI_Win_flush(1, win);
}

static int end_access(void)
{
	return locked ? MPI_Win_unlock(1, win) : 0;
}

static int conceal(void)
{
	return MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
	struct peer peer = {.call = call,
			    .calls = ~0u,
			    .max = maximum,
			    .send = send_one,
			    .recv = recv_one,
			    .isend = isend,
			    .irecv = irecv,
			    .wait = wait_all,
			    .expose = expose,
			    .put = put,
			    .get = get,
			    .accumulate = accumulate,
			    .get_accumulate = get_accumulate,
			    .fetch_add = fetch_add,
			    .compare_swap = compare_swap,
			    .flush = flush,
			    .close = end_access,
			    .conceal = conceal};
	int status;

	if (getenv("DRIVE_MEET")) { /* perf/preload */
		peer.meet = meet;
		peer.alloc = alloc;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &peer.rank);
	MPI_Comm_size(WORLD, &peer.ranks);
	status = drive(&peer, argc, argv);
	if (status)
		MPI_Abort(WORLD, status);
	MPI_Finalize();
	return 0;
}
