# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_reduce
TESTS += tests/unit/test_reduce
tests_unit_test_reduce_SOURCES = tests/unit/test_reduce.c
tests_unit_test_reduce_LDADD = libtttest.la
