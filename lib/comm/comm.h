/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts and communicators, and their failure state.
 *
 * All fields are guarded by the wire lock unless a comment says otherwise. A failed communicator
 * stays failed: pending and later calls on it return its failure. A tolerant communicator does not
 * fail when one of its ranks dies: its collectives end for good, and so does what needs that rank.
 */
#ifndef TT_COMM_H
#define TT_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <tutti/coll.h>

#include "lib/base/clock.h"
#include "lib/base/hash_map.h"
#include "lib/boot/boot.h"
#include "lib/observe/flight.h"
#include "lib/observe/trace.h"
#include "lib/plan/plan.h"
#include "lib/wire/wire.h"

#define TT_STARTED 8	 /* persistent operations remembered that were started last */
#define TT_HISTORY 64	 /* calls remembered per communicator, to answer stuck ranks */
#define TT_DEAD_MAX 64	 /* freed communicators remembered to catch their use */
#define TT_DOOMED_MAX 64 /* remembered failures of communicators */
#define TT_CLOSED_MAX 64 /* windows that other ranks do not have, remembered for later */
#define TT_LATE_MAX 4	 /* late ranks named per call */
#define TT_COMM_NAME 80	 /* of a displayed name */

#define TT_CTX_MAGIC 0x54757443u
#define TT_COMM_MAGIC 0x5475744du
#define TT_COMM_DEAD 0xdead744du

/* The calls of the user for which the library makes collectives of its own. */
enum tt_inner {
	TT_INNER_NONE,
	TT_INNER_DUP,
	TT_INNER_SPLIT,
	TT_INNER_SPLIT_HOST,
	TT_INNER_CREATE,
	TT_INNER_CREATE_GROUP
};

/* The fields of a collective that must agree on all ranks. */
struct tt_fields {
	uint32_t coll, datatype, op;
	int32_t root; /* without a root: enum tt_inner */
	uint64_t
		count; /* reduce_scatter, allgatherv: of all blocks; 0 where ranks have their own */
	uint64_t counts;   /* of these two: a hash of the array; of neighbours: of the graph; of
			      allreduce: a matrix's rows << 32 | columns */
	uint32_t in_place; /* 1: in place; 0 without data and where a root alone has the choice;
			      fused calls: a hash */
	uint32_t init;	   /* of a persistent operation: number of its _init call, from 1; else 0 */
	uint64_t codec;	   /* hash of its name, codec_names.c; 0: none */
};

#define TT_REFUSED 256 /* not a collective */

/* A call, an _init call, or, where its arguments contradict each other, either. */
enum tt_forms { TT_FORM_CALL, TT_FORM_INIT, TT_FORM_ANY };

/* A call that the library refused, so that its rank did not take part. */
struct tt_refusal {
	uint32_t coll; /* or TT_REFUSED + enum tt_inner; without one: of tutti_call, unknown */
	int32_t code;  /* 0: none */
};

/* The arrays of a v form, copied; shared by its plan and the history. Guarded by the wire lock. */
struct tt_counts {
	int refs;
	struct tt_plan_args args;      /* the arrays below */
	const size_t *stypes, *rtypes; /* alltoallw: the datatype of each block; else NULL */
	size_t data[];
};

struct tt_past {
	uint64_t seq; /* 0: none */
	uint64_t fprint;
	uint64_t mixed; /* of communicator and fields: equal for all such calls */
	struct tt_fields fields;
	struct tt_counts *counts; /* gatherv, scatterv, alltoallv, alltoallw; else NULL */
};

/*
 * A persistent operation. Ranks match it by {communicator, number of its _init call, number of the
 * start}, apart from all other calls.
 */
struct tt_series {
	struct tt_past past; /* the last start; seq 0: none yet */
	uint64_t polled_seq; /* as in struct tutti_comm */
};

/* A user-defined operator; guarded by the wire lock. */
enum tt_userop_kind { TT_OP_COMMUTES, TT_OP_ORDERED, TT_OP_PREMUL_SUM };

struct tt_userop {
	struct tt_list link; /* in ctx->ops */
	enum tutti_op id;
	enum tt_userop_kind kind;
	tutti_op_fn *fn;
	void *arg;
	enum tutti_datatype datatype; /* premul sum: of scalar */
	_Alignas(16) unsigned char scalar[16];
	int users;  /* requests */
	bool freed; /* by its maker: goes with its last user */
};

