/* SPDX-License-Identifier: BSD-3-Clause */
/* The edges of a graph of ranks in one step, with their weights: lib/graph makes them. */
#ifndef TT_EDGES_H
#define TT_EDGES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* One block of memory. The same on all ranks; never changes. */
struct tt_edges {
	atomic_int refs;
	int n;		/* ranks */
	uint64_t hash;	/* of all below */
	double *own;	/* by rank: the weight of its own value */
	size_t *in_at;	/* n + 1: the edges to rank i are in_at[i] up to in_at[i + 1] - 1 of */
	int *in;	/* their sources, in order of rank, without i itself, and */
	double *weight; /* their weights */
	size_t *out_at; /* the same of the edges from rank i: */
	int *out;	/* their destinations */
};

static inline struct tt_edges *tt_edges_hold(struct tt_edges *edges)
{
	atomic_fetch_add(&edges->refs, 1);
	return edges;
}

static inline void tt_edges_put(struct tt_edges *edges)
{
	if (edges && atomic_fetch_sub(&edges->refs, 1) == 1)
		free(edges);
}

static inline int tt_edges_in(const struct tt_edges *edges, int rank)
{
	return (int)(edges->in_at[rank + 1] - edges->in_at[rank]);
}

static inline int tt_edges_out(const struct tt_edges *edges, int rank)
{
	return (int)(edges->out_at[rank + 1] - edges->out_at[rank]);
}

#endif
