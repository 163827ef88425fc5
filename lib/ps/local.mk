# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/ps/ps.h lib/ps/server.h lib/ps/store.h lib/ps/eager.h lib/ps/file.h lib/ps/later.h lib/ps/message.h lib/ps/read.h lib/ps/resize.h lib/ps/rule.h \
	lib/ps/ask.c lib/ps/box.c lib/ps/budget.c lib/ps/cache.c lib/ps/chain.c lib/ps/clock.c lib/ps/crew.c lib/ps/downpour.c lib/ps/eager.c lib/ps/feed.c \
	lib/ps/file.c lib/ps/fill.c lib/ps/handle.c lib/ps/inbox.c lib/ps/keep.c lib/ps/keys.c lib/ps/last.c lib/ps/leave.c \
	lib/ps/link.c lib/ps/pass.c lib/ps/place.c lib/ps/publish.c lib/ps/pull.c lib/ps/push.c \
	lib/ps/range.c lib/ps/read.c lib/ps/relay.c lib/ps/resize.c lib/ps/rows.c lib/ps/rule.c lib/ps/server.c lib/ps/store.c lib/ps/sum.c \
	lib/ps/table.c lib/ps/task.c lib/ps/tell.c lib/ps/trace.c lib/ps/tree.c lib/ps/urgent.c

# The update rules, once for each level of instructions, as lib/reduce builds its kernels. The serial ones are with those that any CPU
# has, for their flags.
tt_rule_sources = lib/ps/rule_vector.c lib/ps/rule_steps.h lib/ps/rule.h

noinst_LTLIBRARIES += libtt_rules.la
libtt_la_LIBADD += libtt_rules.la
libtt_rules_la_SOURCES = lib/ps/rule_levels.c lib/ps/rule.h
libtt_rules_la_LIBADD = libtt_rules_base.la

noinst_LTLIBRARIES += libtt_rules_base.la
libtt_rules_base_la_SOURCES = $(tt_rule_sources) lib/ps/rule_truth.c lib/ps/rule_loops.h
libtt_rules_base_la_CPPFLAGS = $(libtt_reduce_base_la_CPPFLAGS)
libtt_rules_base_la_CFLAGS = $(libtt_reduce_base_la_CFLAGS)

if HAVE_AVX2
noinst_LTLIBRARIES += libtt_rules_avx2.la
libtt_rules_la_LIBADD += libtt_rules_avx2.la
libtt_rules_avx2_la_SOURCES = $(tt_rule_sources)
libtt_rules_avx2_la_CPPFLAGS = $(libtt_reduce_avx2_la_CPPFLAGS)
libtt_rules_avx2_la_CFLAGS = $(libtt_reduce_avx2_la_CFLAGS)
endif

if HAVE_AVX512
noinst_LTLIBRARIES += libtt_rules_avx512.la
libtt_rules_la_LIBADD += libtt_rules_avx512.la
libtt_rules_avx512_la_SOURCES = $(tt_rule_sources)
libtt_rules_avx512_la_CPPFLAGS = $(libtt_reduce_avx512_la_CPPFLAGS)
libtt_rules_avx512_la_CFLAGS = $(libtt_reduce_avx512_la_CFLAGS)
endif
