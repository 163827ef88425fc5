# SPDX-License-Identifier: BSD-3-Clause
AC_ARG_WITH([verbs], [AS_HELP_STRING([--without-verbs], [leave out transport verbs (libibverbs, librdmacm)])],
	[], [with_verbs=yes])
AS_IF([test "x$with_verbs" != xno],
	[PKG_CHECK_MODULES([VERBS], [libibverbs >= 1.12 librdmacm >= 1.3])
	 AC_DEFINE([HAVE_VERBS], [1], [libibverbs and librdmacm are there])])
AM_CONDITIONAL([HAVE_VERBS], [test "x$with_verbs" != xno])
