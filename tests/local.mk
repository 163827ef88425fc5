# SPDX-License-Identifier: BSD-3-Clause
if HAVE_CUNIT
check_LTLIBRARIES += libtttest.la
libtttest_la_SOURCES = tests/test.c tests/test.h
libtttest_la_CFLAGS = $(AM_CFLAGS) $(CUNIT_CFLAGS)
libtttest_la_LIBADD = libtt.la $(TT_LIBS) $(CUNIT_LIBS)

include tests/unit/local.mk
include tests/plan/local.mk
include tests/conform/local.mk
include tests/mp/local.mk
include tests/fault/local.mk
endif
include tests/lint/local.mk
include tests/install/local.mk
