# SPDX-License-Identifier: BSD-3-Clause
AC_ARG_WITH([ofi], [AS_HELP_STRING([--without-ofi], [leave out transport ofi (libfabric)])],
	[], [with_ofi=yes])
AS_IF([test "x$with_ofi" != xno],
	[PKG_CHECK_MODULES([OFI], [libfabric >= 1.17])
	 AC_DEFINE([HAVE_OFI], [1], [libfabric is there])])
AM_CONDITIONAL([HAVE_OFI], [test "x$with_ofi" != xno])

# libfabric is loaded at run time: its functions are looked up by the version that a linked program would get.
AS_IF([test "x$with_ofi" != xno],
	[AC_MSG_CHECKING([which version of fi_getinfo the headers go with])
	 tt_saved_cflags=$CFLAGS tt_saved_libs=$LIBS
	 CFLAGS="$CFLAGS $OFI_CFLAGS" LIBS="$OFI_LIBS $LIBS"
	 AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <rdma/fabric.h>]],
			[[struct fi_info *info; return fi_getinfo(FI_VERSION(1, 17), 0, 0, 0, 0, &info);]])],
		[tt_ofi_abi=`$NM -D conftest$ac_exeext | sed -n 's/.* fi_getinfo@*\(FABRIC_@<:@0-9.@:>@*\).*/\1/p'`])
	 CFLAGS=$tt_saved_cflags LIBS=$tt_saved_libs
	 AC_MSG_RESULT([${tt_ofi_abi:-unknown}])
	 AS_IF([test -z "$tt_ofi_abi"], [AC_MSG_ERROR([cannot tell fi_getinfo's symbol version])])
	 AC_DEFINE_UNQUOTED([OFI_INFO_ABI], ["$tt_ofi_abi"], [symbol version of fi_getinfo])])
