# SPDX-License-Identifier: BSD-3-Clause
if HAVE_OFI
check_PROGRAMS += tests/unit/test_ofi tests/unit/test_ofi_ends tests/unit/test_ofi_rules
TESTS += tests/unit/test_ofi tests/unit/test_ofi_ends tests/unit/test_ofi_rules
tests_unit_test_ofi_SOURCES = tests/unit/test_ofi.c tests/unit/ofi_side.c tests/unit/ofi_side.h
tests_unit_test_ofi_LDADD = libtttest.la
tests_unit_test_ofi_ends_SOURCES = tests/unit/test_ofi_ends.c tests/unit/ofi_side.c \
	tests/unit/ofi_side.h
tests_unit_test_ofi_ends_LDADD = libtttest.la
tests_unit_test_ofi_rules_SOURCES = tests/unit/test_ofi_rules.c
tests_unit_test_ofi_rules_LDADD = libtttest.la
endif
