/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs: which rank averages with which, and with what weights.
 *
 * A graph is a local object without a communicator. All ranks make the same one. In each step rank
 * i replaces its value by the sum over its in-neighbours j, and itself, of weight(i, j) * x_j.
 */
#ifndef TUTTI_GRAPH_H
#define TUTTI_GRAPH_H

#include <tutti/coll.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_graph;

/* From one rank to another, or to itself: the share of the own value. */
struct tutti_edge {
	int from, to;
	double weight; /* of TUTTI_WEIGHTS_GIVEN */
};

enum tutti_weights {
	TUTTI_WEIGHTS_GIVEN = 1,  /* those of the edges; a rank without an edge to itself: 0 */
	TUTTI_WEIGHTS_METROPOLIS, /* 1 / (1 + the larger degree); every edge goes both ways */
	TUTTI_WEIGHTS_IN,	  /* 1 / (1 + in-degree of the receiver): rows sum to 1 */
	TUTTI_WEIGHTS_OUT	  /* 1 / (1 + out-degree of the sender): columns sum to 1 */
};

/**
 * tutti_graph_ring, _torus, _star, _complete - undirected graphs with Metropolis-Hastings weights.
 * Rank row * cols + col of a torus has the neighbours above, below, left and right. Rank 0 is the
 * center of a star.
 */
int tutti_graph_ring(int nranks, struct tutti_graph **graph);
int tutti_graph_torus(int rows, int cols, struct tutti_graph **graph);
int tutti_graph_star(int nranks, struct tutti_graph **graph);
int tutti_graph_complete(int nranks, struct tutti_graph **graph);
/**
 * tutti_graph_exponential - directed: each rank sends to the ranks 1, 2, 4, ... further on. All
 * weights of a rank are equal.
 */
int tutti_graph_exponential(int nranks, struct tutti_graph **graph);
/**
 * tutti_graph_one_peer - in step t each rank sends to the rank 2^(t mod p) further on, p = log2 of
 * nranks, rounded up. All weights are 1/2.
 */
int tutti_graph_one_peer(int nranks, struct tutti_graph **graph);
/** tutti_graph_regular - a random connected undirected graph in which each rank has degree
 * neighbours. The same seed gives the same graph. */
int tutti_graph_regular(int nranks, int degree, uint64_t seed, struct tutti_graph **graph);
/** tutti_graph_edges - the graph of these edges (copied). */
int tutti_graph_edges(int nranks, const struct tutti_edge *edges, size_t nedges,
		      enum tutti_weights weights, struct tutti_graph **graph);
/** tutti_graph_free - free a graph. Calls under way keep what they need of it. NULL is no error. */
int tutti_graph_free(struct tutti_graph *graph);

/** tutti_graph_size - ranks; tutti_graph_period - steps until the graph repeats; 0 for NULL. */
int tutti_graph_size(const struct tutti_graph *graph);
int tutti_graph_period(const struct tutti_graph *graph);
/** tutti_graph_weight - the share of rank from's value in rank to's next one; 0: no edge. */
double tutti_graph_weight(const struct tutti_graph *graph, uint64_t step, int to, int from);
/**
 * tutti_graph_in, tutti_graph_out - store at most max of the ranks that rank receives from, or
 * sends to, in step, in order of rank and without rank itself, and their number in *n.
 */
int tutti_graph_in(const struct tutti_graph *graph, uint64_t step, int rank, int *ranks, int max,
		   int *n);
int tutti_graph_out(const struct tutti_graph *graph, uint64_t step, int rank, int *ranks, int max,
		    int *n);

/* Properties of the weights, in every step. */
#define TUTTI_GRAPH_ROWS 1u	 /* of each receiver they sum to 1: a common value stays */
#define TUTTI_GRAPH_COLUMNS 2u	 /* of each sender they sum to 1: the sum over ranks stays */
#define TUTTI_GRAPH_SYMMETRIC 4u /* weight(i, j) is weight(j, i) */
#define TUTTI_GRAPH_DOUBLY (TUTTI_GRAPH_ROWS | TUTTI_GRAPH_COLUMNS)

/** tutti_graph_check - 0 if the graph has these properties, else -EINVAL: the text names where. */
int tutti_graph_check(const struct tutti_graph *graph, unsigned properties);
/**
 * tutti_graph_lambda2 - the second largest modulus of an eigenvalue, |lambda2|: disagreement
 * shrinks by this factor per step, over many steps. Of a graph that changes: of a step, in the
 * geometric mean over the period. 0: the ranks agree after one period. Rows or columns must sum to
 * 1.
 */
int tutti_graph_lambda2(const struct tutti_graph *graph, double *lambda2);

/*
 * Collectives of neighbours, by the edges of graph in that step. comm has as many ranks as the
 * graph; all its ranks call with the same graph, step, count and datatype. Each rank waits for its
 * in-neighbours only.
 *
 * Nonblocking (i) and persistent (_init) forms are as those of other collectives; graph may be
 * freed while they exist.
 *
 * In a tolerant communicator these calls go on after a death. A dead neighbour's weight goes to the
 * own value.
 */

/**
 * tutti_neighbor_allreduce - recvbuf becomes the sum over the in-neighbours j and this rank i of
 * weight(i, j) * their sendbuf. float16, bfloat16 (summed in float32), float32, float64. sendbuf
 * TUTTI_IN_PLACE: recvbuf is the input. Sends out-degree * N bytes.
 */
