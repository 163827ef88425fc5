/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine runs plans: it starts the ops of a round, learns of their ends from the wire, and
 * starts the next round. Blocking, nonblocking and persistent calls are all requests: a collective
 * is a plan bound to buffers, point-to-point has its own kind. Everything here is called under the
 * wire lock unless a comment says otherwise.
 */
#ifndef TT_ENGINE_H
#define TT_ENGINE_H

#include <tutti/feedback.h>

#include "lib/codec/codec.h"
#include "lib/comm/comm.h"
#include "lib/node/node.h"
#include "lib/plan/choose.h"
#include "lib/plan/plan.h"
#include "lib/reduce/reduce.h"

struct tt_plan_entry;
struct tt_lane_run;

/*
 * HELD: the end of a group of calls will start it. FREED: the memory, if it was not used again,
 * still tells a caller who has a copy of the pointer.
 */
enum tt_req_state { TT_REQ_IDLE, TT_REQ_HELD, TT_REQ_RUNNING, TT_REQ_DONE, TT_REQ_FREED };

/*
 * The kinds of requests: a running plan (call.c), or an operation of another folder. All are
 * called under the wire lock. The hot path of plans bypasses this.
 */
struct tt_request_ops {
	enum tt_active list; /* the communicator's list it is in while under way */
	bool plan;	     /* a struct tt_plan_req */
	/* As in tutti_error_info.call: "allreduce". */
	const char *(*call)(const struct tutti_request *req);
	/* Starts, or restarts: tt_request_begin, then the operation's own part. */
	int (*start)(struct tutti_request *req);
	/*
	 * Takes back everything under way: afterwards its buffers are not accessed. The caller
	 * ends the request.
	 */
	void (*cancel)(struct tutti_request *req);
	/*
	 * Before cancel, which would wait for other processes of this host if this is false; to be
	 * repeated. NULL: cancel does not wait.
	 */
	bool (*fence)(struct tutti_request *req);
	/*
	 * In a tolerant communicator: a dead rank of it without which the request cannot end; -1:
	 * none. NULL: it needs all ranks.
	 */
	int (*needs)(const struct tutti_request *req);
	/*
	 * In a tolerant communicator, instead: the request goes on without the ranks that are dead
	 * now. It does not end in this call.
	 */
	void (*outlive)(struct tutti_request *req);
	/*
	 * As cancel, after a death and without closing a connection to a live rank. False: a
	 * buffer is still being read; the request then ends itself, with -TUTTI_EPEER. NULL:
	 * cancel does.
	 */
	bool (*abandon)(struct tutti_request *req);
	/* Called by tt_request_end; NULL: nothing to do. */
	void (*ended)(struct tutti_request *req);
	/* Not under way, and not needed any more. */
	void (*free)(struct tutti_request *req);
	/*
	 * No progress for TUTTI_LATE_AFTER, then every second; or close to the deadline. Called for
	 * the oldest of a list only.
	 */
	void (*late)(struct tutti_request *req);
	/* A description, such as "allreduce #5 (count 10, float32, sum)". Returns buf. */
	const char *(*text)(const struct tutti_request *req, char *buf, size_t size);
	/*
	 * For a deadline: the cause of the wait, as "; it waits for ..." or "". Returns the world
	 * rank or -1.
	 */
	int (*waits)(const struct tutti_request *req, char *buf, size_t size);
	/*
	 * Of a collective, or a call that asks as it does (tt_late_ask): up to max ranks of the
	 * world that it needs next; returns how many. NULL: it asks none.
	 */
	int (*awaits)(const struct tutti_request *req, int *ranks, int max);
	/* After cancel: the phase reached, and how many bytes were in place; NULL: not known. */
	uint64_t (*where)(struct tutti_request *req, char *phase, size_t size);
	/* More for the flight recorder, which has the call; may be NULL. */
	void (*record)(const struct tutti_request *req, struct tt_flight_op *op,
		       enum tutti_datatype *type);
	/*
	 * The deadline has passed, of a receive: that of a wait for it. True: nothing was under
	 * way, so the request has ended and its communicator is intact; or, of a collective, a
	 * verdict about its communicator follows. NULL or false: the communicator fails; or, of a
	 * receive whose buffer its caller has not claimed back, the wait does.
	 */
	bool (*expire)(struct tutti_request *req);
	/*
	 * The request is over and its starter collects it, in the starter's thread and without the
	 * lock. NULL: nothing to do.
	 */
	void (*collected)(struct tutti_request *req);
	bool kept; /* the starter has to wait for it: it cannot be freed while it runs */
	/*
	 * Sets the thread's last error from the request's own status, if that is not its
	 * communicator's failure; NULL: has none.
	 */
	int (*explain)(const struct tutti_request *req);
};

