# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/rules/rule.h lib/rules/rule_numbers.c lib/rules/rule_numbers.h

# The update rules, once for each level of instructions, as lib/reduce builds its kernels.
tt_rule_sources = lib/rules/rule_vector.c lib/rules/rule_steps.h lib/rules/rule.h

noinst_LTLIBRARIES += libtt_rules.la
libtt_la_LIBADD += libtt_rules.la
libtt_rules_la_SOURCES = lib/rules/rule_levels.c lib/rules/rule.h
libtt_rules_la_LIBADD = libtt_rules_base.la

noinst_LTLIBRARIES += libtt_rules_base.la
libtt_rules_base_la_SOURCES = $(tt_rule_sources)
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
