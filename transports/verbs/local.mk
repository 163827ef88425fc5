# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += transports/verbs/configure.m4
if HAVE_VERBS
libtt_la_SOURCES += \
	transports/verbs/verbs.h transports/verbs/load.c transports/verbs/load.h transports/verbs/verbs.c transports/verbs/device.c \
	transports/verbs/rail.c transports/verbs/rules.c transports/verbs/mr.c transports/verbs/qp.c transports/verbs/ep.c transports/verbs/rma.c \
	transports/verbs/cq.c transports/verbs/bufs.c transports/verbs/size.c transports/verbs/events.c transports/verbs/outage.c transports/verbs/cm.c
endif
