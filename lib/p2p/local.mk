# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/p2p/p2p.h lib/p2p/piece.c lib/p2p/recv.c lib/p2p/request.c lib/p2p/send.c lib/p2p/state.c
