/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives that are never taken: nonblocking and persistent ones, MPI_Alltoallw, those of
 * neighbors. They are counted and pass on.
 */
#include <dlfcn.h>

#include "mpi/preload.h"
#include "mpi/shapes.h"

/* A function that counts and passes on. full: its name after MPI_; first: what it does before. */
#define PASS(row, why, first, full, params, args)                                                  \
	static __typeof__(&PMPI_##full) real_##full;                                               \
	static __attribute__((constructor)) void find_##full(void)                                 \
	{                                                                                          \
		real_##full = (__typeof__(real_##full))dlsym(RTLD_NEXT, "PMPI_" #full);            \
	}                                                                                          \
	static int tm_##full params                                                                \
	{                                                                                          \
		first;                                                                             \
		tm_passed(row, why);                                                               \
		return real_##full args;                                                           \
	}                                                                                          \
	TM_ENTRY_OF(real_##full, full, params, args)

#define BLOCKING(row, i, name, params, args) PASS(row, TM_KIND, (void)0, name, params, args)
#define NONBLOCKING(row, i, name, params, args)                                                    \
	PASS(row, TM_NONBLOCKING, (void)0, I##i, (TM_LIST params, MPI_Request * request),          \
	     (TM_LIST args, request))
#define PERSISTENT(row, i, name, params, args)                                                     \
	PASS(row, TM_LASTING, (void)0, name##_init,                                                \
	     (TM_LIST params, MPI_Info info, MPI_Request * request),                               \
	     (TM_LIST args, info, request))

TM_SHAPES_NEVER_TAKEN(BLOCKING, int, int)
TM_SHAPES(NONBLOCKING, int, int)
NONBLOCKING(TM_BARRIER, barrier, Barrier, (MPI_Comm comm), (comm))

#if MPI_VERSION >= 4
TM_SHAPES(PERSISTENT, int, int)
PERSISTENT(TM_BARRIER, barrier, Barrier, (MPI_Comm comm), (comm))

/*
 * With large counts; entry_large.c has the other blocking ones. Other ranks may call the functions
 * without _c, which set up the communicator.
 */
#define LARGE_NONBLOCKING(row, i, name, params, args)                                              \
	PASS(row, TM_NONBLOCKING, (void)0, I##i##_c, (TM_LIST params, MPI_Request * request),      \
	     (TM_LIST args, request))
#define LARGE_PERSISTENT(row, i, name, params, args)                                               \
	PASS(row, TM_LASTING, (void)0, name##_init_c,                                              \
	     (TM_LIST params, MPI_Info info, MPI_Request * request),                               \
	     (TM_LIST args, info, request))
#define LARGE_BLOCKING(row, i, name, params, args)                                                 \
	PASS(row, TM_KIND, (void)tm_comm_of(comm), name##_c, params, args)

TM_SHAPES_OF_COUNTS(LARGE_BLOCKING, MPI_Count, MPI_Aint)
TM_SHAPES_NEVER_TAKEN(LARGE_BLOCKING, MPI_Count, MPI_Aint)
TM_SHAPES(LARGE_NONBLOCKING, MPI_Count, MPI_Aint)
TM_SHAPES(LARGE_PERSISTENT, MPI_Count, MPI_Aint)
#endif
