# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += transports/ofi/configure.m4
if HAVE_OFI
libtt_la_SOURCES += \
	transports/ofi/ofi.h transports/ofi/load.c transports/ofi/load.h transports/ofi/fabric.c transports/ofi/query.c transports/ofi/symbols.c transports/ofi/mr.c \
	transports/ofi/ep.c transports/ofi/msg_ep.c transports/ofi/rdm_ep.c transports/ofi/rma.c \
	transports/ofi/cq.c transports/ofi/events.c transports/ofi/provider.c transports/ofi/tcp.c \
	transports/ofi/strangers.c
endif
