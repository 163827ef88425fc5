# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += tutti_perf
tutti_perf_SOURCES = \
	perf/tutti_perf.c perf/perf.h perf/options.c perf/options.h perf/option_values.c \
	perf/commands.c perf/help.c perf/plot.c perf/figure.c perf/figure.h \
	perf/nearest.c perf/sizes.c perf/stats.c \
	perf/types.c perf/oracle.c perf/buffer.c perf/table.c perf/files.c perf/progress.c \
	perf/coll.c perf/coll.h perf/coll_kinds.c perf/coll_calls.c perf/coll_each.c \
	perf/coll_neighbors.c perf/averages.c perf/averages.h perf/gossip.c perf/pair.c \
	perf/partial.c perf/elastic.c \
	perf/overlap.c perf/forms.c perf/wakeup.c perf/threads.c \
	perf/p2p.c perf/messages.c \
	perf/accumulate.c perf/kernel.c \
	perf/checksum.c perf/rules.c perf/codec.c perf/lowrank.c perf/ps.c tools/cli.c tools/cli.h \
	tools/plot.c tools/plot.h tools/graphs.c tools/graphs.h
tutti_perf_LDADD = libtt_reference.la libtt_vector.la libtutti.la $(JANSSON_LIBS)

# What perf/relay runs.
noinst_PROGRAMS += perf/essp
perf_essp_SOURCES = perf/essp.c
perf_essp_LDADD = libtutti.la

# What perf/buckets runs.
noinst_PROGRAMS += perf/backward
perf_backward_SOURCES = perf/backward.c perf/pass.c perf/pass.h
perf_backward_LDADD = libtutti_train.la libtutti.la
noinst_PROGRAMS += perf/sharded
perf_sharded_SOURCES = perf/sharded.c perf/pass.c perf/pass.h
perf_sharded_LDADD = libtutti_train.la libtutti.la
noinst_PROGRAMS += perf/urgent_ps
perf_urgent_ps_SOURCES = perf/urgent_ps.c perf/urgent.h
perf_urgent_ps_LDADD = libtutti.la
noinst_PROGRAMS += perf/urgent
perf_urgent_SOURCES = perf/urgent.c perf/urgent.h
perf_urgent_LDADD = libtutti.la
EXTRA_DIST += perf/buckets

# What perf/instructions runs.
noinst_PROGRAMS += perf/steps
perf_steps_SOURCES = perf/steps.c
perf_steps_LDADD = libtutti.la

# What perf/waiting runs.
noinst_PROGRAMS += perf/waits
perf_waits_SOURCES = perf/waits.c
perf_waits_LDADD = libtutti.la

# What perf/launchers starts.
noinst_PROGRAMS += perf/first_call
perf_first_call_SOURCES = perf/first_call.c
perf_first_call_LDADD = libtutti.la

# What perf/decentralized runs.
noinst_PROGRAMS += perf/late_rank
perf_late_rank_SOURCES = perf/late_rank.c
perf_late_rank_LDADD = libtutti.la
noinst_PROGRAMS += perf/neighbor_steps
perf_neighbor_steps_SOURCES = perf/neighbor_steps.c
perf_neighbor_steps_LDADD = libtutti.la
EXTRA_DIST += perf/decentralized perf/decentral_curves perf/decentral_curves.gp

# What perf/compare_verbs compares with besides perftest.
if HAVE_VERBS
noinst_PROGRAMS += perf/bare_verbs
perf_bare_verbs_SOURCES = perf/bare_verbs.c
perf_bare_verbs_LDADD = $(VERBS_LIBS)
endif

EXTRA_DIST += perf/staleness perf/staleness.gp perf/relay perf/compare_verbs perf/scale \
	perf/servers perf/predict perf/tune perf/hier perf/advice perf/codecs perf/factors \
	perf/hosts.inc perf/program.h perf/whole_number.h perf/training perf/training.gp \
	perf/shares perf/shares.gp perf/tokens perf/kit \
	perf/instructions perf/waiting perf/launchers \
	perf/compare/compare perf/compare/report.awk perf/compare/curves.awk \
	perf/compare/curves.gp perf/compare/heat.awk perf/compare/heat.gp perf/compare/drive.h \
	perf/compare/drive.c perf/compare/operations.c perf/compare/drive_tutti.c \
	perf/compare/drive_mpi.c perf/compare/drive_gloo.cc perf/compare/forbid_vm.c \
	perf/compare/line.c perf/compare/bare_ofi.c

