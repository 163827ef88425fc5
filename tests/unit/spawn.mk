# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_spawn
TESTS += tests/unit/test_spawn
tests_unit_test_spawn_SOURCES = tests/unit/test_spawn.c
tests_unit_test_spawn_LDADD = libtttest.la
