/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program for preload.sh, which runs it with and without a preloaded library:
 *
 *	mpi_colls CASE
 */
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/mp/programs/mpi_cases.h"

int rank, size;

/* The world, the world backwards, every second rank, and a copy of the world. */
static void each_comm(void (*test)(MPI_Comm))
{
	MPI_Comm comms[3];
	int i;

	test(MPI_COMM_WORLD);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[0]);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[1]);
	MPI_Comm_dup(comms[0], &comms[2]);
	for (i = 0; i < 3; i++)
		test(comms[i]);
	for (i = 0; i < 3; i++)
		MPI_Comm_free(&comms[(i + rank) % 3]); /* in any order */
}

static void reductions(void)
{
	test_reductions(MPI_COMM_WORLD);
}

static void moves(void)
{
	each_comm(test_moves);
}

static void v_forms(void)
{
	each_comm(test_v_forms);
}

/* A rank waits in a collective for one that waits for its message. */
static void hang(void)
{
	int n = 1 << 20, i, sum, one = 1;
	char *data = calloc(1, (size_t)n);
	MPI_Request request;

	EXPECT(data);
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = 0; i < 5; i++) {
		if (rank == 0) {
			memset(data, i, (size_t)n);
			MPI_Isend(data, n, MPI_BYTE, size - 1, 0, MPI_COMM_WORLD, &request);
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		} else {
			usleep(50000); /* rank 0 is in the collective, most of the time */
			if (rank == size - 1)
				MPI_Recv(data, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
					 MPI_STATUS_IGNORE);
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
			EXPECT(rank != size - 1 || data[n - 1] == i);
		}
		EXPECT(sum == size);
	}
	free(data);
}

static int threads_now(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = 0;

	EXPECT(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Many communicators, freed while other ranks may still be in their last call. */
static void comms(void)
{
	int i, sum, value, before = 0;

	for (i = 0; i < 60; i++) {
		MPI_Comm first, second;

		MPI_Comm_dup(MPI_COMM_WORLD, &first);
		MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &second);
		value = rank + i;
		MPI_Bcast(&value, 1, MPI_INT, i % size, first);
		EXPECT(value == i % size + i);
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, second);
		EXPECT(sum == (size - 1) - (size - 1 - rank) % 2);
		MPI_Comm_free(i % 2 ? &first : &second);
		MPI_Comm_free(i % 2 ? &second : &first);
		before = i ? before : threads_now();
	}
	EXPECT(threads_now() <= before);
}

static int sum_in_callback(MPI_Comm comm, int key, void *value, void *extra)
{
	int one = 1, sum = 0, n;

	MPI_Comm_size(comm, &n);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
	EXPECT(sum == n);
	return MPI_SUCCESS;
}

/* Delete callbacks make calls on a communicator whose handle then is that of another one. */
static void callbacks(void)
{
	int key, i, k, n, sum;
	MPI_Comm freed, next[4];

	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, sum_in_callback, &key, NULL);
	/* set up never, after the attribute, before it, and disconnected */
	for (i = 0; i < 4; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &freed);
		if (i >= 2)
			MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, freed);
		MPI_Comm_set_attr(freed, key, NULL);
		if (i == 1)
			MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, freed);
		(i == 3 ? MPI_Comm_disconnect : MPI_Comm_free)(&freed);
		for (k = 0; k < 4; k++) {
			MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1, -rank, &next[k]);
			MPI_Comm_size(next[k], &n);
			sum = 0;
			MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, next[k]);
			EXPECT(sum == n);
		}
		for (k = 0; k < 4; k++)
			MPI_Comm_free(&next[k]);
	}
	MPI_Comm_free_keyval(&key);
}

/* Blocks of lengths that MPICH's default table takes, leaves out, and takes again. */
static void lengths(void)
{
	static const int bytes[] = {512, 4096, 65536};
	char *all = calloc((size_t)size, 65536), *own = malloc(65536);
	size_t i;
	int r;

	EXPECT(all && own);
	for (i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		for (r = 0; r < size; r++)
			memset(all + r * bytes[i], rank ? 0 : r + 1, (size_t)bytes[i]);
		MPI_Scatter(all, bytes[i], MPI_BYTE, own, bytes[i], MPI_BYTE, 0, MPI_COMM_WORLD);
		EXPECT(own[0] == rank + 1 && own[bytes[i] - 1] == rank + 1);
	}
	free(all);
	free(own);
}

