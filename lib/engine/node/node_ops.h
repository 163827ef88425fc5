/* SPDX-License-Identifier: BSD-3-Clause */
/* The node ops of plans; node_ops.c. Under the wire lock but for the first two. */
#ifndef TT_NODE_OPS_H
#define TT_NODE_OPS_H

#include "lib/engine/engine.h"
#include "lib/node/node.h"

/*
 * How short_path.c does calls like this one, as their plan says: not, by slots (or a barrier), or
 * out of buffers and rings that are mapped.
 */
enum tt_quick_way { TT_QUICK_NO, TT_QUICK_SLOTS, TT_QUICK_PULL };
#define TT_QUICK_SET 4 /* so many that hash to the same are kept */
/* What is the same in all calls of these fields, worked out once. */
struct tt_quick_known {
	bool known; /* this is about some call */
	enum tt_quick_way way;
	struct tt_fields fields;
	size_t bytes;
	struct tt_node_reduce reduce;
	/* of TT_QUICK_PULL: */
	struct tt_plan_args args;
	struct tt_span part; /* this rank's */
	size_t ring_bytes;
	struct tt_flight_op record; /* in_place is the last call's */
};

/*
 * The ranks of a communicator that share this one's host: all, or those of a plan in two levels;
 * or its NUMA node.
 */
struct tt_node_comm {
	struct tt_node_group *group;
	uint64_t uid;
	int n, *member;	    /* by place in the group: the rank in the communicator */
	int member_here;    /* the place of this one */
	uint64_t spread_at; /* crowding.c: not before */
	uint64_t turn;	    /* of the last call */
	uint64_t begun;	    /* the last that has begun */
	struct tt_plan_req *running;
	uint64_t seq[4];			      /* of the last turns' calls, by turn % 4 */
	uint64_t told;				      /* a turn in which ranks differ: reported */
	unsigned quick;				      /* quick calls so far */
	struct tt_quick_known known[4][TT_QUICK_SET]; /* sets, by a hash of the shape */
	unsigned learned;			      /* shapes so far */
};

/*
 * At the start: find out what works with the memory of the ranks of each host, and agree with all
 * ranks on it: what does not work for one pair is used by nobody, as all must choose the same
 * algorithms.
 */
int tt_node_agree(struct tutti_context *ctx,
		  int (*card)(void *ctx, int rank, struct tt_node_card *));
/* A handler of the control tree. */
void tt_node_msg(void *ctx, int from, const void *data, size_t len);
/*
 * Makes comm->node if its ranks share a host and its memory, and comm->numa and comm->near if that
 * has them on several NUMA nodes; or comm->hosts as well if ranks do on each of several hosts.
 * Collective, may wait for the others.
 */
int tt_node_comm_new(struct tutti_comm *comm);
void tt_node_comm_free(struct tutti_comm *comm);

/* short_path.c: a call made without a request. */
struct tt_quick {
	struct tt_quick_known *known;
	/* TT_QUICK_PULL: */
	struct tt_region *in, *out; /* that cover the vectors */
	char *ring;		    /* where peers can't map one of them; NULL: they can */
	bool in_ring, out_ring;	    /* what it stands for */
	bool pulled;		    /* it has combined its part, which is not to be done again */
	uint64_t fprint, seq, turn;
	uint64_t flight; /* number of its record */
};
#define TT_QUICK_NOT 1
/*
 * Without the lock, in no group: run a blocking call, which has been checked. 0: it is done if
 * *request is NULL, else it is to be waited for; TT_QUICK_NOT: nothing has happened, make a
 * request; or an error.
 */
int tt_quick_run(struct tutti_comm *comm, const struct tt_call *call,
		 struct tutti_request **request);
/* record.c: what is recorded of such calls, in_place aside */
struct tt_flight_op tt_record_quick(struct tutti_comm *comm, const struct tt_fields *fields,
				    const char *alg);
/* call.c: start a request for a call that has been made already. */
int tt_request_resume(struct tutti_request *req, const struct tt_quick *quick);

