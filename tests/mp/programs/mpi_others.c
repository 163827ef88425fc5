/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that pass on or have large counts, and a first call that sets up its communicator. */
#include <unistd.h>

#include "tests/mp/programs/mpi_cases.h"

#define SUM (size * (size - 1) / 2)

static void run_nonblocking(void)
{
	MPI_Request request[2];
	MPI_Status status[2];
	int in = rank, out = -1;

	MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request[0]);
	MPI_Ibarrier(MPI_COMM_WORLD, &request[1]);
	MPI_Waitall(2, request, status);
	EXPECT(out == SUM);
	in = rank ? -1 : 77;
	MPI_Ibcast(&in, 1, MPI_INT, 0, MPI_COMM_WORLD, &request[0]);
	MPI_Wait(&request[0], MPI_STATUS_IGNORE);
	EXPECT(in == 77);
}

/* The neighbors of a ring; an MPI_Alltoallw of one element. */
static void run_neighbors(void)
{
	int *counts = calloc(4 * (size_t)size, sizeof(*counts)), *displs = counts + size;
	int *in = displs + size, *out = in + size, period = 1, from[2] = {-1, -1}, i;
	MPI_Datatype *types = calloc((size_t)size, sizeof(MPI_Datatype));
	MPI_Comm ring;

	EXPECT(counts && types);
	for (i = 0; i < size; i++) {
		counts[i] = 1;
		displs[i] = i * (int)sizeof(int);
		types[i] = MPI_INT;
		in[i] = rank * 100 + i;
	}
	MPI_Alltoallw(in, counts, displs, types, out, counts, displs, types, MPI_COMM_WORLD);
	for (i = 0; i < size; i++)
		EXPECT(out[i] == i * 100 + rank);
	MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &period, 0, &ring);
	MPI_Neighbor_allgather(&rank, 1, MPI_INT, from, 1, MPI_INT, ring);
	EXPECT(from[0] == (rank + size - 1) % size && from[1] == (rank + 1) % size);
	MPI_Comm_free(&ring);
	free(types);
	free(counts);
}

#if MPI_VERSION >= 4
static void run_persistent(void)
{
	MPI_Request request;
	int in = rank, out = -1, i;

	MPI_Allreduce_init(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	for (i = 0; i < 3; i++) {
		out = -1;
		MPI_Start(&request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		EXPECT(out == SUM);
	}
	MPI_Request_free(&request);
}

/* Small counts are taken; what MPI does not look at may be anything. */
static void run_large(void)
{
	int *all = calloc((size_t)size, sizeof(*all)), out = -1, i;
	MPI_Count wild = rank ? (MPI_Count)1 << 40 : 1;
	MPI_Count *counts = calloc((size_t)size, sizeof(*counts));

	EXPECT(all && counts);
	MPI_Allreduce_c(&rank, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	EXPECT(out == SUM);
	out = rank ? -1 : 5;
	MPI_Bcast_c(&out, 1, MPI_INT, 0, MPI_COMM_WORLD);
	EXPECT(out == 5);
	MPI_Gather_c(&rank, 1, MPI_INT, all, wild, MPI_INT, 0, MPI_COMM_WORLD);
	for (i = 0; i < size && !rank; i++)
		EXPECT(all[i] == i);
	MPI_Scatter_c(all, wild, MPI_INT, &out, 1, MPI_INT, 0, MPI_COMM_WORLD);
	EXPECT(out == rank);
	MPI_Allgather_c(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
	for (i = 0; i < size; i++) {
		EXPECT(all[i] == i);
		counts[i] = 1;
	}
	MPI_Reduce_scatter_c(all, &out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	EXPECT(out == rank * size);
	free(counts);
	free(all);
}
#endif

void test_others(void)
{
	run_nonblocking();
	run_neighbors();
#if MPI_VERSION >= 4
	run_persistent();
	run_large();
#endif
}

/*
 * A rank waits in the first taken call of a communicator, which sets it up, for one that waits for
 * its message, directly or through a rank that is no member.
 */
void test_first(void)
{
	int n = 1 << 20, i, sum, one = 1, through = size > 2 ? 2 : 1;
	char *data = calloc(1, (size_t)n);
	MPI_Request request;
	MPI_Comm comm;

	EXPECT(data);
	for (i = 0; i < 3; i++) {
		MPI_Comm_split(MPI_COMM_WORLD, rank > 1, rank, &comm);
		if (rank == 0) {
			memset(data, i + 1, (size_t)n);
			MPI_Isend(data, n, MPI_BYTE, through, 0, MPI_COMM_WORLD, &request);
		} else if (rank == through) {
			usleep(50000); /* rank 0 is in the collective, most of the time */
			MPI_Recv(data, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			EXPECT(data[n - 1] == i + 1);
		}
		if (through == 2 && rank == 2)
			MPI_Send(&one, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
		if (through == 2 && rank == 1)
			MPI_Recv(&one, 1, MPI_INT, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank < 2) {
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
			EXPECT(sum == 2);
		}
		if (rank == 0)
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		MPI_Comm_free(&comm);
	}
	free(data);
}
