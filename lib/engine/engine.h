/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine runs plans: it starts the ops of a round, learns of their ends from the wire, and
 * goes on to the next. Blocking, nonblocking and persistent calls are all requests: a collective
 * is one with a plan bound to buffers, point-to-point has its own kind. Everything here is called
 * under the wire lock unless said otherwise.
 */
#ifndef TT_ENGINE_H
#define TT_ENGINE_H

#include "lib/comm/comm.h"
#include "lib/node/node.h"
#include "lib/plan/choose.h"
#include "lib/plan/plan.h"
#include "lib/reduce/reduce.h"

struct tt_plan_entry;
struct tt_lane_run;

/* HELD: started by the end of a group of calls. */
enum tt_req_state { TT_REQ_IDLE, TT_REQ_HELD, TT_REQ_RUNNING, TT_REQ_DONE };

/*
 * What a request is: a running plan (call.c), or an operation of another folder. All are called
 * under the wire lock. The hot path of plans does not come by here.
 */
struct tt_request_ops {
	enum tt_active list; /* which list of its communicator it is in while under way */
	/* As in tutti_error_info.call: "allreduce". */
	const char *(*call)(const struct tutti_request *req);
	/* Start, or start again: tt_request_begin, then whatever is to be done. */
	int (*start)(struct tutti_request *req);
	/*
	 * Take back everything under way: afterwards nobody touches its buffers. The caller ends
	 * it.
	 */
	void (*cancel)(struct tutti_request *req);
	/* It is over, by tt_request_end; NULL: nothing to do. */
	void (*ended)(struct tutti_request *req);
	/* Not under way, and not needed any more. */
	void (*free)(struct tutti_request *req);
	/*
	 * No progress for TUTTI_LATE_AFTER, and then every second; only the oldest of a list is
	 * asked.
	 */
	void (*late)(struct tutti_request *req);
	/* What it is, such as "allreduce #5 (count 10, float32, sum)". Returns buf. */
	const char *(*text)(const struct tutti_request *req, char *buf, size_t size);
	/*
	 * For a deadline: what it waits for, as "; it waits for ..." or "". Returns the world rank
	 * or -1.
	 */
	int (*waits)(const struct tutti_request *req, char *buf, size_t size);
	/*
	 * After cancel: how far it had come, and how many bytes of it were in place; NULL: nobody
	 * knows.
	 */
	uint64_t (*where)(struct tutti_request *req, char *phase, size_t size);
	/* More for the flight recorder, which knows the call; may be NULL. */
	void (*record)(const struct tutti_request *req, struct tt_flight_op *op,
		       enum tutti_datatype *type);
	/*
	 * Its deadline has passed. True: nothing of it was under way, so it has ended, and its
	 * communicator is as good as before. NULL, false: the communicator fails.
	 */
	bool (*expire)(struct tutti_request *req);
	/*
	 * The request is over and its starter collects it, in the starter's thread and without the
	 * lock. NULL: nothing to do.
	 */
	void (*collected)(struct tutti_request *req);
	/*
	 * Its status, which is not its communicator's failure, as the thread's last error; NULL:
	 * has none.
	 */
	int (*explain)(const struct tutti_request *req);
};

/*
 * A request; embedded at the start of what it is. Fields of this run are set by tt_request_begin.
 */
struct tutti_request {
	const struct tt_request_ops *ops;
	struct tutti_comm *comm;
	struct tt_list link; /* in comm->active while under way; else its owner's */
	bool persistent;
	bool progressed;  /* since late_at was set: set it whenever something happened */
	bool group_waits; /* its group ends when it has */
	struct tutti_request *in_group; /* the next of its group */
	/* By tt_request_end, which is then done with it; mostly NULL. */
	void (*ended)(struct tutti_request *req);
	atomic_int state;
	int status;
	uint64_t seq; /* of a collective, else 0 */
	uint64_t deadline, late_at;
	char phase[48]; /* of one that a failure has ended */
	uint64_t bytes;
	uint64_t flight; /* number of its record */
};

/*
 * What could not start, or go on, for want of a connection or of room; tried again by every
 * progress.
 */
struct tt_stalled {
	struct tt_list link; /* in ctx->stalled */
	/* Takes itself off the list when it need not be tried again. */
	void (*again)(struct tt_stalled *stalled);
};
/* For a wait that tries again by itself: being on the list keeps the sleeps short. */
void tt_stalled_wait(struct tt_stalled *stalled);

/* One op of the current round of a lane. */
struct tt_op_run {
	struct tt_xfer x;
	struct tt_lane_run *lane;
	const struct tt_op *op;
	/* of a node op or a copy */
	struct tt_list wait; /* in ctx->node_waits */
	size_t at;	     /* ranks waited for; bytes moved */
	bool told, broken, published;
};

