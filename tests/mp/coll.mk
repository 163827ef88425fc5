# SPDX-License-Identifier: BSD-3-Clause
# Tests of the library through its public calls, by jobs of forked ranks.
check_LTLIBRARIES += libttmp.la
libttmp_la_SOURCES = tests/mp/job.c tests/mp/job.h tests/mp/oracle.c
libttmp_la_LIBADD = libtttest.la

TT_MP_TESTS = tests/mp/test_coll tests/mp/test_errors tests/mp/test_kill
check_PROGRAMS += $(TT_MP_TESTS)
TESTS += $(TT_MP_TESTS)
tests_mp_test_coll_SOURCES = tests/mp/test_coll.c
tests_mp_test_coll_LDADD = libttmp.la
tests_mp_test_errors_SOURCES = tests/mp/test_errors.c
tests_mp_test_errors_LDADD = libttmp.la
tests_mp_test_kill_SOURCES = tests/mp/test_kill.c
tests_mp_test_kill_LDADD = libttmp.la
