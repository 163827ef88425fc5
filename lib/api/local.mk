# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/api/accumulate_calls.c lib/api/alltoallw_calls.c lib/api/api.h lib/api/check_call.c \
	lib/api/check_layout.c lib/api/codec_calls.c lib/api/coll_calls.c lib/api/comm_calls.c \
	lib/api/describe.c lib/api/displs.c lib/api/feedback_calls.c lib/api/gather_calls.c \
	lib/api/gossip_calls.c \
	lib/api/graph_calls.c lib/api/grid_calls.c lib/api/group_calls.c lib/api/lowrank_calls.c \
	lib/api/partial_calls.c \
	lib/api/job_calls.c lib/api/layout_calls.c lib/api/mem_calls.c lib/api/notify_calls.c \
	lib/api/neighbor_calls.c lib/api/push_sum_calls.c \
	lib/api/op_calls.c lib/api/p2p_calls.c lib/api/ps_calls.c lib/api/ps_setup_calls.c \
	lib/api/reduce_calls.c lib/api/request_calls.c lib/api/request_set_calls.c \
	lib/api/rma_calls.c lib/api/rule_calls.c lib/api/strided_calls.c lib/api/struct_call.c