struct tt_lane_run {
	struct tt_list ready; /* in ctx->ready */
	struct tt_plan_req *req;
	int lane, round, rounds, pending;
	uint64_t started;      /* the round, in ticks, if there is a trace */
	struct tt_op_run *ops; /* plan->max_ops of them */
	struct tt_op *tmp;     /* room for generated ops */
};

/*
 * ring_reduce.c: how far a reduction is that goes by rings; pieces are those of the longest part.
 */
struct tt_ring_run {
	struct tt_node_ring shape;
	uint32_t pieces; /* 0: this plan has none */
	bool known, on;	 /* the two above are known; this turn may have rings */
	uint32_t filled, combined, drained;
	char *mem;    /* this rank's; NULL: it has none */
	void *pool;   /* to be given back */
	bool in, out; /* what it stands for: input, result */
	bool made;    /* by short_path.c: published, and filled */
};

/* A plan bound to buffers. */
struct tt_plan_req {
	struct tutti_request r; /* r.link: in entry->idle while nobody has it */
	struct tt_plan_entry *entry;
	const struct tt_plan *plan;
	struct tt_node_comm *node; /* of whose ranks its node ops are; NULL: it has none */

	/* what it is bound to */
	char *base[TT_BUF_NET]; /* by enum tt_buf */
	size_t extent[TT_BUF_NET];
	struct tt_region *region[TT_BUF_NET];
	void *scratch;
	struct tt_fields fields;
	enum tutti_datatype datatype;
	size_t elem;
	enum tutti_op op;	/* built-in; of a premultiplied sum: sum */
	struct tt_userop *user; /* the caller's operator, or NULL */
	const void *unscaled;	/* premultiplied sum: the input; base[TT_BUF_SEND] is where its
				   multiple goes */
	void *scaled;		/* memory for that, if recvbuf is none; kept as scratch is */
	struct tt_region *scaled_region;
	bool blocking;		  /* as in struct tt_call */
	struct tt_counts *counts; /* a v form where ranks have their own counts */

	/* this run */
	uint64_t fprint;
	uint64_t turn;		 /* of a node plan */
	unsigned step;		 /* that this rank has reached in it */
	bool resumed;		 /* short_path.c has made this call, but could not end it */
	bool pulled;		 /* and has combined this rank's part already */
	void *bounce[2];	 /* of a node plan: copies that peers can reach */
	struct tt_ring_run ring; /* or instead */
	char *unbounced; /* of a mixed one: the result's own place, if messages go to the copy */
	struct tt_region *unbounced_region;
	int lanes_left;
	uint32_t rounds; /* in all lanes */
	struct tt_lane_run *lanes;
	struct tt_plan_req *fused; /* fuse.c: the next of those that travel together */
};

/* A call, checked by lib/api. */
struct tt_call {
	enum tt_coll coll;
	bool in_place;
	bool blocking;	     /* nothing happens between its start and its end but waiting */
	const void *sendbuf; /* NULL: this rank has none, or in place; so with recvbuf of a scatter
				in place */
	void *recvbuf;
	size_t count;
	enum tutti_datatype datatype;
	enum tutti_op op;
	int root;
	const size_t *scounts, *sdispls, *rcounts,
		*rdispls; /* as in struct tt_plan_args; the caller's */
};

/* Where the ranks are, for a plan. */
void tt_comm_place(const struct tutti_comm *comm, struct tt_plan_args *args);
/*
 * What is to be planned for a call. ordered and in_place may depend on the operator, see
 * request.c.
 */
struct tt_plan_args tt_call_args(const struct tutti_comm *comm, const struct tt_call *call);

/* plans.c: the plan of a call, from the communicator's cache; and requests ready to be bound. */
int tt_plans_get(struct tutti_comm *comm, const struct tt_plan_args *args,
		 struct tt_plan_req **req);
void tt_plans_put(struct tt_plan_req *req);
int tt_plans_new(struct tutti_comm *comm, struct tt_plan_cache **cache);
void tt_plans_free(struct tt_plan_cache *cache);

/* call.c: a collective as a request */
int tt_request_new(struct tutti_comm *comm, const struct tt_call *call, bool persistent,
		   struct tutti_request **req);

/* request.c: what all requests have in common */
void tt_request_init(struct tutti_request *req, const struct tt_request_ops *ops,
		     struct tutti_comm *comm, bool persistent);