/* A request; embedded at the start of its kind. tt_request_begin sets the fields of a run. */
struct tutti_request {
	const struct tt_request_ops *ops;
	struct tutti_comm *comm;
	struct tt_list link; /* in comm->active while under way; else its owner's */
	bool persistent;
	bool progressed;		/* since late_at was set: set it on every event */
	bool timed_by_call;		/* timeout is tutti_call's */
	bool group_waits;		/* its group ends when this request has */
	bool overdue;			/* the waiter's: a wait for it has reached its deadline */
	bool inner;			/* part of another request, which counts */
	struct tutti_request *in_group; /* the next of its group */
	/* Called by tt_request_end as its last step; mostly NULL. */
	void (*ended)(struct tutti_request *req);
	atomic_int state;
	int status;
	int priority;	  /* higher: its waiting operations go first */
	uint64_t listed;  /* the waiter's: number of the last call whose list has it */
	uint64_t seq;	  /* of a collective, else 0 */
	uint64_t timeout; /* in ns, TT_NEVER: none, 0: its communicator's */
	uint64_t deadline, late_at;
	char phase[48]; /* if a failure has ended it */
	uint64_t bytes;
	uint64_t flight; /* number of its record */
	void *ended_arg; /* for ended */
};

/*
 * An operation that could not start or go on for want of a connection or room; every progress step
 * retries it.
 */
struct tt_stalled {
	struct tt_list link; /* in ctx->stalled */
	/* Leaves the list when no further try is needed. */
	void (*again)(struct tt_stalled *stalled);
};
/* For a wait that retries by itself: an entry in the list keeps the sleeps short. */
void tt_stalled_wait(struct tt_stalled *stalled);

/* One op of the current round of a lane. */
struct tt_op_run {
	struct tt_xfer x;
	bool live; /* of neighbours: a message that is not over */
	struct tt_lane_run *lane;
	const struct tt_op *op;
	/* of a node op or a copy */
	struct tt_list wait; /* in ctx->node_waits */
	size_t at;	     /* ranks waited for, or bytes moved */
	bool told, broken, published;
};

struct tt_lane_run {
	struct tt_list ready; /* in ctx->ready */
	struct tt_plan_req *req;
	int lane, round, rounds, pending;
	uint64_t started;      /* start of the round in ticks, if there is a trace */
	struct tt_op_run *ops; /* plan->max_ops of them */
	struct tt_op *tmp;     /* room for generated ops */
};

/* ring_reduce.c: progress of a reduction over rings; pieces are those of the longest part. */
struct tt_ring_run {
	struct tt_node_ring shape;
	uint32_t pieces; /* 0: this plan has none */
	bool known, on;	 /* the two above are known; this turn may use rings */
	uint32_t filled, combined, drained;
	char *mem;    /* this rank's; NULL: it has none */
	void *pool;   /* to be returned */
	bool in, out; /* what it replaces: input, result */
	bool made;    /* short_path.c has published the buffers, and filled the ring, if any */
	/* without rings: which times it belongs to, tt_node_mapped_way; ticks since the first pull
	 */
	unsigned way;
	uint64_t from, filling; /* ticks: since the first pull; to fill the first places */
	enum tt_mapped mapped;
	bool stored; /* peers store parts of the result */
};

/* stream_input.c: this rank's input, copied piece by piece to where peers read it. */
/* Of a call whose input peers could read; of calls of the same way the times are compared. */
struct tt_stream_choice {
	uint64_t seq;	    /* of the call */
	bool streams, asks; /* tt_node_streams */
	unsigned way;	    /* tt_node_copy_way, 0: it is not measured */
	uint64_t from;	    /* in tt_ticks() */
	size_t len;
};

struct tt_stream_run {
	char *mem; /* NULL: there is none */
	char *input;
	int lanes;
	size_t piece;	 /* the longest */
	unsigned waited; /* steps without room */
	bool full;	 /* all has been copied */
	struct tt_stream_choice choice;
};

