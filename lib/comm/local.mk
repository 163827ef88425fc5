# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/comm/accuse.c lib/comm/agree.c lib/comm/comm.c lib/comm/comm.h lib/comm/fail.c lib/comm/op.c lib/comm/pair.c \
	lib/comm/stuck.c
