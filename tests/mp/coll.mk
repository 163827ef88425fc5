# SPDX-License-Identifier: BSD-3-Clause
# Tests of the library through its public calls, by jobs of forked ranks.
check_LTLIBRARIES += libttmp.la
libttmp_la_SOURCES = tests/mp/job.c tests/mp/job.h tests/mp/layouts.c tests/mp/layouts.h \
	tests/mp/oracle.c tests/mp/coll/colls.c \
	tests/mp/coll/colls.h
libttmp_la_LIBADD = libtttest.la

TT_MP_TESTS = tests/mp/comm/test_core \
	tests/mp/coll/test_coll \
	tests/mp/coll/test_colls \
	tests/mp/coll/test_random \
	tests/mp/coll/test_args \
	tests/mp/coll/test_call \
	tests/mp/coll/test_codec_allreduce \
	tests/mp/coll/test_codec_steps \
	tests/mp/coll/test_codec_failures \
	tests/mp/coll/test_factors \
	tests/mp/coll/test_neighbors \
	tests/mp/coll/test_neighbor_hier \
	tests/mp/coll/test_push_sum \
	tests/mp/coll/test_auto_codec \
	tests/mp/coll/test_power_sgd \
	tests/mp/coll/test_power_sgd_failures \
	tests/mp/coll/test_partial tests/mp/coll/test_partial_conserve \
	tests/mp/coll/test_concurrent \
	tests/mp/coll/test_options \
	tests/mp/coll/test_priority \
	tests/mp/coll/test_partly \
	tests/mp/coll/test_alltoallw \
	tests/mp/coll/test_displs \
	tests/mp/coll/test_persistent \
	tests/mp/coll/test_persistent_random \
	tests/mp/comm/test_errors \
	tests/mp/comm/test_disagree \
	tests/mp/comm/test_start \
	tests/mp/comm/test_kill \
	tests/mp/p2p/test_flow \
	tests/mp/coll/test_counters \
	tests/mp/comm/test_comm \
	tests/mp/comm/test_idup \
	tests/mp/comm/test_later_failure \
	tests/mp/comm/test_grid \
	tests/mp/p2p/test_p2p \
	tests/mp/p2p/test_p2p_errors \
	tests/mp/p2p/test_deadlines \
	tests/mp/p2p/test_requests \
	tests/mp/p2p/test_matched \
	tests/mp/p2p/test_pull \
	tests/mp/p2p/test_threads \
	tests/mp/p2p/test_brief \
	tests/mp/comm/test_late \
	tests/mp/comm/test_lateness \
	tests/mp/comm/test_slower \
	tests/mp/comm/test_structs \
	tests/mp/comm/test_options \
	tests/mp/coll/test_group \
	tests/mp/rma/test_rma \
	tests/mp/rma/test_win_priority \
	tests/mp/rma/test_flush \
	tests/mp/ps/test_ps \
	tests/mp/ps/test_ps_calls \
	tests/mp/ps/test_ps_priority \
	tests/mp/ps/test_ps_clock \
	tests/mp/ps/test_ps_codec \
	tests/mp/ps/test_ps_codec_leave \
	tests/mp/ps/test_ps_codec_copies \
	tests/mp/ps/test_ps_codec_row_copies \
	tests/mp/ps/test_ps_codec_killed \
	tests/mp/ps/test_ps_codec_modes \
	tests/mp/ps/test_ps_codec_rows \
	tests/mp/ps/test_ps_deaths \
	tests/mp/ps/test_ps_versions \
	tests/mp/ps/test_ps_trace \
	tests/mp/ps/test_ps_errors \
	tests/mp/ps/test_ps_silent \
	tests/mp/ps/test_ps_close \
	tests/mp/ps/test_ps_hammer \
	tests/mp/ps/test_ps_modes \
	tests/mp/ps/test_ps_backup \
	tests/mp/ps/test_ps_softsync \
	tests/mp/ps/test_ps_traffic \
	tests/mp/ps/test_ps_essp \
	tests/mp/comm/test_waits \
	tests/mp/ps/test_ps_refuse \
	tests/mp/ps/test_ps_relay \
	tests/mp/ps/test_ps_damaged \
	tests/mp/ps/test_ps_save \
	tests/mp/ps/test_ps_copies \
	tests/mp/ps/test_ps_chain \
	tests/mp/ps/test_ps_end \
	tests/mp/ps/test_ps_resize \
	tests/mp/ps/test_ps_resize_errors tests/mp/ps/test_ps_leave \
	tests/mp/ps/test_ps_stale \
	tests/mp/ps/test_ps_steady \
	tests/mp/ps/test_ps_soak \
	tests/mp/rma/test_allocate \
	tests/mp/rma/test_accumulate tests/mp/rma/test_accumulate_mapped \
	tests/mp/rma/test_accumulate_served \
	tests/mp/rma/test_strided \
	tests/mp/rma/test_put_layout \
	tests/mp/p2p/test_layout \
	tests/mp/rma/test_atomics \
	tests/mp/rma/test_notify \
	tests/mp/coll/test_ways \
	tests/mp/coll/test_node tests/mp/coll/test_node_comms \
	tests/mp/coll/test_opaque \
	tests/mp/coll/test_own_counts tests/mp/coll/test_root_counts \
	tests/mp/coll/test_rings tests/mp/coll/test_streams \
	tests/mp/coll/test_hier \
	tests/mp/coll/test_scale
