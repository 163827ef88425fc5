# SPDX-License-Identifier: BSD-3-Clause
# Ranks that die, stop or are cut off, and those that go on.
TT_FAULT_TESTS = tests/fault/test_survive
check_PROGRAMS += $(TT_FAULT_TESTS)
TESTS += $(TT_FAULT_TESTS)
tests_fault_test_survive_SOURCES = tests/fault/test_survive.c
tests_fault_test_survive_LDADD = libttmp.la
