/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that pass on, have large counts or absolute addresses, and a first call that sets up
 * its communicator.
 */
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

/* A rank's own counts and offsets of a v form: i + 1 elements of rank i, with gaps of one. */
static MPI_Count list(MPI_Count *counts, MPI_Aint *displs)
{
	MPI_Aint at = 0;
	int i;

	for (i = 0; i < size; i++, at += i + 1) {
		counts[i] = i + 1;
		displs[i] = at;
	}
	return rank + 1;
}

static void check_list(const int *buf, const MPI_Aint *displs, const char *what)
{
	int i, k;

	for (i = 0; i < size; i++)
		for (k = 0; k <= i; k++)
			if (buf[displs[i] + k] != 10 * i + k) {
				fprintf(stderr, "rank %d: %s: element %d of rank %d\n", rank, what,
					k, i);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
}

/* With arrays of large counts: they pass on. */
static void run_large_lists(void)
{
	MPI_Count *counts = calloc(2 * (size_t)size, sizeof(*counts)), *sent = counts + size, mine;
	MPI_Aint *displs = calloc(2 * (size_t)size, sizeof(*displs)), *from = displs + size;
	size_t total = (size_t)size * (size_t)(size + 3) / 2, bytes = total * sizeof(int);
	int *all = calloc(total, sizeof(*all)), *back = calloc(total, sizeof(*back)), *own, i;

	EXPECT(counts && displs && all && back);
	mine = list(counts, displs);
	own = calloc((size_t)mine, sizeof(*own));
	EXPECT(own);
	for (i = 0; i < mine; i++)
		own[i] = 10 * rank + i;
	MPI_Allgatherv_c(own, mine, MPI_INT, all, counts, displs, MPI_INT, MPI_COMM_WORLD);
	check_list(all, displs, "allgatherv_c");
	MPI_Gatherv_c(own, mine, MPI_INT, back, counts, displs, MPI_INT, 0, MPI_COMM_WORLD);
	if (!rank)
		check_list(back, displs, "gatherv_c");
	memset(own, 0xff, (size_t)mine * sizeof(*own));
	MPI_Scatterv_c(all, counts, displs, MPI_INT, own, mine, MPI_INT, 0, MPI_COMM_WORLD);
	for (i = 0; i < mine; i++)
		EXPECT(own[i] == 10 * rank + i);
	memset(back, 0xff, bytes);
	for (i = 0; i < size; i++) { /* each rank sends its block to all */
		sent[i] = mine;
		from[i] = 0;
	}
	MPI_Alltoallv_c(own, sent, from, MPI_INT, back, counts, displs, MPI_INT, MPI_COMM_WORLD);
	check_list(back, displs, "alltoallv_c");
	free(own);
	free(all);
	free(back);
	free(displs);
	free(counts);
}
#endif

void test_others(void)
{
	run_nonblocking();
	run_neighbors();
#if MPI_VERSION >= 4
	run_persistent();
	run_large();
	run_large_lists();
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

/* An MPI_INT at an address, for MPI_BOTTOM. */
static MPI_Datatype absolute(const int *address)
{
	MPI_Datatype type;
	MPI_Aint at;

	MPI_Get_address(address, &at);
	MPI_Type_create_hindexed_block(1, 1, &at, MPI_INT, &type);
	MPI_Type_commit(&type);
	return type;
}

/* Rank 0 sends from, or receives into, blocks at an absolute address. */
static void run_bottom_of_root(int *all, MPI_Datatype type)
{
	int own = -1, i;

	for (i = 0; i < size; i++)
		all[i] = rank ? -1 : i + 5;
	if (rank)
		MPI_Bcast(all, size, MPI_INT, 0, MPI_COMM_WORLD);
	else
		MPI_Bcast(MPI_BOTTOM, size, type, 0, MPI_COMM_WORLD);
	for (i = 0; i < size; i++)
		EXPECT(all[i] == i + 5);
	MPI_Scatter(MPI_BOTTOM, 1, type, &own, 1, MPI_INT, 0, MPI_COMM_WORLD);
	EXPECT(own == rank + 5);
	memset(all, 0, (size_t)size * sizeof(*all));
	MPI_Gather(&own, 1, MPI_INT, MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD);
	for (i = 0; i < size && !rank; i++)
		EXPECT(all[i] == i + 5);
}

/* All ranks send from, or receive into, blocks at an absolute address. */
static void run_bottom_of_all(int *in, int *out, MPI_Datatype from, MPI_Datatype into)
{
	int *ones = calloc(2 * (size_t)size, sizeof(*ones)), *displs = ones + size, i;

	EXPECT(ones);
	for (i = 0; i < size; i++) {
		in[i] = rank;
		out[i] = -1;
		ones[i] = 1;
		displs[i] = size - 1 - i;
	}
	MPI_Allgather(MPI_BOTTOM, 1, from, out, 1, MPI_INT, MPI_COMM_WORLD);
	for (i = 0; i < size; i++)
		EXPECT(out[i] == i);
	MPI_Allgatherv(in, 1, MPI_INT, MPI_BOTTOM, ones, displs, into, MPI_COMM_WORLD);
	for (i = 0; i < size; i++)
		EXPECT(out[displs[i]] == i);
	MPI_Alltoall(MPI_BOTTOM, 1, from, MPI_BOTTOM, 1, into, MPI_COMM_WORLD);
	for (i = 0; i < size; i++)
		EXPECT(out[i] == i);
	free(ones);
}

void test_bottom(void)
{
	int *in = calloc(2 * (size_t)size, sizeof(*in)), *out = in + size;
	MPI_Datatype from, into;

	EXPECT(in);
	from = absolute(in);
	into = absolute(out);
	run_bottom_of_root(out, into);
	run_bottom_of_all(in, out, from, into);
	MPI_Type_free(&from);
	MPI_Type_free(&into);
	free(in);
}

/* Ranks that call MPI_NAME meet ranks that call PMPI_NAME, as functions of Fortran do. */
void test_names(void)
{
	int i, in, out;

	for (i = 0; i < 10; i++) {
		in = out = rank == i % size ? i : -1;
		if ((rank + i) % 2) {
			MPI_Barrier(MPI_COMM_WORLD);
			PMPI_Bcast(&in, 1, MPI_INT, i % size, MPI_COMM_WORLD);
			MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		} else {
			PMPI_Barrier(MPI_COMM_WORLD);
			MPI_Bcast(&in, 1, MPI_INT, i % size, MPI_COMM_WORLD);
			PMPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		}
		EXPECT(in == i && out == i * size);
	}
}

void test_files(void)
{
	int value = -1;
	MPI_File file;

	EXPECT(!MPI_File_open(MPI_COMM_WORLD, getenv("MPI_CASE_FILE"),
			      MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
	MPI_File_write_at_all(file, rank * (MPI_Offset)sizeof(int), &rank, 1, MPI_INT,
			      MPI_STATUS_IGNORE);
	MPI_File_sync(file);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_read_at_all(file, (size - 1 - rank) * (MPI_Offset)sizeof(int), &value, 1, MPI_INT,
			     MPI_STATUS_IGNORE);
	EXPECT(value == size - 1 - rank);
	MPI_File_close(&file);
}