check_PROGRAMS += $(TT_MP_TESTS) tests/mp/coll/test_big
TESTS += $(TT_MP_TESTS)
tests_mp_coll_test_coll_SOURCES = tests/mp/coll/test_coll.c
tests_mp_coll_test_coll_LDADD = libttmp.la
tests_mp_coll_test_call_SOURCES = tests/mp/coll/test_call.c
tests_mp_coll_test_call_LDADD = libttmp.la
tests_mp_coll_test_codec_allreduce_SOURCES = tests/mp/coll/test_codec_allreduce.c \
	tests/mp/coll/codec_calls.h
tests_mp_coll_test_codec_allreduce_LDADD = libttmp.la
tests_mp_coll_test_codec_steps_SOURCES = tests/mp/coll/test_codec_steps.c \
	tests/mp/coll/codec_calls.h
tests_mp_coll_test_codec_steps_LDADD = libttmp.la -lm
tests_mp_coll_test_codec_failures_SOURCES = tests/mp/coll/test_codec_failures.c \
	tests/mp/coll/codec_calls.h
tests_mp_coll_test_codec_failures_LDADD = libttmp.la
tests_mp_coll_test_partial_SOURCES = tests/mp/coll/test_partial.c tests/mp/coll/partial.h
tests_mp_coll_test_partial_LDADD = libttmp.la
tests_mp_coll_test_partial_conserve_SOURCES = tests/mp/coll/test_partial_conserve.c \
	tests/mp/coll/partial.h
tests_mp_coll_test_partial_conserve_LDADD = libttmp.la
tests_mp_coll_test_power_sgd_SOURCES = tests/mp/coll/test_power_sgd.c \
	tests/mp/coll/power_sgd.h
tests_mp_coll_test_power_sgd_LDADD = libttmp.la -lm
tests_mp_coll_test_power_sgd_failures_SOURCES = tests/mp/coll/test_power_sgd_failures.c \
	tests/mp/coll/power_sgd.h
