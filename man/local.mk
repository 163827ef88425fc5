# SPDX-License-Identifier: BSD-3-Clause
include man/env.mk
include man/perf.mk

dist_man_MANS += \
	man/tutti_info.1 man/tutti_run.1 \
	man/tutti.7 man/tutti_transport.7 \
	man/tutti_alloc.3 \
	man/tutti_allreduce.3 \
	man/tutti_allreduce_init.3 \
	man/tutti_barrier.3 \
	man/tutti_barrier_init.3 \
	man/tutti_bcast.3 \
	man/tutti_bcast_init.3 \
	man/tutti_comm_abort.3 \
	man/tutti_comm_context.3 \
	man/tutti_comm_dup.3 \
	man/tutti_comm_error.3 \
	man/tutti_comm_free.3 \
	man/tutti_comm_perror.3 \
	man/tutti_comm_rank.3 \
	man/tutti_comm_size.3 \
	man/tutti_comm_split.3 \
	man/tutti_comm_split_host.3 \
	man/tutti_compare_swap.3 \
	man/tutti_datatype_size.3 \
	man/tutti_deregister.3 \
	man/tutti_describe.3 \
	man/tutti_fetch_add.3 \
	man/tutti_finalize.3 \
	man/tutti_free.3 \
	man/tutti_get.3 \
	man/tutti_iallreduce.3 \
	man/tutti_ibarrier.3 \
	man/tutti_ibcast.3 \
	man/tutti_icompare_swap.3 \
	man/tutti_ifetch_add.3 \
	man/tutti_iget.3 \
	man/tutti_iput.3 \
	man/tutti_iput_notify.3 \
	man/tutti_init.3 \
	man/tutti_last_error.3 \
	man/tutti_put.3 \
	man/tutti_put_notify.3 \
	man/tutti_register.3 \
	man/tutti_request_free.3 \
	man/tutti_set_log.3 \
	man/tutti_start.3 \
	man/tutti_stats_get.3 \
	man/tutti_strerror.3 \
	man/tutti_test.3 \
	man/tutti_unique_id_get.3 \
	man/tutti_version.3 \
	man/tutti_wait.3 \
	man/tutti_waitall.3 \
	man/tutti_waitany.3 \
	man/tutti_win_create.3 \
	man/tutti_win_flush.3 \
	man/tutti_win_flush_all.3 \
	man/tutti_win_free.3 \
	man/tutti_win_wait_notify.3 \
	man/tutti_world.3
