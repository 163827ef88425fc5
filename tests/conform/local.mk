# SPDX-License-Identifier: BSD-3-Clause
# One program a configuration, so that a failure names it and the harness can run them apart.
check_LTLIBRARIES += libconform.la
libconform_la_SOURCES = \
	tests/conform/conform.h tests/conform/net.c tests/conform/loop.c tests/conform/loop.h \
	tests/conform/t_basic.c tests/conform/t_data.c tests/conform/t_more.c tests/conform/t_keys.c
libconform_la_LIBADD = libtttest.la
conform_programs = \
	tests/conform/conform_loop \
	tests/conform/conform_self \
	tests/conform/conform_shm \
	tests/conform/conform_ofi_tcp \
	tests/conform/conform_ofi_rxm \
	tests/conform/conform_ofi_sockets \
	tests/conform/conform_fault_loop \
	tests/conform/conform_fault_self \
	tests/conform/conform_fault_shm \
	tests/conform/conform_fault_ofi_tcp \
	tests/conform/conform_fault_ofi_rxm \
	tests/conform/conform_fault_ofi_sockets
check_PROGRAMS += $(conform_programs)
TESTS += $(conform_programs)

tests_conform_conform_loop_SOURCES = tests/conform/main.c
tests_conform_conform_loop_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"loop"'
tests_conform_conform_loop_LDADD = libconform.la

tests_conform_conform_self_SOURCES = tests/conform/main.c
tests_conform_conform_self_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"self"'
tests_conform_conform_self_LDADD = libconform.la

tests_conform_conform_shm_SOURCES = tests/conform/main.c
tests_conform_conform_shm_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"shm"'
tests_conform_conform_shm_LDADD = libconform.la

tests_conform_conform_ofi_tcp_SOURCES = tests/conform/main.c
tests_conform_conform_ofi_tcp_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"ofi_tcp"'
tests_conform_conform_ofi_tcp_LDADD = libconform.la

tests_conform_conform_ofi_rxm_SOURCES = tests/conform/main.c
tests_conform_conform_ofi_rxm_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"ofi_rxm"'
tests_conform_conform_ofi_rxm_LDADD = libconform.la

tests_conform_conform_ofi_sockets_SOURCES = tests/conform/main.c
tests_conform_conform_ofi_sockets_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"ofi_sockets"'
tests_conform_conform_ofi_sockets_LDADD = libconform.la

tests_conform_conform_fault_loop_SOURCES = tests/conform/main.c
tests_conform_conform_fault_loop_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"loop"' -DCONFORM_FAULT=1
tests_conform_conform_fault_loop_LDADD = libconform.la

tests_conform_conform_fault_self_SOURCES = tests/conform/main.c
tests_conform_conform_fault_self_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"self"' -DCONFORM_FAULT=1
tests_conform_conform_fault_self_LDADD = libconform.la

tests_conform_conform_fault_shm_SOURCES = tests/conform/main.c
tests_conform_conform_fault_shm_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"shm"' -DCONFORM_FAULT=1
tests_conform_conform_fault_shm_LDADD = libconform.la

tests_conform_conform_fault_ofi_tcp_SOURCES = tests/conform/main.c
tests_conform_conform_fault_ofi_tcp_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"ofi_tcp"' \
	-DCONFORM_FAULT=1
tests_conform_conform_fault_ofi_tcp_LDADD = libconform.la

tests_conform_conform_fault_ofi_rxm_SOURCES = tests/conform/main.c
tests_conform_conform_fault_ofi_rxm_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"ofi_rxm"' \
	-DCONFORM_FAULT=1
tests_conform_conform_fault_ofi_rxm_LDADD = libconform.la

tests_conform_conform_fault_ofi_sockets_SOURCES = tests/conform/main.c
tests_conform_conform_fault_ofi_sockets_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"ofi_sockets"' \
	-DCONFORM_FAULT=1
tests_conform_conform_fault_ofi_sockets_LDADD = libconform.la

# These need an RDMA device: tests/vm runs them in its guest.
conform_device_programs = \
	tests/conform/conform_verbs \
	tests/conform/conform_verbs_qps \
	tests/conform/conform_ofi_verbs \
	tests/conform/conform_fault_verbs \
	tests/conform/conform_fault_ofi_verbs
check_PROGRAMS += $(conform_device_programs)

tests_conform_conform_verbs_SOURCES = tests/conform/main.c
tests_conform_conform_verbs_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"verbs"'
tests_conform_conform_verbs_LDADD = libconform.la

tests_conform_conform_verbs_qps_SOURCES = tests/conform/main.c
tests_conform_conform_verbs_qps_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"verbs_qps"'
tests_conform_conform_verbs_qps_LDADD = libconform.la

tests_conform_conform_ofi_verbs_SOURCES = tests/conform/main.c
tests_conform_conform_ofi_verbs_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"ofi_verbs"'
tests_conform_conform_ofi_verbs_LDADD = libconform.la

tests_conform_conform_fault_verbs_SOURCES = tests/conform/main.c
tests_conform_conform_fault_verbs_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"verbs"' -DCONFORM_FAULT=1
tests_conform_conform_fault_verbs_LDADD = libconform.la

tests_conform_conform_fault_ofi_verbs_SOURCES = tests/conform/main.c
tests_conform_conform_fault_ofi_verbs_CPPFLAGS = $(AM_CPPFLAGS) -DCONFORM='"ofi_verbs"' \
	-DCONFORM_FAULT=1
tests_conform_conform_fault_ofi_verbs_LDADD = libconform.la