tests_mp_coll_test_power_sgd_failures_LDADD = libttmp.la -lm
tests_mp_coll_test_factors_SOURCES = tests/mp/coll/test_factors.c
tests_mp_coll_test_factors_LDADD = libttmp.la -lm
tests_mp_coll_test_neighbor_hier_SOURCES = tests/mp/coll/test_neighbor_hier.c
tests_mp_coll_test_neighbor_hier_LDADD = libttmp.la -lm
tests_mp_coll_test_neighbors_SOURCES = tests/mp/coll/test_neighbors.c
tests_mp_coll_test_neighbors_LDADD = libttmp.la -lm
tests_mp_coll_test_push_sum_SOURCES = tests/mp/coll/test_push_sum.c
tests_mp_coll_test_push_sum_LDADD = libttmp.la -lm
tests_mp_coll_test_auto_codec_SOURCES = tests/mp/coll/test_auto_codec.c
tests_mp_coll_test_auto_codec_LDADD = libttmp.la
tests_mp_coll_test_concurrent_SOURCES = tests/mp/coll/test_concurrent.c
tests_mp_coll_test_concurrent_LDADD = libttmp.la
tests_mp_coll_test_options_SOURCES = tests/mp/coll/test_options.c
tests_mp_coll_test_options_LDADD = libttmp.la
tests_mp_coll_test_priority_SOURCES = tests/mp/coll/test_priority.c
tests_mp_coll_test_priority_LDADD = libttmp.la
tests_mp_coll_test_partly_SOURCES = tests/mp/coll/test_partly.c
tests_mp_coll_test_partly_LDADD = libttmp.la
tests_mp_coll_test_alltoallw_SOURCES = tests/mp/coll/test_alltoallw.c
tests_mp_coll_test_alltoallw_LDADD = libttmp.la
tests_mp_coll_test_displs_SOURCES = tests/mp/coll/test_displs.c
tests_mp_coll_test_displs_LDADD = libttmp.la
tests_mp_coll_test_persistent_SOURCES = tests/mp/coll/test_persistent.c
tests_mp_coll_test_persistent_LDADD = libttmp.la
tests_mp_coll_test_persistent_random_SOURCES = tests/mp/coll/test_persistent_random.c
tests_mp_coll_test_persistent_random_LDADD = libttmp.la
tests_mp_coll_test_args_SOURCES = tests/mp/coll/test_args.c
tests_mp_coll_test_args_LDADD = libttmp.la
tests_mp_coll_test_colls_SOURCES = tests/mp/coll/test_colls.c
tests_mp_coll_test_colls_LDADD = libttmp.la
tests_mp_comm_test_errors_SOURCES = tests/mp/comm/test_errors.c
tests_mp_comm_test_errors_LDADD = libttmp.la
tests_mp_comm_test_disagree_SOURCES = tests/mp/comm/test_disagree.c
tests_mp_comm_test_disagree_LDADD = libttmp.la
tests_mp_comm_test_start_SOURCES = tests/mp/comm/test_start.c
tests_mp_comm_test_start_LDADD = libttmp.la
tests_mp_comm_test_kill_SOURCES = tests/mp/comm/test_kill.c
tests_mp_comm_test_kill_LDADD = libttmp.la
tests_mp_p2p_test_flow_SOURCES = tests/mp/p2p/test_flow.c
tests_mp_p2p_test_flow_LDADD = libttmp.la
tests_mp_coll_test_counters_SOURCES = tests/mp/coll/test_counters.c
tests_mp_coll_test_counters_LDADD = libttmp.la
tests_mp_comm_test_comm_SOURCES = tests/mp/comm/test_comm.c
tests_mp_comm_test_comm_LDADD = libttmp.la
tests_mp_comm_test_idup_SOURCES = tests/mp/comm/test_idup.c
tests_mp_comm_test_idup_LDADD = libttmp.la
tests_mp_comm_test_later_failure_SOURCES = tests/mp/comm/test_later_failure.c
tests_mp_comm_test_later_failure_LDADD = libttmp.la
tests_mp_comm_test_grid_SOURCES = tests/mp/comm/test_grid.c
tests_mp_comm_test_grid_LDADD = libttmp.la
tests_mp_p2p_test_p2p_SOURCES = tests/mp/p2p/test_p2p.c
tests_mp_p2p_test_p2p_LDADD = libttmp.la
tests_mp_p2p_test_p2p_errors_SOURCES = tests/mp/p2p/test_p2p_errors.c
tests_mp_p2p_test_p2p_errors_LDADD = libttmp.la
tests_mp_p2p_test_deadlines_SOURCES = tests/mp/p2p/test_deadlines.c
tests_mp_p2p_test_deadlines_LDADD = libttmp.la
tests_mp_p2p_test_requests_SOURCES = tests/mp/p2p/test_requests.c
tests_mp_p2p_test_requests_LDADD = libttmp.la
tests_mp_p2p_test_matched_SOURCES = tests/mp/p2p/test_matched.c
tests_mp_p2p_test_matched_LDADD = libttmp.la
tests_mp_p2p_test_pull_SOURCES = tests/mp/p2p/test_pull.c
tests_mp_p2p_test_pull_LDADD = libttmp.la
tests_mp_p2p_test_threads_SOURCES = tests/mp/p2p/test_threads.c
tests_mp_p2p_test_threads_LDADD = libttmp.la
tests_mp_p2p_test_brief_SOURCES = tests/mp/p2p/test_brief.c
tests_mp_p2p_test_brief_LDADD = libttmp.la
tests_mp_comm_test_late_SOURCES = tests/mp/comm/test_late.c tests/mp/comm/late.c \
	tests/mp/comm/late.h