/*
 * Collectives wait for each other in call order, so the oldest identifies the straggler for all.
 * Persistent collectives start in any order. Other requests may legitimately wait for long.
 * Receives and probes have no deadline: the waits for them have. Collectives of neighbours go on
 * after a death in a tolerant communicator; the persistent ones among them start in any order.
 */
enum tt_active {
	TT_ACTIVE_COLL,
	TT_ACTIVE_OTHER,
	TT_ACTIVE_RECV,
	TT_ACTIVE_PERSISTENT,
	TT_ACTIVE_NEIGHBORS,
	TT_ACTIVE_LISTS
};

static inline bool tt_active_coll(enum tt_active list)
{
	return list == TT_ACTIVE_COLL || list == TT_ACTIVE_PERSISTENT;
}

/* Has numbers, and is recorded with them. */
static inline bool tt_active_numbered(enum tt_active list)
{
	return tt_active_coll(list) || list == TT_ACTIVE_NEIGHBORS;
}

/* An answer of another rank: what it is doing; lib/engine/doing.c. */
#define TT_DOING_MAX 24
#define TT_AWAITED 3 /* ranks that a collective waits for, at most, which are told */
struct tt_doing {
	int rank;
	uint64_t asked, told;	    /* last; 0: not */
	uint64_t needed;	    /* by a collective of this rank until this time, its deadline */
	int32_t awaits[TT_AWAITED]; /* what its own collectives wait for; -1: none */
	char text[200];
};

struct tt_plan_cache; /* lib/engine */
struct tt_chooser;    /* lib/plan */
struct tt_tune;	      /* lib/plan */
struct tt_p2p;	      /* lib/p2p */
struct tt_node;	      /* lib/node */
struct tt_node_comm;  /* lib/engine */
struct tt_recorder;   /* lib/engine */
struct tt_prom;	      /* lib/api */

/* A failed communicator that may be created here later, with the failure to report then. */
struct tt_doomed {
	uint64_t uid, told_at; /* told_at 0: by another rank */
	bool unsent;	       /* the other ranks have not been told, for lack of memory */
	struct tutti_error_info info;
};

struct tt_vote;	  /* agree.c */
struct tt_polled; /* polled.c */
struct tt_broken; /* lost_link.c */
struct tt_growth; /* lib/job/grow.c */
struct tt_subset_use;

/*
 * tutti_comm_grow: the message of the lowest live rank to all ranks, or an error that a rank
 * reports to it.
 */
struct tt_grown {
	uint64_t comm;
	uint32_t number; /* of the preceding agreement */
	int32_t from;	 /* in the world; set where it arrives */
	int32_t code;	 /* 0, or why there is no new job */
	int32_t rank;	 /* rank of the world that the error is about; -1: none */
	int32_t boot_ms; /* deadline for the start of the new job */
	uint32_t pad;
	struct tutti_unique_id id; /* secret */
	char text[400];
};
_Static_assert(sizeof(struct tt_grown) == 624, "doc/WIRE.md");

struct tutti_comm {
	uint32_t magic;
	struct tutti_context *ctx;
	uint32_t id;  /* shown in texts; not always unique */
	uint64_t uid; /* in keys and reports: a hash of its creation, unique in the job */
	char name[TUTTI_COMM_NAME_MAX + 1]; /* the caller's; empty: none */
	int rank, size;
	int *world;		 /* world ranks, by rank here */
	uint64_t seq;		 /* of the last call */
	struct tt_past *history; /* TT_HISTORY of them */
	struct tt_map series;	 /* persistent operations: struct tt_series by their init */
	uint32_t inits;		 /* _init calls so far */
	struct tt_past *ended;	 /* TT_HISTORY that were freed last, a ring; or NULL */
	unsigned nended;
	uint32_t started[TT_STARTED]; /* inits of the last starts, a ring */
	unsigned nstarted;

