/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts and communicators, and what state of failure they are in.
 *
 * All fields are guarded by the wire lock unless said otherwise. A communicator that fails stays
 * failed: pending and later calls on it return its failure.
 */
#ifndef TT_COMM_H
#define TT_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <tutti/coll.h>

#include "lib/boot/boot.h"
#include "lib/observe/flight.h"
#include "lib/observe/trace.h"
#include "lib/plan/plan.h"
#include "lib/wire/wire.h"

#define TT_HISTORY                                                                                 \
	64	       /* calls a rank remembers per communicator, to answer ranks that are stuck  \
			*/
#define TT_DEAD_MAX 64 /* freed communicators whose use is caught */
#define TT_DOOMED_MAX 64 /* failures of communicators that are remembered */
#define TT_LATE_MAX 4	 /* late ranks named per call */

#define TT_CTX_MAGIC 0x54757443u
#define TT_COMM_MAGIC 0x5475744du
#define TT_COMM_DEAD 0xdead744du

/* The fields of a collective that must agree on all ranks. */
struct tt_fields {
	uint32_t coll, datatype, op;
	int32_t root;
	uint64_t
		count; /* reduce_scatter, allgatherv: of all blocks; 0 where ranks have their own */
	uint64_t counts;   /* of those two: a hash of the array */
	uint64_t in_place; /* reduce_scatter, alltoall and their kin, where it changes the plan;
			      else 0 */
};

/* The arrays of a v form, copied; shared by its plan and the history. Guarded by the wire lock. */
struct tt_counts {
	int refs;
	struct tt_plan_args args; /* its arrays are those below */
	size_t data[];
};

struct tt_past {
	uint64_t seq; /* 0: none */
	uint64_t fprint;
	uint64_t mixed; /* of communicator and fields: the part of it that is the same for each such
			   call */
	struct tt_fields fields;
	struct tt_counts *counts; /* gatherv, scatterv, alltoallv; else NULL */
};

/* An operator of the caller's; guarded by the wire lock. */
enum tt_userop_kind { TT_OP_COMMUTES, TT_OP_ORDERED, TT_OP_PREMUL_SUM };

struct tt_userop {
	struct tt_list link; /* in ctx->ops */
	enum tutti_op id;
	enum tt_userop_kind kind;
	tutti_op_fn *fn;
	void *arg;
	enum tutti_datatype datatype; /* premul sum: of scalar */
	_Alignas(8) unsigned char scalar[8];
	int users; /* requests */
};

/*
 * Collectives wait for each other in the order of their calls, so the oldest tells who is late for
 * all; other requests may wait for long without meaning anything.
 */
enum tt_active { TT_ACTIVE_COLL, TT_ACTIVE_OTHER, TT_ACTIVE_LISTS };

struct tt_plan_cache; /* lib/engine */
struct tt_chooser;    /* lib/plan */
struct tt_tune;	      /* lib/plan */
struct tt_p2p;	      /* lib/p2p */
struct tt_node;	      /* lib/node */
struct tt_node_comm;  /* lib/engine */
struct tt_recorder;   /* lib/engine */
struct tt_prom;	      /* lib/api */

/* A communicator that has failed: it may be made here later, and its failure told again. */
struct tt_doomed {
	uint64_t uid, told_at; /* told_at 0: by another rank */
	struct tutti_error_info info;
};

struct tt_vote;	  /* agree.c */
struct tt_broken; /* lost_link.c */
struct tt_growth; /* lib/job/grow.c */

/*
 * What the lowest rank that lives tells the others in tutti_comm_grow; or another one it: an
 * error.
 */
struct tt_grown {
	uint64_t comm;
	uint32_t number; /* of the agreement before */
	int32_t from;	 /* in the world; set where it arrives */
	int32_t code;	 /* 0, or why there is no new job */
	int32_t rank;	 /* in the world, that is about; -1: none */
	int32_t boot_ms; /* by then it must stand */
	uint32_t pad;
	struct tutti_unique_id id; /* secret */
	char text[400];
};
_Static_assert(sizeof(struct tt_grown) == 624, "doc/WIRE.md");

struct tutti_comm {
	uint32_t magic;
	struct tutti_context *ctx;
	uint32_t id;  /* in texts; communicators made by different threads at once may share one */
	uint64_t uid; /* in keys and reports: a hash of its making, unique in the job */
	int rank, size;
	int *world;		 /* by rank here: the rank in the world */
	uint64_t seq;		 /* of the last call */
	struct tt_past *history; /* TT_HISTORY of them */

