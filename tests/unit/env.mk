# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_env
TESTS += tests/unit/test_env
tests_unit_test_env_SOURCES = tests/unit/test_env.c
tests_unit_test_env_LDADD = libtttest.la
