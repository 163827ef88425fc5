/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the drivers of perf/compare: the same operations and the same measurement for every
 * library. A driver implements the functions of struct peer with its library and calls drive().
 *
 *	DRIVER each|rate SECONDS OPERATION:BYTES...
 *
 * each: a collective begins with a barrier and takes as long as its slowest rank; the median.
 * Messages and one-sided operations: the median of the means of a few batches. rate: back to back,
 * without barriers, for SECONDS after a warm-up of a quarter of that; the mean of the slowest rank.
 * SECONDS bounds the time for a cell in both cases. Rank 0 prints "OPERATION BYTES MICROSECONDS
 * WRONG" for each cell; cells that the library or the number of ranks does not allow are left out.
 * Bytes and windows are those of the OSU micro-benchmarks; microseconds are those of one call or,
 * where messages travel in windows, of one message. Every element of the last result is checked.
 * With COMPARE_TOUCH in the environment each rank writes what it sends before each unit and reads
 * what it gets after it, within the time, but for collectives of "each"; and each message of a
 * window has a buffer of its own.
 */
#ifndef DRIVE_H
#define DRIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DRIVE_WINDOW 64 /* messages, each way */
#define DRIVE_RANKS 64	/* at most */

enum drive_call {
	DRIVE_ALLREDUCE,
	DRIVE_REDUCE,
	DRIVE_REDUCE_SCATTER,
	DRIVE_REDUCE_SCATTER_BLOCK,
	DRIVE_SCAN,
	DRIVE_EXSCAN,
	DRIVE_BCAST,
	DRIVE_ALLGATHER,
	DRIVE_ALLGATHERV,
	DRIVE_ALLTOALL,
	DRIVE_ALLTOALLV,
	DRIVE_GATHER,
	DRIVE_SCATTER,
	DRIVE_BARRIER,
	DRIVE_CALLS
};

/* Arguments of a collective: float32, sums, root 0, out of place. */
struct drive_args {
	const float *in;
	float *out;		       /* bcast: in at the root, out elsewhere */
	size_t count;		       /* of a vector, or of a block */
	const size_t *counts, *displs; /* of all ranks */
	const int *icounts, *idispls;  /* the same */
};

struct peer {
	int rank, ranks;
	/* Each function returns 0, or an error that ends the run. */
	int (*call)(enum drive_call call, const struct drive_args *args);
	unsigned calls;				  /* a bit for each that the library has */
	int (*max)(double *values, size_t count); /* over ranks, in place */
	int (*meet)(void);	      /* before each timed call; NULL: the library's barrier */
	void *(*alloc)(size_t bytes); /* NULL: malloc */
	/* messages; send NULL: none. wait is for all that isend and irecv have started. */
	int (*send)(const void *buf, size_t bytes, int rank);
	int (*recv)(void *buf, size_t bytes, int rank);
	int (*isend)(const void *buf, size_t bytes, int rank);
	int (*irecv)(void *buf, size_t bytes, int rank);
	int (*wait)(void);
	/*
	 * One-sided: a window on all ranks, which rank 0 accesses at rank 1; expose NULL: none.
	 * shared: all ranks access it; accumulates: by these only.
	 */
	int (*expose)(size_t bytes, int shared, int accumulates, void **base);
	int (*put)(const void *buf, size_t bytes);
	int (*get)(void *buf, size_t bytes);
	int (*accumulate)(const void *buf, size_t bytes); /* sums of uint32_t */
	int (*get_accumulate)(const void *buf, void *old, size_t bytes);
	/* these two end with the old value in *old */
	int (*fetch_add)(uint64_t value, uint64_t *old);
	int (*compare_swap)(uint64_t compare, uint64_t value, uint64_t *old);
	int (*flush)(void);
	int (*close)(void); /* this rank accesses no more */
	int (*conceal)(void);
};

/* The exit status. */
int drive(const struct peer *peer, int argc, char **argv);

/* ---- operations.c ---- */

struct drive_op;

/* A cell that is being measured. */
struct drive_run {
	const struct peer *peer;
	const struct drive_op *op;
	size_t bytes;
	double seconds;
	int touch; /* all lines of the buffers, around each unit; buffers differ */
	float *in, *out;
	struct drive_args args;
	size_t counts[DRIVE_RANKS], displs[DRIVE_RANKS];
	int icounts[DRIVE_RANKS], idispls[DRIVE_RANKS];
	int window, pairs, other; /* messages: other is -1 if this rank has none */
	void *exposed;		  /* one-sided */
};

struct drive_op {
	const char *name;
	enum drive_call call;
	int (*unit)(const struct drive_run *run);
	int kind;		     /* of the result, operations.c */
	int in_blocks, out_blocks;   /* a block for each rank? */
	int total;		     /* do bytes count all blocks? */
	int collective;		     /* else messages or one-sided */
	int one_sided, windows, way; /* way: windows at once, or messages of a unit */
	int any_ranks;		     /* one-sided: more than two ranks access rank 1 at once */
	int accumulates;	     /* the window is for these */
};

const struct drive_op *drive_op(const char *name, size_t length);
/* Whether it counts in the first word of the window, from 0. */
int drive_counts(const struct drive_run *run);
/* Whether more ranks than rank 0 access the window. */
int drive_shared(const struct drive_run *run);
/* Whether the library and the ranks allow it; sets the arguments. */
int drive_prepare(struct drive_run *run);
/* Messages that a unit moves. */
double drive_messages(const struct drive_run *run);
/* Elements of the buffers that the operation uses. */
size_t drive_in(const struct drive_run *run);
size_t drive_out(const struct drive_run *run);
/* Element i of the input of a rank. */
float drive_input(int rank, size_t i);
/* Elements of this rank's result that are not right. */
double drive_wrong(const struct drive_run *run);

#ifdef __cplusplus
}
#endif

#endif
