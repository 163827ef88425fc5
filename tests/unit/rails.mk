# SPDX-License-Identifier: BSD-3-Clause
if HAVE_VERBS
check_PROGRAMS += tests/unit/test_rails
TESTS += tests/unit/test_rails
tests_unit_test_rails_SOURCES = tests/unit/test_rails.c
tests_unit_test_rails_LDADD = libtttest.la
endif
