# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/job/grow.c lib/job/init.c lib/job/survive.c lib/job/tuning_table.c
