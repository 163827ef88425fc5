# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += tutti_run
tutti_run_SOURCES = \
	tools/tutti_run.c tools/cli.c tools/cli.h tools/run/run.h \
	tools/run/options.c tools/run/hosts.c tools/run/job.c tools/run/local.c tools/run/spawn.c \
	tools/run/bind.c tools/run/keeper.c tools/run/first.c tools/run/limits.c \
	tools/run/store.c tools/run/remote.c tools/run/agent.c tools/run/frame.c \
	tools/run/output.c \
	tools/run/loop.c tools/run/flight.c tools/run/gate.c
tutti_run_LDADD = libtt.la

bin_PROGRAMS += tutti_info
tutti_info_SOURCES = tools/tutti_info.c tools/info/info.h tools/info/summary.c tools/cli.c \
	tools/cli.h
tutti_info_LDADD = libtutti.la $(JANSSON_LIBS)

bin_PROGRAMS += tutti_doctor
tutti_doctor_SOURCES = \
	tools/doctor/main.c tools/doctor/doctor.h tools/doctor/findings.c tools/doctor/limits.c \
	tools/doctor/network.c tools/doctor/devices.c tools/doctor/cluster.c tools/doctor/agent.c \
	tools/run/hosts.c tools/run/run.h tools/cli.c tools/cli.h
tutti_doctor_LDADD = libtt.la $(TT_LIBS) $(JANSSON_LIBS)

bin_PROGRAMS += tutti_sim
tutti_sim_SOURCES = \
	tools/sim/main.c tools/sim/sim.h tools/sim/counts.c tools/sim/options.c tools/sim/run.c \
	tools/sim/model_options.c tools/sim/model_options.h tools/sim/steps.c tools/sim/table.c \
	tools/sim/pipeline.c tools/sim/pipeline.h tools/sim/pipeline_options.c \
	tools/sim/pipeline_table.c tools/sim/pipeline_time.c tools/sim/pipeline_draw.c \
	tools/sim/pipeline_files.c \
	tools/sim/output.c tools/sim/plot.c tools/plot.c tools/plot.h tools/cli.c tools/cli.h \
	tools/values.c tools/values.h
tutti_sim_LDADD = libtt_train.la libtt_verify.la libtt.la $(TT_LIBS) $(JANSSON_LIBS)

bin_PROGRAMS += tutti_ps_check
tutti_ps_check_SOURCES = tools/tutti_ps_check.c tools/cli.c tools/cli.h
tutti_ps_check_LDADD = libtutti.la

bin_PROGRAMS += tutti_explain
tutti_explain_SOURCES = \
	tools/explain/main.c tools/explain/explain.h tools/explain/count.c tools/explain/ps.c \
	tools/explain/codec.c tools/explain/rate.c tools/explain/neighbors.c \
	tools/graphs.c tools/graphs.h \
	tools/cli.c tools/cli.h tools/values.c tools/values.h
tutti_explain_LDADD = libtt_verify.la libtt.la $(TT_LIBS) $(JANSSON_LIBS)

bin_PROGRAMS += tutti_tune
tutti_tune_SOURCES = \
	tools/tune/main.c tools/tune/algs.c tools/tune/tune.h tools/tune/options.c \
	tools/tune/time.c tools/tune/links.c tools/tune/cache.c tools/tune/fit.c tools/tune/fit.h \
	tools/cli.c tools/cli.h tools/values.c tools/values.h
tutti_tune_LDADD = libtt.la $(TT_LIBS)

bin_PROGRAMS += tutti_blame
tutti_blame_SOURCES = \
	tools/blame/main.c tools/blame/blame.h tools/blame/read.c tools/blame/judge.c \
	tools/plain.c tools/plain.h \
	tools/cli.c tools/cli.h
tutti_blame_LDADD = $(JANSSON_LIBS)

bin_PROGRAMS += tutti_ras
tutti_ras_SOURCES = \
	tools/ras/main.c tools/ras/ras.h tools/ras/find.c tools/ras/ask.c tools/ras/print.c \
	tools/ras/watch.h tools/ras/watch.c tools/ras/state.c tools/ras/waits.c tools/ras/table.c \
	tools/ras/terminal.c \
	tools/plain.c \
	tools/plain.h tools/cli.c tools/cli.h tools/values.c tools/values.h
tutti_ras_LDADD = libtt.la $(TT_LIBS) $(JANSSON_LIBS)
