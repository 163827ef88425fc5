# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/observe/dump.c lib/observe/dump.h lib/observe/flight.c lib/observe/flight.h \
	lib/observe/json.c lib/observe/json.h lib/observe/report/prometheus.c \
	lib/observe/report/prometheus.h lib/observe/report/rank_report.c \
	lib/observe/report/rank_report.h lib/observe/trace.c lib/observe/trace.h
