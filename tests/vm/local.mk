# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += tests/vm/init.sh
dist_check_SCRIPTS += tests/vm/arm64.sh tests/vm/guest.sh tests/vm/inside.sh tests/vm/pair.sh \
	tests/vm/verbs.sh
if HAVE_VERBS
TESTS += tests/vm/verbs.sh tests/vm/pair.sh
endif
check_PROGRAMS += tests/vm/test_verbs
tests_vm_test_verbs_SOURCES = tests/vm/test_verbs.c
tests_vm_test_verbs_LDADD = libconform.la
TESTS += tests/vm/test_verbs
if HAVE_VERBS
check_PROGRAMS += tests/vm/test_cm
tests_vm_test_cm_SOURCES = tests/vm/test_cm.c
tests_vm_test_cm_LDADD = libconform.la
TESTS += tests/vm/test_cm
endif
