/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs of ranks: checks arguments, then lists the edges of each kind of graph. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/graph/graph.h"

int tt_check_graph(const char *call, const struct tutti_graph *graph)
{
	return tt_check_object(call, "graph", graph, graph && graph->magic == TT_GRAPH_MAGIC,
			       "graph of ranks");
}

static int check_new(const char *call, int n, struct tutti_graph **graph)
{
	if (!graph)
		return tt_fail(-EINVAL, "%s: graph is NULL", call);
	if (n < 1 || n > TT_GRAPH_RANKS_MAX)
		return tt_fail(-EINVAL, "%s: a graph of %d ranks; it must be 1 to %d", call, n,
			       TT_GRAPH_RANKS_MAX);
	return 0;
}

int tutti_graph_ring(int nranks, struct tutti_graph **graph)
{
	struct tt_edge_list list = {0};
	int err = check_new(__func__, nranks, graph), r;

	if (err)
		return err;
	for (r = 0; r < nranks && nranks > 2; r++)
		tt_edge_list_both(&list, r, (r + 1) % nranks);
	if (nranks == 2)
		tt_edge_list_both(&list, 0, 1);
	return tt_graph_of_list(__func__, nranks, &list, TUTTI_WEIGHTS_METROPOLIS, graph);
}

/* The next one in a row or a column of so many; of two, the other one once. */
static void link_next(struct tt_edge_list *list, int at, int next, int many, bool last)
{
	if (many > 2 || (many == 2 && !last))
		tt_edge_list_both(list, at, next);
}

int tutti_graph_torus(int rows, int cols, struct tutti_graph **graph)
{
	struct tt_edge_list list = {0};
	int n, r, c, err;

	if (rows < 1 || cols < 1)
		return tt_fail(-EINVAL, "%s: %d x %d ranks; both must be 1 at least", __func__,
			       rows, cols);
	if (__builtin_mul_overflow(rows, cols, &n) || n > TT_GRAPH_RANKS_MAX)
		return tt_fail(-EINVAL, "%s: %d x %d ranks are more than %d", __func__, rows, cols,
			       TT_GRAPH_RANKS_MAX);
	err = check_new(__func__, n, graph);
	if (err)
		return err;
	for (r = 0; r < rows; r++)
		for (c = 0; c < cols; c++) {
			int at = r * cols + c;

			link_next(&list, at, r * cols + (c + 1) % cols, cols, c == cols - 1);
			link_next(&list, at, (r + 1) % rows * cols + c, rows, r == rows - 1);
		}
	return tt_graph_of_list(__func__, n, &list, TUTTI_WEIGHTS_METROPOLIS, graph);
}

int tutti_graph_star(int nranks, struct tutti_graph **graph)
{
	struct tt_edge_list list = {0};
	int err = check_new(__func__, nranks, graph), r;

	if (err)
		return err;
	for (r = 1; r < nranks; r++)
		tt_edge_list_both(&list, 0, r);
	return tt_graph_of_list(__func__, nranks, &list, TUTTI_WEIGHTS_METROPOLIS, graph);
}

int tutti_graph_complete(int nranks, struct tutti_graph **graph)
{
	struct tt_edge_list list = {0};
	int err = check_new(__func__, nranks, graph), r, k;

	if (err)
		return err;
	tt_edge_list_room(&list, (size_t)nranks * (size_t)nranks);
	for (r = 0; r < nranks && !list.no_memory; r++)
		for (k = r + 1; k < nranks; k++)
			tt_edge_list_both(&list, r, k);
	return tt_graph_of_list(__func__, nranks, &list, TUTTI_WEIGHTS_METROPOLIS, graph);
}

int tutti_graph_exponential(int nranks, struct tutti_graph **graph)
{
	struct tt_edge_list list = {0};
	int err = check_new(__func__, nranks, graph), r, k;

	if (err)
		return err;
	for (k = 1; k < nranks; k *= 2)
		for (r = 0; r < nranks; r++)
			tt_edge_list_add(&list, r, (r + k) % nranks, 0);
	return tt_graph_of_list(__func__, nranks, &list, TUTTI_WEIGHTS_IN, graph);
}

static int one_peer_step(const char *call, int n, int dist, struct tt_edges **edges)
{
	struct tt_edge_list list = {0};
	int r, err;

	for (r = 0; r < n && n > 1; r++)
		tt_edge_list_add(&list, r, (r + dist) % n, 0);
	err = tt_edges_new(call, n, &list, TUTTI_WEIGHTS_IN, edges);
	free(list.edge);
	return err;
}

int tutti_graph_one_peer(int nranks, struct tutti_graph **graph)
{
	int err = check_new(__func__, nranks, graph), period = 1, i;
	struct tutti_graph *g;

	if (err)
		return err;
	while (1 << period < nranks)
		period++;
	g = tt_graph_new(nranks, period);
	if (!g)
		return tt_fail(-ENOMEM, "%s: no memory for a graph", __func__);
	for (i = 0; i < period && !err; i++)
		err = one_peer_step(__func__, nranks, 1 << i, &g->step[i]);
	if (err)
		tt_graph_free(g);
	else
		*graph = g;
	return err;
}