	atomic_int failed; /* 0 or the code; readable without the lock */
	/*
	 * The same for collectives: set with failed, or alone at the first death in a tolerant
	 * communicator.
	 */
	atomic_int coll_failed;
	struct tutti_error_info failure; /* of the latter, until failed is set */
	bool tolerant;
	unsigned char *dead; /* tolerant: by rank, bits of enum tt_dead */
	int ndead, nacked, ndead_swept;
	bool told;	     /* a call has returned it */
	uint64_t polled_seq; /* other ranks ask for this rank's call of that number; 0: none */
	/*
	 * True: the death of that rank does not fail the communicator. For communicators whose
	 * ranks do not all need each other, such as one with only windows. Under the lock; NULL:
	 * every death fails it.
	 */
	bool (*lost)(void *arg, int rank);
	void *lost_arg;
	/*
	 * Adds up to max ranks of the world for which this rank waits without a request, such as a
	 * server for workers, and returns how many. Under the lock; arg is lost_arg; NULL: none.
	 */
	int (*awaits)(void *arg, int *ranks, int max);
	const char *inside; /* a call of this rank that waits so; NULL: none */
	uint64_t late_seq;
	uint32_t late_init;
	uint64_t late_warned; /* how long the wait had lasted at the last warning, in ns */
	uint64_t late_next;   /* persistent collectives: time of the next report at the earliest */
	int late[TT_LATE_MAX], nlate;
	int late_from; /* the rank that told so last */
	struct tt_late {
		struct tt_refusal refused;   /* of the call that it is late for */
		struct tt_fields other_form; /* of it that the rank waits in, if other_seq */
		uint64_t other_seq;
	} late_why[TT_LATE_MAX];
	struct tt_refusal refused; /* this rank's first refused call of this number: */
	uint32_t refused_init;	   /* 0: it was not persistent */
	uint64_t refused_seq;	   /* 0: it was */
	struct tt_fields stuck;	   /* this rank's last call without progress, and when it said so */
	uint64_t stuck_seq, stuck_at;
	uint64_t ask_at; /* before the first call, which `stuck` then is: when to ask who is late */
	bool forms_told; /* tt_stuck_forms_differ has asked for a verdict */
	struct tt_flight_comm
		*flight; /* the recorder's entry, valid while its uid matches; or NULL */

	/* the engine's, until the communicator fails */
	atomic_int suspect;	/* world rank whose connection broke; -1: none */
	uint64_t suspect_until; /* the time by which the control tree should have said more */
	int suspect_code;	/* -TUTTI_EPEER: the rank has failed; else the code to fail with */
	char suspect_why[400];

	uint64_t timeout;    /* of calls, in ns; TT_NEVER: none; 0: the job's */
	bool mixed_timeouts; /* the oldest request may not be the first to reach its deadline */
	uint64_t due;	     /* no request reaches it earlier; 0: not known */
	struct tt_list link; /* in ctx->comms */
	struct tt_list active[TT_ACTIVE_LISTS]; /* requests under way, oldest first */
	int requests;				/* existing, including persistent ones */
	int windows;				/* existing */
	int partials;				/* partial all-reduces made of it */
	size_t carried;				/* bytes that they carry, of this rank */
	bool freed;   /* by its maker: goes with its last request and window */
	bool in_grid; /* tutti_grid_free frees it */
	/* "a reducer", whose own it is, and the call that frees that; NULL: the caller's */
	const char *owner, *owner_free;
	struct tt_plan_cache *plans;
	struct tt_chooser *chooser;
	struct tt_codec_picks *picks; /* lib/engine/codec_choice.c; NULL: none yet */
	struct tt_p2p *p2p;	      /* NULL: no messages yet */
	struct tt_w_req *alltoallw;   /* idle requests; NULL: none */
	struct tt_node_comm *node;    /* NULL: the ranks of a host do not share its memory */
	struct tt_hosts
		*hosts; /* NULL: all ranks are on one host, or there are no two-level plans */
	struct tt_hosts *all_hosts;    /* of neighbours in two levels; NULL: no such call yet */
	struct tt_hosts *numa;	       /* the NUMA nodes of that one host; NULL: one or unknown */
	struct tt_node_comm *near;     /* with numa: the ranks of this rank's NUMA node */
	uint32_t votes;		       /* agreements reached so far */
	struct tt_vote *vote;	       /* agree.c: under way; NULL: none */
	struct tt_list spare_votes;    /* for agreements that find no memory */
	uint32_t refused_vote;	       /* number of the last agreement refused here; 0: none */
	int refused_why;	       /* and the code */
	struct tt_grown *grown;	       /* lib/job/grow.c: reported by another rank; NULL: none */
	struct tt_growth *growing;     /* the call that has reported; NULL: none */
	struct tt_subset_use *subsets; /* lib/job/comm_subset.c */
	atomic_uint groups_missed;     /* the same: calls that were refused here since one worked */
	int group_why;		       /* and the code of the last */
};

/* A death in a tolerant communicator; acknowledged: receives from any source go on without it. */
enum tt_dead { TT_DEAD = 1, TT_DEAD_ACKED = 2 };

