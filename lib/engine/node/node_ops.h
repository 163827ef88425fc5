/* SPDX-License-Identifier: BSD-3-Clause */
/* The node ops of plans; node_ops.c. Under the wire lock, except the first two. */
#ifndef TT_NODE_OPS_H
#define TT_NODE_OPS_H

#include "lib/engine/engine.h"
#include "lib/node/stores.h"
#include "lib/node/node.h"

_Static_assert(TT_SLOT_BYTES == TT_NODE_SLOT && TT_SLOT_SMALL == TT_NODE_SMALL, "slots of plans");

struct tt_short_shape;
#define TT_SHORT_BITS 4
#define TT_SHORT_SETS (1 << TT_SHORT_BITS)
#define TT_SHORT_SET 8 /* shapes kept per hash value; in all as many as plans (plans.c) */

/*
 * The ranks of a communicator that share this rank's host: all ranks, or those of a two-level
 * plan; or its NUMA node.
 */
struct tt_node_comm {
	struct tt_node_group *group;
	uint64_t uid;
	int n, *member;	    /* by place in the group: the rank in the communicator */
	int member_here;    /* the place of this rank */
	uint64_t spread_at; /* crowding.c: time of the next move at the earliest */
	uint64_t turn;	    /* of the last call */
	uint64_t begun;	    /* the last turn that has begun */
	struct tt_plan_req *running;
	atomic_bool in_short; /* a thread is in a short call: the turn is its own */
	uint64_t seq[4];      /* of the last turns' calls, by turn % 4 */
	uint64_t told;	      /* a turn in which ranks differ, reported */
	uint64_t met;	      /* the last turn in which a short call has met all ranks */
	unsigned quick;	      /* short calls so far */
	unsigned learned;     /* shapes that have replaced others */
	struct tt_stores stores;
	struct tt_stream_choice choice; /* made for a call that the short path has left */
	struct tt_short_shape *shape[TT_SHORT_SETS]; /* sets of TT_SHORT_SET, by a hash */
	/* persistent_area.c: */
	struct tt_list batches;	   /* of the communicator: of struct node_batch */
	uint64_t starts;	   /* ... a sum of hashes of its persistent operations' turns */
	struct tt_node_comm *base; /* of a persistent operation: the communicator's; else NULL */
	struct node_batch *batch;  /* ... has its area */
	uint32_t init;		   /* ... number of its _init call; else 0 */
};

/*
 * At the start: probes which memory access works between the ranks of each host, and agrees on it
 * with all ranks. Access that fails for one pair is used by no rank, as all must choose the same
 * algorithms.
 */
int tt_node_agree(struct tutti_context *ctx,
		  int (*card)(void *ctx, int rank, struct tt_node_card *));
/* A handler of the control tree. */
void tt_node_msg(void *ctx, int from, const void *data, size_t len);
/*
 * Makes comm->node if its ranks share a host and its memory; also comm->numa and comm->near if the
 * host has them on several NUMA nodes; or comm->hosts if each of several hosts has several ranks.
 * Collective. The first call on comm follows when they share their areas.
 */
int tt_node_comm_new(struct tutti_comm *comm);
/* The bytes that a rank finds in the cache, for the next calls on comm (lib/node/stores.h). */
void tt_node_comm_cache(struct tutti_comm *comm, size_t cache);
/*
 * Waits for other ranks; or, with now, is -EAGAIN if they are not there yet, under the lock. After
 * another error comm has no memory of the host.
 */
int tt_node_comm_share(struct tutti_comm *comm, bool now);
/* For a deadline, after -EAGAIN: sets the last error, why; returns -ETIMEDOUT. */
int tt_node_comm_late(const struct tutti_comm *comm);
void tt_node_comm_free(struct tutti_comm *comm);

/*
 * The memory of a host is about to be freed: reports calls that differ, which nothing that this
 * rank waited for has shown. nc may be NULL.
 */
void tt_node_check_last(struct tutti_comm *comm, struct tt_node_comm *nc);
/* node_ops.c: TT_REDUCE flags for a call on these buffers, by enum tt_buf. */
unsigned tt_node_stores(struct tt_node_comm *nc, char *const *base, const size_t *extent);

#define TT_SHORT_NOT 1
/*
 * short_path.c: runs a checked blocking call, without the lock and outside groups. 0: done if
 * *request is NULL, else wait for *request; TT_SHORT_NOT: nothing has happened, make a request; or
 * an error.
 */
int tt_short_run(struct tutti_comm *comm, const struct tt_call *call,
		 struct tutti_request **request);
/* short_shape.c */
void tt_short_new(struct tt_node_comm *nc);
void tt_short_free(struct tt_node_comm *nc);
/* The choice of algorithms has changed. */
void tt_short_forget(struct tt_node_comm *nc);
/* Published by a short call for vectors that peers cannot map. */
struct tt_short_ring {
	bool published, in, out; /* in, out: the vectors that the ring replaces */
	char *mem;		 /* NULL: there is none */
	void *pool;		 /* to be returned */
	struct tt_region *region;
};
/* Where a short call stopped. */
struct tt_short_stop {
	uint64_t fprint, seq, turn, flight;
	int round;
	unsigned step;
	struct tt_short_ring ring;
};
/* call.c: starts a request for the rest of such a call. */
int tt_request_resume(struct tutti_request *req, const struct tt_short_stop *stop);