tests_mp_comm_test_late_LDADD = libttmp.la
tests_mp_comm_test_lateness_SOURCES = tests/mp/comm/test_lateness.c
tests_mp_comm_test_lateness_LDADD = libttmp.la
tests_mp_comm_test_slower_SOURCES = tests/mp/comm/test_slower.c
tests_mp_comm_test_slower_LDADD = libttmp.la
tests_mp_comm_test_structs_SOURCES = tests/mp/comm/test_structs.c
tests_mp_comm_test_structs_LDADD = libttmp.la
tests_mp_comm_test_options_SOURCES = tests/mp/comm/test_options.c
tests_mp_comm_test_options_LDADD = libttmp.la
tests_mp_coll_test_group_SOURCES = tests/mp/coll/test_group.c
tests_mp_coll_test_group_LDADD = libttmp.la
tests_mp_rma_test_flush_SOURCES = tests/mp/rma/test_flush.c
tests_mp_rma_test_flush_LDADD = libttmp.la
tests_mp_rma_test_win_priority_SOURCES = tests/mp/rma/test_win_priority.c
tests_mp_rma_test_win_priority_LDADD = libttmp.la
tests_mp_rma_test_rma_SOURCES = tests/mp/rma/test_rma.c
tests_mp_rma_test_rma_LDADD = libttmp.la
tests_mp_rma_test_atomics_SOURCES = tests/mp/rma/test_atomics.c
tests_mp_rma_test_atomics_LDADD = libttmp.la
tests_mp_p2p_test_layout_SOURCES = tests/mp/p2p/test_layout.c
tests_mp_p2p_test_layout_LDADD = libttmp.la
tests_mp_rma_test_put_layout_SOURCES = tests/mp/rma/test_put_layout.c \
	tests/mp/rma/each_transport.h
tests_mp_rma_test_put_layout_LDADD = libttmp.la
tests_mp_rma_test_strided_SOURCES = tests/mp/rma/test_strided.c tests/mp/rma/each_transport.h
tests_mp_rma_test_strided_LDADD = libttmp.la
tests_mp_rma_test_accumulate_SOURCES = tests/mp/rma/test_accumulate.c tests/mp/rma/each_transport.h
tests_mp_rma_test_accumulate_LDADD = libttmp.la
tests_mp_rma_test_accumulate_mapped_SOURCES = tests/mp/rma/test_accumulate_mapped.c
tests_mp_rma_test_accumulate_mapped_LDADD = libttmp.la
tests_mp_rma_test_accumulate_served_SOURCES = tests/mp/rma/test_accumulate_served.c
tests_mp_rma_test_accumulate_served_LDADD = libttmp.la
tests_mp_rma_test_allocate_SOURCES = tests/mp/rma/test_allocate.c
tests_mp_rma_test_allocate_LDADD = libttmp.la
tests_mp_rma_test_notify_SOURCES = tests/mp/rma/test_notify.c tests/mp/rma/each_transport.h
tests_mp_rma_test_notify_LDADD = libttmp.la
tests_mp_coll_test_ways_SOURCES = tests/mp/coll/test_ways.c
tests_mp_coll_test_ways_LDADD = libttmp.la
tests_mp_coll_test_scale_SOURCES = tests/mp/coll/test_scale.c
tests_mp_coll_test_scale_LDADD = libttmp.la
tests_mp_coll_test_big_SOURCES = tests/mp/coll/test_big.c
tests_mp_coll_test_big_LDADD = libttmp.la
tests_mp_comm_test_core_SOURCES = tests/mp/comm/test_core.c
tests_mp_comm_test_core_LDADD = libttmp.la
tests_mp_coll_test_random_SOURCES = tests/mp/coll/test_random.c tests/mp/coll/random.c \
	tests/mp/coll/random_oracle.c tests/mp/coll/random.h