enum tt_wait_mode { TT_WAIT_SPIN, TT_WAIT_YIELD, TT_WAIT_SLEEP };

struct tt_stuck_table;

#define TT_REQUEST_SIZES 32

/* A rank of the world that has no window with this port, or no longer. */
struct tt_closed {
	uint64_t port;
	int rank;
};

struct tutti_context {
	uint32_t magic;
	struct tt_env env;
	struct tt_boot_params boot_params;
	int env_job; /* lib/job/env_job.c; 0: of none */
	char local_addr[64];
	struct tt_wire *wire;
	struct tt_boot *boot;
	struct tutti_comm *world;
	struct tutti_comm *self; /* NULL: not asked for yet */
	bool leaves;		 /* in tutti_finalize: it makes no further calls */
	struct tt_list comms;	 /* live ones */
	struct tt_list dead;	 /* the last freed ones, kept to catch their use and to answer */
	int ndead;
	struct tt_list ops; /* struct tt_userop */
	uint32_t next_comm_id;
	struct tt_tune *tune;	      /* the tuning table, the same on all ranks; NULL: none */
	struct tt_stuck_table *stuck; /* rank 0's */
	enum tt_wait_mode wait_mode;
	bool wait_forced; /* TUTTI_WAIT is not auto: stay in wait_mode */
	size_t cache;	  /* bytes of the last-level cache for each rank of the host */
	_Atomic uint64_t crowded_until; /* tt_now_ns(); until then the library's threads, one of
					   which shares its core, sleep between events: a hint */
	atomic_bool shares_core;      /* a hint: yielding has helped, though each rank has a core */
	struct tt_flight *flight;     /* the flight recorder; NULL only in unit tests */
	struct tt_recorder *recorder; /* the engine's */
	struct tt_trace *trace;	      /* NULL: not wanted */
	struct tt_prom *prom;	      /* lib/api; NULL: not wanted */
	atomic_bool dump_due; /* a communicator has failed since the recorder was last written */
	atomic_uint news, news_left;	/* failures told so far; those known to have left */
	atomic_uint failures;		/* communicators failed so far */
	struct tutti_error_info untold; /* of a communicator that is no longer in dead */
	unsigned char *heard; /* fail.c: by rank, 1: its death is known here; NULL: none */
	struct tutti_error_info
		first_failure; /* of a rank or the job: later communicators inherit it */
	bool aborted;	       /* first_failure is the job's */
	bool abort_mine;       /* this rank has aborted, with */
	int abort_code;
	struct tt_polled *polled; /* polled.c; NULL: none yet */
	unsigned npolled;
	struct tt_doing doing[TT_DOING_MAX];
	unsigned ndoing;
	struct tt_broken *broken; /* connections reported lost to this rank */
	unsigned nbroken;
	struct tt_list decided; /* agree.c: for ranks that ask late */
	int ndecided;
	int voting;		       /* agreements under way */
	struct tt_boot *_Atomic beats; /* the control tree, for handlers that wait for the lock */
	int orphans;		       /* requests freed while they run */
	/* unused, by size: links of struct tutti_request, see request_memory.c */
	struct tt_list *request_memory[TT_REQUEST_SIZES];
	bool reap_due;				 /* a freed communicator has lost its last user */
	void (*reap)(struct tutti_context *ctx); /* lib/job */
	int shrunk; /* decisions of tutti_comm_shrink and tutti_comm_grow */

	/* the engine's */
	struct tt_list ready;	/* lanes whose next round can start */
	struct tt_list stalled; /* operations waiting for a connection or for room */
	uint64_t moves;		/* steps of operations not caused by a wire event */
	uint64_t refusals;	/* attempts of operations that found no connection or no room */
	uint64_t win_marks[TT_TP_COPYING / 64]; /* window_maps.c: in use */
	struct tt_closed closed[TT_CLOSED_MAX]; /* win_accumulate.c: of no window known here */
	unsigned nclosed;
	size_t *win_under_way;	   /* put_get.c: bytes of pieces, by rank in the world; or NULL */
	struct tt_list node_gated; /* lanes that wait for their turn */
	struct tt_list node_waits; /* unfinished node ops and copies */
	size_t node_left;	   /* bytes that they may still move in this step */
	struct tt_node *node;	   /* NULL: not used */
	unsigned node_can;	   /* agreed: TT_NODE_MAPS and so on; 0 before */
	unsigned node_all;	   /* rank 0: what all ranks that have reported can do */
	int node_reports;	   /* rank 0 */
	atomic_bool node_agreed;
	unsigned failures_seen;
	atomic_bool unfenced; /* requests of failed communicators remain: other processes access
				 buffers */
	bool suspicions;      /* timers run even without a request under way */
	_Atomic uint64_t grace_from, grace_until; /* no deadline passes between these: wait.c */
	int running;				  /* requests under way */

