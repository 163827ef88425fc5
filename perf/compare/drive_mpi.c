/* SPDX-License-Identifier: BSD-3-Clause */
/* Any MPI: built by that MPI's mpicc, started by its mpirun. */
#include <mpi.h>

#include "perf/compare/drive.h"

static int allreduce(const float *in, float *out, size_t count)
{
	return MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int barrier(void)
{
	return MPI_Barrier(MPI_COMM_WORLD);
}

static int max(double *values, size_t count)
{
	return MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	struct peer peer = {.allreduce = allreduce, .barrier = barrier, .max = max};
	int status;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &peer.ranks);
	status = drive(&peer, argc, argv);
	if (status)
		MPI_Abort(MPI_COMM_WORLD, status);
	MPI_Finalize();
	return 0;
}
