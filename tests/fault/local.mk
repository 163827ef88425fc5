# SPDX-License-Identifier: BSD-3-Clause
include tests/fault/security.mk
# Ranks that die, stop or are cut off, and those that go on.
TT_FAULT_TESTS = tests/fault/test_survive tests/fault/test_cut_off tests/fault/test_points \
	tests/fault/test_net tests/fault/test_fork tests/fault/test_cycle tests/fault/test_grow \
	tests/fault/test_subsets tests/fault/test_tolerant tests/fault/test_left \
	tests/fault/test_late_news tests/fault/test_arrived \
	tests/fault/test_partial_deaths tests/fault/test_stopped
check_PROGRAMS += $(TT_FAULT_TESTS)
TESTS += $(TT_FAULT_TESTS)
tests_fault_test_survive_SOURCES = tests/fault/test_survive.c tests/fault/survive.c \
	tests/fault/survive.h
tests_fault_test_survive_LDADD = libttmp.la
tests_fault_test_subsets_SOURCES = tests/fault/test_subsets.c tests/fault/survive.c \
	tests/fault/survive.h
tests_fault_test_subsets_LDADD = libttmp.la
tests_fault_test_tolerant_SOURCES = tests/fault/test_tolerant.c tests/fault/survive.c \
	tests/fault/survive.h
tests_fault_test_tolerant_LDADD = libttmp.la
tests_fault_test_late_news_SOURCES = tests/fault/test_late_news.c tests/fault/survive.c \
	tests/fault/survive.h
tests_fault_test_late_news_LDADD = libttmp.la
tests_fault_test_partial_deaths_SOURCES = tests/fault/test_partial_deaths.c \
	tests/fault/survive.c tests/fault/survive.h
tests_fault_test_partial_deaths_LDADD = libttmp.la
tests_fault_test_left_SOURCES = tests/fault/test_left.c
tests_fault_test_left_LDADD = libttmp.la
tests_fault_test_arrived_SOURCES = tests/fault/test_arrived.c
tests_fault_test_arrived_LDADD = libttmp.la
tests_fault_test_cut_off_SOURCES = tests/fault/test_cut_off.c tests/fault/survive.c \
	tests/fault/survive.h
tests_fault_test_cut_off_LDADD = libttmp.la
tests_fault_test_stopped_SOURCES = tests/fault/test_stopped.c tests/fault/survive.c \
	tests/fault/survive.h
tests_fault_test_stopped_LDADD = libttmp.la
tests_fault_test_grow_SOURCES = tests/fault/test_grow.c
tests_fault_test_grow_LDADD = libttmp.la
tests_fault_test_points_SOURCES = tests/fault/test_points.c
tests_fault_test_points_LDADD = libttmp.la
tests_fault_test_net_SOURCES = tests/fault/test_net.c
tests_fault_test_net_LDADD = libttmp.la
tests_fault_test_fork_SOURCES = tests/fault/test_fork.c
tests_fault_test_fork_LDADD = libttmp.la
tests_fault_test_cycle_SOURCES = tests/fault/test_cycle.c
tests_fault_test_cycle_LDADD = libttmp.la