	struct tt_list kin; /* kin.c: a ring of contexts that have grown out of each other */
	atomic_bool has_kin;

	/* the optional progress thread */
	pthread_t thread;
	bool thread_runs;
	atomic_bool thread_stop;
	pthread_t standby;
	bool standby_runs;
	int standby_fd; /* readable: the thread is to end */

	/* without an allocation that could fail: a failure that is lost leaves ranks waiting */
	unsigned ndoomed;
	struct tt_doomed doomed[TT_DOOMED_MAX]; /* the last ones */
};

/* How long a call on comm may take, in ns; TT_NEVER: no limit. */
static inline uint64_t tt_comm_timeout(const struct tutti_comm *comm)
{
	return comm->timeout ? comm->timeout : (uint64_t)comm->ctx->env.timeout.number * TT_MS;
}

/* comm.c */

/* The properties of a new communicator, the same on all its ranks. */
struct tt_comm_kind {
	uint32_t id; /* agreed on by the caller */
	uint64_t uid;
	bool tolerant;
	uint64_t timeout; /* as in struct tutti_comm */
};
/* Creates a communicator of these world ranks (copied). */
int tt_comm_new(struct tutti_context *ctx, const int *world, int size,
		const struct tt_comm_kind *kind, struct tutti_comm **comm);
/* Frees the contents; the shell stays in ctx->dead for a while. */
void tt_comm_bury(struct tutti_comm *comm);
/* A difference between calls that no call of this rank has returned; code 0: none. */
struct tutti_error_info tt_comm_untold(const struct tutti_comm *comm);
void tt_comm_free_dead(struct tutti_context *ctx);
/* The displayed name: "the world", "communicator 3" or "communicator 3 (gradients)". */
const char *tt_comm_name(const struct tutti_comm *comm, char *buf, size_t size);
/* Records a call in the history; returns its fingerprint. counts: see struct tt_past. */
uint64_t tt_comm_called(struct tutti_comm *comm, const struct tt_fields *fields,
			struct tt_counts *counts);
/* The same with its part of the fingerprint that all calls with these fields share. */
uint64_t tt_comm_mix(const struct tutti_comm *comm, const struct tt_fields *fields);
uint64_t tt_comm_called_mixed(struct tutti_comm *comm, const struct tt_fields *fields,
			      uint64_t mixed, struct tt_counts *counts);
/*
 * persistent.c: makes the next persistent operation of comm, whose number is then in fields;
 * counts: see struct tt_past. 0 or -ENOMEM.
 */
int tt_series_new(struct tutti_comm *comm, struct tt_series *series, struct tt_fields *fields,
		  struct tt_counts *counts);
void tt_series_free(struct tutti_comm *comm, struct tt_series *series);
/* As tt_comm_called. */
uint64_t tt_series_called(struct tutti_comm *comm, struct tt_series *series);
/* The fields of this rank's _init call of that number; false: not made yet, or too long ago. */
bool tt_comm_inited(const struct tutti_comm *comm, uint32_t init, struct tt_fields *fields);
/*
 * The number of the last call; init: of the last start of that operation, 0: none; UINT64_MAX:
 * freed too long ago to know.
 */
uint64_t tt_comm_calls(const struct tutti_comm *comm, uint32_t init);
/* This rank's call; false: not made yet, or too long ago. */
bool tt_comm_past(const struct tutti_comm *comm, uint32_t init, uint64_t seq, struct tt_past *past);
/* Sets polled_seq of a communicator or of a persistent operation that other ranks ask for. */
void tt_comm_expect_poll(struct tutti_comm *comm, uint32_t init);
/* Whether a call under way waits for the ranks in comm->late. */
bool tt_comm_waits_late(const struct tutti_comm *comm);
/* A live one, or NULL. */
struct tutti_comm *tt_comm_find(struct tutti_context *ctx, uint64_t uid);
/* The same, or one of the last TT_DEAD_MAX that were freed: its history of calls is still there. */
struct tutti_comm *tt_comm_find_any(struct tutti_context *ctx, uint64_t uid);
/* The rank in comm of a rank of the world, or -1. */
int tt_comm_rank_of(const struct tutti_comm *comm, int world);

