# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/fault/test_strangers
TESTS += tests/fault/test_strangers
tests_fault_test_strangers_SOURCES = tests/fault/test_strangers.c tests/fault/stranger.c \
	tests/fault/stranger.h
tests_fault_test_strangers_LDADD = libtttest.la
dist_check_SCRIPTS += tests/fault/secret.sh tests/fault/listen.sh
TESTS += tests/fault/secret.sh tests/fault/listen.sh
check_PROGRAMS += tests/fault/test_guarded
TESTS += tests/fault/test_guarded
tests_fault_test_guarded_SOURCES = tests/fault/test_guarded.c tests/fault/stranger.c \
	tests/fault/stranger.h
tests_fault_test_guarded_LDADD = libttmp.la
check_PROGRAMS += tests/fault/test_shortage tests/fault/test_late_shortage \
	tests/fault/test_shortage_train \
	tests/fault/test_nth tests/fault/test_nth_averages tests/fault/test_nth_ps
TESTS += tests/fault/test_shortage tests/fault/test_late_shortage \
	tests/fault/test_shortage_train \
	tests/fault/test_nth tests/fault/test_nth_averages tests/fault/test_nth_ps
tests_fault_test_shortage_SOURCES = tests/fault/test_shortage.c tests/fault/limits.c \
	tests/fault/limits.h tests/fault/allocations.c tests/fault/allocations.h
tests_fault_test_shortage_LDADD = libttmp.la
tests_fault_test_shortage_train_SOURCES = tests/fault/test_shortage_train.c \
	tests/fault/allocations.c tests/fault/allocations.h
tests_fault_test_shortage_train_LDADD = libtt_train.la libttmp.la
tests_fault_test_late_shortage_SOURCES = tests/fault/test_late_shortage.c tests/fault/limits.c \
	tests/fault/limits.h
tests_fault_test_late_shortage_LDADD = libttmp.la
tests_fault_test_nth_SOURCES = tests/fault/test_nth.c
tests_fault_test_nth_LDADD = libttmp.la
tests_fault_test_nth_averages_SOURCES = tests/fault/test_nth_averages.c
tests_fault_test_nth_averages_LDADD = libttmp.la
tests_fault_test_nth_ps_SOURCES = tests/fault/test_nth_ps.c
tests_fault_test_nth_ps_LDADD = libttmp.la
if HAVE_OFI
check_PROGRAMS += tests/fault/test_imposter
TESTS += tests/fault/test_imposter
tests_fault_test_imposter_SOURCES = tests/fault/test_imposter.c tests/unit/ofi_side.c \
	tests/unit/ofi_side.h
tests_fault_test_imposter_LDADD = libtttest.la
endif
