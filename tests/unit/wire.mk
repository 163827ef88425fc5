# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_wire tests/unit/test_self tests/unit/test_shm
TESTS += tests/unit/test_wire tests/unit/test_self tests/unit/test_shm
tests_unit_test_wire_SOURCES = tests/unit/test_wire.c
tests_unit_test_wire_LDADD = libtttest.la
tests_unit_test_self_SOURCES = tests/unit/test_self.c
tests_unit_test_self_LDADD = libtttest.la
tests_unit_test_shm_SOURCES = tests/unit/test_shm.c tests/unit/test_shm_procs.c \
	tests/unit/test_shm.h
tests_unit_test_shm_LDADD = libtttest.la
