# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_copy
TESTS += tests/unit/test_copy
tests_unit_test_copy_SOURCES = tests/unit/test_copy.c
tests_unit_test_copy_LDADD = libtttest.la
