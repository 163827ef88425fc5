# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/node/copy_or_read.c lib/node/kept_areas.c lib/node/node.h lib/node/node_group.c \
	lib/node/node_internal.h lib/node/node_segment.c lib/node/node_turns.c \
	lib/node/peer_memory.c lib/node/peer_pull.c lib/node/reach.c lib/node/call_ways.c \
	lib/node/staging_ring.c lib/node/stores.c lib/node/stores.h lib/node/stream.c \
	lib/node/trials.c lib/node/trials.h
