/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of MPI 4 with large counts that have no arrays of counts: as the others if the
 * counts are small. A count above INT_MAX is one of more than INT_MAX bytes or of none, which pass
 * on at all ranks. Other ranks may call the function without _c, so a first call sets up the
 * communicator, whatever its counts are.
 */
#include "mpi/preload.h"

#if MPI_VERSION >= 4
#include <dlfcn.h>
#include <limits.h>

#include "mpi/shapes.h"

#define SMALL(count) ((count) <= INT_MAX && (count) >= INT_MIN)
#define IS_ROOT (tm_comm_of(comm)->rank == root)

/* fits: the counts that MPI looks at here are small; small: the arguments of the other function. */
#define LARGE(row, name, params, args, fits, small)                                                \
	static __typeof__(&PMPI_##name##_c) real_##name##_c;                                       \
	static __attribute__((constructor)) void find_##name##_c(void)                             \
	{                                                                                          \
		real_##name##_c =                                                                  \
			(__typeof__(real_##name##_c))dlsym(RTLD_NEXT, "PMPI_" #name "_c");         \
	}                                                                                          \
	static int tm_##name##_c params                                                            \
	{                                                                                          \
		tm_comm_of(comm);                                                                  \
		if (fits)                                                                          \
			return MPI_##name small;                                                   \
		tm_passed(row, TM_KIND);                                                           \
		return real_##name##_c args;                                                       \
	}                                                                                          \
	TM_ENTRY_OF(real_##name##_c, name##_c, params, args)

#define BCAST(row, i, name, params, args)                                                          \
	LARGE(row, name, params, args, SMALL(count), (buf, (int)count, type, root, comm))
#define REDUCE(row, i, name, params, args)                                                         \
	LARGE(row, name, params, args, SMALL(count), (sbuf, rbuf, (int)count, type, op, root, comm))
#define COMBINE(row, i, name, params, args)                                                        \
	LARGE(row, name, params, args, SMALL(count), (sbuf, rbuf, (int)count, type, op, comm))
#define EXCHANGE(row, i, name, params, args)                                                       \
	LARGE(row, name, params, args, (sbuf == MPI_IN_PLACE || SMALL(scount)) && SMALL(rcount),   \
	      (sbuf, (int)scount, stype, rbuf, (int)rcount, rtype, comm))
#define GATHER(row, i, name, params, args)                                                         \
	LARGE(row, name, params, args,                                                             \
	      (sbuf == MPI_IN_PLACE || SMALL(scount)) && (!IS_ROOT || SMALL(rcount)),              \
	      (sbuf, (int)scount, stype, rbuf, (int)rcount, rtype, root, comm))
#define SCATTER(row, i, name, params, args)                                                        \
	LARGE(row, name, params, args,                                                             \
	      (rbuf == MPI_IN_PLACE || SMALL(rcount)) && (!IS_ROOT || SMALL(scount)),              \
	      (sbuf, (int)scount, stype, rbuf, (int)rcount, rtype, root, comm))

TM_SHAPES_OF_RANKS(BCAST, REDUCE, COMBINE, EXCHANGE, GATHER, SCATTER, MPI_Count)
#endif
