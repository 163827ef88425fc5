# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/node/node.h lib/node/internal.h lib/node/seg.c lib/node/mem.c lib/node/group.c lib/node/pull.c lib/node/ring.c
