# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/diag/flight.c lib/diag/flight.h lib/diag/dump.c lib/diag/dump.h lib/diag/json.c lib/diag/json.h \
	lib/diag/trace.c lib/diag/trace.h
