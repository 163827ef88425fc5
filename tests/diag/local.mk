# SPDX-License-Identifier: BSD-3-Clause
# Diagnosis: jobs of tests/diag/rank under tutti_run, and what the tools say of them.
check_PROGRAMS += tests/diag/rank
tests_diag_rank_SOURCES = tests/diag/rank.c
tests_diag_rank_LDADD = libtutti.la
# What tutti_ras finds of a job that ends just then.
check_PROGRAMS += tests/diag/door
tests_diag_door_SOURCES = tests/diag/door.c
dist_check_SCRIPTS += tests/diag/blame.sh tests/diag/ras.sh tests/diag/trace.sh \
	tests/diag/doctor.sh tests/diag/log.sh
TESTS += tests/diag/blame.sh tests/diag/ras.sh tests/diag/trace.sh tests/diag/doctor.sh \
	tests/diag/log.sh
check_PROGRAMS += tests/diag/test_flight
TESTS += tests/diag/test_flight
tests_diag_test_flight_SOURCES = tests/diag/test_flight.c
tests_diag_test_flight_LDADD = libtttest.la
check_PROGRAMS += tests/diag/test_mismatch
TESTS += tests/diag/test_mismatch
tests_diag_test_mismatch_SOURCES = tests/diag/test_mismatch.c
tests_diag_test_mismatch_LDADD = libttmp.la
check_PROGRAMS += tests/diag/test_mismatch_late
TESTS += tests/diag/test_mismatch_late
tests_diag_test_mismatch_late_SOURCES = tests/diag/test_mismatch_late.c
tests_diag_test_mismatch_late_LDADD = libttmp.la
check_PROGRAMS += tests/diag/test_integrity
TESTS += tests/diag/test_integrity
tests_diag_test_integrity_SOURCES = tests/diag/test_integrity.c
tests_diag_test_integrity_LDADD = libttmp.la
