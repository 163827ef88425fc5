# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += tutti_perf
tutti_perf_SOURCES = \
	perf/tutti_perf.c perf/perf.h perf/options.c perf/nearest.c perf/sizes.c perf/stats.c \
	perf/types.c perf/oracle.c perf/buffer.c perf/table.c perf/files.c perf/progress.c \
	perf/coll.c perf/coll.h perf/coll_kinds.c perf/p2p.c
tutti_perf_LDADD = libtutti.la $(JANSSON_LIBS)

EXTRA_DIST += perf/compare_verbs perf/predict perf/tune perf/hosts.inc

# Measurements: printed, not asserted. perf-sim: tutti_sim beside shaped hosts (as root); perf-tune: what a
# measured table picks, against every algorithm.
.PHONY: perf-sim perf-tune
perf-sim: tutti_perf tutti_sim
	TT_SRC='$(abs_top_srcdir)' $(SHELL) $(top_srcdir)/perf/predict
perf-tune: tutti_tune
	TT_SRC='$(abs_top_srcdir)' $(SHELL) $(top_srcdir)/perf/tune
