# SPDX-License-Identifier: BSD-3-Clause
AC_ARG_WITH([ofi], [AS_HELP_STRING([--without-ofi], [leave out transport ofi (libfabric)])],
	[], [with_ofi=yes])
AS_IF([test "x$with_ofi" != xno],
	[PKG_CHECK_MODULES([OFI], [libfabric >= 1.17])
	 AC_DEFINE([HAVE_OFI], [1], [libfabric is there])])
AM_CONDITIONAL([HAVE_OFI], [test "x$with_ofi" != xno])
AS_IF([test "x$with_ofi" != xno], [TT_PC_OFI=libfabric])
AC_SUBST([TT_PC_OFI])
