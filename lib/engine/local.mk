# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/engine/alltoallw.c lib/engine/alltoallw.h lib/engine/call.c lib/engine/code.c \
	lib/engine/codec_choice.c \
	lib/engine/combine.c \
	lib/engine/crowding.c lib/engine/doing.c lib/engine/feedback.c \
	lib/engine/engine.h lib/engine/fuse.c lib/engine/kin.c lib/engine/launch.c \
	lib/engine/launch.h lib/engine/live_vote.c \
	lib/engine/node/node_comm.c lib/engine/node/node_ops.c lib/engine/node/node_ops.h \
	lib/engine/node/node_probe.c lib/engine/node/persistent_area.c \
	lib/engine/node/ring_reduce.c lib/engine/node/short_path.c \
	lib/engine/node/short_path.h lib/engine/node/short_shape.c \
	lib/engine/node/stream_input.c lib/engine/plans.c \
	lib/engine/outlive.c \
	lib/engine/record.c lib/engine/request.c lib/engine/request_memory.c \
	lib/engine/run.c lib/engine/thread.c \
	lib/engine/vote.c lib/engine/vote.h lib/engine/wait.c lib/engine/share_host.c \
	lib/engine/wait_set.c
