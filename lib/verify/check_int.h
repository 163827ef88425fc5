/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the checker.
 *
 *	check.c		flattens the plans of all ranks and runs the parts below
 *	check_args.c	the arguments: those of each rank, and that they agree
 *	check_static.c	what can be said without running: bounds, messages pair up, no hazards
 *	check_value.c	symbolic values: initial contents, what ops do to them
 *	check_code.c	what encodings are, and decode to
 *	check_weigh.c	weighted sums of neighbours
 *	check_verdict.c	whether they are right in the end
 *	check_run.c	the channel in small: credits, offers, rounds, deadlock
 *	check_net.c	what all calls share: who goes on next; messages in pieces
 *	check_calls.c	several calls at once, in any order of their pieces
 *	check_node.c	node ops: who touches whose buffer when
 *	check_turns.c	when calls of one communicator start, and their turns begin; slots
 */
#ifndef TT_CHECK_INT_H
#define TT_CHECK_INT_H

#include "lib/base/hash_map.h"
#include "lib/verify/check.h"

/*
 * A symbolic element. tree is a hash of the expression it was computed by, operand order included;
 * sum adds up a random number of each contribution, so it is right only if each is in it once. lo
 * and hi: it combines the contributions of the ranks lo up to hi - 1 in this order; hi 0: in
 * another one. quantized: how often, at most. A cell of an encoding has its number in coded, from
 * 1 on, and the cell's in cell.
 */
struct ck_val {
	uint64_t tree, sum;
	uint32_t divided; /* times */
	int lo, hi;
	uint32_t quantized, coded;
	size_t cell;
	bool set;     /* has a value */
	bool written; /* by an op */
};

struct ck_op {
	struct tt_op op;
	int lane; /* number in struct tt_checker's lanes */
	int round;
	uint32_t msg;
	bool done;
};

enum ck_msg_state {
	CK_IDLE,
	CK_SENT,    /* eager: under way or parked at the receiver */
	CK_ASKED,   /* would be eager, but there is no credit: waits for an offer */
	CK_OFFERED, /* there is one in the sender's ring */
	CK_READY,   /* the sender has read it */
	CK_CUT,	    /* its pieces are on their way */
	CK_TAKEN
};

struct ck_msg {
	uint32_t send, recv; /* ops */
	enum ck_msg_state state;
	struct ck_val *payload; /* of an eager message under way */
	uint32_t next;		/* in the sender's ring */
};

struct ck_lane {
	int rank, lane;
	uint32_t first; /* entry of round 0 in begin[]; nrounds + 1 entries */
	int nrounds, round;
	uint32_t left; /* ops of the current round not done */
	bool queued;
};

struct ck_buf {
	struct ck_val *val;
	size_t n; /* elements */
};

/* An encoding: the values that it decodes to. */
struct ck_coded {
	struct ck_val *val;
	size_t place, len; /* of these bytes in the vector */
};

struct ck_node; /* check_node.c */

/*
 * Something that can go on: a lane, a rank that can empty its offer rings or start the call, or a
 * pair (of no call) of which pieces can be sent or arrive; action: which of them.
 */
struct ck_item {
	struct tt_checker *c;
	enum { CK_LANE, CK_RING, CK_START, CK_PIECES } kind;
	int which, action;
};

/* A message that travels in pieces into its offer. */
struct ck_cut {
	struct tt_checker *c;
	uint32_t msg;
	uint64_t pieces, sent, landed;
	struct ck_val *payload;
	struct ck_cut *next; /* of its pair */
};

/* From one rank to another, for all calls. */
struct ck_pair {
	int credits, offers;	    /* in use */
	uint64_t under_way, places; /* pieces; of them and of those that hold a place */
	struct ck_cut *cuts;
	bool queued;
};

/* How many turns of a communicator at a rank: called, begun, ended. */
struct ck_turns {
	int given, begun, ended;
};

/* A rank has two slots in a communicator's memory: the turns of what is there, and of the flag. */
struct ck_slot {
	int data, flag;
};

/* The choices of a run, each one of so many; and the states in which one was made, of all runs. */
struct ck_script {
	int *choice, *of;
	int n, room, at;
	struct tt_map states; /* their hashes */
	bool known;	      /* the run has come to a state that an earlier one has seen */
};

/* Shared by the calls that are checked together. */
struct ck_net {
	struct tt_checker *call;
	int ncalls, n; /* n: ranks */
	struct tt_check_opts opts;
	struct ck_pair *pairs;	/* by sender and receiver */
	struct ck_turns *turns; /* by communicator and rank */
	struct ck_slot *slots;	/* the same, and by the last bit of the turn */
	struct ck_item *queue;
	int nqueue;
	uint64_t random;
	struct ck_script *script; /* NULL: by the seed */
};

