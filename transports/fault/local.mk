# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	transports/fault/fault.c transports/fault/fault.h transports/fault/fault_events.c \
	transports/fault/flip.c
