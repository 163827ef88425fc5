/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random regular graphs: begins with a circulant graph of that degree and exchanges the ends of
 * each edge with those of a random one a few times, which keeps all degrees:
 *
 *	a --- b		a   b
 *		  -->	  X		unless an edge were there twice, or a loop
 *	c --- d		c   d
 *
 * Repeats until the result is connected. Of degree 2 that would hardly ever be so: the graph is a
 * ring of the ranks in random order.
 */
#include <errno.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/graph/graph.h"

#define SWEEPS 3  /* over all ends of edges */
#define TRIES 100 /* then the circulant graph itself, which is connected */

static const char call[] = "tutti_graph_regular";

struct regular {
	int n, degree;
	int *to; /* the neighbours of rank r: to[r * degree] and so on */
	int *todo;
	unsigned char *seen;
};

static int *row(const struct regular *g, int r)
{
	return g->to + (size_t)r * (size_t)g->degree;
}

static void circulant(struct regular *g)
{
	int r, k;

	for (r = 0; r < g->n; r++)
		for (k = 0; k < g->degree; k++) {
			int dist = k / 2 + 1;

			if (k == g->degree - 1 && g->degree % 2)
				row(g, r)[k] = (r + g->n / 2) % g->n;
			else
				row(g, r)[k] = k % 2 ? (r + dist) % g->n : (r - dist + g->n) % g->n;
		}
}

/* Where b is among a's neighbours, or -1. */
static int find(const struct regular *g, int a, int b)
{
	int k;

	for (k = 0; k < g->degree; k++)
		if (row(g, a)[k] == b)
			return k;
	return -1;
}

/* A number below n. */
static int draw(uint64_t *dice, int n)
{
	return (int)((tt_random(dice) >> 32) * (uint64_t)n >> 32);
}

/* Exchanges the end of a's edge i with that of a random edge. */
static void swap(struct regular *g, int a, int i, uint64_t *dice)
{
	int c = draw(dice, g->n), j = draw(dice, g->degree);
	int b = row(g, a)[i], d = row(g, c)[j];

	if (a == c || a == d || b == c || b == d || find(g, a, d) >= 0 || find(g, c, b) >= 0)
		return;
	row(g, b)[find(g, b, a)] = c;
	row(g, d)[find(g, d, c)] = a;
	row(g, a)[i] = d;
	row(g, c)[j] = b;
}

/* Ranks one after the other: half of what a swap touches is in the cache. */
static void sweep(struct regular *g, uint64_t *dice)
{
	int r, k;

	for (r = 0; r < g->n; r++)
		for (k = 0; k < g->degree; k++)
			swap(g, r, k, dice);
}

/* A ring of the ranks in random order. */
static void random_ring(struct regular *g, uint64_t *dice)
{
	int r, k, other;

	for (r = 0; r < g->n; r++) {
		k = draw(dice, r + 1);
		g->todo[r] = g->todo[k];
		g->todo[k] = r;
	}
	for (r = 0; r < g->n; r++) {
		other = (r + 1) % g->n;
		row(g, g->todo[r])[0] = g->todo[other];
		row(g, g->todo[other])[1] = g->todo[r];
	}
}

static bool connected(struct regular *g)
{
	int n = 1, left = 1, r, k;

	memset(g->seen, 0, (size_t)g->n);
	g->seen[0] = 1;
	g->todo[0] = 0;
	while (left) {
		r = g->todo[--left];
		for (k = 0; k < g->degree; k++) {
			int b = row(g, r)[k];

			if (g->seen[b])
				continue;
			g->seen[b] = 1;
			g->todo[left++] = b;
			n++;
		}
	}
	return n == g->n;
}

static void shuffle(struct regular *g, uint64_t seed)
{
	uint64_t dice = tt_mix64(seed + 1);
	int t, i;

	if (g->degree == 2) {
		random_ring(g, &dice);
		return;
	}
	for (t = 0; t < TRIES; t++) {
		circulant(g);
		for (i = 0; i < SWEEPS; i++)
			sweep(g, &dice);
		if (connected(g))
			return;
	}
	circulant(g);
}

static int check(int n, int degree)
{
	if (n < 2)
		return tt_fail(-EINVAL,
			       "%s: a rank alone has no neighbours; the graph needs 2 ranks "
			       "or more",
			       call);
	if (degree < 1 || degree >= n || (degree == 1 && n > 2))
		return tt_fail(-EINVAL,
			       "%s: no connected graph of %d ranks has %d neighbours for each; "
			       "degree must be %d to %d",
			       call, n, degree, n > 2 ? 2 : 1, n - 1);
	if (degree % 2 && n % 2)
		return tt_fail(-EINVAL, "%s: %d ranks cannot have %d neighbours each: both are odd",
			       call, n, degree);
	return 0;
}

int tt_graph_regular(int n, int degree, uint64_t seed, struct tutti_graph **graph)
{
	struct regular g = {.n = n, .degree = degree};
	struct tt_edge_list list = {0};
	int err = check(n, degree), r, k;

	if (err)
		return err;
	g.to = calloc((size_t)n * (size_t)degree, sizeof(*g.to));
	g.todo = calloc((size_t)n, sizeof(*g.todo));
	g.seen = calloc((size_t)n, 1);
	if (g.to && g.todo && g.seen) {
		shuffle(&g, seed);
		for (r = 0; r < n; r++)
			for (k = 0; k < degree; k++)
				tt_edge_list_add(&list, row(&g, r)[k], r, 0);
		err = tt_graph_of_list(call, n, &list, TUTTI_WEIGHTS_METROPOLIS, graph);
	} else {
		err = tt_fail(-ENOMEM, "%s: no memory for a graph of %d ranks", call, n);
	}
	free(g.to);
	free(g.todo);
	free(g.seen);
	return err;
}
