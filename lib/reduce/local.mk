# SPDX-License-Identifier: BSD-3-Clause
# Loops over vectors, also those of lib/rules, lib/codec and lib/lowrank: one source, built once for
# each level of instructions; flags go by library.
noinst_LTLIBRARIES += libtt_vector.la
libtt_la_LIBADD += libtt_vector.la
libtt_vector_la_SOURCES = lib/reduce/reduce.c lib/reduce/weigh.c lib/reduce/mix.c \
	lib/reduce/xxh.c lib/reduce/xxh.h \
	lib/reduce/reduce.h lib/reduce/mix.h
libtt_vector_la_CFLAGS = $(AM_CFLAGS) $(TT_KERNEL_CFLAGS)
libtt_vector_la_LIBADD = libtt_vector_base.la

noinst_LTLIBRARIES += libtt_vector_base.la
libtt_vector_base_la_SOURCES = lib/reduce/vector.c lib/reduce/xxh_vector.c lib/reduce/vector_run.h \
	lib/reduce/vector_int.h lib/reduce/vector_float.h lib/reduce/vector_pair.h \
	lib/reduce/vector_weigh.h lib/reduce/vector_mix.h \
	lib/reduce/isa.h lib/reduce/half.h lib/reduce/kernels.h
libtt_vector_base_la_CPPFLAGS = $(AM_CPPFLAGS) -DTT_VEC=16
libtt_vector_base_la_CFLAGS = $(AM_CFLAGS) $(TT_KERNEL_CFLAGS)

if HAVE_AVX2
noinst_LTLIBRARIES += libtt_vector_avx2.la
libtt_vector_la_LIBADD += libtt_vector_avx2.la
libtt_vector_avx2_la_SOURCES = $(libtt_vector_base_la_SOURCES)
libtt_vector_avx2_la_CPPFLAGS = $(AM_CPPFLAGS) -DTT_VEC=32
libtt_vector_avx2_la_CFLAGS = $(AM_CFLAGS) $(TT_KERNEL_CFLAGS) $(TT_AVX2_CFLAGS)
endif

if HAVE_AVX512
noinst_LTLIBRARIES += libtt_vector_avx512.la
libtt_vector_la_LIBADD += libtt_vector_avx512.la
libtt_vector_avx512_la_SOURCES = $(libtt_vector_base_la_SOURCES)
libtt_vector_avx512_la_CPPFLAGS = $(AM_CPPFLAGS) -DTT_VEC=64
libtt_vector_avx512_la_CFLAGS = $(AM_CFLAGS) $(TT_KERNEL_CFLAGS) $(TT_AVX512_CFLAGS)
endif
