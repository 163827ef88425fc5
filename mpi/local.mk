# SPDX-License-Identifier: BSD-3-Clause
# For LD_PRELOAD only, so without versions and without static libraries.
TT_MPI_SOURCES = \
	mpi/preload.h mpi/shapes.h mpi/comms.c mpi/entry_large.c mpi/entry_move.c \
	mpi/entry_others.c mpi/entry_reduce.c mpi/entry_v.c mpi/lifetime.c mpi/run.c \
	mpi/settings.c mpi/sides.c mpi/summary.c mpi/types.c
TT_MPI_LDFLAGS = -module -avoid-version -shared $(TT_NO_UNDEFINED)

if HAVE_OPENMPI
lib_LTLIBRARIES += libtutti_mpi_openmpi.la
libtutti_mpi_openmpi_la_SOURCES = $(TT_MPI_SOURCES)
libtutti_mpi_openmpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(OPENMPI_CFLAGS)
libtutti_mpi_openmpi_la_LDFLAGS = $(TT_MPI_LDFLAGS)
libtutti_mpi_openmpi_la_LIBADD = libtutti.la $(OPENMPI_LIBS)
endif

if HAVE_MPICH
lib_LTLIBRARIES += libtutti_mpi_mpich.la
libtutti_mpi_mpich_la_SOURCES = $(TT_MPI_SOURCES)
libtutti_mpi_mpich_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CFLAGS)
libtutti_mpi_mpich_la_LDFLAGS = $(TT_MPI_LDFLAGS)
libtutti_mpi_mpich_la_LIBADD = libtutti.la $(MPICH_LIBS)
endif
