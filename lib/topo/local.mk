# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/topo/cache.c lib/topo/host.c lib/topo/move_cpu.c \
	lib/topo/numa_nodes.c lib/topo/topo.c lib/topo/topo.h
