# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_fault
TESTS += tests/unit/test_fault
tests_unit_test_fault_SOURCES = tests/unit/test_fault.c
# for its model transport, loop
tests_unit_test_fault_LDADD = libconform.la
