# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/mem/lookup.c lib/mem/mem.h lib/mem/mem_internal.h lib/mem/memlock.c lib/mem/pool.c \
	lib/mem/reg_cache.c lib/mem/region.c lib/mem/region_table.c lib/mem/slab.c \
	lib/mem/spans.c lib/mem/spans.h lib/mem/watch.c lib/mem/watch.h