/*
 * persistent_area.c: the area of a persistent operation, with its own turns. req->node becomes one
 * without a group, unless the area is there already.
 */
int tt_node_series_new(struct tt_plan_req *req);
void tt_node_series_free(struct tutti_comm *comm, struct tt_node_comm *nc);
/* Whether the area is there; if it never will be, fails the communicator. */
bool tt_node_series_there(struct tutti_comm *comm, struct tt_node_comm *nc);
/* The communicator of nc is freed. */
void tt_node_batches_free(struct tutti_comm *comm, struct tt_node_comm *nc);
struct tt_node_params tt_node_params_of(struct tutti_comm *comm, const struct tt_node_comm *nc,
					const int *world, const int *numa);

/* A request with a node plan: its lane starts when its turn has come. */
void tt_node_start(struct tt_plan_req *req);
void tt_node_ended(struct tt_plan_req *req);
void tt_node_cancel(struct tt_plan_req *req);
/* As struct tt_request_ops.fence. */
bool tt_node_fence(struct tt_plan_req *req);
/*
 * Starts an op of a node plan, or a copy of any plan; returns whether it is over. If not, it is in
 * ctx->node_waits: it waits for a peer, or ctx->node_left is used up.
 */
bool tt_node_start_op(struct tt_op_run *run);
#define TT_NODE_AT_ONCE ((size_t)4 << 20) /* bytes moved before the lock is released */
/*
 * The lane has ended: whether results that could not be stored in place still have to be copied
 * there.
 */
bool tt_node_unbounce(struct tt_lane_run *lane);
/*
 * Ordinary memory up to this size goes through the pool even if several peers could read all of it:
 * the kernel takes longer, as it looks up every page. Not a short bcast, see node_ops.c. Core time
 * with 4 ranks, 256 KiB and 1 MiB: 0.5 to 0.9 of direct reads; from 4 MiB on more for some. With
 * one reader (tt_node_direct) it is slower.
 */
#define TT_NODE_POOL_MOST ((size_t)1 << 20)
/* How such a call publishes inputs that peers cannot map. */
enum tt_node_how tt_node_how(enum tt_coll coll);
/* Of ops with TT_OPF_STREAMED or TT_OPF_ELSE, once the peer has given its signal. */
bool tt_node_op_applies(const struct tt_plan_req *req, const struct tt_op *op);
/* Whether n bytes may be moved now; if so, they must be. */
bool tt_node_may_move(struct tutti_context *ctx, size_t n);
/* The reduction of an op that combines. */
struct tt_node_reduce tt_node_reduction(struct tt_plan_req *req, const struct tt_op *op);
/* The length of the input that a signal publishes, out of buffers of these lengths. */
static inline size_t tt_node_input_len(const struct tt_op *op, const size_t *extent)
{
	if (op->len)
		return op->len;
	return extent[op->a.buf] > op->a.off ? extent[op->a.buf] - op->a.off : 0;
}
/* Peers know published memory as the input (to read) or the result (to write). */
static inline struct tt_node_ref tt_node_ref_of(struct tt_ref ref)
{
	return (struct tt_node_ref){ref.buf == TT_BUF_SLOT   ? TT_NODE_SLOTS
				    : ref.buf == TT_BUF_RECV ? TT_NODE_RESULT
							     : TT_NODE_INPUT,
				    ref.off};
}
/* The number that a peer, which has filled its slot, tells there: TT_OP_TELL_LENGTH. */
static inline size_t tt_node_told(const struct tt_node_group *g, uint64_t turn, int peer,
				  struct tt_ref at)
{
	const char *slot = tt_node_slot_of(g, peer, turn);
	uint64_t told;

	memcpy(&told, slot + at.off, sizeof(told));
	return told;
}
/* Whether it tells the length that op expects. */
static inline bool tt_node_tells(const struct tt_node_group *g, uint64_t turn, int peer,
				 const struct tt_op *op)
{
	return tt_node_told(g, turn, peer, op->a) == op->b.off;
}

/* The length that op tells, to this rank's slot. */
static inline void tt_node_tell_length(char *slot, const struct tt_op *op)
{
	uint64_t len = op->b.off;

	memcpy(slot + op->dst.off, &len, sizeof(len));
}

/* Counts pulled bytes. */
void tt_node_count_bytes(struct tutti_context *ctx, const struct tt_node_count *count);

/*
 * ring_reduce.c: memory that peers cannot map, in a reduction of which each rank combines a part.
 * All for the request's current turn.
 */

/*
 * The rings of such calls, the same on all ranks, and how many pieces each part has; 0: they use
 * none.
 */