	atomic_int failed; /* 0 or the code; readable without the lock */
	struct tutti_error_info failure;
	bool told; /* a call has failed with it */
	uint64_t
		polled_seq; /* others want to know what this rank calls with that number; 0: none */
	/*
	 * The death of a rank (of the comm) does not fail it if this says so: for a communicator
	 * whose ranks do not all need each other, such as one that only windows are on. Under the
	 * lock; NULL: it does.
	 */
	bool (*lost)(void *arg, int rank);
	void *lost_arg;
	uint64_t late_seq;
	int late[TT_LATE_MAX], nlate;
	struct tt_flight_comm
		*flight; /* the recorder's copy, as long as its uid is ours; or NULL */

	/* the engine's, as long as it has not failed */
	int suspect;		/* world rank whose connection broke; -1: none */
	uint64_t suspect_until; /* by then the control tree should have said more */
	int suspect_code;	/* -TUTTI_EPEER: it is gone; else what to fail with */
	char suspect_why[400];

	struct tt_list link;			/* in ctx->comms */
	struct tt_list active[TT_ACTIVE_LISTS]; /* requests under way, oldest first */
	int requests;				/* that exist, persistent ones included */
	int windows;				/* that exist */
	struct tt_plan_cache *plans;
	struct tt_chooser *chooser;
	struct tt_p2p *p2p;	   /* NULL: no messages yet */
	struct tt_node_comm *node; /* NULL: the ranks of a host do not share its memory */
	struct tt_hosts
		*hosts; /* NULL: all ranks are on one host, or there are no plans in two levels */
	struct tt_hosts *numa; /* of that one host: its NUMA nodes in the place of hosts; NULL: none
				  or one is known */
	struct tt_node_comm *near; /* with numa: the ranks of this one's NUMA node */
	uint32_t votes;		   /* agreements reached so far */
	struct tt_vote *vote;	   /* agree.c: under way; NULL: none */
	struct tt_grown *grown;	   /* lib/job/grow.c: what another rank has told; NULL: nothing */
	struct tt_growth *growing; /* a call that has told something; NULL: none */
};

enum tt_wait_mode { TT_WAIT_SPIN, TT_WAIT_YIELD, TT_WAIT_SLEEP };

struct tt_stuck_table;

struct tutti_context {
	uint32_t magic;
	struct tt_env env;
	struct tt_boot_params boot_params;
	char local_addr[64];
	struct tt_wire *wire;
	struct tt_boot *boot;
	struct tutti_comm *world;
	struct tt_list comms; /* live ones */
	struct tt_list dead;  /* the last freed ones, kept so that their use is caught */
	int ndead;
	struct tt_list ops; /* struct tt_userop */
	uint32_t next_comm_id;
	struct tt_tune *tune;	      /* the tuning table, the same on all ranks; NULL: none */
	struct tt_stuck_table *stuck; /* rank 0's */
	enum tt_wait_mode wait_mode;
	bool wait_forced;	  /* TUTTI_WAIT is not auto: stay in wait_mode */
	atomic_bool shares_core;  /* a hint: giving way has helped, though there is a core for each
				     rank */
	struct tt_flight *flight; /* the flight recorder; NULL only in tests of parts */
	struct tt_recorder *recorder; /* the engine's */
	struct tt_trace *trace;	      /* NULL: none is wanted */
	struct tt_prom *prom;	      /* lib/api; NULL: not wanted */
	atomic_bool
		dump_due; /* a communicator has failed, and the recorder was not written since */
	atomic_uint failures; /* communicators failed so far */
	struct tutti_error_info
		first_failure; /* of a rank or the job: a communicator made later has it too */
	bool aborted;	       /* that is the job's */
	bool abort_mine;       /* this rank has said so, with */
	int abort_code;
	struct tt_doomed *doomed; /* the last TT_DOOMED_MAX; NULL: none yet */
	unsigned ndoomed;
	struct tt_broken *broken; /* connections that ranks have lost, as this one was told */
	unsigned nbroken;
	struct tt_list decided; /* agree.c: for ranks that ask late */
	int ndecided;
	int voting;		       /* agreements under way */
	struct tt_boot *_Atomic beats; /* the control tree, for handlers that wait for the lock */
	int shrunk; /* decisions with whom to go on: in tutti_comm_shrink and tutti_comm_grow */

	/* the engine's */
	struct tt_list ready;	   /* lanes whose next round can start */
	struct tt_list stalled;	   /* operations waiting for a connection or for room */
	uint64_t moves;		   /* steps of operations that no event of the wire led to */
	uint64_t refusals;	   /* operations that found no connection or no room, each time */
	struct tt_list node_gated; /* lanes whose turn has not come */
	struct tt_list node_waits; /* node ops and copies that are not over */
	size_t node_left;	   /* bytes that they may still move in this step */
	struct tt_node *node;	   /* NULL: not used */
	unsigned node_can;	   /* agreed: TT_NODE_MAPS and so on; none until it is */
	unsigned node_all;	   /* rank 0: what those that have reported can do */
	int node_reports;	   /* rank 0 */
	atomic_bool node_agreed;
	unsigned failures_seen;
	bool suspicions; /* there has been one: timers look even if no request is under way */
	int running;	 /* requests under way */

