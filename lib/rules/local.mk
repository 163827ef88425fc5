# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/rules/rule.h lib/rules/rule_numbers.c lib/rules/rule_numbers.h

# Built once for each level of instructions: lib/reduce/local.mk.
libtt_vector_la_SOURCES += lib/rules/rule_levels.c
libtt_vector_base_la_SOURCES += lib/rules/rule_vector.c lib/rules/rule_steps.h
