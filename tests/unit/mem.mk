# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_mem
TESTS += tests/unit/test_mem
tests_unit_test_mem_SOURCES = tests/unit/test_mem.c
tests_unit_test_mem_LDADD = libtttest.la