/* Inter-communicators, derived operators and datatypes of reductions pass on. */
static void twice(void *in, void *inout, int *len, MPI_Datatype *type)
{
	int i;

	for (i = 0; i < *len; i++)
		((int *)inout)[i] =
			((int *)in)[i] > ((int *)inout)[i] ? ((int *)in)[i] : ((int *)inout)[i];
}

static void passed(void)
{
	MPI_Comm half, inter;
	MPI_Request request;
	MPI_Op op;
	int in = rank, out = -1, sum;

	MPI_Op_create(twice, 1, &op);
	MPI_Allreduce(&in, &out, 1, MPI_INT, op, MPI_COMM_WORLD);
	EXPECT(out == size - 1);
	MPI_Op_free(&op);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &inter);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, inter);
	EXPECT(sum % 2 != rank % 2);
	MPI_Barrier(inter);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
	/* a nonblocking one is under way beside those that are taken */
	MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
	MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	EXPECT(sum == size * (size - 1) / 2 && out == sum);
	MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	EXPECT(out == rank);
}

/* Each thread has a communicator of its own. */
static void *in_thread(void *arg)
{
	MPI_Comm comm = *(MPI_Comm *)arg;
	int i, sum, buf[3000];

	for (i = 0; i < 300; i++) {
		MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, comm);
		EXPECT(sum == i * size);
		buf[2999] = rank == i % size ? i : -1;
		MPI_Bcast(buf, 3000, MPI_INT, i % size, comm);
		EXPECT(buf[2999] == i);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[3];
	MPI_Comm comm[3];
	int i;

	for (i = 0; i < 3; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
	for (i = 0; i < 3; i++)
		EXPECT(!pthread_create(&thread[i], NULL, in_thread, &comm[i]));
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	for (i = 2; i >= 0; i--)
		MPI_Comm_free(&comm[i]);
}

/* The datatype of one side is not committed; MPI_Gather and MPI_Scatter: the side of all ranks. */
static void uncommitted(void)
{
	int *in = calloc(4 * (size_t)size, sizeof(*in)),
	    *out = calloc(4 * (size_t)size, sizeof(*out));
	int *counts = calloc(2 * (size_t)size, sizeof(*counts)), *displs = counts + size, i;
	MPI_Datatype gaps;

	EXPECT(in && out && counts);
	for (i = 0; i < size; i++) {
		counts[i] = 2;
		displs[i] = 2 * i;
	}
	MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
	EXPECT(MPI_Bcast(in, 1, gaps, 0, MPI_COMM_WORLD));
	EXPECT(MPI_Gather(in, 1, gaps, rank ? NULL : out, 2, MPI_INT, 0, MPI_COMM_WORLD));
	EXPECT(MPI_Allgather(in, 1, gaps, out, 2, MPI_INT, MPI_COMM_WORLD));
	EXPECT(MPI_Alltoall(in, 1, gaps, out, 2, MPI_INT, MPI_COMM_WORLD));
	EXPECT(MPI_Gatherv(in, 1, gaps, out, counts, displs, MPI_INT, 0, MPI_COMM_WORLD));
	EXPECT(MPI_Allgatherv(in, 1, gaps, out, counts, displs, MPI_INT, MPI_COMM_WORLD));
#ifndef OPEN_MPI /* which crashes */
	EXPECT(MPI_Scatter(in, 2, MPI_INT, out, 1, gaps, 0, MPI_COMM_WORLD));
	EXPECT(MPI_Scatterv(in, counts, displs, MPI_INT, out, 1, gaps, 0, MPI_COMM_WORLD));
	EXPECT(MPI_Alltoall(in, 2, MPI_INT, out, 1, gaps, MPI_COMM_WORLD));
#endif
	counts[0] = -1;
	EXPECT(MPI_Alltoallv(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT,
			     MPI_COMM_WORLD));
	MPI_Type_free(&gaps);
	free(in);
	free(out);
	free(counts);
}

/* Calls that MPI refuses are refused as without the library. */
static void errors(void)
{
	int value = 1, two[2] = {1, 1}, out, class;

	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Error_class(MPI_Bcast(&value, 1, MPI_INT, size, MPI_COMM_WORLD), &class);
	EXPECT(class == MPI_ERR_ROOT);
	MPI_Error_class(MPI_Bcast(&value, -1, MPI_INT, 0, MPI_COMM_WORLD), &class);
	EXPECT(class == MPI_ERR_COUNT);
	MPI_Error_class(MPI_Allreduce(&value, &out, 1, MPI_FLOAT, MPI_BAND, MPI_COMM_WORLD),
			&class);
	EXPECT(class == MPI_ERR_OP);
	MPI_Error_class(MPI_Barrier(MPI_COMM_NULL), &class);
	EXPECT(class == MPI_ERR_COMM);
	EXPECT(MPI_Allreduce(two, two, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
	uncommitted();
	MPI_Allreduce(&value, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	EXPECT(out == size);
}

/* A copy of the world that returns errors. */
static MPI_Comm returning(void)
{
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	EXPECT(!MPI_Barrier(comm));
	return comm;
}

/* Only the root of a gatherv knows that a count is wrong. */
static void negative_count(void)
{
	int *counts = calloc(3 * (size_t)size, sizeof(*counts)), *displs = counts + size, class;
	MPI_Comm comm = returning();

	EXPECT(counts);
	counts[0] = 1;
	counts[size - 1] = -1;
	MPI_Error_class(
		MPI_Gatherv(&rank, !rank, MPI_INT, displs + size, counts, displs, MPI_INT, 0, comm),
		&class);
	EXPECT(rank || class == MPI_ERR_COUNT);
	MPI_Comm_free(&comm);
	free(counts);
}

/* A call that tutti refuses at rank 0 fails at all ranks, which do not wait for ever. */
static void alone(void)
{
	int *counts = calloc(4 * (size_t)size, sizeof(*counts)), *displs = counts + size, i;
	MPI_Comm comm;

	EXPECT(counts);
	for (i = 0; i < size; i++) {
		counts[i] = 1;
		displs[i] = rank ? i : 0; /* blocks that overlap */
	}
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	EXPECT(!MPI_Barrier(comm));
	EXPECT(MPI_Allgatherv(&rank, 1, MPI_INT, counts + 2 * size, counts, displs, MPI_INT, comm));
	MPI_Comm_free(&comm);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	EXPECT(!MPI_Barrier(comm));
	EXPECT(MPI_Gather(&rank, 1, MPI_INT, counts, 1, rank ? MPI_INT : MPI_DOUBLE, 0, comm) ||
	       rank); /* the others may be done before */
	MPI_Comm_free(&comm);
	free(counts);
	negative_count();
}

static int handled;

static void handler(MPI_Comm *comm, int *code, ...)
{
	char text[MPI_MAX_ERROR_STRING];
	int len;

	MPI_Error_string(*code, text, &len);
	handled += strstr(text, "rank") || strstr(text, "tutti");
	fprintf(stderr, "handled: %s\n", text);
}

/* The last rank dies while the others are in a taken call: their error handler is called. */
static void death(void)
{
	MPI_Errhandler mine;

	MPI_Comm_create_errhandler(handler, &mine);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == size - 1)
		_exit(0);
	EXPECT(MPI_Barrier(MPI_COMM_WORLD));
	EXPECT(handled == 1);
	fprintf(stderr, "survived\n");
	sleep(1); /* the launcher may end the other with the first that ends */
	_exit(0);
}

/* This rank is without the library, and the other ranks wait for it in MPI_Init. */
static void without(void)
{
	sleep(9); /* they say so after 5 s */
	MPI_Abort(MPI_COMM_WORLD, 3);
}

/* The cost of a call that passes on: nanoseconds of one on a communicator of one rank. */
static void cost(void)
{
	double begin, best = 1;
	int i, k, in = 1, out;

	for (k = 0; k < 20; k++) {
		begin = MPI_Wtime();
		for (i = 0; i < 10000; i++)
			MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
		begin = MPI_Wtime() - begin;
		best = begin < best ? begin : best;
	}
	if (!rank)
		printf("cost %.1f\n", best / 10000 * 1e9);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} cases[] = {{"reductions", reductions}, {"moves", moves},
		     {"v_forms", v_forms},	 {"hang", hang},
		     {"first", test_first},	 {"others", test_others},
		     {"comms", comms},		 {"passed", passed},
		     {"threads", threads},	 {"errors", errors},
		     {"alone", alone},		 {"death", death},
		     {"without", without},	 {"cost", cost},
		     {"lengths", lengths},	 {"bottom", test_bottom},
		     {"names", test_names},	 {"files", test_files},
		     {"callbacks", callbacks}};
	size_t i;
	int level, done = 0;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
			cases[i].fn();
			done = 1;
		}
	EXPECT(done);
	if (!rank)
		printf("case %s passed\n", argv[1]);
	MPI_Finalize();
	return 0;
}
