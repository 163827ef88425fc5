/* SPDX-License-Identifier: BSD-3-Clause */
/* The graphs of --graph: by name, of any number of ranks. */
#ifndef TUTTI_GRAPHS_H
#define TUTTI_GRAPHS_H

#include <tutti/graph.h>

extern const char *const cli_graph_names[]; /* the last one is NULL */
#define CLI_GRAPHS 6

/* kind: the place of its name. 0, or the negative code of tutti_graph_ring(3). */
int cli_graph_make(int kind, int n, struct tutti_graph **graph);

#endif
