# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/lowrank/lowrank.h lib/lowrank/factors.c \
	lib/lowrank/power_sgd.c lib/lowrank/power_sgd_state.c

# The loops over matrices, once for each level of instructions, as lib/reduce builds its kernels.
noinst_LTLIBRARIES += libtt_lowrank.la
libtt_la_LIBADD += libtt_lowrank.la
libtt_lowrank_la_SOURCES = lib/lowrank/matrix_levels.c lib/lowrank/matrix.h
libtt_lowrank_la_LIBADD = libtt_lowrank_base.la

tt_matrix_sources = lib/lowrank/matrix_vector.c lib/lowrank/matrix.h

noinst_LTLIBRARIES += libtt_lowrank_base.la
libtt_lowrank_base_la_SOURCES = $(tt_matrix_sources) lib/lowrank/gram_schmidt.c
libtt_lowrank_base_la_CPPFLAGS = $(libtt_reduce_base_la_CPPFLAGS)
libtt_lowrank_base_la_CFLAGS = $(libtt_reduce_base_la_CFLAGS)

if HAVE_AVX2
noinst_LTLIBRARIES += libtt_lowrank_avx2.la
libtt_lowrank_la_LIBADD += libtt_lowrank_avx2.la
libtt_lowrank_avx2_la_SOURCES = $(tt_matrix_sources)
libtt_lowrank_avx2_la_CPPFLAGS = $(libtt_reduce_avx2_la_CPPFLAGS)
libtt_lowrank_avx2_la_CFLAGS = $(libtt_reduce_avx2_la_CFLAGS)
endif

if HAVE_AVX512
noinst_LTLIBRARIES += libtt_lowrank_avx512.la
libtt_lowrank_la_LIBADD += libtt_lowrank_avx512.la
libtt_lowrank_avx512_la_SOURCES = $(tt_matrix_sources)
libtt_lowrank_avx512_la_CPPFLAGS = $(libtt_reduce_avx512_la_CPPFLAGS)
libtt_lowrank_avx512_la_CFLAGS = $(libtt_reduce_avx512_la_CFLAGS)
endif
