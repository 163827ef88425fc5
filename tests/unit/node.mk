# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_node
TESTS += tests/unit/test_node
tests_unit_test_node_SOURCES = tests/unit/test_node.c
tests_unit_test_node_LDADD = libtttest.la
