# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/base/byte_blocks.c lib/base/byte_blocks.h \
	lib/base/clock.h lib/base/copy.c lib/base/copy.h lib/base/datatype.c \
	lib/base/datatype.h lib/base/distance.h lib/base/env.c \
	lib/base/env.def lib/base/env.h lib/base/error.c lib/base/error.h lib/base/faults.c \
	lib/base/faults.h lib/base/hash.h lib/base/hash_map.c lib/base/hash_map.h \
	lib/base/heap.h lib/base/inject.c lib/base/inject.h lib/base/library.c \
	lib/base/library.h lib/base/list.h lib/base/lists.c lib/base/lists.h \
	lib/base/lock.c lib/base/lock.h lib/base/log.c \
	lib/base/log.h lib/base/number.h lib/base/proc.c lib/base/proc.h lib/base/reserve.c \
	lib/base/reserve.h lib/base/signals.c lib/base/signals.h \
	lib/base/sized.c lib/base/sized.h lib/base/spawn.c lib/base/spawn.h

# Every file of the library, so that TUTTI_FAULT reaches all allocations and descriptors.
libtt_la_CPPFLAGS = $(AM_CPPFLAGS) -include $(top_srcdir)/lib/base/inject.h
