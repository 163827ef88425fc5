# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/lowrank/lowrank.h lib/lowrank/factors.c \
	lib/lowrank/power_sgd.c lib/lowrank/power_sgd_state.c

# Built once for each level of instructions: lib/reduce/local.mk.
libtt_vector_la_SOURCES += lib/lowrank/matrix_levels.c lib/lowrank/matrix.h \
	lib/lowrank/gram_schmidt.c
libtt_vector_base_la_SOURCES += lib/lowrank/matrix_vector.c
