# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_graph
TESTS += tests/unit/test_graph
tests_unit_test_graph_SOURCES = tests/unit/test_graph.c
tests_unit_test_graph_LDADD = libtttest.la -lm
