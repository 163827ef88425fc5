# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_perf
TESTS += tests/unit/test_perf
tests_unit_test_perf_SOURCES = tests/unit/test_perf.c perf/stats.c
tests_unit_test_perf_LDADD = libtttest.la
