# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += man/tutti_blame.1 man/tutti_ras.1 man/tutti_doctor.1 \
	man/tutti_dump.5 man/tutti_trace.5