/*
 * codec_names.c: the last names of codecs in calls of this process and of other ranks, for texts.
 * Any thread. The text is "" for hash 0 and "an unknown codec" for a name that was forgotten.
 */
#define TT_CODEC_NAME 64 /* bytes, with the NUL */
void tt_codec_name_add(uint64_t hash, const char *name);
const char *tt_codec_name_text(uint64_t hash, char name[TT_CODEC_NAME]);

/* polled.c */

/* Other ranks ask for a call that this rank has not made: it is reported when it is made. */
void tt_comm_poll(struct tutti_context *ctx, uint64_t uid, uint32_t init, uint64_t seq);
/* The next call of comm, or start of that operation, that other ranks ask for; 0: none. */
uint64_t tt_comm_polled(const struct tutti_comm *comm, uint32_t init);
/* Whether they ask for any call or start of comm that this rank has not made; one of them. */
bool tt_comm_awaited(const struct tutti_comm *comm, uint32_t *init, uint64_t *seq);

/* operator.c */

/* Makes an operator like this one and returns its number. Takes the lock, as does freeing. */
int tt_userop_new(struct tutti_context *ctx, const struct tt_userop *like, enum tutti_op *id);
int tt_userop_free(struct tutti_context *ctx, enum tutti_op id);
/* Under the lock: a request needs it no more. */
void tt_userop_put(struct tt_userop *op);
/* Under the lock; NULL: there is none, and the thread's last error (-EINVAL) says why. */
struct tt_userop *tt_userop_find(struct tutti_context *ctx, enum tutti_op id);
/* On memory of this process, at once. */
int tt_userop_apply(struct tutti_context *ctx, const void *in, void *inout, size_t count,
		    enum tutti_datatype datatype, enum tutti_op id);
void tt_userop_free_all(struct tutti_context *ctx);

/* pair.c: blocks whose length only two ranks know */

/* A copy of the arrays, with one reference, displacements filled in; NULL: no memory. */
struct tt_counts *tt_counts_new(const struct tt_plan_args *args);
/* For n ranks: data takes the counts of blocks sent, of blocks received, and their datatypes. */
struct tt_counts *tt_counts_typed(enum tt_coll coll, size_t n);
struct tt_counts *tt_counts_get(struct tt_counts *counts);
void tt_counts_put(struct tt_counts *counts); /* NULL is fine */
/*
 * The fingerprint of messages to or from peer, in a call with fingerprint fprint and these counts.
 */
uint64_t tt_pair_fprint(uint64_t fprint, const struct tt_counts *counts, int peer, bool sends);
/* Compares past, which has counts, with the call of a peer (rank in comm). */
void tt_pair_ask(struct tutti_comm *comm, const struct tt_past *past, int peer);
void tt_pair_msg(void *ctx, int from, const void *data, size_t len);

/* comm.c: the port of its tagged messages, which have flow control and a key space of their own */
uint64_t tt_comm_port(const struct tutti_comm *comm);

/* fail.c: all under the lock */

/* Fails comm on all its ranks unless it has failed already. rank (of the world) may be -1. */
void tt_comm_fail(struct tutti_comm *comm, int code, int rank, const char *call, uint64_t seq,
		  const char *field, const char *fmt, ...) TT_PRINTF(7, 8);
/* The same on this rank only: all ranks have the news. */
void tt_comm_fail_here(struct tutti_comm *comm, int code, int rank, const char *call, uint64_t seq,
		       const char *field, const char *text);
/* The same of a communicator that this rank may make later. */
void tt_comm_fail_later(struct tutti_context *ctx, uint64_t uid, int code, int rank,
			const char *call, uint64_t seq, const char *field, const char *text);
/* If the last error is code, a shortage, and names no rank, it is this rank's. */
void tt_ctx_lacks(const struct tutti_context *ctx, int code);
/* This rank could not create a communicator that other ranks have or will have: fails it there. */
void tt_comm_unmade(struct tutti_context *ctx, uint64_t uid, int code, const char *call);
/* Whether the news of the failure of this communicator, if any, is on its way. */
bool tt_comm_told(struct tutti_context *ctx, uint64_t uid);
/*
 * Without the lock, before a caller hears of a failure that was found here: waits a moment until
 * its news has left. A program that has failed often exits next, and its end is news, too.
 */
