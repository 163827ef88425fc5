# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/rma/rma.h lib/rma/win.c lib/rma/op.c lib/rma/request.c lib/rma/atomic.c