/* Residuals of encodings. Any thread; one call at a time reads and writes state. */
struct tutti_feedback {
	volatile uint64_t magic; /* also when it is freed */
	atomic_int refs;	 /* the caller's, and requests */
	atomic_bool busy;
	uint64_t comm; /* its uid */
	struct tutti_codec *codec;
	size_t count; /* elements of one of the vectors in state */
	bool empty;   /* all of state is 0 */
	bool spread;  /* not all of it is in this rank's part of a plan in two levels */
	float *state; /* tt_codec_states of them */
};
#define TT_FEEDBACK_MAGIC 0x74756665656462ull

/* A plan bound to buffers. */
struct tt_plan_req {
	struct tutti_request r; /* r.link: in entry->idle while unused */
	struct tt_plan_entry *entry;
	const struct tt_plan *plan;
	struct tt_node_comm *node; /* the ranks of its node ops; NULL: it has none */

	/* the bound buffers */
	char *base[TT_BUF_NET]; /* by enum tt_buf */
	size_t extent[TT_BUF_NET];
	struct tt_region *region[TT_BUF_NET];
	void *scratch;
	struct tt_fields fields;
	enum tutti_datatype datatype;
	size_t elem;
	enum tutti_op op;	/* built-in; for a premultiplied sum: sum */
	struct tt_userop *user; /* the user-defined operator, or NULL */
	const void *unscaled;	/* input of a premultiplied sum; base[TT_BUF_SEND]: scaled */
	/* while base[TT_BUF_SEND] is recvbuf, with residuals of others' parts: the input */
	char *apart;
	struct tt_region *apart_region;
	void *scaled; /* for the scaled input, unless in recvbuf; kept like scratch */
	struct tt_region *scaled_region;
	struct tutti_feedback *feedback; /* of a call with a codec; NULL: none */
	bool blocking;			 /* as in struct tt_call */
	struct tt_series series;	 /* of a persistent request: fields.init is set */
	struct tt_counts *counts;	 /* a v form where ranks have their own counts */

	/* this run */
	uint64_t fprint;
	uint64_t turn;		     /* of a node plan */
	unsigned step;		     /* the step that this rank has reached in it */
	unsigned stores;	     /* flags of its reductions: stores.h */
	enum tt_branch way;	     /* of a plan with several */
	int first_round;	     /* short_path.c has run the rounds before it, else 0 */
	bool resumed;		     /* short_path.c has begun this call, but could not end it */
	void *bounce[2];	     /* of a node plan: buffers that peers can reach */
	struct tt_ring_run ring;     /* used instead, */
	struct tt_stream_run stream; /* or this */
	char *unbounced;	     /* of a mixed plan: the result's place, while bounced */
	struct tt_region *unbounced_region;
	int lanes_left;
	bool missed;	 /* a dead neighbour's block is not there */
	int leaving;	 /* abandoned: operations still under way, plus 1; else 0 */
	uint32_t rounds; /* in all lanes */
	struct tt_lane_run *lanes;
	const void **src; /* for tt_combine_weigh: room for all operands, */
	double *weight;	  /* and their weights */
	/* fuse.c: the next member of the fused set; the request of all while it runs, else NULL */
	struct tt_plan_req *fused, *carrier;
};

/* A call, checked by lib/api. */
struct tt_call {
	enum tt_coll coll;
	bool in_place;
	bool blocking;	     /* the caller only waits between its start and its end */
	const void *sendbuf; /* NULL: none, or in place (recvbuf: scatter) */
	void *recvbuf;
	size_t count;
	enum tutti_datatype datatype;
	enum tutti_op op;
	int root;
	enum tt_inner inner; /* 0, or it has no root */
	const size_t *scounts, *sdispls, *rcounts,
		*rdispls;		   /* as in struct tt_plan_args; the caller's */
	const struct tt_plan_codec *codec; /* NULL: none */
	const struct tt_edges *edges;	   /* of neighbours */
	const struct tutti_codec *named;   /* the caller's, also if codec is one of its choices */
	struct tutti_feedback *feedback;
	uint64_t shape; /* allreduce of a matrix: rows << 32 | columns; 0: of a vector */
};

