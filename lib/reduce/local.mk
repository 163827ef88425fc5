# SPDX-License-Identifier: BSD-3-Clause
# The kernels are one source, built once for each level of instructions; flags go by library.
noinst_LTLIBRARIES += libtt_reduce.la
libtt_la_LIBADD += libtt_reduce.la
libtt_reduce_la_SOURCES = lib/reduce/reduce.c lib/reduce/weigh.c lib/reduce/reduce.h
libtt_reduce_la_CFLAGS = $(AM_CFLAGS) $(TT_KERNEL_CFLAGS)
libtt_reduce_la_LIBADD = libtt_reduce_base.la

tt_kernel_sources = lib/reduce/vector.c lib/reduce/vector_run.h lib/reduce/vector_int.h \
	lib/reduce/vector_float.h lib/reduce/vector_pair.h lib/reduce/isa.h \
	lib/reduce/half.h lib/reduce/kernels.h

noinst_LTLIBRARIES += libtt_reduce_base.la
libtt_reduce_base_la_SOURCES = $(tt_kernel_sources)
libtt_reduce_base_la_CPPFLAGS = $(AM_CPPFLAGS) -DTT_VEC=16
libtt_reduce_base_la_CFLAGS = $(AM_CFLAGS) $(TT_KERNEL_CFLAGS)

if HAVE_AVX2
noinst_LTLIBRARIES += libtt_reduce_avx2.la
libtt_reduce_la_LIBADD += libtt_reduce_avx2.la
libtt_reduce_avx2_la_SOURCES = $(tt_kernel_sources)
libtt_reduce_avx2_la_CPPFLAGS = $(AM_CPPFLAGS) -DTT_VEC=32
libtt_reduce_avx2_la_CFLAGS = $(AM_CFLAGS) $(TT_KERNEL_CFLAGS) $(TT_AVX2_CFLAGS)
endif

if HAVE_AVX512
noinst_LTLIBRARIES += libtt_reduce_avx512.la
libtt_reduce_la_LIBADD += libtt_reduce_avx512.la
libtt_reduce_avx512_la_SOURCES = $(tt_kernel_sources)
libtt_reduce_avx512_la_CPPFLAGS = $(AM_CPPFLAGS) -DTT_VEC=64
libtt_reduce_avx512_la_CFLAGS = $(AM_CFLAGS) $(TT_KERNEL_CFLAGS) $(TT_AVX512_CFLAGS)
endif
