/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti inside an MPI program, whose ranks have no TUTTI_ variables. They find each other in one of
 * two ways:
 *
 *	mpirun -n 4 mpi_unique_id		rank 0 makes an id, MPI_Bcast hands it round
 *	mpirun -n 4 mpi_unique_id allgather	tutti is given MPI_Allgather and needs no id
 *
 * Build: mpicc mpi_unique_id.c -o mpi_unique_id $(pkg-config --cflags --libs tutti)
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

static int mpi_allgather(const void *send, void *recv, size_t len, void *arg)
{
	MPI_Comm *comm = arg;

	return MPI_Allgather(send, (int)len, MPI_BYTE, recv, (int)len, MPI_BYTE, *comm) !=
	       MPI_SUCCESS;
}

/* Fill in how the ranks of MPI become the ranks of tutti. */
static int configure(struct tutti_config *config, struct tutti_unique_id *id, MPI_Comm *comm,
		     int with_allgather)
{
	int err = 0;

	memset(config, 0, sizeof(*config));
	config->size = sizeof(*config);
	MPI_Comm_rank(*comm, &config->rank);
	MPI_Comm_size(*comm, &config->nranks);
	if (with_allgather) {
		config->allgather = mpi_allgather;
		config->allgather_arg = comm;
		return 0;
	}
	if (config->rank == 0)
		err = tutti_unique_id_get(id);
	MPI_Bcast(&err, 1, MPI_INT, 0, *comm);
	MPI_Bcast(id, sizeof(*id), MPI_BYTE, 0, *comm);
	config->id = id;
	return err;
}

/* The ranks from 1 on add up to n * (n + 1) / 2. */
static int sum_of_ranks(struct tutti_comm *world)
{
	int n = tutti_comm_size(world), err;
	int64_t sum = tutti_comm_rank(world) + 1;

	err = tutti_allreduce(TUTTI_IN_PLACE, &sum, 1, TUTTI_INT64, TUTTI_SUM, world);
	if (err) {
		tutti_comm_perror(world, "adding up ranks");
		return 1;
	}
	printf("rank %d of %d: the sum is %lld\n", tutti_comm_rank(world), n, (long long)sum);
	return sum != (int64_t)n * (n + 1) / 2;
}

int main(int argc, char **argv)
{
	MPI_Comm comm = MPI_COMM_WORLD;
	struct tutti_context *ctx;
	struct tutti_config config;
	struct tutti_unique_id id;
	int err, wrong;

	MPI_Init(&argc, &argv);
	err = configure(&config, &id, &comm, argc > 1 && !strcmp(argv[1], "allgather"));
	if (!err)
		err = tutti_init(&config, &ctx);
	if (err) {
		fprintf(stderr, "tutti: rank %d: %s\n", config.rank, tutti_strerror(err));
		MPI_Abort(comm, 1);
	}
	wrong = sum_of_ranks(tutti_world(ctx));
	err = tutti_finalize(ctx);
	MPI_Finalize();
	return wrong || err;
}