struct tt_checker {
	struct ck_net *net; /* while it runs */
	const int *after;   /* see struct tt_check_call */
	int number;	    /* of the call; -1: there is one only */
	int comm;	    /* see struct tt_check_call */
	struct tt_plan *const *plans;
	int n;			  /* ranks */
	struct tt_plan_args args; /* rank 0's, for values that are equal on all ranks */
	struct tt_check_opts opts;
	struct ck_op *ops;
	uint32_t nops;
	uint32_t *begin; /* first op of each round */
	struct ck_lane *lanes;
	int nlanes, *rank_lanes; /* lanes of rank r: rank_lanes[r] up to rank_lanes[r + 1] */
	struct ck_msg *msgs;
	uint32_t nmsgs;
	/* check_value.c */
	struct ck_buf *bufs; /* by rank and enum tt_buf */
	struct ck_val *vals; /* all of them */
	struct ck_val *tmp;  /* the longest op's worth */
	/* check_code.c */
	struct ck_coded *coded;
	uint32_t ncoded, room;
	/*
	 * barrier: which ranks' starts a lane (at the start of its round, and at its end) and a
	 * message know of
	 */
	size_t words;
	uint64_t *known, *learnt, *told;
	/* check_run.c */
	uint32_t *ring;		 /* by sender: last message offered + 1, 0: none */
	bool *ring_queued;	 /* by rank, as the following */
	bool *offered, *started; /* the start is in the queue, or has been */
	bool *begun;		 /* its lanes run, after those of earlier turns */
	int *turn;
	int *left;	      /* by rank: lanes that have not ended */
	struct ck_node *node; /* NULL: there are no node ops */
};

#define CK_BLOCKED 1 /* an op that can't be done yet */

static inline bool ck_is_recv(const struct tt_op *op)
{
	return op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE;
}

static inline bool ck_is_message(const struct tt_op *op)
{
	return op->kind == TT_OP_SEND || ck_is_recv(op);
}

static inline bool ck_is_code(const struct tt_op *op)
{
	return op->kind >= TT_OP_ENCODE && op->kind <= TT_OP_DECODE_ADD;
}

static inline const struct ck_lane *ck_lane_of(const struct tt_checker *c, const struct ck_op *op)
{
	return &c->lanes[op->lane];
}

/* Is this rank's sendbuf its recvbuf? In place it is, but for the root of a scatter. */
static inline bool ck_one_buffer(const struct tt_plan_args *a)
{
	return a->in_place && a->coll != TT_COLL_SCATTER && a->coll != TT_COLL_SCATTERV;
}

/* The buffer after resolving in-place calls. */
static inline enum tt_buf ck_real(const struct tt_checker *c, int rank, enum tt_buf buf)
{
	return buf == TT_BUF_SEND && ck_one_buffer(&c->plans[rank]->args) ? TT_BUF_RECV : buf;
}

/* "rank 3, lane 0, round 2, send of 12 bytes to rank 4"; valid until the call after next. */
const char *tt_ck_where(const struct tt_checker *c, const struct ck_op *op);
const char *tt_ck_buf_name(enum tt_buf buf);
size_t tt_ck_buf_bytes(const struct tt_checker *c, int rank, enum tt_buf buf);

int tt_ck_check_args(const struct tt_checker *c);

int tt_ck_check_bounds(const struct tt_checker *c);
int tt_ck_match_messages(struct tt_checker *c);
int tt_ck_check_hazards(const struct tt_checker *c);

int tt_ck_values_init(struct tt_checker *c);
void tt_ck_values_free(struct tt_checker *c);
struct ck_buf *tt_ck_buf(const struct tt_checker *c, int rank, enum tt_buf buf);
/* The initial value of element e of this rank's input. */
struct ck_val tt_ck_input(int rank, size_t e);
/* Reads the data that a sends into out; -EINVAL if a byte was never written. */
int tt_ck_read(const struct tt_checker *c, const struct ck_op *op, struct tt_ref a,
	       struct ck_val *out);
/* Receive, reduce or copy; net is what arrives. */
int tt_ck_apply(struct tt_checker *c, const struct ck_op *op, const struct ck_val *net);

/* a (+) b; v divided by the number of ranks. */
struct ck_val tt_ck_combine(const struct ck_val *a, const struct ck_val *b);
void tt_ck_divide(struct ck_val *v);

