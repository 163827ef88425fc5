# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_no_memory
TESTS += tests/unit/test_no_memory
tests_unit_test_no_memory_SOURCES = tests/unit/test_no_memory.c
tests_unit_test_no_memory_LDADD = libtttest.la
