# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/plan/plan.c lib/plan/plan.h lib/plan/builder.c lib/plan/stored.h \
	lib/plan/model.c lib/plan/model.h lib/plan/cost.c lib/plan/cost.h \
	lib/plan/choose.c lib/plan/choose.h lib/plan/rules.c lib/plan/tune.c lib/plan/tune_file.c lib/plan/tune.h lib/plan/count.c lib/plan/layout.c lib/plan/fold.c lib/plan/hosts.c \
	lib/plan/check.c lib/plan/check.h lib/plan/check_int.h \
	lib/plan/check_args.c lib/plan/check_static.c lib/plan/check_value.c lib/plan/check_run.c \
	lib/plan/check_verdict.c lib/plan/check_node.c \
	lib/plan/sim.c lib/plan/sim.h lib/plan/sim_int.h lib/plan/sim_net.c lib/plan/sim_queue.c lib/plan/sim_node.c
