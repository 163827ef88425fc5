# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/graph/graph.h lib/graph/graph_edges.c lib/graph/graph_regular.c \
	lib/graph/graph_check.c \
	lib/graph/push_sum.c lib/graph/push_sum.h
