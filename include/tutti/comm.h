/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts (one per process and job) and communicators (ordered groups of ranks).
 */
#ifndef TUTTI_COMM_H
#define TUTTI_COMM_H

#include <tutti/error.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_context;
struct tutti_comm;
struct tutti_request;

/* Made by one process, passed to all processes of the job by any means. Opaque bytes. */
struct tutti_unique_id {
	unsigned char bytes[192];
};

/*
 * An existing all-gather of the caller: every rank passes len bytes at send and receives nranks *
 * len bytes at recv, in rank order. Returns 0, or nonzero to fail tutti_init.
 */
typedef int tutti_allgather_fn(const void *send, void *recv, size_t len, void *arg);

/* Zero always means the default: the value from options, else from the environment. */
struct tutti_config {
	size_t size; /* sizeof(struct tutti_config) */
	int nranks;  /* > 0: rank and nranks below count, not the environment */
	int rank;
	const struct tutti_unique_id *id; /* with nranks: the id made by tutti_unique_id_get */
	tutti_allgather_fn *allgather;	  /* with nranks: instead of id */
	void *allgather_arg;
	const char *transport; /* as TUTTI_TRANSPORT, e.g. "shm,ofi" */
	int timeout_ms;	       /* as TUTTI_TIMEOUT: of every blocking call and request */
	int progress_thread;   /* 1: as TUTTI_PROGRESS=thread; -1: as TUTTI_PROGRESS=caller */
	tutti_log_fn *log;     /* as tutti_set_log */
	void *log_arg;
	enum tutti_log_level log_level;
	int tolerant; /* 1: as TUTTI_TOLERANT=1, the world is tolerant; -1: it is not */
	/*
	 * "VARIABLE=VALUE" each, NULL at the end: the variables of tutti_env(7), instead of their
	 * values in the environment, for this context alone. Copied. NULL: none.
	 */
	const char *const *options;
};

/**
 * tutti_unique_id_get - make an id for a new job. Call it in the process that will be rank 0,
 * before its tutti_init; the id names a socket that this process now listens on.
 */
int tutti_unique_id_get(struct tutti_unique_id *id);

/**
 * tutti_init - join the job. Collective over all its ranks. config NULL: all from the environment.
 * On failure *ctx is untouched and tutti_last_error has the details.
 */
int tutti_init(const struct tutti_config *config, struct tutti_context **ctx);

/**
 * tutti_finalize - leave the job and free everything of ctx. Collective.
 * -EBUSY, with nothing freed, while requests are pending. -TUTTI_EMISMATCH if ranks disagreed on a
 * call and no call of this rank has reported it.
 */
int tutti_finalize(struct tutti_context *ctx);

/** tutti_world - the communicator of all ranks; owned by ctx, not to be freed. */
struct tutti_comm *tutti_world(struct tutti_context *ctx);

/** tutti_self - a communicator of this rank alone; owned by ctx. NULL: tutti_last_error has why. */
struct tutti_comm *tutti_self(struct tutti_context *ctx);

int tutti_comm_rank(const struct tutti_comm *comm);
int tutti_comm_size(const struct tutti_comm *comm);
struct tutti_context *tutti_comm_context(const struct tutti_comm *comm);

#define TUTTI_UNDEFINED                                                                            \
	(-1) /* no rank; as color, or key of split_host: this rank joins no group                  \
	      */

/** tutti_comm_world_rank - the rank in the world of a rank of comm. */
int tutti_comm_world_rank(const struct tutti_comm *comm, int rank);

/**
 * tutti_comm_translate_ranks - theirs[i] becomes the rank in other of rank ranks[i] of comm, or
 * TUTTI_UNDEFINED if other does not have it. Both belong to one context. Local.
 */
int tutti_comm_translate_ranks(const struct tutti_comm *comm, int n, const int *ranks,
			       const struct tutti_comm *other, int *theirs);

#define TUTTI_NEVER (-1) /* as a timeout: no deadline */

/**
 * tutti_comm_set_timeout - from now on ms milliseconds, instead of the job's timeout, for
 * collectives, messages and requests on comm that begin later; 0: the job's; TUTTI_NEVER: none.
 * Calls on a window that block keep the job's. Local; a communicator made from comm begins with the
 * job's.
 */
int tutti_comm_set_timeout(struct tutti_comm *comm, int ms);

/**
 * tutti_comm_dup - a communicator of the same ranks whose messages never mix with comm's.
 * Collective.
 */
