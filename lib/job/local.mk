# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/job/comm_make.c lib/job/comm_subset.c lib/job/env_job.c lib/job/finalize.c \
	lib/job/grid.c lib/job/grid.h lib/job/grow.c \
	lib/job/init.c lib/job/job.h lib/job/split.c lib/job/survive.c lib/job/tuning_table.c
