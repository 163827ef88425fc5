# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/wire/transport.c lib/wire/transport.h lib/wire/transports.def \
	lib/wire/wire.h lib/wire/internal.h \
	lib/wire/amo.c lib/wire/card.c lib/wire/channel.c lib/wire/connect.c lib/wire/flow.c lib/wire/links.c lib/wire/loop.c lib/wire/mac.c \
	lib/wire/open.c lib/wire/port.c lib/wire/progress.c lib/wire/recv.c lib/wire/send.c lib/wire/sum.c \
	lib/wire/table.c lib/wire/token.c lib/wire/wire.c