	/* the optional progress thread */
	pthread_t thread;
	bool thread_runs;
	atomic_bool thread_stop;
	pthread_t standby;
	bool standby_runs;
	int standby_fd; /* readable: it is to end */
};

/* comm.c */

/*
 * A communicator of these world ranks (copied), in the state of a new one. id is agreed by the
 * caller.
 */
int tt_comm_new(struct tutti_context *ctx, const int *world, int size, uint32_t id, uint64_t uid,
		struct tutti_comm **comm);
/* Frees the inside; the shell stays in ctx->dead for a while. */
void tt_comm_bury(struct tutti_comm *comm);
void tt_comm_free_dead(struct tutti_context *ctx);
/* The name shown for a communicator: "the world" or "communicator 3". */
const char *tt_comm_name(const struct tutti_comm *comm, char *buf, size_t size);
/* Note a call in the history; returns its fingerprint. counts: see struct tt_past. */
uint64_t tt_comm_called(struct tutti_comm *comm, const struct tt_fields *fields,
			struct tt_counts *counts);
/* A live one, or NULL. */
struct tutti_comm *tt_comm_find(struct tutti_context *ctx, uint64_t uid);
/* The rank in comm of a rank of the world, or -1. */
int tt_comm_rank_of(const struct tutti_comm *comm, int world);

/* operator.c */

/* A new operator like this one; its number. Takes the lock, as does freeing. */
int tt_userop_new(struct tutti_context *ctx, const struct tt_userop *like, enum tutti_op *id);
int tt_userop_free(struct tutti_context *ctx, enum tutti_op id);
/* Under the lock; NULL: there is none, and the thread's last error (-EINVAL) says why. */
struct tt_userop *tt_userop_find(struct tutti_context *ctx, enum tutti_op id);
void tt_userop_free_all(struct tutti_context *ctx);

/* pair.c: blocks whose length only two ranks know */

/* A copy of the arrays, with one reference, displacements filled in; NULL: no memory. */
struct tt_counts *tt_counts_new(const struct tt_plan_args *args);
struct tt_counts *tt_counts_get(struct tt_counts *counts);
void tt_counts_put(struct tt_counts *counts); /* NULL is fine */
/* Elements that this rank sends to peer, and expects of it. */
size_t tt_pair_sends(const struct tt_plan_args *a, int peer);
size_t tt_pair_expects(const struct tt_plan_args *a, int peer);
/* The fingerprint of messages of a block of so many elements, in a call of fprint. */
uint64_t tt_pair_fprint(uint64_t fprint, size_t elements);
/* Compare past, which has counts, with the call of a peer (rank in comm). */
void tt_pair_ask(struct tutti_comm *comm, const struct tt_past *past, int peer);
void tt_pair_msg(void *ctx, int from, const void *data, size_t len);

/* fail.c: all under the lock */

/* Put comm into failure on all its ranks, unless it is in one. rank (of the world) may be -1. */
void tt_comm_fail(struct tutti_comm *comm, int code, int rank, const char *call, uint64_t seq,
		  const char *field, const char *fmt, ...) TT_PRINTF(7, 8);
/* This rank could not make the communicator that others have, or will have: it fails there. */
void tt_comm_unmade(struct tutti_context *ctx, uint64_t uid, int code, const char *call);
/*
 * Every communicator that contains rank, -1: all; at this rank, as the others have heard the same.
 */
void tt_ctx_fail(struct tutti_context *ctx, int code, int rank, const char *fmt, ...)
	TT_PRINTF(4, 5);
/* The connection to peer was closed, so nothing that shares it can be relied on: as that fails. */
void tt_comm_fail_with(struct tutti_context *ctx, int peer, const struct tutti_error_info *cause);
/* A new communicator: a rank of it may be gone already, such as in the middle of tutti_init. */
void tt_comm_inherit_failure(struct tutti_comm *comm);
/* What the failure of comm looks like to a call that it ends, or that comes later. */
int tt_comm_failure(const struct tutti_comm *comm, const char *call, uint64_t seq,
		    const char *phase, uint64_t bytes);

/*
 * For handlers of the control tree: the wire lock, and this rank stays alive to the others while
 * it waits.
 */
void tt_ctx_lock(struct tutti_context *ctx);
void tt_ctx_unlock(struct tutti_context *ctx);

