# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	transports/shm/shm.c transports/shm/shm.h transports/shm/seg.c transports/shm/reg.c \
	transports/shm/rma.c
