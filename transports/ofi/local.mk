# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += transports/ofi/configure.m4
if HAVE_OFI
libtt_la_SOURCES += \
	transports/ofi/ofi.h transports/ofi/ofi_load.c transports/ofi/ofi_load.h \
	transports/ofi/fabric.c transports/ofi/query.c transports/ofi/symbols.c \
	transports/ofi/ofi_mr.c \
	transports/ofi/ofi_ep.c transports/ofi/msg_ep.c transports/ofi/rdm_ep.c \
	transports/ofi/ofi_rma.c \
	transports/ofi/ofi_cq.c transports/ofi/ofi_events.c transports/ofi/provider.c \
	transports/ofi/tcp.c \
	transports/ofi/strangers.c
endif