/* Where the ranks are, for a plan. */
void tt_comm_place(const struct tutti_comm *comm, struct tt_plan_args *args);
int tt_comm_find_hosts(struct tutti_comm *comm); /* for neighbours in two levels: all_hosts */
/* The input of a call's plan. ordered and in_place may depend on the operator, see request.c. */
struct tt_plan_args tt_call_args(const struct tutti_comm *comm, const struct tt_call *call);
/* The fields of a call that ranks compare; user: its operator, or NULL. */
struct tt_fields tt_call_fields(const struct tutti_comm *comm, const struct tt_call *call,
				const struct tt_userop *user);

/* plans.c: the plan of a call, from the communicator's cache, and requests ready to be bound */
int tt_plans_get(struct tutti_comm *comm, const struct tt_plan_args *args,
		 struct tt_plan_req **req);
void tt_plans_put(struct tt_plan_req *req);
int tt_plans_new(struct tutti_comm *comm, struct tt_plan_cache **cache);
void tt_plans_free(struct tt_plan_cache *cache);

/* call.c: a collective as a request */
int tt_request_new(struct tutti_comm *comm, const struct tt_call *call, bool persistent,
		   struct tutti_request **req);

/*
 * request_memory.c: under the lock. Room for size + more bytes that begin with a struct
 * tutti_request, the first size of them 0; NULL: no memory. The request counts as freed until
 * tt_request_init.
 */
void *tt_request_alloc(struct tutti_context *ctx, size_t size, size_t more);
/* size: in all, as it was allocated. */
void tt_request_release(struct tutti_context *ctx, struct tutti_request *req, size_t size);
/* The context ends. */
void tt_request_memory_free(struct tutti_context *ctx);

/* request.c: the part that all requests share */
void tt_request_init(struct tutti_request *req, const struct tt_request_ops *ops,
		     struct tutti_comm *comm, bool persistent);
int tt_request_start(struct tutti_request *req);
void tt_request_free(struct tutti_request *req);
/* A running request frees itself at its end. False: it is waited for in another way. */
bool tt_request_orphan(struct tutti_request *req);
/*
 * For ops->start: marks the request under way, with a deadline; or returns the communicator's
 * failure.
 */
int tt_request_begin(struct tutti_request *req);
/* The part of it that needs no checks: without a deadline and a record. */
void tt_request_under_way(struct tutti_request *req);
/* Its timeout in ns; TT_NEVER: none. */
static inline uint64_t tt_request_timeout(const struct tutti_request *req)
{
	return req->timeout ? req->timeout : tt_comm_timeout(req->comm);
}
/* 0: its communicator's; negative: none. A running one: from now. */
void tt_request_set_timeout(struct tutti_request *req, int ms);
/* Of tutti_call, for a new request. */
struct tt_call_options {
	int timeout_ms, priority;
};
void tt_request_set_options(struct tutti_request *req, const struct tt_call_options *options);
/* As text: "700 ms (TUTTI_TIMEOUT)". */
const char *tt_request_timeout_text(const struct tutti_request *req, char *buf, size_t size);
/* Sets the deadline of a request that is under way or about to be. */
static inline void tt_request_due(struct tutti_request *req, uint64_t deadline)
{
	req->deadline = deadline;
	if (deadline < req->comm->due)
		req->comm->due = deadline;
}
#define TT_LATE_LAST (900 * TT_MS) /* before its deadline a request reports in any case */
/*
 * When a request reports next, after wait. Close to the deadline earlier: other ranks still have
 * time to answer, and little happens afterwards.
 */
uint64_t tt_request_next_late(const struct tutti_request *req, uint64_t now, uint64_t wait);
/* The deadline has passed: fails the communicator, unless ops->expire ends the request alone. */
void tt_request_time_out(struct tutti_request *req);
/* The only way to end a request. Its memory may be freed from then on. */
void tt_request_end(struct tutti_request *req, int status);
/* The same, with the time of its record. */
void tt_request_end_at(struct tutti_request *req, int status, uint64_t ticks);
/*
 * A transfer of req to or from peer (of the world) has failed: fails the communicator, at once or
 * when the control tree has given a reason, and thereby ends the request.
 */
void tt_request_broken(struct tutti_request *req, int peer, int status);
/* The same without a request; the text names what was transferred. */
void tt_comm_broken(struct tutti_comm *comm, int peer, int status, const char *call, uint64_t seq,
		    const char *what);
