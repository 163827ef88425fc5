# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/wire/transport.c lib/wire/transport.h lib/wire/transports.def
