# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += tutti_perf
tutti_perf_SOURCES = \
	perf/tutti_perf.c perf/perf.h perf/options.c perf/nearest.c perf/sizes.c perf/stats.c \
	perf/types.c perf/oracle.c perf/buffer.c perf/table.c perf/files.c perf/progress.c \
	perf/coll.c perf/coll.h perf/coll_kinds.c perf/p2p.c perf/ps.c
tutti_perf_LDADD = libtutti.la $(JANSSON_LIBS)

EXTRA_DIST += perf/compare_verbs