/* Sets the thread's last error to the communicator's failure, if it has failed; else 0. */
int tt_comm_check(struct tutti_comm *comm);
/* The same for a call of this kind that would begin now. */
int tt_comm_check_call(struct tutti_comm *comm, enum tt_active list, const char *call);

/* record.c: the flight recorder of a context, always there after init */
int tt_record_open(struct tutti_context *ctx);
/* The control tree stands: records what is known only now. */
void tt_record_joined(struct tutti_context *ctx);
void tt_record_close(struct tutti_context *ctx);
/* A request has begun: a collective, with its sequence number, or another. */
void tt_record_plan(struct tt_plan_req *req);
/* A collective without a plan. */
void tt_record_fields(struct tutti_request *req, const struct tt_fields *fields);
void tt_record_other(struct tutti_request *req);
/* The record of a call that waits, for its request. */
uint64_t tt_record_call(struct tutti_context *ctx, const char *call, enum tutti_datatype type,
			struct tt_flight_op *op);
/* A call without a request has ended with success; start: its ticks then, 0: now. */
void tt_record_brief(struct tutti_context *ctx, const char *call, enum tutti_datatype type,
		     struct tt_flight_op *op, uint64_t start);
/*
 * Without the lock, before the caller hears of a failure: tt_ctx_news, and writes the file if a
 * communicator has failed since the last write.
 */
void tt_record_due(struct tutti_context *ctx);

/*
 * combine.c: dst = a (+) b by the request's operator; dst may be a or b. count elements; see
 * tt_reduce_multi.
 */
void tt_combine(struct tt_plan_req *req, void *dst, const void *a, const void *b, size_t count,
		int divide_by);
/* Writes the request's scaled input to where the plan reads it. */
void tt_combine_scale(struct tt_plan_req *req);

/* The op of this request that adds up neighbours' vectors with weights. */
void tt_combine_weigh(struct tt_plan_req *req, const struct tt_op *op);

/*
 * code.c: an op that encodes or decodes. False: it has failed, and so has the communicator, whose
 * sweep ends the request.
 */
bool tt_code_op(struct tt_plan_req *req, const struct tt_op *op);
/* The way that the plan goes on, by the heads of all lists: sets it. False: as above. */
bool tt_code_branch(struct tt_plan_req *req);
/* The bytes of a message that varies. False: what its head tells is no length; as above. */
bool tt_code_len(struct tt_plan_req *req, const struct tt_op *op, size_t *len);

/*
 * codec_choice.c: which of the choices of codec, an "auto", an all-reduce
 * of count float32 on comm takes; NULL: none of them. From values that all ranks have, so all ranks
 * choose the same. With the lock. Never fails.
 */
struct tutti_codec *tt_codec_choose(struct tutti_comm *comm, const struct tutti_codec *codec,
				    size_t count);
void tt_codec_forget(struct tutti_comm *comm);

/* feedback.c: any thread */
int tt_feedback_new(struct tutti_comm *comm, struct tutti_codec *codec, size_t count,
		    struct tutti_feedback **feedback);
void tt_feedback_put(struct tutti_feedback *feedback);
/* Whether a call of count elements with codec on comm may use it: 0 or -EINVAL. */
int tt_feedback_check(const struct tutti_feedback *feedback, const struct tutti_comm *comm,
		      const struct tutti_codec *codec, size_t count);
/* From here until tt_feedback_end no other call uses it; -EBUSY: one does. */
int tt_feedback_begin(struct tutti_feedback *feedback, const char *call);
void tt_feedback_end(struct tutti_feedback *feedback);
/*
 * Of a call that encodes nothing, though it has a state: adds the residual to the input, and puts
 * it where the plan reads it; and, once the call is under way, clears what was added. Any thread,
 * between tt_feedback_begin and the start of the plan.
 */
void tt_feedback_add(struct tt_plan_req *req);
void tt_feedback_clear(struct tt_plan_req *req);
/*
 * Of a plan that encodes only this rank's part: adds residuals of other parts to the input, in
 * recvbuf, if there may be any; and, once the call is under way, clears them; and, at its end,
 * takes the input as it was. Each does nothing where nothing is to be done.
 */
void tt_feedback_gather(struct tt_plan_req *req);
void tt_feedback_gathered(struct tt_plan_req *req);
void tt_feedback_apart(struct tt_plan_req *req);

