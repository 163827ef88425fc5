# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_boot tests/unit/test_boot_find
TESTS += tests/unit/test_boot tests/unit/test_boot_find
tests_unit_test_boot_SOURCES = tests/unit/test_boot.c tests/unit/boot_help.c tests/unit/boot_help.h
tests_unit_test_boot_LDADD = libtttest.la
tests_unit_test_boot_find_SOURCES = tests/unit/test_boot_find.c \
	tests/unit/boot_help.c tests/unit/boot_help.h
tests_unit_test_boot_find_LDADD = libtttest.la
