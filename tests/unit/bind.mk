# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_bind
TESTS += tests/unit/test_bind
tests_unit_test_bind_SOURCES = tests/unit/test_bind.c tests/unit/made_up.c tests/unit/made_up.h \
	tools/run/bind.c tools/run/run.h
tests_unit_test_bind_LDADD = libtttest.la
