/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library that is preloaded under MPI programs and takes over their blocking collectives; see
 * tutti_mpi(7). It is built once for each MPI. entry_*.c has the functions that it puts before
 * those of the MPI.
 *
 * All ranks of a communicator must take a call or pass it on alike, so a decision depends only on
 * what MPI makes equal at all ranks: for reductions on operator, datatype and count, for movement
 * of data on the bytes of the type signature. The counts of gatherv, scatterv and alltoallv are
 * local, so a decision depends on nothing; those of allgatherv are the same at all ranks. Arguments
 * that the MPI refuses pass on at each rank that has them: MPI forbids them.
 */
#ifndef TUTTI_MPI_PRELOAD_H
#define TUTTI_MPI_PRELOAD_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

/* The collectives that can be taken: name in MPI, and in TUTTI_MPI_TAKE. */
#define TM_COLLS(X)                                                                                \
	X(ALLREDUCE, Allreduce, "allreduce")                                                       \
	X(REDUCE, Reduce, "reduce")                                                                \
	X(REDUCE_SCATTER, Reduce_scatter, "reduce_scatter")                                        \
	X(REDUCE_SCATTER_BLOCK, Reduce_scatter_block, "reduce_scatter_block")                      \
	X(SCAN, Scan, "scan")                                                                      \
	X(EXSCAN, Exscan, "exscan")                                                                \
	X(BARRIER, Barrier, "barrier")                                                             \
	X(BCAST, Bcast, "bcast")                                                                   \
	X(GATHER, Gather, "gather")                                                                \
	X(SCATTER, Scatter, "scatter")                                                             \
	X(ALLGATHER, Allgather, "allgather")                                                       \
	X(ALLTOALL, Alltoall, "alltoall")                                                          \
	X(GATHERV, Gatherv, "gatherv")                                                             \
	X(SCATTERV, Scatterv, "scatterv")                                                          \
	X(ALLGATHERV, Allgatherv, "allgatherv")                                                    \
	X(ALLTOALLV, Alltoallv, "alltoallv")

enum tm_coll {
#define X(id, name, text) TM_##id,
	TM_COLLS(X)
#undef X
		TM_NUM_COLLS
};

/* Rows of the summary after those of the collectives that can be taken. */
enum { TM_ALLTOALLW = TM_NUM_COLLS, TM_NEIGHBORS, TM_ROWS };

/* The functions of the MPI itself, as the next library in the search order has them. */
struct tm_real {
#define X(id, name, text) __typeof__(&PMPI_##name) name;
	TM_COLLS(X)
#undef X
	__typeof__(&PMPI_Init) Init;
	__typeof__(&PMPI_Init_thread) Init_thread;
	__typeof__(&PMPI_Finalize) Finalize;
	__typeof__(&PMPI_Comm_free) Comm_free;
	__typeof__(&PMPI_Comm_disconnect) Comm_disconnect;
};
extern struct tm_real tm_real;

/* ---- settings.c: rank 0's values, which all ranks have ---- */

/* Calls of min to max bytes are taken; none if min > max. */
struct tm_range {
	uint64_t min, max;
};
struct tm_settings {
	struct tm_range take[TM_NUM_COLLS];
	struct tm_range gap[TM_NUM_COLLS]; /* but none of more than min and less than max */
	int summary;
	int any; /* a call can be taken */
};
void tm_settings_read(struct tm_settings *settings);
extern const char *const tm_coll_names[TM_ROWS];

/* ---- lifetime.c: from MPI_Init to MPI_Finalize ---- */

struct tm_job {
	bool on;	 /* calls are taken; false: all pass on */
	MPI_Comm own;	 /* the world, for this library's own messages */
	MPI_Group group; /* of the world */
	int rank, size;	 /* in the world */
	bool crowded;	 /* this host has fewer cores than ranks */
	int error;	 /* the error code of calls that fail */
	struct tutti_context *ctx;
	struct tm_settings settings;
};
extern struct tm_job tm_job;

/* ---- comms.c: what is known of a communicator ---- */

/* Why a call passes on. TM_LASTING: it creates a persistent request. */
enum tm_why { TM_SIZE, TM_KIND, TM_COMM, TM_NONBLOCKING, TM_LASTING, TM_WHYS };

struct tm_comm {
	MPI_Comm comm;
	struct tutti_comm *tutti; /* NULL: all its calls pass on */
	int rank, size;
	struct tm_comm *next;
};
/* Of a communicator in use; the first call for it is collective. Never NULL. */
struct tm_comm *tm_comm_of(MPI_Comm comm);
int tm_comms_start(void);
void tm_comms_stop(void);

/* ---- types.c ---- */

