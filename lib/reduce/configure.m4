# SPDX-License-Identifier: BSD-3-Clause
dnl No fma, which rounds once where the kernels have to round twice.
TT_KERNEL_CFLAGS=
for tt_flag in -fno-trapping-math -ffp-contract=off; do
	tt_save="$CFLAGS"
	CFLAGS="$CFLAGS -Werror $tt_flag"
	AC_MSG_CHECKING([whether $CC takes $tt_flag])
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
		[TT_KERNEL_CFLAGS="$TT_KERNEL_CFLAGS $tt_flag"; AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])])
	CFLAGS="$tt_save"
done
AC_SUBST([TT_KERNEL_CFLAGS])

AC_SUBST([TT_AVX2_CFLAGS], ["-mavx2 -mf16c"])
tt_save="$CFLAGS"
CFLAGS="$CFLAGS $TT_AVX2_CFLAGS"
AC_MSG_CHECKING([for AVX2 and F16C in the compiler])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <immintrin.h>]],
		[[return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") &&
		  _mm256_movemask_ps(_mm256_cvtph_ps(_mm_setzero_si128()));]])],
	[tt_avx2=yes], [tt_avx2=no])
AC_MSG_RESULT([$tt_avx2])
CFLAGS="$tt_save"
AM_CONDITIONAL([HAVE_AVX2], [test "x$tt_avx2" = xyes])
AS_IF([test "x$tt_avx2" = xyes], [AC_DEFINE([TT_HAVE_AVX2], [1], [the compiler makes AVX2 code])])

AC_SUBST([TT_AVX512_CFLAGS], ["-mavx512f -mavx512bw -mavx512dq -mavx512vl"])
tt_save="$CFLAGS"
CFLAGS="$CFLAGS $TT_AVX512_CFLAGS"
AC_MSG_CHECKING([for AVX-512 in the compiler])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <immintrin.h>]],
		[[return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
		  _mm512_movepi8_mask(_mm512_cvtps_epi32(_mm512_cvtph_ps(_mm256_setzero_si256())));]])],
	[tt_avx512=yes], [tt_avx512=no])
AC_MSG_RESULT([$tt_avx512])
CFLAGS="$tt_save"
AM_CONDITIONAL([HAVE_AVX512], [test "x$tt_avx512" = xyes])
AS_IF([test "x$tt_avx512" = xyes], [AC_DEFINE([TT_HAVE_AVX512], [1], [the compiler makes AVX-512 code])])
