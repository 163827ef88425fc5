/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of mpi_colls.c. */
#ifndef MPI_CASES_H
#define MPI_CASES_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int rank, size; /* in the world */

#define EXPECT(what)                                                                               \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, rank, #what);  \
			MPI_Abort(MPI_COMM_WORLD, 1);                                              \
		}                                                                                  \
	} while (0)

void test_reductions(MPI_Comm comm);
void test_moves(MPI_Comm comm);
void test_v_forms(MPI_Comm comm);
void test_others(void);
void test_first(void);
void test_bottom(void);
void test_names(void);
void test_files(void);

#endif
