# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_ps
TESTS += tests/unit/test_ps
tests_unit_test_ps_SOURCES = tests/unit/test_ps.c
tests_unit_test_ps_LDADD = libtttest.la -lm
