# SPDX-License-Identifier: BSD-3-Clause
if HAVE_OFI
check_PROGRAMS += tests/unit/test_ofi
TESTS += tests/unit/test_ofi
tests_unit_test_ofi_SOURCES = tests/unit/test_ofi.c tests/unit/ofi_side.c tests/unit/ofi_side.h
tests_unit_test_ofi_LDADD = libtttest.la
endif
