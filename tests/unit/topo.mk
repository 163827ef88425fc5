# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_topo
TESTS += tests/unit/test_topo
tests_unit_test_topo_SOURCES = tests/unit/test_topo.c tests/unit/made_up.c tests/unit/made_up.h
tests_unit_test_topo_LDADD = libtttest.la
