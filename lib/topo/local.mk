# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/topo/topo.c lib/topo/host.c lib/topo/spread.c lib/topo/topo.h
