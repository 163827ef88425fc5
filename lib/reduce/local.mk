# SPDX-License-Identifier: BSD-3-Clause
# Two convenience libraries because flags go by library: one source of loops, compiled twice.
libtt_la_SOURCES += lib/reduce/reduce.c lib/reduce/reduce.h lib/reduce/truth.c
libtt_la_LIBADD += libtt_reduce_scalar.la

noinst_LTLIBRARIES += libtt_reduce_scalar.la
libtt_reduce_scalar_la_SOURCES = lib/reduce/scalar.c lib/reduce/loops.h lib/reduce/half.h lib/reduce/kernels.h
libtt_reduce_scalar_la_CFLAGS = $(AM_CFLAGS) $(TT_LOOP_CFLAGS)

if HAVE_AVX2
noinst_LTLIBRARIES += libtt_reduce_avx2.la
libtt_la_LIBADD += libtt_reduce_avx2.la
libtt_reduce_avx2_la_SOURCES = lib/reduce/avx2.c lib/reduce/loops.h lib/reduce/half.h lib/reduce/kernels.h
libtt_reduce_avx2_la_CFLAGS = $(AM_CFLAGS) $(TT_LOOP_CFLAGS) -mavx2 -mf16c -mno-fma
endif
