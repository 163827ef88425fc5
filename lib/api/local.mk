# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/api/agree.c lib/api/api.h lib/api/check.c lib/api/coll.c lib/api/comm.c lib/api/describe.c lib/api/gather.c \
	lib/api/group.c lib/api/grow.c lib/api/init.c lib/api/look.c lib/api/look.h lib/api/mem.c lib/api/op.c lib/api/p2p.c lib/api/prom.c lib/api/prom.h \
	lib/api/ps.c lib/api/ps_calls.c lib/api/ps_move.c lib/api/ps_open.h lib/api/ps_resize.c lib/api/ps_resize.h lib/api/ps_save.c lib/api/ps_tables.c \
	lib/api/reduce.c lib/api/survive.c lib/api/tune.c \
	lib/api/request.c lib/api/rma.c