int tutti_comm_dup(struct tutti_comm *comm, struct tutti_comm **newcomm);

#define TUTTI_COMM_NAME_MAX 47 /* longest name of a communicator */

/* Properties of a communicator. dup, split, split_host and shrink keep them. */
enum tutti_comm_flags {
	/*
	 * The death of a rank ends only what needs that rank: point-to-point and one-sided
	 * operations on other ranks go on, and so do collectives of neighbours. All other
	 * collectives fail until tutti_comm_shrink.
	 */
	TUTTI_COMM_TOLERANT = 1
};

/* Zero always means the default. */
struct tutti_comm_config {
	size_t size;	  /* sizeof(struct tutti_comm_config) */
	int color, key;	  /* as in tutti_comm_split */
	unsigned flags;	  /* enum tutti_comm_flags; the same on all ranks of a color */
	const char *name; /* as in tutti_comm_set_name; NULL: none */
	/* tutti_comm_create_group only */
	int nranks;	   /* how many ranks */
	const int *ranks;  /* of comm, in the new order; or NULL: first, first + stride, ... */
	int first, stride; /* stride 0: 1 */
	int tag;	   /* tells calls of several threads with the same ranks apart */
};

/**
 * tutti_comm_create - as tutti_comm_split, with properties of its own instead of comm's.
 * Collective. config NULL: all ranks in the same order, no flags.
 */
int tutti_comm_create(struct tutti_comm *comm, const struct tutti_comm_config *config,
		      struct tutti_comm **newcomm);

/**
 * tutti_comm_split - one communicator per color; ranks ordered by key, then by rank in comm.
 * Collective. color >= 0, or TUTTI_UNDEFINED: *newcomm becomes NULL.
 */
int tutti_comm_split(struct tutti_comm *comm, int color, int key, struct tutti_comm **newcomm);

/**
 * tutti_comm_idup, tutti_comm_isplit - as tutti_comm_dup and tutti_comm_split, nonblocking:
 * *newcomm is set when the request is complete, and untouched if it fails. Match the blocking
 * calls. The request cannot be freed while it runs.
 */
int tutti_comm_idup(struct tutti_comm *comm, struct tutti_comm **newcomm,
		    struct tutti_request **request);
int tutti_comm_isplit(struct tutti_comm *comm, int color, int key, struct tutti_comm **newcomm,
		      struct tutti_request **request);

/**
 * tutti_comm_create_group - a communicator of some ranks of comm, called by these ranks alone, all
 * with the same values; color and key are not used. Collective over these ranks.
 */
int tutti_comm_create_group(struct tutti_comm *comm, const struct tutti_comm_config *config,
			    struct tutti_comm **newcomm);

/**
 * tutti_comm_split_host - one communicator per host, as tutti(7) defines it. Collective.
 * key TUTTI_UNDEFINED: this rank joins no group, *newcomm becomes NULL.
 */
int tutti_comm_split_host(struct tutti_comm *comm, int key, struct tutti_comm **newcomm);

/**
 * tutti_comm_free - free a communicator made by dup, split or shrink. Requests and windows of it
 * keep it until the last of them is freed. Local.
 */
int tutti_comm_free(struct tutti_comm *comm);

/**
 * tutti_comm_abort - make every pending and later call on every communicator of the job fail
 * with -TUTTI_EABORTED on all ranks; code is passed on in the error text. From any thread.
 */
int tutti_comm_abort(struct tutti_comm *comm, int code);

/* A rank that has failed. */
struct tutti_failed {
	int rank, world_rank; /* in the communicator asked about, and in the world */
	char host[64];
	char reason[160];  /* the same words on all survivors */
	char reserved[24]; /* 0; for fields of later versions */
};

/**
 * tutti_comm_failed - store at most max of the failed ranks of comm in list, in order of rank, and
 * their number in *n. Works on communicators that have failed. Any thread.
 */
int tutti_comm_failed(struct tutti_comm *comm, struct tutti_failed *list, int max, int *n);

/**
 * tutti_comm_ack_failed - of a tolerant communicator: this rank knows that these ranks have failed
 * (n entries of list, from tutti_comm_failed). Receives and probes from any source, which fail
 * while a failed rank is not acknowledged, go on without them. Local. Any thread.
 */
int tutti_comm_ack_failed(struct tutti_comm *comm, const struct tutti_failed *list, int n);

/**
 * tutti_comm_set_name - a name of up to TUTTI_COMM_NAME_MAX printable characters, shown in this
 * rank's errors and reports; "" removes it. Local. Any thread.
 */
