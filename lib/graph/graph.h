/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs of ranks: the edges of each step of a period, and how they are made. */
#ifndef TT_GRAPH_H
#define TT_GRAPH_H

#include <stdbool.h>
#include <tutti/graph.h>

#include "lib/plan/edges.h"

#define TT_GRAPH_MAGIC 0x54754752u
#define TT_GRAPH_RANKS_MAX (1 << 24)

struct tutti_graph {
	volatile unsigned magic; /* also when it is freed */
	int n, period;
	struct tt_edges *step[]; /* period of them */
};

static inline struct tt_edges *tt_graph_at(const struct tutti_graph *graph, uint64_t step)
{
	return graph->step[step % (uint64_t)graph->period];
}

/* graph_edges.c: a list that grows. */
struct tt_edge_list {
	struct tutti_edge *edge;
	size_t n, room;
	bool no_memory;
};
/* Memory for n edges in all, at once. */
void tt_edge_list_room(struct tt_edge_list *list, size_t n);
void tt_edge_list_add(struct tt_edge_list *list, int from, int to, double weight);
void tt_edge_list_both(struct tt_edge_list *list, int a, int b);
/* The edges of the list, with weights by that rule; call is for the text of errors. */
int tt_edges_new(const char *call, int n, const struct tt_edge_list *list,
		 enum tutti_weights weights, struct tt_edges **edges);
/* The same; frees the list. The graph has one step. */
int tt_graph_of_list(const char *call, int n, struct tt_edge_list *list, enum tutti_weights weights,
		     struct tutti_graph **graph);
/* For so many steps, which the caller fills; NULL: no memory. */
struct tutti_graph *tt_graph_new(int n, int period);
void tt_graph_free(struct tutti_graph *graph);

/* graph_regular.c */
int tt_graph_regular(int n, int degree, uint64_t seed, struct tutti_graph **graph);
/* graph_check.c */
int tt_graph_check(const struct tutti_graph *graph, unsigned properties);
int tt_graph_lambda2(const struct tutti_graph *graph, double *lambda2);

#endif
