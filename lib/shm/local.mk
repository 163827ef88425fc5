# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/shm/listed_memory.c lib/shm/segment.c lib/shm/segment.h
