/* SPDX-License-Identifier: BSD-3-Clause */
/* From a list of edges to the edges of a step: sorted by receiver, with weights by a rule. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/graph/graph.h"

void tt_edge_list_room(struct tt_edge_list *list, size_t n)
{
	struct tutti_edge *more =
		n < SIZE_MAX / sizeof(*more) ? realloc(list->edge, n * sizeof(*more)) : NULL;

	list->no_memory |= !more;
	list->edge = more ? more : list->edge;
	list->room = more ? n : list->room;
}

void tt_edge_list_add(struct tt_edge_list *list, int from, int to, double weight)
{
	if (list->n == list->room)
		tt_edge_list_room(list, 2 * list->room + 16);
	if (list->n == list->room)
		return;
	list->edge[list->n++] = (struct tutti_edge){from, to, weight};
}

void tt_edge_list_both(struct tt_edge_list *list, int a, int b)
{
	tt_edge_list_add(list, a, b, 0);
	tt_edge_list_add(list, b, a, 0);
}

static int check_edge(const char *call, int n, const struct tutti_edge *e,
		      enum tutti_weights weights)
{
	if (e->from < 0 || e->from >= n || e->to < 0 || e->to >= n)
		return tt_fail(-EINVAL, "%s: the edge from %d to %d is outside of ranks 0 to %d",
			       call, e->from, e->to, n - 1);
	if (weights == TUTTI_WEIGHTS_GIVEN && !isfinite(e->weight))
		return tt_fail(-EINVAL, "%s: the weight of the edge from %d to %d is not finite",
			       call, e->from, e->to);
	return 0;
}

/* Refuses what no graph has. */
static int check_list(const char *call, int n, const struct tt_edge_list *list,
		      enum tutti_weights weights)
{
	size_t i;
	int err = 0;

	if (list->no_memory)
		return tt_fail(-ENOMEM, "%s: no memory for the edges", call);
	for (i = 0; i < list->n && !err; i++)
		err = check_edge(call, n, &list->edge[i], weights);
	return err;
}

/* A part of the block, which begins at a multiple of 8. */
static size_t place(size_t *used, size_t bytes)
{
	size_t at = *used;

	*used += (bytes + 7) / 8 * 8;
	return at;
}

static struct tt_edges *alloc_edges(int nranks, size_t m)
{
	size_t n = (size_t)nranks, used = 0;
	size_t head = place(&used, sizeof(struct tt_edges)), own = place(&used, n * sizeof(double));
	size_t in_at = place(&used, (n + 1) * sizeof(size_t)), in = place(&used, m * sizeof(int));
	size_t weight = place(&used, m * sizeof(double)), out_at, out;
	struct tt_edges *edges;
	char *block;

	out_at = place(&used, (n + 1) * sizeof(size_t));
	out = place(&used, m * sizeof(int));
	block = calloc(1, used);
	if (!block)
		return NULL;
	edges = (struct tt_edges *)(void *)(block + head);
	edges->n = nranks;
	edges->own = (double *)(void *)(block + own);
	edges->in_at = (size_t *)(void *)(block + in_at);
	edges->in = (int *)(void *)(block + in);
	edges->weight = (double *)(void *)(block + weight);
	edges->out_at = (size_t *)(void *)(block + out_at);
	edges->out = (int *)(void *)(block + out);
	atomic_init(&edges->refs, 1);
	return edges;
}

static int listed_twice(const char *call, int from, int to)
{
	return tt_fail(-EINVAL, "%s: the edge from %d to %d is listed twice", call, from, to);
}

/* From the number of edges of rank r in at[r + 1] to their first place in at[r]. */
static void add_up(size_t *at, int n)
{
	int r;

	for (r = 0; r < n; r++)
		at[r + 1] += at[r];
}

/* From the end of the edges of rank r in at[r] to their first place. */
static void to_begin(size_t *at, int n)
{
	memmove(at + 1, at, (size_t)n * sizeof(*at));
	at[0] = 0;
}

/* The other end of an edge. */
struct end {
	int to;
	double weight;
};

static void group_by_sender(struct tt_edges *edges, const struct tt_edge_list *list,
			    struct end *end)
{
	const struct tutti_edge *e;
	size_t i;

	for (i = 0; i < list->n; i++) {
		e = &list->edge[i];
		edges->out_at[e->from + 1]++;
		if (e->from != e->to)
			edges->in_at[e->to + 1]++;
	}
	add_up(edges->out_at, edges->n);
	add_up(edges->in_at, edges->n);
	for (i = 0; i < list->n; i++) {
		e = &list->edge[i];
		end[edges->out_at[e->from]++] = (struct end){e->to, e->weight};
	}
}

/* Takes the senders in order of rank, so each receiver's list of them is in order, too. */
static int fill_in(const char *call, struct tt_edges *edges, const struct end *end)
{
	size_t k = 0, loops = 0, at, before;
	int r;

	for (r = 0; r < edges->n; r++) {
		for (before = loops; k < edges->out_at[r]; k++) {
			if (end[k].to == r) {
				edges->own[r] = end[k].weight;
				loops++;
				continue;
			}
			at = edges->in_at[end[k].to]++;
			edges->in[at] = r;
			edges->weight[at] = end[k].weight;
		}
		if (loops - before > 1)
			return listed_twice(call, r, r);
		edges->out_at[r] -= loops;
	}
	to_begin(edges->in_at, edges->n);
	to_begin(edges->out_at, edges->n);
	return 0;
}