/*
 * fuse.c: a group holds first, and rest follow it there. Starts together all that can be fused
 * with first, which are then no longer held. False: nothing has happened.
 */
bool tt_fuse(struct tutti_request *first, struct tutti_request *rest);
/* The deadline of a running request has changed: so has that of the one that it is fused into. */
void tt_fuse_timed(struct tutti_request *req);

/* run.c */
void tt_run_start(struct tt_plan_req *req);
/* Takes back everything req has under way: afterwards its buffers are not accessed. */
void tt_run_cancel(struct tt_plan_req *req);
/* As struct tt_request_ops.abandon. */
bool tt_run_abandon(struct tt_plan_req *req);

/*
 * outlive.c: collectives of neighbours. Before a message starts; true: its peer is dead, and it is
 * over. As struct tt_request_ops.outlive.
 */
bool tt_outlive_op(struct tt_op_run *run);
void tt_outlive(struct tt_plan_req *req);

/*
 * After a cancel: the round of the slowest lane, as text, and the bytes that complete rounds
 * brought.
 */
uint64_t tt_run_where(struct tt_plan_req *req, char *phase, size_t size);
/* One op of a lane's round is over; after the last, the lane goes on. */
void tt_run_op_over(struct tt_lane_run *lane);
/* Starts the rounds that can start. */
void tt_run_ready(struct tutti_context *ctx);
/* For the wire: a message met a receive with other fields. */
void tt_run_mismatch(void *ctx, int peer, const struct tt_key *key);
/* For the wire: an unexpected message came; its sender may have called something else. */
void tt_run_early(void *ctx, int peer, const struct tt_key *key, uint64_t fprint, bool offer);
/* For the wire: the connection to peer was closed because of comm, or by the peer. */
void tt_run_fenced(void *ctx, int peer, bool mine, uint64_t comm);
/* req makes no progress: asks the peers that may disagree with it on lengths. */
void tt_run_ask(struct tt_plan_req *req);
/* Up to max ranks of the world that ops of the current rounds need; returns how many. */
int tt_run_awaited(const struct tt_plan_req *req, int *ranks, int max);

/* wait.c */
/*
 * One step: polls, runs what became ready, ends the requests of failed communicators. Returns the
 * amount of progress: events, and steps in ctx->moves. Code that advances an operation without an
 * event must add to ctx->moves; otherwise a thread that waits for the operation goes to sleep.
 */
int tt_engine_progress(struct tutti_context *ctx);
/* Checks lateness, deadlines and suspicions; rarely, not on the hot path. */
void tt_engine_timers(struct tutti_context *ctx);
/* Whether the deadline has passed, and this process was not stopped when it did. Any thread. */
bool tt_engine_due(struct tutti_context *ctx, uint64_t deadline);
/*
 * Without the lock: advances until done(arg) or deadline. done is called under the lock, also
 * again after it returned true. Returns 0 or -ETIMEDOUT. Communicators have their own timeout, so
 * TT_NEVER is fine for requests.
 */
int tt_engine_wait(struct tutti_context *ctx, bool (*done)(void *), void *arg, uint64_t deadline);
/*
 * The same, but only until then where the process was stopped: the caller has another deadline, and
 * waits in other contexts in between.
 */
int tt_engine_wait_turn(struct tutti_context *ctx, bool (*done)(void *), void *arg, uint64_t until);
/*
 * The same as tt_engine_wait for threads of the library, beside those of the program: where one of
 * these computes on the same core, they sleep when they find nothing to do.
 */
int tt_engine_wait_beside(struct tutti_context *ctx, bool (*done)(void *), void *arg,
			  uint64_t deadline);
/*
 * The same for ever, for the thread that makes progress while callers do not: it naps while they
 * poll, as it would only take the lock from them.
 */
void tt_engine_relieve(struct tutti_context *ctx, bool (*done)(void *), void *arg);
/* tt_engine_wait for so many ns at least, counted from the first idle step. */
int tt_engine_wait_a_while(struct tutti_context *ctx, bool (*done)(void *), void *arg,
			   uint64_t timeout);

/* share_host.c: chooses ctx->wait_mode and ctx->cache when the ranks have found each other */
void tt_engine_share_host(struct tutti_context *ctx);
/* ctx->cache again, by a tuning table, 0: it has none; of all communicators */
void tt_engine_measured_cache(struct tutti_context *ctx, size_t measured);