int tutti_neighbor_allreduce(const void *sendbuf, void *recvbuf, size_t count,
			     enum tutti_datatype datatype, const struct tutti_graph *graph,
			     uint64_t step, struct tutti_comm *comm);
int tutti_ineighbor_allreduce(const void *sendbuf, void *recvbuf, size_t count,
			      enum tutti_datatype datatype, const struct tutti_graph *graph,
			      uint64_t step, struct tutti_comm *comm,
			      struct tutti_request **request);
int tutti_neighbor_allreduce_init(const void *sendbuf, void *recvbuf, size_t count,
				  enum tutti_datatype datatype, const struct tutti_graph *graph,
				  uint64_t step, struct tutti_comm *comm,
				  struct tutti_request **request);
/**
 * tutti_neighbor_allgather - sendbuf goes to each out-neighbour; recvbuf gets a block of count
 * elements from each in-neighbour, in order of rank. A dead neighbour's block stays as it is, and
 * the call returns -TUTTI_EPEER when all other blocks are there.
 */
int tutti_neighbor_allgather(const void *sendbuf, void *recvbuf, size_t count,
			     enum tutti_datatype datatype, const struct tutti_graph *graph,
			     uint64_t step, struct tutti_comm *comm);
int tutti_ineighbor_allgather(const void *sendbuf, void *recvbuf, size_t count,
			      enum tutti_datatype datatype, const struct tutti_graph *graph,
			      uint64_t step, struct tutti_comm *comm,
			      struct tutti_request **request);
int tutti_neighbor_allgather_init(const void *sendbuf, void *recvbuf, size_t count,
				  enum tutti_datatype datatype, const struct tutti_graph *graph,
				  uint64_t step, struct tutti_comm *comm,
				  struct tutti_request **request);
/**
 * tutti_neighbor_alltoall - as tutti_neighbor_allgather, but sendbuf has a block of count elements
 * for each out-neighbour, in order of rank.
 */
int tutti_neighbor_alltoall(const void *sendbuf, void *recvbuf, size_t count,
			    enum tutti_datatype datatype, const struct tutti_graph *graph,
			    uint64_t step, struct tutti_comm *comm);
int tutti_ineighbor_alltoall(const void *sendbuf, void *recvbuf, size_t count,
			     enum tutti_datatype datatype, const struct tutti_graph *graph,
			     uint64_t step, struct tutti_comm *comm,
			     struct tutti_request **request);
int tutti_neighbor_alltoall_init(const void *sendbuf, void *recvbuf, size_t count,
				 enum tutti_datatype datatype, const struct tutti_graph *graph,
				 uint64_t step, struct tutti_comm *comm,
				 struct tutti_request **request);

/**
 * tutti_neighbor_hier_allreduce - the mean over each host, then the weighted sum over neighbouring
 * hosts, on all ranks. graph has a rank for each host of comm, in order of their lowest ranks. Each
 * host counts as one, however many ranks it has. A host sends out-degree * N bytes. After a death
 * it fails as tutti_allreduce does, also in a tolerant communicator.
 */
int tutti_neighbor_hier_allreduce(const void *sendbuf, void *recvbuf, size_t count,
				  enum tutti_datatype datatype, const struct tutti_graph *graph,
				  uint64_t step, struct tutti_comm *comm);
int tutti_ineighbor_hier_allreduce(const void *sendbuf, void *recvbuf, size_t count,
				   enum tutti_datatype datatype, const struct tutti_graph *graph,
				   uint64_t step, struct tutti_comm *comm,
				   struct tutti_request **request);
int tutti_neighbor_hier_allreduce_init(const void *sendbuf, void *recvbuf, size_t count,
				       enum tutti_datatype datatype,
				       const struct tutti_graph *graph, uint64_t step,
				       struct tutti_comm *comm, struct tutti_request **request);

/*
 * Push-sum: averages along directed graphs that change, in which no rank waits for another one. A
 * rank has a vector x of float64 and a weight w, which travel together; z = x / w comes to the mean
 * over the ranks. A graph need not be the same on all ranks; its columns must sum to 1
 * (TUTTI_GRAPH_COLUMNS). One thread at a time uses a state.
 */
struct tutti_push_sum;

/** tutti_push_sum_create - x is 0 and w is 1, on each rank. Collective. */
int tutti_push_sum_create(struct tutti_comm *comm, size_t count, struct tutti_push_sum **state);
/**
 * tutti_push_sum_free - free a state. Local. NULL is no error. -EBUSY while a push of this rank is
 * under way.
 */
int tutti_push_sum_free(struct tutti_push_sum *state);
/** tutti_push_sum_add - x += delta: the first values, or the step of an optimizer. Local. */
int tutti_push_sum_add(struct tutti_push_sum *state, const double *delta);
/**
 * tutti_push_sum_step - take in what has come, then send the share weight(j, i) of x and w to each
 * out-neighbour j, and keep the rest. Waits for no rank: a neighbour that has not taken the last
 * push misses this one, and the share is kept.
 */
int tutti_push_sum_step(struct tutti_push_sum *state, const struct tutti_graph *graph,
			uint64_t step);
/** tutti_push_sum_drain - wait until all pushes of all ranks have been taken in. Collective. */
int tutti_push_sum_drain(struct tutti_push_sum *state);
/** tutti_push_sum_get - z = x / w; and w, unless weight is NULL. Local. */
int tutti_push_sum_get(const struct tutti_push_sum *state, double *z, double *weight);
/** tutti_push_sum_missed - pushes that were not made, as the last one was under way. Local. */
uint64_t tutti_push_sum_missed(const struct tutti_push_sum *state);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
