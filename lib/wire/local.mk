# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/wire/amo.c lib/wire/card.c lib/wire/channel.c lib/wire/channel_state.c \
	lib/wire/checksum.c lib/wire/connect.c lib/wire/flow.c lib/wire/kept.c \
	lib/wire/key_table.c lib/wire/links.c lib/wire/loopback.c lib/wire/mac.c \
	lib/wire/open.c lib/wire/orphan.c lib/wire/pacing.c lib/wire/port.c \
	lib/wire/progress.c lib/wire/slower.c lib/wire/token.c lib/wire/transport.c \
	lib/wire/transport.h lib/wire/transports.def lib/wire/wire.c lib/wire/wire.h \
	lib/wire/wire_internal.h lib/wire/wire_recv.c lib/wire/wire_send.c
