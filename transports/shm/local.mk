# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	transports/shm/shm.c transports/shm/shm.h transports/shm/shm_segment.c \
	transports/shm/shm_reg.c \
	transports/shm/shm_rma.c