tests_mp_coll_test_random_LDADD = libttmp.la
tests_mp_ps_test_ps_SOURCES = tests/mp/ps/test_ps.c
tests_mp_ps_test_ps_LDADD = libttmp.la
tests_mp_ps_test_ps_codec_SOURCES = tests/mp/ps/test_ps_codec.c tests/mp/ps/ps_codec_table.h
tests_mp_ps_test_ps_codec_LDADD = libttmp.la -lm
tests_mp_ps_test_ps_codec_leave_SOURCES = tests/mp/ps/test_ps_codec_leave.c \
	tests/mp/ps/ps_codec_table.h
tests_mp_ps_test_ps_codec_leave_LDADD = libttmp.la -lm
tests_mp_ps_test_ps_codec_row_copies_SOURCES = tests/mp/ps/test_ps_codec_row_copies.c \
	tests/mp/ps/ps_coded.h
tests_mp_ps_test_ps_codec_row_copies_LDADD = libttmp.la
tests_mp_ps_test_ps_codec_copies_SOURCES = tests/mp/ps/test_ps_codec_copies.c \
	tests/mp/ps/ps_coded.h
tests_mp_ps_test_ps_codec_copies_LDADD = libttmp.la
tests_mp_ps_test_ps_codec_killed_SOURCES = tests/mp/ps/test_ps_codec_killed.c \
	tests/mp/ps/ps_codec_table.h
tests_mp_ps_test_ps_codec_killed_LDADD = libttmp.la
tests_mp_ps_test_ps_codec_modes_SOURCES = tests/mp/ps/test_ps_codec_modes.c \
	tests/mp/ps/ps_codec_table.h
