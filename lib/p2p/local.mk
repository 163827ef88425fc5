# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/p2p/p2p.h lib/p2p/p2p_brief.c lib/p2p/p2p_recv.c lib/p2p/p2p_request.c \
	lib/p2p/p2p_send.c lib/p2p/p2p_state.c lib/p2p/p2p_pull.c lib/p2p/piece.c
