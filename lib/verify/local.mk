# SPDX-License-Identifier: BSD-3-Clause
# The checker and the simulator of plans: for tests and tools, not part of libtutti.
noinst_LTLIBRARIES += libtt_verify.la
libtt_verify_la_SOURCES = \
	lib/verify/check.c lib/verify/check.h lib/verify/check_args.c lib/verify/check_calls.c \
	lib/verify/check_code.c lib/verify/check_net.c \
	lib/verify/check_weigh.c \
	lib/verify/check_int.h \
	lib/verify/check_node.c lib/verify/check_run.c lib/verify/check_static.c \
	lib/verify/check_turns.c \
	lib/verify/check_value.c lib/verify/check_verdict.c lib/verify/count.c lib/verify/sim.c \
	lib/verify/sim.h lib/verify/sim_int.h lib/verify/sim_net.c lib/verify/sim_node.c \
	lib/verify/sim_queue.c

# What the kernels of lib/reduce, lib/codec and lib/rules are compared with.
noinst_LTLIBRARIES += libtt_reference.la
libtt_reference_la_SOURCES = lib/verify/reduce_reference.c lib/verify/codec_reference.c \
	lib/verify/rule_reference.c lib/verify/rule_loops.h lib/verify/weigh_reference.c \
	lib/verify/mix_reference.c
libtt_reference_la_CFLAGS = $(AM_CFLAGS) $(TT_KERNEL_CFLAGS)