# Against Open MPI, MPICH and Gloo, as far as they are installed; doc/COMPARE.md. WHERE: some of
# its tables. OPTIONS: those of perf/compare/compare.
perf-compare: all
	TT_SRC=$(abs_top_srcdir) CC="$(CC)" sh $(srcdir)/perf/compare/compare $(OPTIONS) $(WHERE)
perf-compare-quick: all
	TT_SRC=$(abs_top_srcdir) CC="$(CC)" sh $(srcdir)/perf/compare/compare -q $(OPTIONS) $(WHERE)
perf-scale: all
	TT_BUILD=$(abs_top_builddir) $(SHELL) $(srcdir)/perf/scale
# tutti_sim beside shaped hosts, as root; what a tuning table picks, against every algorithm.
perf-sim: all
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/predict
perf-tune: all
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/tune
# Algorithms in two levels against flat ones, as root.
perf-hier: all
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/hier
# Loss against time on a parameter server, by the bound on staleness.
perf-staleness: all
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/staleness
# ESSP relayed by workers beside a server that sends all, as root.
perf-relay: all
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/relay
# Instructions of each short call, and what being watched costs it; CSV=FILE: the former, to a file.
perf-instructions: all
	TT_BUILD=$(abs_top_builddir) $(SHELL) $(srcdir)/perf/instructions $${CSV:+--csv=$$CSV}
# The default way to wait beside TUTTI_WAIT=yield.
perf-waiting: all
	TT_BUILD=$(abs_top_builddir) $(SHELL) $(srcdir)/perf/waiting
# Seconds from a launcher's command to the first all-reduce.
perf-launchers: all
	TT_BUILD=$(abs_top_builddir) $(SHELL) $(srcdir)/perf/launchers
# Codecs of one thread beside a copy, in and out of the cache; as root: codecs and factors on shaped
# hosts, and what is predicted of codecs there.
perf-codec: all
	./tutti_run -n 1 ./tutti_perf codec
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/codecs
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/factors
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/advice
# Communication that a training step does not hide, by the reducer, by plain calls and by the
# sharded optimizer, and a call of high priority beside a long one (as root).
.PHONY: perf-buckets
perf-buckets: all
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/buckets $(OPTIONS)
# All figures of the training kit: exposed communication and priorities, on links as root, tokens/s
# of gpt, reinforcement learning, and what models learn when gradients travel encoded. Ends after 70
# minutes at most. OPTIONS: those of perf/kit, such as -n 3 for three seeds.
perf-training: all
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/kit $(OPTIONS)
# Reinforcement learning: the queue, requests, V-trace.
perf-rl: all
	$(SHELL) $(srcdir)/perf/rl $(OPTIONS)
EXTRA_DIST += perf/rl
.PHONY: perf-rl
# Training without a centre, and without waiting for everybody, beside the all-reduce.
perf-decentralized: all
	$(SHELL) $(srcdir)/perf/decentralized $(OPTIONS)
.PHONY: perf-decentralized
# The MPIs with and without the libraries of tutti_mpi(7); OPTIONS: those of perf/preload.
EXTRA_DIST += perf/preload
.PHONY: perf-mpi
perf-mpi: all
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/preload $(OPTIONS)
# PyTorch over tutti and over gloo; as root: also on hosts of 1 Gbit/s. OPTIONS: those of
# perf/torch/torch.
EXTRA_DIST += perf/torch/torch perf/torch/bench.py
.PHONY: perf-torch
perf-torch: all
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/torch/torch $(OPTIONS)
# All-reduce on one host against the least that one can take.
EXTRA_DIST += perf/compare/floor perf/compare/floor.c
perf-floor: all
	TT_SRC=$(abs_top_srcdir) CC="$(CC)" $(SHELL) $(srcdir)/perf/compare/floor
# Nonblocking collectives: what a computation hides of them, and beside the blocking ones; WHERE:
# some of it.
EXTRA_DIST += perf/overlaps
perf-overlap: all
	TT_SRC=$(abs_top_srcdir) $(SHELL) $(srcdir)/perf/overlaps $(WHERE)
.PHONY: perf-overlap perf-floor perf-launchers
.PHONY: perf-codec perf-hier perf-relay perf-instructions perf-staleness perf-compare perf-waiting \
	perf-compare-quick perf-scale perf-sim perf-tune perf-training
