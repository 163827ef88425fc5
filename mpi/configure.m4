# SPDX-License-Identifier: BSD-3-Clause
# The libraries that are preloaded under MPI programs, one for each MPI whose headers are there.
AC_ARG_WITH([mpi-preload], [AS_HELP_STRING([--without-mpi-preload],
		[leave out the libraries to preload under MPI programs])],
	[], [with_mpi_preload=auto])
tt_openmpi=no tt_mpich=no
dnl A sanitizer's library would have to be preloaded before these.
AS_IF([test "x$with_mpi_preload" != xno && test "x$with_sanitizer" = xno &&
		test "x$enable_shared" != xno],
	[PKG_CHECK_MODULES([OPENMPI], [ompi-c], [tt_openmpi=yes], [tt_openmpi=no])
	 PKG_CHECK_MODULES([MPICH], [mpich], [tt_mpich=yes], [tt_mpich=no])])
AS_IF([test "x$with_mpi_preload" = xyes && test "x$tt_openmpi$tt_mpich" = xnono],
	[AC_MSG_ERROR([--with-mpi-preload: neither Open MPI (ompi-c.pc) nor MPICH (mpich.pc) is there])])
AM_CONDITIONAL([HAVE_OPENMPI], [test "x$tt_openmpi" = xyes])
AM_CONDITIONAL([HAVE_MPICH], [test "x$tt_mpich" = xyes])