/* A predefined datatype whose elements are one piece of memory. */
struct tm_type {
	MPI_Datatype handle;
	int bytes;
	int tutti;    /* enum tutti_datatype of its elements in reductions; -1: none */
	unsigned ops; /* a bit for each enum tutti_op that MPI defines for it */
};
void tm_types_start(void);
const struct tm_type *tm_type_of(MPI_Datatype datatype); /* NULL: another one */
int tm_op_of(MPI_Op op);				 /* enum tutti_op; -1: another one */

/* ---- sides.c: what a rank sends or receives, as bytes ---- */

struct tm_side {
	const void *buf; /* the program's */
	MPI_Datatype type;
	int n;			    /* blocks */
	int count;		    /* elements of each block, if counts is NULL */
	const int *counts, *displs; /* of each; displs NULL: one after the other */
	size_t size;		    /* bytes of the signature of an element */
	MPI_Aint extent;
	bool plain; /* an element is one piece of memory without gaps */
	/* for tutti: */
	void *data;
	size_t *bytes, *offsets; /* offsets NULL: one after the other; both only with counts */
	char *packed;
	int err;	/* of the MPI */
	size_t few[16]; /* bytes and offsets of up to 8 ranks */
};
void tm_side_init(struct tm_side *s, const void *buf, int n, int count, MPI_Datatype type);
/* Whether the MPI refuses the datatype or a count. */
bool tm_side_refused(const struct tm_side *s);
/* Bytes of a block of a side without counts. */
size_t tm_side_block(const struct tm_side *s);
int tm_side_begin(struct tm_side *s, bool sent, MPI_Comm comm); /* false: nothing to send */
int tm_side_end(struct tm_side *s, bool received, MPI_Comm comm);
/* Runs a call with what is sent and received; NULL: nothing, or in place. */
int tm_sides_run(struct tm_comm *c, enum tm_coll coll, struct tutti_call *call,
		 struct tm_side *send, struct tm_side *recv);

/* ---- run.c: a call that is taken ---- */

/* Runs the collective while the MPI progresses. Returns an error class of MPI. */
int tm_run(struct tm_comm *c, enum tm_coll coll, struct tutti_call *call);
/* This rank cannot make its part of a taken call. */
int tm_fail(struct tm_comm *c, int class, const char *why);

/* ---- summary.c ---- */

extern bool tm_counting;
void tm_count_passed(int row, enum tm_why why);
void tm_count_taken(enum tm_coll coll, uint64_t ns);
void tm_summary_print(void);

static inline void tm_passed(int row, enum tm_why why)
{
	if (tm_counting)
		tm_count_passed(row, why);
}

/* Whether a call of so many bytes is taken. */
static inline bool tm_takes(const struct tm_comm *c, enum tm_coll coll, uint64_t bytes)
{
	const struct tm_range *take = &tm_job.settings.take[coll];
	const struct tm_range *gap = &tm_job.settings.gap[coll];

	if (bytes >= take->min && bytes <= take->max && (bytes <= gap->min || bytes >= gap->max) &&
	    c->tutti)
		return true;
	tm_passed(coll, c->tutti ? TM_SIZE : TM_COMM);
	return false;
}

/* The same of a call whose bytes do not count: they differ between ranks, or there are none. */
static inline bool tm_takes_any(const struct tm_comm *c, enum tm_coll coll)
{
	const struct tm_range *take = &tm_job.settings.take[coll];

	if (take->min <= take->max && c->tutti)
		return true;
	tm_passed(coll, c->tutti ? TM_SIZE : TM_COMM);
	return false;
}

/* Whether the call has a root; others pass on. The communicator must be set up. */
static inline bool tm_has_root(const struct tm_comm *c, enum tm_coll coll, int root)
{
	if (root >= 0 && root < c->size)
		return true;
	tm_passed(coll, TM_KIND);
	return false;
}

/* The code of the MPI's library. */
struct tm_code {
	uintptr_t begin, size;
};
extern struct tm_code tm_mpi_code;

/*
 * Defines an entry: MPI_NAME, and PMPI_NAME, which functions of Fortran call. tm_NAME has the same
 * parameters. MPICH's functions of files call PMPI_NAME, too, on a communicator of each open file;
 * setting these up takes longer than opening a file, so their calls pass on, to real.
 */
#define TM_PUBLIC __attribute__((visibility("default")))
#ifdef OPEN_MPI
#define TM_IS_INSIDE false
#else
#define TM_IS_INSIDE ((uintptr_t)__builtin_return_address(0) - tm_mpi_code.begin < tm_mpi_code.size)
#endif
#define TM_ENTRY_OF(real, name, params, args)                                                      \
	TM_PUBLIC int MPI_##name params                                                            \
	{                                                                                          \
		return tm_##name args;                                                             \
	}                                                                                          \
	TM_PUBLIC int PMPI_##name params                                                           \
	{                                                                                          \
		return TM_IS_INSIDE ? real args : tm_##name args;                                  \
	}
#define TM_ENTRY(name, params, args) TM_ENTRY_OF(tm_real.name, name, params, args)

#endif
