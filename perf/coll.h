/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that tutti_perf measures: their calls and expected results. */
#ifndef PERF_COLL_H
#define PERF_COLL_H

#include "perf/perf.h"

enum perf_coll {
	PERF_ALLREDUCE,
	PERF_BCAST,
	PERF_BARRIER,
	PERF_REDUCE,
	PERF_REDUCE_SCATTER,
	PERF_ALLGATHER,
	PERF_GATHER,
	PERF_SCATTER,
	PERF_ALLTOALL,
	PERF_SCAN,
	PERF_EXSCAN,
	PERF_SENDRECV,
	PERF_HYPERCUBE,
	PERF_REDUCE_SCATTERV,
	PERF_ALLGATHERV,
	PERF_GATHERV,
	PERF_SCATTERV,
	PERF_ALLTOALLV,
	PERF_NEIGHBOR_ALLREDUCE, /* these three are not for --coll */
	PERF_NEIGHBOR_ALLGATHER,
	PERF_NEIGHBOR_ALLTOALL,
	PERF_COLLS
};

enum perf_places { PERF_BOTH, PERF_IN_PLACE, PERF_OUT_OF_PLACE };

struct perf_coll_kind {
	const char *name;
	enum perf_places places;
	bool reduces, rooted;
	bool blocks;	   /* size is that of nranks blocks of count elements, or degree */
	bool sends, recvs; /* one for each rank, or neighbour, of them */
	double busbw;	   /* times (n - 1) / n if scales, as nccl-tests counts; else as it is */
	bool scales;
	bool neighbors;
};
extern const struct perf_coll_kind perf_coll_kinds[PERF_COLLS];

/* One cell group of the table: this collective, this size, out of place or in place. */
struct perf_coll_job {
	struct perf *perf;
	enum perf_coll coll;
	const struct perf_coll_kind *kind;
	struct perf_buffer *bufs; /* --rotate pairs, or as many single ones */
	bool in_place;
	struct perf_buffer *send, *recv; /* of this call; send == recv: in place */
	size_t count, bytes, *counts;	 /* counts: of the v forms, room for one a rank */
	int datatype, op, root;
	struct perf_oracle *oracle;
	double *times;			 /* --stat: one an iteration */
	struct tutti_codec *codec;	 /* --codec, or NULL */
	struct tutti_feedback *feedback; /* of count elements */
	struct tutti_graph *graph;	 /* of neighbours, or NULL */
	uint64_t step;
	int degree;		  /* the most neighbours of a rank, either way, in any step */
	int *in, *out, nin, nout; /* this rank's neighbours in this step */
};

/* The bytes of an element, or of one for each block: sizes are multiples. */
size_t perf_coll_width(const struct perf_coll_job *job);
/* The count for so many bytes, rounded down, or up to one element if some; fills counts. */
void perf_coll_resize(struct perf_coll_job *job, size_t size, bool some);
const char *const *perf_coll_names(void); /* for --coll: in the order of enum perf_coll */

/*
 * perf/coll_neighbors.c: begin makes the graph, and end frees it also if begin has failed; find
 * stores the neighbours in this step, which fill, wrong and violations need.
 */
int perf_neighbors_begin(struct perf_coll_job *job);
void perf_neighbors_end(struct perf_coll_job *job);
int perf_neighbors_find(struct perf_coll_job *job);
size_t perf_neighbors_wrong(const struct perf_coll_job *job, uint64_t seed); /* of allreduce */

/* perf/coll_calls.c; 0 or a negative code, reported. */
int perf_coll_call(const struct perf_coll_job *job);
/* The nonblocking form, which some have. */
bool perf_coll_has_start(enum perf_coll coll);
int perf_coll_start(const struct perf_coll_job *job, struct tutti_request **req);
int perf_coll_wait(const struct perf_coll_job *job, struct tutti_request **req);
/*
 * perf/coll_each.c: for overlap and forms: row(arg) for each collective of --coll and each size.
 * Only job->perf is set before.
 */
int perf_coll_each(struct perf_coll_job *job, int (*row)(void *), void *arg);

/* The oracle's values are those of block b in seed. */
void perf_coll_prepare(const struct perf_coll_job *job, uint64_t seed, int b);
/* Inputs with a known result; everything that the call must overwrite holds something else. */
void perf_coll_fill(const struct perf_coll_job *job, uint64_t seed);
/* Counts wrong elements and illegally changed bytes after a call on this seed's data. */
size_t perf_coll_wrong(const struct perf_coll_job *job, uint64_t seed);
size_t perf_coll_violations(const struct perf_coll_job *job, uint64_t seed);

#endif
