# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/codec/codec.h lib/codec/codec_kind.h lib/codec/codecs.def \
	lib/codec/codec.c lib/codec/codec_name.c lib/codec/user_codec.c \
	lib/codec/auto_codec.c lib/codec/codec_cost.c \
	lib/codec/cast.c lib/codec/scaled_blocks.c lib/codec/qsgd.c \
	lib/codec/sparse_list.h lib/codec/sparse_list.c lib/codec/sparse_sum.c \
	lib/codec/topk.c lib/codec/dgc.c \
	lib/codec/threshold.c lib/codec/randomk.c

# The loops of the codecs, once for each level of instructions, as lib/reduce builds its kernels.
noinst_LTLIBRARIES += libtt_codec.la
libtt_la_LIBADD += libtt_codec.la
libtt_codec_la_SOURCES = lib/codec/codec_levels.c lib/codec/codec_kernels.h
libtt_codec_la_LIBADD = libtt_codec_base.la

tt_codec_sources = lib/codec/codec_vector.c lib/codec/cast_vector.h lib/codec/block_vector.h \
	lib/codec/bits_vector.h lib/codec/sparse_vector.h \
	lib/codec/codec_isa.h lib/codec/codec_kernels.h

noinst_LTLIBRARIES += libtt_codec_base.la
libtt_codec_base_la_SOURCES = $(tt_codec_sources)
libtt_codec_base_la_CPPFLAGS = $(libtt_reduce_base_la_CPPFLAGS)
libtt_codec_base_la_CFLAGS = $(libtt_reduce_base_la_CFLAGS)

if HAVE_AVX2
noinst_LTLIBRARIES += libtt_codec_avx2.la
libtt_codec_la_LIBADD += libtt_codec_avx2.la
libtt_codec_avx2_la_SOURCES = $(tt_codec_sources)
libtt_codec_avx2_la_CPPFLAGS = $(libtt_reduce_avx2_la_CPPFLAGS)
libtt_codec_avx2_la_CFLAGS = $(libtt_reduce_avx2_la_CFLAGS)
endif

if HAVE_AVX512
noinst_LTLIBRARIES += libtt_codec_avx512.la
libtt_codec_la_LIBADD += libtt_codec_avx512.la
libtt_codec_avx512_la_SOURCES = $(tt_codec_sources)
libtt_codec_avx512_la_CPPFLAGS = $(libtt_reduce_avx512_la_CPPFLAGS)
libtt_codec_avx512_la_CFLAGS = $(libtt_reduce_avx512_la_CFLAGS)
endif