/* check_code.c: bytes of dst, a and b; bounds; ops that encode and decode. */
size_t tt_ck_dst_len(const struct tt_checker *c, const struct tt_op *op);
size_t tt_ck_b_len(const struct tt_checker *c, const struct tt_op *op);
size_t tt_ck_a_len(const struct tt_checker *c, const struct tt_op *op);
int tt_ck_check_code(const struct tt_checker *c, const struct ck_op *op);
int tt_ck_code(struct tt_checker *c, const struct ck_op *op);
/* The head that tells how many bytes travel; TT_BUF_NONE: their number is fixed. */
struct tt_ref tt_ck_head(const struct ck_op *op);
/* Whether this rank has it when these cells travel. */
int tt_ck_check_head(const struct tt_checker *c, const struct ck_op *op, const struct ck_val *sent);
void tt_ck_coded_free(struct tt_checker *c);
/* The initial value of element e of a rank's residual, from earlier calls. */
struct ck_val tt_ck_residual(int rank, size_t e);

/*
 * check_weigh.c: bytes from b on; as many slots as in-neighbours; the op itself; the sum that a
 * rank's element must have.
 */
size_t tt_ck_weigh_len(const struct tt_checker *c, const struct tt_op *op);
int tt_ck_check_weigh(const struct tt_checker *c, const struct ck_op *op);
int tt_ck_weigh(struct tt_checker *c, const struct ck_op *op);
uint64_t tt_ck_weighed_sum(const struct tt_checker *c, int rank, size_t e);
/* The place of the block from rank `from` to rank `to` in from's sendbuf, in blocks. */
int tt_ck_out_index(const struct tt_checker *c, int from, int to);

/* Runs calls that have been prepared (tt_ck_prepare), on one network. */
int tt_ck_run(struct ck_net *net);
int tt_ck_prepare(struct tt_checker *c, struct tt_plan *const *plans, int n,
		  const struct tt_check_opts *opts);
void tt_ck_free(struct tt_checker *c);
/* The plans of all ranks; free them after a failure, too. */
int tt_ck_build(const struct tt_alg *alg, const struct tt_plan_args *args, struct tt_plan ***plans);
void tt_ck_plans_free(struct tt_plan **plans, int n);
/* Both ends of a message have done their ops. */
int tt_ck_delivered(struct tt_checker *c, uint32_t msg, const struct ck_val *payload);

/*
 * check_turns.c: whether a rank may start a call, for the first time; then its turn, if it is one;
 * whether that begins now; it has ended.
 */
bool tt_ck_may_start(const struct tt_checker *c, int rank);
void tt_ck_give_turn(struct tt_checker *c, int rank);
bool tt_ck_begin(struct tt_checker *c, int rank);
void tt_ck_end_turn(struct tt_checker *c, int rank);

/*
 * A rank's slot is written or read, in the turn of this call; or its flag, which tells its steps.
 * -EINVAL: another turn is there.
 */
int tt_ck_touch_slot(const struct tt_checker *c, int rank, bool write, const struct ck_op *op);
int tt_ck_touch_flag(const struct tt_checker *c, int rank, bool write, const struct ck_op *op);
/* Whether others read what this rank publishes as input in its slot. */
bool tt_ck_copies(const struct tt_checker *c, int rank);

/* check_net.c */
int tt_ck_net_init(struct ck_net *net);
void tt_ck_net_free(struct ck_net *net);
struct ck_pair *tt_ck_pair(struct tt_checker *c, const struct ck_msg *m);
void tt_ck_enqueue(struct ck_net *net, struct ck_item item, bool *queued);
/* Takes out who goes on. 1: done; 0: nobody can, or the script needs no more; or an error. */
int tt_ck_dequeue(struct ck_net *net, struct ck_item *item);
/* The message goes in pieces from now on; takes payload. */
int tt_ck_cut(struct tt_checker *c, uint32_t msg, struct ck_val *payload);
/* A piece of a pair is sent, or arrives. */
int tt_ck_piece(struct ck_net *net, int pair, int action);

/*
 * check_calls.c: one of n, at this point of the run. 1: chosen; 0: an earlier run was in this
 * state; or an error.
 */
int tt_ck_choose(struct ck_net *net, int n, int *choice);

/*
 * check_node.c; but for the first three, nothing without node ops. tt_ck_node_op: 0, CK_BLOCKED or
 * an error.
 */
int tt_ck_node_init(struct tt_checker *c);
int tt_ck_node_op(struct tt_checker *c, const struct ck_op *op);
bool tt_ck_near(const struct tt_checker *c, int a, int b); /* do these ranks share a host? */
void tt_ck_node_free(struct tt_checker *c);
/* Other ops: their accesses; the clock that a message carries. */
int tt_ck_node_touch(struct tt_checker *c, const struct ck_op *op);
void tt_ck_node_tell(struct tt_checker *c, const struct ck_op *send);
void tt_ck_node_learn(struct tt_checker *c, const struct ck_op *recv);
/* The end of a lane's round, perhaps its last. */
int tt_ck_node_round(struct tt_checker *c, int lane, bool last);
/* For the verdict on a barrier: the ranks that lanes know to have entered. */
void tt_ck_node_known(struct tt_checker *c);

int tt_ck_verdict(const struct tt_checker *c);

#endif