tests_mp_ps_test_ps_codec_modes_LDADD = libttmp.la -lm
tests_mp_ps_test_ps_codec_rows_SOURCES = tests/mp/ps/test_ps_codec_rows.c
tests_mp_ps_test_ps_codec_rows_LDADD = libttmp.la
tests_mp_ps_test_ps_hammer_SOURCES = tests/mp/ps/test_ps_hammer.c
tests_mp_ps_test_ps_hammer_LDADD = libttmp.la
tests_mp_ps_test_ps_resize_SOURCES = tests/mp/ps/test_ps_resize.c
tests_mp_ps_test_ps_resize_LDADD = libttmp.la -lm
tests_mp_ps_test_ps_resize_errors_SOURCES = tests/mp/ps/test_ps_resize_errors.c
tests_mp_ps_test_ps_resize_errors_LDADD = libttmp.la
tests_mp_ps_test_ps_leave_SOURCES = tests/mp/ps/test_ps_leave.c
tests_mp_ps_test_ps_leave_LDADD = libttmp.la
tests_mp_ps_test_ps_copies_SOURCES = tests/mp/ps/test_ps_copies.c
tests_mp_ps_test_ps_copies_LDADD = libttmp.la
tests_mp_ps_test_ps_chain_SOURCES = tests/mp/ps/test_ps_chain.c
tests_mp_ps_test_ps_chain_LDADD = libttmp.la
tests_mp_ps_test_ps_end_SOURCES = tests/mp/ps/test_ps_end.c
tests_mp_ps_test_ps_end_LDADD = libttmp.la
tests_mp_ps_test_ps_stale_SOURCES = tests/mp/ps/test_ps_stale.c
tests_mp_ps_test_ps_stale_LDADD = libttmp.la
tests_mp_ps_test_ps_steady_SOURCES = tests/mp/ps/test_ps_steady.c
tests_mp_ps_test_ps_steady_LDADD = libttmp.la
tests_mp_ps_test_ps_modes_SOURCES = tests/mp/ps/test_ps_modes.c
tests_mp_ps_test_ps_modes_LDADD = libttmp.la
tests_mp_ps_test_ps_backup_SOURCES = tests/mp/ps/test_ps_backup.c
tests_mp_ps_test_ps_backup_LDADD = libttmp.la
tests_mp_ps_test_ps_softsync_SOURCES = tests/mp/ps/test_ps_softsync.c
tests_mp_ps_test_ps_softsync_LDADD = libttmp.la
tests_mp_ps_test_ps_traffic_SOURCES = tests/mp/ps/test_ps_traffic.c
tests_mp_ps_test_ps_traffic_LDADD = libttmp.la -lm
tests_mp_ps_test_ps_refuse_SOURCES = tests/mp/ps/test_ps_refuse.c
tests_mp_ps_test_ps_refuse_LDADD = libttmp.la
tests_mp_comm_test_waits_SOURCES = tests/mp/comm/test_waits.c
tests_mp_comm_test_waits_LDADD = libttmp.la
tests_mp_ps_test_ps_essp_SOURCES = tests/mp/ps/test_ps_essp.c
tests_mp_ps_test_ps_essp_LDADD = libttmp.la
tests_mp_ps_test_ps_relay_SOURCES = tests/mp/ps/test_ps_relay.c
tests_mp_ps_test_ps_relay_LDADD = libttmp.la
tests_mp_ps_test_ps_damaged_SOURCES = tests/mp/ps/test_ps_damaged.c
tests_mp_ps_test_ps_damaged_LDADD = libttmp.la
tests_mp_ps_test_ps_save_SOURCES = tests/mp/ps/test_ps_save.c
tests_mp_ps_test_ps_save_LDADD = libttmp.la
tests_mp_ps_test_ps_soak_SOURCES = tests/mp/ps/test_ps_soak.c
tests_mp_ps_test_ps_soak_LDADD = libttmp.la
EXTRA_DIST += tests/mp/ps/safetensors.py
tests_mp_ps_test_ps_priority_SOURCES = tests/mp/ps/test_ps_priority.c
tests_mp_ps_test_ps_priority_LDADD = libttmp.la
tests_mp_ps_test_ps_calls_SOURCES = tests/mp/ps/test_ps_calls.c
tests_mp_ps_test_ps_calls_LDADD = libttmp.la
tests_mp_ps_test_ps_versions_SOURCES = tests/mp/ps/test_ps_versions.c
tests_mp_ps_test_ps_versions_LDADD = libttmp.la
tests_mp_ps_test_ps_deaths_SOURCES = tests/mp/ps/test_ps_deaths.c
tests_mp_ps_test_ps_deaths_LDADD = libttmp.la
tests_mp_ps_test_ps_trace_SOURCES = tests/mp/ps/test_ps_trace.c
tests_mp_ps_test_ps_trace_LDADD = libttmp.la
tests_mp_ps_test_ps_clock_SOURCES = tests/mp/ps/test_ps_clock.c
tests_mp_ps_test_ps_clock_LDADD = libttmp.la
tests_mp_ps_test_ps_errors_SOURCES = tests/mp/ps/test_ps_errors.c
tests_mp_ps_test_ps_errors_LDADD = libttmp.la
tests_mp_ps_test_ps_close_SOURCES = tests/mp/ps/test_ps_close.c
tests_mp_ps_test_ps_close_LDADD = libttmp.la
tests_mp_ps_test_ps_silent_SOURCES = tests/mp/ps/test_ps_silent.c
tests_mp_ps_test_ps_silent_LDADD = libttmp.la
tests_mp_coll_test_node_SOURCES = tests/mp/coll/test_node.c
tests_mp_coll_test_node_LDADD = libttmp.la
tests_mp_coll_test_node_comms_SOURCES = tests/mp/coll/test_node_comms.c
tests_mp_coll_test_node_comms_LDADD = libttmp.la
tests_mp_coll_test_own_counts_SOURCES = tests/mp/coll/test_own_counts.c
tests_mp_coll_test_own_counts_LDADD = libttmp.la
tests_mp_coll_test_root_counts_SOURCES = tests/mp/coll/test_root_counts.c
tests_mp_coll_test_root_counts_LDADD = libttmp.la
tests_mp_coll_test_opaque_SOURCES = tests/mp/coll/test_opaque.c
tests_mp_coll_test_opaque_LDADD = libttmp.la
tests_mp_coll_test_rings_SOURCES = tests/mp/coll/test_rings.c tests/mp/coll/torn.c \
	tests/mp/coll/torn.h
tests_mp_coll_test_rings_LDADD = libttmp.la
tests_mp_coll_test_streams_SOURCES = tests/mp/coll/test_streams.c tests/mp/coll/torn.c \
	tests/mp/coll/torn.h
tests_mp_coll_test_streams_LDADD = libttmp.la
tests_mp_coll_test_hier_SOURCES = tests/mp/coll/test_hier.c
tests_mp_coll_test_hier_LDADD = libttmp.la
