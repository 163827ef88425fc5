# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += tests/unit/test_reduce tests/unit/test_weigh tests/unit/test_mix \
	tests/unit/test_xxh
TESTS += tests/unit/test_reduce tests/unit/test_weigh tests/unit/test_mix \
	tests/unit/test_xxh
tests_unit_test_reduce_SOURCES = tests/unit/test_reduce.c
tests_unit_test_reduce_LDADD = libtttest.la
tests_unit_test_weigh_SOURCES = tests/unit/test_weigh.c tests/unit/any_numbers.h
tests_unit_test_weigh_LDADD = libtttest.la -lm
tests_unit_test_mix_SOURCES = tests/unit/test_mix.c tests/unit/any_numbers.h
tests_unit_test_mix_LDADD = libtttest.la -lm
tests_unit_test_xxh_SOURCES = tests/unit/test_xxh.c
tests_unit_test_xxh_LDADD = libtttest.la