void tt_ctx_news(struct tutti_context *ctx);
/* The lowest rank of comm, or of the job (NULL), that is known to be gone; -1: none. */
int tt_ctx_gone_of(const struct tutti_context *ctx, const struct tutti_comm *comm);
/* The connection to peer was closed: fails every communicator that shares it, with that failure. */
void tt_comm_fail_with(struct tutti_context *ctx, int peer, const struct tutti_error_info *cause);
/* A rank of a new communicator may have failed already, for example during tutti_init. */
void tt_comm_inherit_failure(struct tutti_comm *comm);
/* Reports the failure of comm to a call that it ends, or to a later call. */
int tt_comm_failure(const struct tutti_comm *comm, const char *call, uint64_t seq,
		    const char *phase, uint64_t bytes);

/* The dead rank of a tolerant communicator that rank (-1: any) needs; -1: none. */
int tt_comm_dead(const struct tutti_comm *comm, int rank);
/* Sets the thread's last error: call (as text) needs this rank of comm, which has failed. */
int tt_comm_needs_dead(const struct tutti_comm *comm, int rank, const char *call);
/*
 * As tt_fail_rank, of a rank of comm (-1: none): the error names its rank in the world, and its
 * host.
 */
int tt_comm_blame_rank(const struct tutti_comm *comm, int code, int rank, const char *fmt, ...)
	TT_PRINTF(4, 5);

/* Takes the wire lock in a handler of the control tree, sending heartbeats during the wait. */
void tt_ctx_lock(struct tutti_context *ctx);
void tt_ctx_unlock(struct tutti_context *ctx);

/*
 * This rank cannot go on as its peers expect: fails all its communicators with rank and cuts it
 * off.
 */
void tt_ctx_unfit(struct tutti_context *ctx, int code, int rank, const char *why);
/* For the wire: data from rank arrived damaged. */
void tt_ctx_damaged(void *ctx, int rank, const char *why);
/* For transports that wait under the lock: sends heartbeats. */
void tt_ctx_alive(void *ctx);

/* Handlers of the control tree; they take the lock. */
void tt_ctx_fail_msg(void *ctx, int from, const void *data, size_t len);
/* There is room for messages again: sends news of failures that found no memory. */
void tt_ctx_room(void *ctx);
/*
 * Under the lock: whether a rank of comm has failed, and why. False until the communicators with it
 * have failed, too: the control tree knows of the death a little earlier.
 */
bool tt_comm_gone(const struct tutti_comm *comm, int rank, char *why, size_t size);
void tt_ctx_gone(void *ctx, int rank, const char *host, const char *why);
void tt_ctx_abort_msg(void *ctx, int from, const void *data, size_t len);
/* Tells all ranks to abort. Any thread. */
int tt_ctx_abort(struct tutti_context *ctx, int code);

/* lost_link.c: under the lock, except the handler */

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

/* agree.c: agreement among the live ranks of a communicator; under the lock, except the handler */

/* The subject of an agreement: of each rank, then combined over all ballots. */
struct tt_ballot {
	uint64_t all, any; /* the AND (TT_VOTE_LEAST: the least) and the OR of the values */
	uint32_t kind;	   /* enum tt_vote_kind, must be equal */
	uint32_t next_id;  /* the highest number that no communicator has */
	int32_t failed;	   /* how many ranks are left out; in the decision only */
	int32_t differs;   /* decision: a rank of another kind, or -1 */
	uint64_t uid;	   /* of the decision: a unique name */
};
enum tt_vote_kind { TT_VOTE_AND = 1, TT_VOTE_OR, TT_VOTE_SHRINK, TT_VOTE_GROW, TT_VOTE_LEAST };
/* Keeps memory for n agreements that find none; other ranks would wait for this one. */
int tt_vote_reserve(struct tutti_comm *comm, int n);
/* Begins. -EBUSY: another agreement of comm is under way. */
int tt_vote_begin(struct tutti_comm *comm, const struct tt_ballot *mine);
/* The call was refused here: the texts of other ranks that wait for it say so. */
void tt_vote_refused(struct tutti_comm *comm, int code);
bool tt_vote_over(const struct tutti_comm *comm);
/* During an agreement: whether this rank collects, and whether a rank of comm has come. */
bool tt_vote_collects(const struct tutti_comm *comm);
bool tt_vote_came(const struct tutti_comm *comm, int rank);
/* False: the communicator is too large for an agreement. */
bool tt_vote_fits(const struct tutti_comm *comm);
/*
 * Ends with the decision and, by rank of comm, the ranks left out (bits, fewer than
 * TT_CTL_MSG_MAX bytes; may be NULL); or gives up.
 */
