# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/ps/checkpoint/checkpoint.c lib/ps/checkpoint/checkpoint_server.c \
	lib/ps/checkpoint/file_sums.c \
	lib/ps/checkpoint/held_file.c lib/ps/checkpoint/restore.c lib/ps/checkpoint/safetensors.c \
	lib/ps/checkpoint/safetensors.h lib/ps/essp/essp.c lib/ps/essp/essp.h \
	lib/ps/essp/essp_batch.c lib/ps/essp/essp_cache.c lib/ps/essp/essp_relay.c \
	lib/ps/essp/essp_tree.c lib/ps/mailbox.c lib/ps/message.h lib/ps/placement.c lib/ps/ps.h \
	lib/ps/ps_open.c lib/ps/ps_open.h lib/ps/ps_tables.c lib/ps/ps_trace.c \
	lib/ps/resize/resize.c lib/ps/resize/resize.h lib/ps/resize/resize_begin.c \
	lib/ps/resize/resize_move.c lib/ps/resize/resize_run.c lib/ps/resize/resize_run.h \
	lib/ps/server/apply_rule.c lib/ps/server/chain.c lib/ps/server/departure.c \
	lib/ps/server/handle.c lib/ps/server/inbox.c lib/ps/server/initial_values.c \
	lib/ps/server/notify.c lib/ps/server/publish.c lib/ps/server/publish_pass.c \
	lib/ps/server/seats.c \
	lib/ps/server/server.c lib/ps/server/server.h lib/ps/server/table_store.c \
	lib/ps/server/table_store.h lib/ps/server/thread_pool.c lib/ps/shutdown.c \
	lib/ps/table_layout.c lib/ps/table_match.c lib/ps/update_sum.c \
	lib/ps/worker/accumulate.h \
	lib/ps/worker/block_read.c lib/ps/worker/budget.c lib/ps/worker/downpour.c \
	lib/ps/worker/held_back.c lib/ps/worker/held_rows.c lib/ps/worker/held_back.h \
	lib/ps/worker/ps_elastic.c lib/ps/worker/pull.c lib/ps/worker/pull.h \
	lib/ps/worker/push.c lib/ps/worker/row_places.c lib/ps/worker/rpc.c \
	lib/ps/worker/server_link.c lib/ps/worker/table_range.c \
	lib/ps/worker/urgency.c lib/ps/worker/whole_version.c \
	lib/ps/worker/worker_call.c lib/ps/worker/worker_clock.c \
	lib/ps/worker/worker_waits.c
