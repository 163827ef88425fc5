# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_stores
TESTS += tests/unit/test_stores
tests_unit_test_stores_SOURCES = tests/unit/test_stores.c tools/tune/fit.c
tests_unit_test_stores_LDADD = libtttest.la
