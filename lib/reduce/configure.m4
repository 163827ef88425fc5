# SPDX-License-Identifier: BSD-3-Clause
dnl The reduction kernels are plain loops that the compiler vectorizes; user CFLAGS (-O2) would stop it.
TT_LOOP_CFLAGS=
for tt_flag in -ftree-vectorize -fvect-cost-model=dynamic -fno-trapping-math -ffp-contract=off; do
	tt_save="$CFLAGS"
	CFLAGS="$CFLAGS -Werror $tt_flag"
	AC_MSG_CHECKING([whether $CC takes $tt_flag])
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
		[TT_LOOP_CFLAGS="$TT_LOOP_CFLAGS $tt_flag"; AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])])
	CFLAGS="$tt_save"
done
AC_SUBST([TT_LOOP_CFLAGS])

tt_save="$CFLAGS"
CFLAGS="$CFLAGS -mavx2 -mf16c -mno-fma"
AC_MSG_CHECKING([for AVX2 and F16C in the compiler])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <immintrin.h>]],
		[[return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") &&
		  _mm256_movemask_ps(_mm256_cvtph_ps(_mm_setzero_si128()));]])],
	[tt_avx2=yes], [tt_avx2=no])
AC_MSG_RESULT([$tt_avx2])
CFLAGS="$tt_save"
AM_CONDITIONAL([HAVE_AVX2], [test "x$tt_avx2" = xyes])
AS_IF([test "x$tt_avx2" = xyes], [AC_DEFINE([TT_HAVE_AVX2], [1], [the compiler makes AVX2 code])])
