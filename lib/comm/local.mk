# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/comm/agree.c lib/comm/call_fields.c lib/comm/codec_names.c lib/comm/comm.c \
	lib/comm/comm.h lib/comm/fail.c lib/comm/lost_link.c \
	lib/comm/operator.c lib/comm/pair.c lib/comm/persistent.c lib/comm/polled.c \
	lib/comm/refusal.c lib/comm/stuck.c lib/comm/stuck.h lib/comm/late_warning.c