int tt_request_start(struct tutti_request *req);
void tt_request_free(struct tutti_request *req);
/* For ops->start: under way from now on, with a deadline; or the communicator's failure. */
int tt_request_begin(struct tutti_request *req);
/* The only way to end a request. Its memory may be freed from then on. */
void tt_request_end(struct tutti_request *req, int status);
/*
 * A transfer of req to or from peer (of the world) has failed: this fails the communicator, now or
 * as soon as the control tree has said what happened, and with it ends the request.
 */
void tt_request_broken(struct tutti_request *req, int peer, int status);
/* The same where no request is: what was transferred, in words. */
void tt_comm_broken(struct tutti_comm *comm, int peer, int status, const char *call, uint64_t seq,
		    const char *what);
/* The communicator's failure as the calling thread's last error, if it has one; else 0. */
int tt_comm_check(struct tutti_comm *comm);
/* The same for a call that would have begun now. */
int tt_comm_check_call(struct tutti_comm *comm, const char *call);

/* record.c: the flight recorder of a context, always there after init */
int tt_record_open(struct tutti_context *ctx);
/* The control tree stands: what is known only then. */
void tt_record_joined(struct tutti_context *ctx);
void tt_record_close(struct tutti_context *ctx);
/* A request has begun: a collective, with its sequence number; or another. */
void tt_record_plan(struct tt_plan_req *req);
void tt_record_other(struct tutti_request *req);
/* Without the lock: write it to a file, if a communicator has failed since it was written. */
void tt_record_due(struct tutti_context *ctx);

/*
 * combine.c: dst = a (+) b by the request's operator; dst may be a or b. count elements; see
 * tt_reduce_multi.
 */
void tt_combine(struct tt_plan_req *req, void *dst, const void *a, const void *b, size_t count,
		int divide_by);
/* Write the request's multiple of its input to where the plan takes it from. */
void tt_combine_scale(struct tt_plan_req *req);

/*
 * fuse.c: first is held by a group, and rest follow it there. If some of these can travel with it,
 * start them together; otherwise nothing has happened. They are not held any more, then.
 */
bool tt_fuse(struct tutti_request *first, struct tutti_request *rest);

/* run.c */
void tt_run_start(struct tt_plan_req *req);
/* Take back everything req has under way: afterwards nobody touches its buffers. */
void tt_run_cancel(struct tt_plan_req *req);
/*
 * After that: the round of the slowest lane, as text, and the bytes that whole rounds have
 * brought.
 */
uint64_t tt_run_where(struct tt_plan_req *req, char *phase, size_t size);
/* One op of a lane's round is over; after the last, the lane goes on. */
void tt_run_op_over(struct tt_lane_run *lane);
/* Rounds that can start, start. */
void tt_run_ready(struct tutti_context *ctx);
/* For the wire: a message met a receive with other fields. */
void tt_run_mismatch(void *ctx, int peer, const struct tt_key *key);
/* For the wire: a message came that nothing waits for: perhaps its sender called something else. */
void tt_run_early(void *ctx, int peer, const struct tt_key *key, uint64_t fprint, bool offer);
/* For the wire: the connection to peer was closed; comm is why, or the peer knows. */
void tt_run_fenced(void *ctx, int peer, bool mine, uint64_t comm);
/*
 * req makes no progress: ask the peers that it waits for, where they may disagree with it on
 * lengths.
 */
void tt_run_ask(struct tt_plan_req *req);

/* wait.c */
/*
 * One step: poll, run what became ready, end the requests of failed communicators. Returns how
 * much went on: events, and steps in ctx->moves. Code that takes an operation a step further
 * without an event adds to ctx->moves. Otherwise a thread that waits for the operation goes to
 * sleep.
 */
int tt_engine_progress(struct tutti_context *ctx);
/* Lateness, deadlines and suspicions; now and then, not on the hot path. */
void tt_engine_timers(struct tutti_context *ctx);
/*
 * Without the lock: advance until done(arg) (asked under the lock, also again after it said yes)
 * or deadline. Returns 0 or -ETIMEDOUT. Communicators time out by themselves, so TT_NEVER is fine
 * for requests.
 */
int tt_engine_wait(struct tutti_context *ctx, bool (*done)(void *), void *arg, uint64_t deadline);
void tt_engine_wait_mode(struct tutti_context *ctx);

/* thread.c: without the lock */
int tt_thread_start(struct tutti_context *ctx);
/* Ends the standby thread, too. */
void tt_thread_stop(struct tutti_context *ctx);
/*
 * Starts a standby thread that takes notifications while the caller makes no calls, where the data
 * itself needs no target CPU.
 */
int tt_standby_start(struct tutti_context *ctx);

#endif
