# SPDX-License-Identifier: BSD-3-Clause
# Reinforcement learning on cart-pole, in three shapes.
noinst_PROGRAMS += rl
TT_RL_PARTS = examples/rl/rl.h examples/rl/ask.c examples/rl/cartpole.c examples/rl/deaths.c \
	examples/rl/learner.c examples/rl/policy.c examples/rl/queue.c examples/rl/vtrace.c \
	examples/random.c examples/random.h
rl_SOURCES = examples/rl/rl.c examples/rl/rl_options.c examples/rl/a3c.c examples/rl/impala.c \
	examples/rl/seed.c $(TT_ARGUMENTS) $(TT_RL_PARTS)
rl_LDADD = libtutti.la -lm
# The queue and the requests beside bare puts, for perf/rl.
noinst_PROGRAMS += rl_speed
rl_speed_SOURCES = examples/rl/rl_speed.c examples/seconds.c examples/seconds.h $(TT_RL_PARTS)
rl_speed_LDADD = libtutti.la -lm
