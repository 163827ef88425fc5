# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/rma/accumulate_mapped.c lib/rma/accumulate_target.c lib/rma/atomic.c \
	lib/rma/notification.c lib/rma/part_lock.h lib/rma/put_get.c lib/rma/rma.h \
	lib/rma/rma_request.c lib/rma/window_maps.c lib/rma/strided.c \
	lib/rma/win_accumulate.c lib/rma/win_accumulate.h lib/rma/window.c \
	lib/rma/window_make.c
