# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/engine/engine.h lib/engine/call.c lib/engine/record.c lib/engine/combine.c lib/engine/fuse.c lib/engine/agree.c lib/engine/node.c lib/engine/node_comm.c lib/engine/node.h lib/engine/quick.c lib/engine/plans.c \
	lib/engine/request.c lib/engine/ring.c lib/engine/run.c lib/engine/spread.c lib/engine/thread.c lib/engine/wait.c
