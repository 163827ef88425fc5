# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/ps/ps.h lib/ps/server.h lib/ps/store.h lib/ps/eager.h lib/ps/rule_loops.h \
	lib/ps/ask.c lib/ps/box.c lib/ps/budget.c lib/ps/cache.c lib/ps/chain.c lib/ps/clock.c lib/ps/crew.c lib/ps/downpour.c lib/ps/eager.c lib/ps/feed.c \
	lib/ps/file.c lib/ps/fill.c lib/ps/handle.c lib/ps/inbox.c lib/ps/keep.c lib/ps/keys.c lib/ps/leave.c \
	lib/ps/link.c lib/ps/pass.c lib/ps/place.c lib/ps/publish.c lib/ps/pull.c lib/ps/push.c \
	lib/ps/range.c lib/ps/read.c lib/ps/relay.c lib/ps/resize.c lib/ps/rows.c lib/ps/rule.c lib/ps/server.c lib/ps/store.c lib/ps/sum.c \
	lib/ps/table.c lib/ps/task.c lib/ps/tell.c lib/ps/trace.c lib/ps/tree.c lib/ps/urgent.c
