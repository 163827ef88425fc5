# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_codec tests/unit/test_codec_name tests/unit/test_codec_sparse
TESTS += tests/unit/test_codec tests/unit/test_codec_name tests/unit/test_codec_sparse
tests_unit_test_codec_SOURCES = tests/unit/test_codec.c tests/unit/codec_help.c \
	tests/unit/codec_help.h
tests_unit_test_codec_LDADD = libtttest.la -lm
tests_unit_test_codec_name_SOURCES = tests/unit/test_codec_name.c
tests_unit_test_codec_name_LDADD = libtttest.la
tests_unit_test_codec_sparse_SOURCES = tests/unit/test_codec_sparse.c tests/unit/codec_help.c \
	tests/unit/codec_help.h
tests_unit_test_codec_sparse_LDADD = libtttest.la -lm