/*
 * This rank can't go on as the others believe that it does: all of its communicators with rank
 * fail, and it is cut off.
 */
void tt_ctx_unfit(struct tutti_context *ctx, int code, int rank, const char *why);
/* For the wire: data from rank arrived damaged. */
void tt_ctx_damaged(void *ctx, int rank, const char *why);
/* For transports, which wait under the lock: this rank stays alive to the others meanwhile. */
void tt_ctx_alive(void *ctx);

/* Handlers of the control tree; they take the lock. */
void tt_ctx_fail_msg(void *ctx, int from, const void *data, size_t len);
void tt_ctx_gone(void *ctx, int rank, const char *host, const char *why);
void tt_ctx_abort_msg(void *ctx, int from, const void *data, size_t len);
/* Tell all ranks to abort. Any thread. */
int tt_ctx_abort(struct tutti_context *ctx, int code);

/* lost_link.c: under the lock but for the handler */

/*
 * Transfers to or from rank fail for a reason that the control tree does not know. Repeat this
 * every TT_ACCUSE_AGAIN until a rank has failed; the lowest rank decides which. With this rank
 * itself: it cannot go on.
 */
#define TT_ACCUSE_AGAIN (500 * TT_MS)
void tt_ctx_lost(struct tutti_context *ctx, int rank, const char *why);
/* The connection to rank carries nothing: all communicators with both ranks fail. */
void tt_ctx_cut(void *ctx, int rank, const char *why);
void tt_ctx_accuse_msg(void *ctx, int from, const void *data, size_t len);

/*
 * agree.c: agreement among the ranks of a communicator that live; under the lock but for the
 * handler
 */

/* What is agreed on: of each rank, and then of all that have given theirs. */
struct tt_ballot {
	uint64_t all, any; /* the AND and the OR of the values */
	uint32_t kind;	   /* enum tt_vote_kind, must be equal */
	uint32_t next_id;  /* the highest number that no communicator has */
	int32_t failed;	   /* how many ranks are left out; the decision only */
	int32_t differs;   /* decision: a rank of another kind, or -1 */
	uint64_t uid;	   /* of the decision: a name that no other has */
};
enum tt_vote_kind { TT_VOTE_AND = 1, TT_VOTE_OR, TT_VOTE_SHRINK, TT_VOTE_GROW };
/* Begin. -EBUSY: another one of comm is under way. */
int tt_vote_begin(struct tutti_comm *comm, const struct tt_ballot *mine);
bool tt_vote_over(const struct tutti_comm *comm);
/* Of the one under way: this rank collects; and then, a rank of comm has come. */
bool tt_vote_collects(const struct tutti_comm *comm);
bool tt_vote_came(const struct tutti_comm *comm, int rank);
/* A communicator can be too large. */
bool tt_vote_fits(const struct tutti_comm *comm);
/*
 * End it: with the decision and, by rank of comm, who is left out (bits; may be NULL); or give up.
 */
void tt_vote_end(struct tutti_comm *comm, struct tt_ballot *decision, unsigned char *left_out);
void tt_vote_drop(struct tutti_comm *comm);
/* The ranks that have not come yet, as a text. */
void tt_vote_missing(const struct tutti_comm *comm, char *text, size_t size);
void tt_vote_msg(void *ctx, int from, const void *data, size_t len);
/* A rank is gone. */
void tt_vote_again(struct tutti_context *ctx);
/* Now and then: what was lost is said again. */
void tt_vote_timers(struct tutti_context *ctx);
void tt_vote_free_all(struct tutti_context *ctx);

/* stuck.c: the late and mismatch protocol */

/* comm's call seq has made no progress for a while: ask. */
void tt_stuck_report(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields);
void tt_stuck_msg(void *ctx, int from, const void *data, size_t len);
void tt_query_msg(void *ctx, int from, const void *data, size_t len);
void tt_late_msg(void *ctx, int from, const void *data, size_t len);
void tt_mismatch_msg(void *ctx, int from, const void *data, size_t len);
/*
 * sender sends receiver so many elements, but that expects another number: tell rank 0. World
 * ranks.
 */
void tt_pair_differ(struct tutti_comm *comm, const struct tt_past *past, int sender, uint64_t sends,
		    int receiver, uint64_t expects);
void tt_stuck_free(struct tutti_context *ctx);
/* "allreduce #5 (count 10, float32, sum)" */
const char *tt_fields_text(const struct tt_fields *f, uint64_t seq, char *buf, size_t size);
/* The name of the first field that differs, NULL: none. */
const char *tt_fields_differ(const struct tt_fields *a, const struct tt_fields *b);

#endif
