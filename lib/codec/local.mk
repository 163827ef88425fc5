# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/codec/codec.h lib/codec/codec_kind.h lib/codec/codecs.def \
	lib/codec/codec.c lib/codec/codec_name.c lib/codec/user_codec.c \
	lib/codec/auto_codec.c lib/codec/codec_cost.c \
	lib/codec/cast.c lib/codec/scaled_blocks.c lib/codec/qsgd.c \
	lib/codec/sparse_list.h lib/codec/sparse_list.c lib/codec/sparse_sum.c \
	lib/codec/topk.c lib/codec/dgc.c \
	lib/codec/threshold.c lib/codec/randomk.c

# Built once for each level of instructions: lib/reduce/local.mk.
libtt_vector_la_SOURCES += lib/codec/codec_levels.c lib/codec/codec_kernels.h
libtt_vector_base_la_SOURCES += lib/codec/codec_vector.c lib/codec/cast_vector.h \
	lib/codec/block_vector.h lib/codec/bits_vector.h lib/codec/sparse_vector.h \
	lib/codec/codec_isa.h