/* A request with a node plan: its lane starts when its turn has come. */
void tt_node_start(struct tt_plan_req *req);
void tt_node_ended(struct tt_plan_req *req);
void tt_node_cancel(struct tt_plan_req *req);
/*
 * Start an op of a node plan, or a copy of any plan: whether it is over already; else it is in
 * ctx->node_waits, as it waits for a
 * peer, or ctx->node_left is used up.
 */
bool tt_node_start_op(struct tt_op_run *run);
#define TT_NODE_AT_ONCE ((size_t)4 << 20) /* bytes moved before others get the lock */
/*
 * The lane has come to its end: whether results that could not be stored in place are still to be
 * copied there.
 */
bool tt_node_unbounce(struct tt_lane_run *lane);
/*
 * Ordinary memory up to here goes through the pool though peers could read it: the kernel takes
 * longer, as it looks for every page. Time of cores with 2 and 4 ranks, 256 KiB and 1 MiB: 0.5 to
 * 0.9 of that; from 4 MiB on more for some.
 */
#define TT_NODE_POOL_MOST ((size_t)1 << 20)
/* Whether n bytes may be moved now; then they are to be. */
bool tt_node_may_move(struct tutti_context *ctx, size_t n);
/* What an op that combines does. */
struct tt_node_reduce tt_node_reduction(struct tt_plan_req *req, const struct tt_op *op);
/* Count what was pulled. */
void tt_node_count_bytes(struct tutti_context *ctx, const struct tt_node_count *count);

/*
 * ring_reduce.c: memory that peers can't map, in a reduction of which each rank combines a part.
 * All for the request's current turn.
 */

/* Of a vector that is one piece for each rank. */
struct tt_node_ring tt_ring_of_one_piece(const struct tt_plan_args *args);
/*
 * Piece k of the others' parts of a vector, into this rank's ring or out of it; returns the bytes.
 */
size_t tt_ring_move(struct tt_node_group *g, const struct tt_plan_args *args,
		    const struct tt_node_ring *shape, char *ring, char *vector, uint32_t k,
		    bool in);
/* The request goes on with a quick call's, if that has one. */
void tt_ring_resume(struct tt_plan_req *req, const struct tt_quick *q);
/*
 * The turn begins: whether its first signal may publish rings, and their shape, the same on all
 * ranks.
 */
void tt_ring_begin(struct tt_plan_req *req);
/*
 * The first signal: publish a ring where one is needed; false: it is not, or there is no memory
 * for it.
 */
bool tt_ring_publish(struct tt_plan_req *req, const struct tt_op *op);
/* Then, before the signal is given: put the first pieces in; false: not yet. */
bool tt_ring_fill(struct tt_plan_req *req);
/* Whether this rank's part goes in pieces, as some rank has a ring; known after the first wait. */
bool tt_ring_is_on(struct tt_plan_req *req);
/* Combine the own part, as far as it goes now. 1: over, 0: not yet, or a negative code. */
int tt_ring_pull(struct tt_op_run *run, int *gone);
/* Whether more of it can be done now. */
bool tt_ring_ready(struct tt_op_run *run);
/* When all have combined all: take the last results out. False: not yet. */
bool tt_ring_drain(struct tt_op_run *run);
void tt_ring_end(struct tt_plan_req *req);

/*
 * crowding.c: this rank waits for one that shares its core, in this turn: perhaps it can go to
 * another.
 */
void tt_spread(const struct tutti_context *ctx, struct tt_node_comm *nc, uint64_t turn);

/* Try what waits; returns how much went on. */
int tt_node_poll(struct tutti_context *ctx);
/*
 * Whether the core is better kept than given away while ops wait: those that they wait for run
 * elsewhere. If one shares it, this rank perhaps goes to another.
 */
bool tt_node_keep_core(struct tutti_context *ctx);
/* Whether something that waits could go on. */
bool tt_node_ready(struct tutti_context *ctx);

#endif
