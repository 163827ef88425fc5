# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += \
	man/tutti_ps.7 man/tutti_ps_check.1 \
	man/tutti_ps_clock.3 \
	man/tutti_ps_clock_to.3 \
	man/tutti_ps_close.3 \
	man/tutti_ps_dense.3 \
	man/tutti_ps_elastic.3 \
	man/tutti_ps_exact.3 \
	man/tutti_ps_find.3 \
	man/tutti_ps_flush.3 \
	man/tutti_ps_held.3 \
	man/tutti_ps_iclock.3 \
	man/tutti_ps_ipull.3 \
	man/tutti_ps_ipull_rows.3 \
	man/tutti_ps_ipush.3 \
	man/tutti_ps_ipush_rows.3 \
	man/tutti_ps_last_read.3 \
	man/tutti_ps_open.3 \
	man/tutti_ps_pull.3 \
	man/tutti_ps_pull_rows.3 \
	man/tutti_ps_pull_version.3 \
	man/tutti_ps_push.3 \
	man/tutti_ps_push_pull.3 \
	man/tutti_ps_push_rows.3 \
	man/tutti_ps_push_version.3 \
	man/tutti_ps_resize.3 \
	man/tutti_ps_restore.3 \
	man/tutti_ps_rows.3 \
	man/tutti_ps_save.3 \
	man/tutti_ps_server_bytes.3 \
	man/tutti_ps_set.3