int tutti_graph_regular(int nranks, int degree, uint64_t seed, struct tutti_graph **graph)
{
	int err = check_new(__func__, nranks, graph);

	return err ? err : tt_graph_regular(nranks, degree, seed, graph);
}

int tutti_graph_edges(int nranks, const struct tutti_edge *edges, size_t nedges,
		      enum tutti_weights weights, struct tutti_graph **graph)
{
	struct tt_edge_list list = {0};
	int err = check_new(__func__, nranks, graph);
	size_t i;

	if (err)
		return err;
	if (nedges && !edges)
		return tt_fail(-EINVAL, "%s: edges is NULL", __func__);
	if (weights < TUTTI_WEIGHTS_GIVEN || weights > TUTTI_WEIGHTS_OUT)
		return tt_fail(-EINVAL, "%s: weights is %d, which is none of enum tutti_weights",
			       __func__, (int)weights);
	if (nedges > (size_t)nranks * (size_t)nranks)
		return tt_fail(-EINVAL,
			       "%s: nedges is %zu, but %d ranks have %zu edges at most; pass each "
			       "once",
			       __func__, nedges, nranks, (size_t)nranks * (size_t)nranks);
	for (i = 0; i < nedges && !list.no_memory; i++)
		tt_edge_list_add(&list, edges[i].from, edges[i].to, edges[i].weight);
	return tt_graph_of_list(__func__, nranks, &list, weights, graph);
}

int tutti_graph_free(struct tutti_graph *graph)
{
	int err = graph ? tt_check_graph(__func__, graph) : 0;

	if (graph && !err)
		tt_graph_free(graph);
	return err;
}

/* ---- what a graph is like ---- */

int tutti_graph_size(const struct tutti_graph *graph)
{
	return graph && graph->magic == TT_GRAPH_MAGIC ? graph->n : 0;
}

int tutti_graph_period(const struct tutti_graph *graph)
{
	return graph && graph->magic == TT_GRAPH_MAGIC ? graph->period : 0;
}

double tutti_graph_weight(const struct tutti_graph *graph, uint64_t step, int to, int from)
{
	const struct tt_edges *edges;
	size_t i;

	if (!graph || graph->magic != TT_GRAPH_MAGIC || to < 0 || to >= graph->n || from < 0 ||
	    from >= graph->n)
		return 0;
	edges = tt_graph_at(graph, step);
	for (i = edges->in_at[to]; i < edges->in_at[to + 1]; i++)
		if (edges->in[i] == from)
			return edges->weight[i];
	return to == from ? edges->own[to] : 0;
}

/* The ranks that a rank receives from (in), or sends to. */
static int list_ranks(const char *call, const struct tutti_graph *graph, uint64_t step, int rank,
		      bool in, int *ranks, int max, int *n)
{
	int i, err = tt_check_graph(call, graph);
	const struct tt_edges *edges;
	const int *of;

	if (err)
		return err;
	if (rank < 0 || rank >= graph->n)
		return tt_fail(-EINVAL, "%s: rank %d is not in 0 to %d", call, rank, graph->n - 1);
	if (!n || (max > 0 && !ranks))
		return tt_fail(-EINVAL, "%s: %s is NULL", call, n ? "ranks" : "n");
	if (max < 0)
		return tt_fail(-EINVAL, "%s: max is %d; it must be 0 or more", call, max);
	edges = tt_graph_at(graph, step);
	of = in ? edges->in + edges->in_at[rank] : edges->out + edges->out_at[rank];
	*n = in ? tt_edges_in(edges, rank) : tt_edges_out(edges, rank);
	for (i = 0; i < *n && i < max; i++)
		ranks[i] = of[i];
	return 0;
}

int tutti_graph_in(const struct tutti_graph *graph, uint64_t step, int rank, int *ranks, int max,
		   int *n)
{
	return list_ranks(__func__, graph, step, rank, true, ranks, max, n);
}

int tutti_graph_out(const struct tutti_graph *graph, uint64_t step, int rank, int *ranks, int max,
		    int *n)
{
	return list_ranks(__func__, graph, step, rank, false, ranks, max, n);
}

int tutti_graph_check(const struct tutti_graph *graph, unsigned properties)
{
	int err = tt_check_graph(__func__, graph);

	if (err)
		return err;
	if (properties & ~(TUTTI_GRAPH_DOUBLY | TUTTI_GRAPH_SYMMETRIC))
		return tt_fail(-EINVAL, "%s: properties is 0x%x, which has unknown bits", __func__,
			       properties);
	return tt_graph_check(graph, properties);
}

int tutti_graph_lambda2(const struct tutti_graph *graph, double *lambda2)
{
	int err = tt_check_graph(__func__, graph);

	if (err)
		return err;
	if (!lambda2)
		return tt_fail(-EINVAL, "%s: lambda2 is NULL", __func__);
	if (tt_graph_check(graph, TUTTI_GRAPH_ROWS) && tt_graph_check(graph, TUTTI_GRAPH_COLUMNS))
		return tt_fail(-EINVAL,
			       "%s: neither the rows nor the columns of the weights sum to 1, so "
			       "the values do not come together; tutti_graph_check tells where",
			       __func__);
	return tt_graph_lambda2(graph, lambda2);
}
