# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += transports/verbs/configure.m4
if HAVE_VERBS
libtt_la_SOURCES += \
	transports/verbs/verbs.h transports/verbs/verbs_load.c transports/verbs/verbs_load.h \
	transports/verbs/verbs.c transports/verbs/device.c transports/verbs/rail.c \
	transports/verbs/rail_rules.c transports/verbs/verbs_mr.c transports/verbs/qp.c \
	transports/verbs/verbs_ep.c transports/verbs/verbs_rma.c transports/verbs/verbs_split.c \
	transports/verbs/verbs_cq.c transports/verbs/bufs.c transports/verbs/size.c \
	transports/verbs/verbs_events.c transports/verbs/outage.c transports/verbs/cm.c \
	transports/verbs/cm_listen.c
endif