/* wait_set.c: without the lock */

/* Over, or not started. */
static inline bool tt_request_finished(const struct tutti_request *req)
{
	int state = atomic_load_explicit(&req->state, memory_order_acquire);

	return state == TT_REQ_DONE || state == TT_REQ_IDLE;
}
/* -EINVAL if the request was freed; name: of the call that gets it. */
int tt_request_stale(const char *name, const struct tutti_request *req);
/*
 * Waits for a request that its caller cannot return to: at the deadline its communicator fails, if
 * a message has matched it. Then as tt_request_collect. *begin: of the wait, 0: now.
 */
int tt_wait_blocking(struct tutti_request **req, uint64_t *begin);
/*
 * Waits for all or any of n requests (each NULL, or of any context), or until their deadlines.
 * Requests that are neither finished nor overdue afterwards were not waited for.
 */
void tt_wait_set(int n, struct tutti_request **req, bool any);
/* One look at the contexts of n requests. */
void tt_test_set(int n, struct tutti_request **req);
/* The result of a finished request, with the thread's last error; it stays as it is. */
int tt_request_result(struct tutti_request *req);
/* The same; then the request is idle, or freed and *req NULL if it is not persistent. */
int tt_request_collect(struct tutti_request **req);
/* Collects those of n requests that have ended with success, without a lock for each. */
void tt_collect_successes(int n, struct tutti_request **req);
/* For ops->explain: a wait has cancelled the receive at its deadline; sets the last error. */
int tt_request_waited_out(const struct tutti_request *req);
/* The same of a receive that is overdue; takes the lock. */
int tt_request_overdue(const struct tutti_request *req);

/* kin.c: contexts of this process that have grown out of each other; without the lock */
void tt_kin_join(struct tutti_context *ctx, struct tutti_context *made);
void tt_kin_leave(struct tutti_context *ctx);
/* Advances the others; returns the amount of progress. busy: they have operations under way. */
int tt_kin_progress(struct tutti_context *ctx, bool *busy);

/* doing.c: what another rank is doing, for the text of a deadline; under the lock */
void tt_doing_ask(struct tutti_context *ctx, int rank);
/*
 * Adds rank to the n ranks, of at most max, unless it is there or there is no room. Returns how
 * many there are.
 */
int tt_doing_add_rank(int *ranks, int n, int max, int rank);
/* "; it ...", or "" if it was not asked lately. Returns buf. */
const char *tt_doing_text(const struct tutti_context *ctx, int rank, char *buf, size_t size);
/*
 * Of a collective with these fields.init, or another request with ops->awaits (0): shortly before
 * the deadline asks the ranks that it waits for, and those that these wait for.
 */
void tt_late_ask(const struct tutti_request *req, uint32_t init, uint64_t deadline);
/* For struct tt_request_ops.waits of it: the ranks that are late, and one that did not answer. */
int tt_late_text(const struct tutti_request *req, uint32_t init, char *buf, size_t size);
/*
 * Asks the n ranks of the world for which a caller waits without a request, and the ranks that
 * these wait for, shortly before the deadline. Returns when to call it again: at the latest then.
 */
uint64_t tt_await_ask(struct tutti_context *ctx, const int *ranks, int n, uint64_t deadline);
/* The first of these ranks that does not answer, or of those they wait for; -1: none. */
int tt_await_silent(struct tutti_context *ctx, const int *ranks, int n, char *buf, size_t size);
/*
 * The same; if all answer, the first that waits for none; if all wait for each other, the first of
 * the n. buf: "; ..." if it does not answer, is not among the n, or waits itself; else "".
 */
#define TT_AWAIT_TEXT 360
int tt_await_cause(struct tutti_context *ctx, const int *ranks, int n, char *buf, size_t size);
/* The handler; takes the lock. */
void tt_doing_msg(void *ctx, int from, const void *data, size_t len);

/* thread.c: without the lock */
int tt_thread_start(struct tutti_context *ctx);
/* Also ends the standby thread. */
void tt_thread_stop(struct tutti_context *ctx);
/*
 * Starts a standby thread that takes notifications while the caller makes no calls, where the data
 * itself needs no target CPU.
 */
int tt_standby_start(struct tutti_context *ctx);

#endif