/* The same for the senders' lists. */
static int fill_out(const char *call, struct tt_edges *edges)
{
	size_t i;
	int r;

	for (r = 0; r < edges->n; r++)
		for (i = edges->in_at[r]; i < edges->in_at[r + 1]; i++) {
			if (i > edges->in_at[r] && edges->in[i] == edges->in[i - 1])
				return listed_twice(call, edges->in[i], r);
			edges->out[edges->out_at[edges->in[i]]++] = r;
		}
	to_begin(edges->out_at, edges->n);
	return 0;
}

/* Two distributions, by sender and by receiver, sort the edges in linear time. */
static int fill(const char *call, struct tt_edges *edges, const struct tt_edge_list *list)
{
	struct end *end = malloc((list->n + 1) * sizeof(*end));
	int err;

	if (!end)
		return tt_fail(-ENOMEM, "%s: no memory to sort %zu edges", call, list->n);
	group_by_sender(edges, list, end);
	err = fill_in(call, edges, end);
	free(end);
	return err ? err : fill_out(call, edges);
}

static double rule_weight(const struct tt_edges *edges, int to, int from,
			  enum tutti_weights weights)
{
	int in = tt_edges_in(edges, to), out = tt_edges_out(edges, from), other;

	if (weights == TUTTI_WEIGHTS_IN)
		return 1.0 / (1 + in);
	if (weights == TUTTI_WEIGHTS_OUT)
		return 1.0 / (1 + out);
	other = tt_edges_in(edges, from);
	return 1.0 / (1 + (in > other ? in : other));
}

static void weigh(struct tt_edges *edges, enum tutti_weights weights)
{
	size_t i;
	int r;

	for (r = 0; r < edges->n; r++) {
		double sum = 0;

		for (i = edges->in_at[r]; i < edges->in_at[r + 1]; i++) {
			edges->weight[i] = rule_weight(edges, r, edges->in[i], weights);
			sum += edges->weight[i];
		}
		edges->own[r] =
			weights == TUTTI_WEIGHTS_OUT ? 1.0 / (1 + tt_edges_out(edges, r)) : 1 - sum;
	}
}

/* Every edge goes both ways: in and out are the same lists. */
static int check_both(const char *call, const struct tt_edges *edges)
{
	size_t i, k;
	int r;

	for (r = 0; r < edges->n; r++)
		for (k = edges->out_at[r], i = edges->in_at[r]; i < edges->in_at[r + 1]; i++) {
			while (k < edges->out_at[r + 1] && edges->out[k] < edges->in[i])
				k++;
			if (k == edges->out_at[r + 1] || edges->out[k] != edges->in[i])
				return tt_fail(-EINVAL,
					       "%s: there is an edge from %d to %d but none back; "
					       "Metropolis-Hastings weights need both",
					       call, edges->in[i], r);
		}
	return 0;
}

static uint64_t bits(double v)
{
	uint64_t b;

	memcpy(&b, &v, sizeof(b));
	return b;
}

static uint64_t hash_of(const struct tt_edges *edges)
{
	uint64_t h = tt_hash_add(0x6ea9, (uint64_t)edges->n);
	size_t i;
	int r;

	for (r = 0; r < edges->n; r++) {
		h = tt_hash_add(tt_hash_add(h, bits(edges->own[r])), edges->in_at[r + 1]);
		for (i = edges->in_at[r]; i < edges->in_at[r + 1]; i++)
			h = tt_hash_add(tt_hash_add(h, (uint64_t)edges->in[i]),
					bits(edges->weight[i]));
	}
	return h;
}

int tt_edges_new(const char *call, int n, const struct tt_edge_list *list,
		 enum tutti_weights weights, struct tt_edges **out)
{
	struct tt_edges *edges;
	int err = check_list(call, n, list, weights);

	if (err)
		return err;
	edges = alloc_edges(n, list->n);
	if (!edges)
		return tt_fail(-ENOMEM, "%s: no memory for a graph of %d ranks", call, n);
	err = fill(call, edges, list);
	if (!err && weights == TUTTI_WEIGHTS_METROPOLIS)
		err = check_both(call, edges);
	if (err) {
		tt_edges_put(edges);
		return err;
	}
	if (weights != TUTTI_WEIGHTS_GIVEN)
		weigh(edges, weights);
	edges->hash = hash_of(edges);
	*out = edges;
	return 0;
}

struct tutti_graph *tt_graph_new(int n, int period)
{
	struct tutti_graph *graph =
		calloc(1, sizeof(*graph) + (size_t)period * sizeof(graph->step[0]));

	if (!graph)
		return NULL;
	graph->magic = TT_GRAPH_MAGIC;
	graph->n = n;
	graph->period = period;
	return graph;
}

void tt_graph_free(struct tutti_graph *graph)
{
	int i;

	for (i = 0; i < graph->period; i++)
		tt_edges_put(graph->step[i]);
	graph->magic = 0;
	free(graph);
}

int tt_graph_of_list(const char *call, int n, struct tt_edge_list *list, enum tutti_weights weights,
		     struct tutti_graph **out)
{
	struct tutti_graph *graph = tt_graph_new(n, 1);
	int err = graph ? tt_edges_new(call, n, list, weights, &graph->step[0])
			: tt_fail(-ENOMEM, "%s: no memory for a graph of %d ranks", call, n);

	free(list->edge);
	if (err && graph)
		tt_graph_free(graph);
	if (!err)
		*out = graph;
	return err;
}