void tt_vote_end(struct tutti_comm *comm, struct tt_ballot *decision, unsigned char *left_out);
void tt_vote_drop(struct tutti_comm *comm);
void tt_vote_forget(struct tutti_comm *comm); /* what is reserved, too */
/*
 * Up to max ranks of the world that this rank waits for: to others the one that collects. Returns
 * how many.
 */
int tt_vote_awaited(const struct tutti_comm *comm, int *ranks, int max);
/* The ranks that have not come yet, as a text, and one of them: a rank of comm; -1: not known. */
int tt_vote_missing(const struct tutti_comm *comm, char *text, size_t size);
void tt_vote_msg(void *ctx, int from, const void *data, size_t len);
/* A rank has failed. */
void tt_vote_again(struct tutti_context *ctx);
/* Repeats messages that may have been lost. */
void tt_vote_timers(struct tutti_context *ctx);
void tt_vote_free_all(struct tutti_context *ctx);

/* late_warning.c: rank comm->late[i], of the world, is late for comm's call comm->late_seq */
void tt_late_warn(struct tutti_comm *comm, const struct tt_fields *fields, int i);
/* The call is still under way: warns again if the wait has become twice as long. */
void tt_late_remind(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields);

/* refusal.c: calls that were refused here */

/*
 * The text of a deadline says why a rank is late, and so does a mismatch: this rank's next call of
 * that collective has been refused with code.
 */
void tt_comm_refused(struct tutti_comm *comm, uint32_t coll, enum tt_forms forms, int code);
/*
 * This rank leaves, and cannot meet the other ranks before: communicators in which they may wait
 * for a call that was refused here fail, for lack of memory if that was why, otherwise as a
 * mismatch.
 */
void tt_comm_tell_refused(struct tutti_context *ctx);
/* comm has been freed: ranks that wait for a call of this rank need not ask again. Under the lock.
 */
void tt_comm_tell_freed(struct tutti_comm *comm);
/* " (its allreduce failed: Invalid argument)", or why else the rank is late; or "". */
const char *tt_late_why_text(const struct tt_late *why, char *buf, size_t size);

/* call_fields.c: calls as texts */

/* The call of the user: a collective, or the call that an inner collective is a part of. */
const char *tt_fields_call(const struct tt_fields *f);
bool tt_fields_inner(const struct tt_fields *f);
/* "allreduce #5 (count 10, float32, sum)" */
const char *tt_fields_text(const struct tt_fields *f, uint64_t seq, char *buf, size_t size);

/* stuck.c: the late and mismatch protocol */

/*
 * Near the deadline of a call: whether all ranks that are late for it wait in the same call of
 * another form, persistent or not. True: a verdict follows.
 */
bool tt_stuck_forms_differ(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields);
/* comm's call seq has made no progress for a while: asks the other ranks. */
void tt_stuck_ask(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields);
/* The same of a call that another rank asks for. */
void tt_stuck_report(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields);
/* The same of one that ranks have asked for before: it is late no more. */
void tt_stuck_came(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields);
/* The same if another rank is known to have made another call: a verdict follows. */
void tt_stuck_differs(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields);
void tt_stuck_msg(void *ctx, int from, const void *data, size_t len);
void tt_query_msg(void *ctx, int from, const void *data, size_t len);
void tt_late_msg(void *ctx, int from, const void *data, size_t len);
void tt_mismatch_msg(void *ctx, int from, const void *data, size_t len);
/* One end of a block: a rank of the world, and the elements that it sends or expects. */
struct tt_pair_end {
	int rank;
	uint64_t elements;
	uint32_t datatype;
};
/* Tells rank 0 that sender sends other elements than receiver expects. */
void tt_pair_differ(struct tutti_comm *comm, const struct tt_past *past,
		    const struct tt_pair_end *sender, const struct tt_pair_end *receiver);
/* A rank has failed: forgets which ranks are late if that is what it has told. */
void tt_stuck_gone(struct tutti_context *ctx, int rank);
/* Whether a verdict is due: rank 0 does not let the ranks leave before. */
bool tt_stuck_undecided(void *ctx);
void tt_stuck_free(struct tutti_context *ctx);

#endif
