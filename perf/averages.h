/* SPDX-License-Identifier: BSD-3-Clause */
/* Averages and partial sums: shared by gossip.c, pair.c, partial.c and elastic.c. */
#ifndef PERF_AVERAGES_H
#define PERF_AVERAGES_H

#include "perf/perf.h"

#define AVERAGES_PERIOD 61 /* elements, after which the values of a rank repeat */
#define AVERAGES_TIMES 3   /* of an iteration, at most */
#define AVERAGES_NO_GRAPH (-1)

struct averages {
	struct perf *perf;
	struct tutti_graph *graph; /* of gossip, and of partners */
	int *in, *out, nin, nout;
	double *weights; /* of in */
	double *times;	 /* AVERAGES_TIMES * iterations */
	size_t count;
	int datatype;
	struct perf_buffer buf[3]; /* of gossip one, of partial two */
	struct tutti_gossip *gossip;
	struct tutti_pair *pair;
	void *x; /* of pair */
	struct tutti_partial *partial;
	unsigned char *took; /* part in round */
	uint64_t round;
	double usec; /* of the last call */
};

/* Values: whole numbers, that each rank knows of all ranks. */
double averages_given(int rank, size_t i);
double averages_load(const void *x, size_t i, int datatype);
void averages_fill(const struct averages *r, void *x, int rank);
size_t averages_bytes(const struct averages *r);
bool averages_integers(int datatype);
/* How much the result of so many terms may be off. */
double averages_room(const struct averages *r, int terms);

/* Reports err if it is one; returns it. */
int averages_failed(const struct averages *r, const char *call, int err);
/* The median of this rank's times, then the greatest of all ranks. */
int averages_slowest(const struct averages *r, double *times, double *median);
double averages_usec_since(uint64_t *from); /* and from is now */

/* Makes the graph and the table; end frees also if begin has failed. */
int averages_begin(struct averages *r, int graph, const struct perf_column *columns,
		   size_t ncolumns);
void averages_end(struct averages *r);
/* one(r) for each size and each of these types that -d takes. */
int averages_each(struct averages *r, int (*one)(struct averages *), const int *types, int ntypes);

#endif
