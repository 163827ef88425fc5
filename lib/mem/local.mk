# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/mem/mem.h lib/mem/internal.h lib/mem/region.c lib/mem/table.c lib/mem/pool.c \
	lib/mem/slab.c lib/mem/memlock.c lib/mem/spans.c lib/mem/spans.h lib/mem/watch.c \
	lib/mem/watch.h lib/mem/cache.c
