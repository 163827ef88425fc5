# SPDX-License-Identifier: BSD-3-Clause
boot_help = tests/unit/boot_help.c tests/unit/boot_help.h
boot_tests = tests/unit/test_boot_start tests/unit/test_boot_kill tests/unit/test_boot_mend \
	tests/unit/test_boot_alive tests/unit/test_boot_refuse tests/unit/test_boot_stop \
	tests/unit/test_boot_find tests/unit/test_boot_kvs
check_PROGRAMS += $(boot_tests)
TESTS += $(boot_tests)
tests_unit_test_boot_start_SOURCES = tests/unit/test_boot_start.c $(boot_help)
tests_unit_test_boot_start_LDADD = libtttest.la
tests_unit_test_boot_kill_SOURCES = tests/unit/test_boot_kill.c $(boot_help)
tests_unit_test_boot_kill_LDADD = libtttest.la
tests_unit_test_boot_mend_SOURCES = tests/unit/test_boot_mend.c $(boot_help)
tests_unit_test_boot_mend_LDADD = libtttest.la
tests_unit_test_boot_alive_SOURCES = tests/unit/test_boot_alive.c $(boot_help)
tests_unit_test_boot_alive_LDADD = libtttest.la
tests_unit_test_boot_refuse_SOURCES = tests/unit/test_boot_refuse.c $(boot_help)
tests_unit_test_boot_refuse_LDADD = libtttest.la
tests_unit_test_boot_stop_SOURCES = tests/unit/test_boot_stop.c $(boot_help)
tests_unit_test_boot_stop_LDADD = libtttest.la
tests_unit_test_boot_find_SOURCES = tests/unit/test_boot_find.c $(boot_help)
tests_unit_test_boot_find_LDADD = libtttest.la
tests_unit_test_boot_kvs_SOURCES = tests/unit/test_boot_kvs.c $(boot_help)
tests_unit_test_boot_kvs_LDADD = libtttest.la