uint32_t tt_ring_shape(const struct tt_plan_args *args, struct tt_node_ring *shape);
/* Their kind and the bytes of a vector, for tt_node_way. */
unsigned tt_ring_kind(enum tt_coll coll);
size_t tt_ring_vector(const struct tt_plan_args *args);
/* tt_node_mapped_way; 0: peers store nothing in each other's results. */
unsigned tt_ring_mapped_way(const struct tt_node_group *g, const struct tt_plan_args *args);
/*
 * Memory for a ring of so many bytes: in the slot, or else, *pool to be returned, in the pool.
 * NULL: there is none.
 */
char *tt_ring_memory(struct tutti_context *ctx, struct tt_node_group *g, uint64_t turn,
		     size_t bytes, void **pool, struct tt_region **region);
/*
 * Copies piece k of the other ranks' parts of a vector into this rank's ring or out of it; returns
 * the bytes.
 */
size_t tt_ring_move(struct tt_node_group *g, const struct tt_plan_args *args,
		    const struct tt_node_ring *shape, char *ring, char *vector, uint32_t k,
		    bool in);
/* The turn has ended without a failure. */
void tt_ring_over(struct tt_plan_req *req);
/* The other ranks' parts of a result, which they have stored here. */
void tt_ring_hand_back(const struct tt_plan_args *args, char *result);
/* The request continues with the ring of a short call, if that has one. */
void tt_ring_resume(struct tt_plan_req *req, const struct tt_short_ring *short_ring);
/*
 * The turn begins: decides whether its first signal may publish rings, and their shape, the same
 * on all ranks.
 */
void tt_ring_begin(struct tt_plan_req *req);
/*
 * The first signal: publishes a ring where one is needed; false: not needed, or no memory for it.
 */
bool tt_ring_publish(struct tt_plan_req *req, const struct tt_op *op);
/* Before that signal is given: puts the first pieces in; false: not yet. */
bool tt_ring_fill(struct tt_plan_req *req);
/*
 * Whether this rank's part is split into pieces, as some rank has a ring; known after the first
 * wait.
 */
bool tt_ring_is_on(struct tt_plan_req *req);
/* Combines this rank's part as far as possible now. 1: over, 0: not yet, or a negative code. */
int tt_ring_pull(struct tt_op_run *run, int *gone);
/* Whether more of it can be combined now. */
bool tt_ring_ready(struct tt_op_run *run);
/* When all ranks have combined all: takes the last results out. False: not yet. */
bool tt_ring_drain(struct tt_op_run *run);
void tt_ring_end(struct tt_plan_req *req);

/*
 * stream_input.c: an input of ordinary memory that peers cannot read, or which had better be
 * streamed, in calls that copy. All for the request's current turn.
 */

/* Whether a blocking call of two ranks, number seq, streams an input that the peer could read. */
struct tt_stream_choice tt_stream_choose(struct tutti_comm *comm, enum tt_coll coll, size_t len,
					 uint64_t seq);
/*
 * The same for the input of a request, unless the short path has chosen already. True: the stream
 * is published.
 */
bool tt_stream_instead(struct tt_plan_req *req, struct tt_ref ref, size_t len);

/* Publishes a stream of len bytes. 1: done, 0: not for this call, or a negative code. */
int tt_stream_publish(struct tt_plan_req *req, struct tt_ref ref, size_t len);
/* Whether the signal may be given: readers find something to do. */
bool tt_stream_begun(struct tt_plan_req *req);
/*
 * Whether copies of a call take turns, piece by piece, so that none holds up a stream: its caller
 * waits, each rank has a core, and inputs may be streams.
 */
#define TT_STREAM_STEP ((size_t)128 << 10) /* about so many bytes of each */
bool tt_stream_in_step(const struct tt_plan_req *req);
/* Puts in as many pieces as have room now; returns whether there was one. */
bool tt_stream_feed(struct tt_plan_req *req);
/* Whether some are still to be put in. */
bool tt_stream_hungry(const struct tt_plan_req *req);
/* Copies of a peer's stream what is there. 1: over, 0: not yet, or a negative code. */
int tt_stream_pull(struct tt_op_run *run, int from, struct tt_node_ref src, char *dst, int *gone);
/* Whether some is there. */
bool tt_stream_there(const struct tt_op_run *run, int from, struct tt_node_ref src);
void tt_stream_end(struct tt_plan_req *req);

/*
 * crowding.c: in this turn this rank waits for a rank on its own core: may move it to another
 * core.
 */
void tt_spread(const struct tutti_context *ctx, struct tt_node_comm *nc, uint64_t turn);

/* Retries waiting ops; returns the amount of progress. */
int tt_node_poll(struct tutti_context *ctx);
/*
 * Whether keeping the core is better than yielding while ops wait: the awaited ranks run
 * elsewhere. If one shares the core, this rank may move to another core.
 */
bool tt_node_keep_core(struct tutti_context *ctx);
/* Whether a waiting op could go on. */
bool tt_node_ready(struct tutti_context *ctx);

#endif