int tutti_comm_set_name(struct tutti_comm *comm, const char *name);

/** tutti_comm_get_name - copies the name, "" if there is none. -ERANGE: it needs more bytes. */
int tutti_comm_get_name(struct tutti_comm *comm, char *name, size_t size);

/* The state of a communicator, as far as this rank knows. */
struct tutti_comm_state {
	size_t size;	/* sizeof(struct tutti_comm_state) */
	int code;	/* 0, or the error that every operation returns */
	int coll_code;	/* 0, or the error that collectives return */
	unsigned flags; /* enum tutti_comm_flags */
	int failed;	/* its ranks that have failed */
	int unacked;	/* tolerant: those of them that are not acknowledged */
	int requests;	/* that exist on it, persistent and finished ones included */
	int windows;	/* that exist on it */
	uint64_t calls; /* collectives that this rank has begun, without persistent ones */
	int pending;	/* requests whose operation has begun and has not ended */
};

/**
 * tutti_comm_state - the state of comm, without an operation. Works on communicators that have
 * failed; an earlier error of the thread does not matter. Local. Any thread.
 */
int tutti_comm_state(struct tutti_comm *comm, struct tutti_comm_state *state);

/**
 * tutti_comm_revoke - make every pending and later call on comm fail with -TUTTI_EREVOKED on all
 * its ranks, except those below. Local: returns at once. Any thread.
 */
int tutti_comm_revoke(struct tutti_comm *comm);

/**
 * tutti_comm_shrink - a new communicator of the live ranks of comm, in the same order; all of them
 * agree on the set. Collective over the live ranks; comm may have failed or been revoked.
 */
int tutti_comm_shrink(struct tutti_comm *comm, struct tutti_comm **newcomm);

/**
 * tutti_comm_grow - a new context with the live ranks of comm, in the same order, and new
 * processes (TUTTI_JOIN=1), nranks in all. Collective over the live ranks of comm, which may have
 * failed and does not change. timeout_ms: how long to wait for new processes; 0:
 * TUTTI_INIT_TIMEOUT. The same at all ranks.
 */
int tutti_comm_grow(struct tutti_comm *comm, int nranks, int timeout_ms,
		    struct tutti_context **newctx);

/** tutti_comm_error - the failure this communicator is in, else its last error. 0, or -ENOENT. */
int tutti_comm_error(struct tutti_comm *comm, struct tutti_error_info *info);

/** tutti_comm_perror - print what, tutti_comm_error's text and its rank to standard error. */
void tutti_comm_perror(struct tutti_comm *comm, const char *what);

/* Counters since tutti_init, of this process. Bytes are payload bytes. */
struct tutti_stats {
	size_t size;		   /* sizeof(struct tutti_stats) */
	uint64_t copied_bytes;	   /* copied by the CPU between buffers of this process */
	uint64_t put_bytes;	   /* written to peers */
	uint64_t got_bytes;	   /* read from peers with get */
	uint64_t pulled_bytes;	   /* read out of mapped peer memory, or stored there */
	uint64_t reduced_bytes;	   /* result bytes of reduction kernels */
	uint64_t eager_messages;   /* sent through slots */
	uint64_t put_messages;	   /* sent by put into the receiver's buffer */
	uint64_t control_messages; /* offers, credits */
	uint64_t parked_messages;  /* arrived early and were moved to the heap */
	uint64_t registrations;	   /* memory regions registered with a device, so far */
	uint64_t allocations;	   /* heap and pool allocations made by communication calls */
	uint64_t connections;	   /* endpoints connected, so far */
	uint64_t sleeps;	   /* times a waiting thread went to sleep */
	/* the registration cache, TUTTI_REG_CACHE */
	uint64_t cache_hits;	  /* buffers found registered */
	uint64_t cache_misses;	  /* buffers that were not */
	uint64_t cache_evictions; /* regions given up to make room */
	uint64_t cache_stale;	  /* regions given up because their memory changed */
	uint64_t cache_bytes;	  /* bytes in the cache now */
	uint64_t late_sleeps;	  /* sleeps while an operation of this process could advance */
	/* while priorities are in use */
	uint64_t pieces;      /* of long messages sent, and of long puts and gets */
	uint64_t window_most; /* most bytes of pieces, or of puts and gets, under way to a peer */
};

int tutti_stats_get(struct tutti_context *ctx, struct tutti_stats *stats);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
