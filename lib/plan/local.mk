# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/plan/algo_rules.c lib/plan/builder.c lib/plan/choose.c lib/plan/choose.h \
	lib/plan/cost.c lib/plan/cost.h lib/plan/fold.c lib/plan/hosts.c lib/plan/layout.c \
	lib/plan/model.c lib/plan/model.h lib/plan/plan.c lib/plan/plan.h lib/plan/edges.h \
	lib/plan/stored.h \
	lib/plan/tune.c lib/plan/tune.h lib/plan/tune_file.c
