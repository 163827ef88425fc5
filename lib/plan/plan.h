/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective is data: a plan of lanes x rounds x ops for one rank.
 *
 * The ops of a round run together; the rounds of a lane run in order; lanes are independent, and
 * that is where pipelining comes from. Algorithms (lib/coll) are pure functions that emit a plan
 * through the builder below; the engine executes it, the checker proves it, the counters count it,
 * the simulator times it. Offsets and lengths are bytes, always whole elements.
 */
#ifndef TT_PLAN_H
#define TT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/plan/edges.h"

enum tt_op_kind {
	TT_OP_SEND = 1,	   /* a -> peer */
	TT_OP_RECV,	   /* peer -> dst; if peer is dead and a is there, a takes its place */
	TT_OP_RECV_REDUCE, /* dst = a (+) b where one of a, b is TT_BUF_NET: what peer sends */
	TT_OP_REDUCE,	   /* dst = a (+) b */
	TT_OP_COPY,	   /* dst = a */
	/*
	 * By args->edges: dst = own weight * a + weight * each in-neighbour's vector, in order of
	 * rank. peer: how many in-neighbours; their vectors are at b, index elements apart.
	 * TT_OPF_HOST: the mean of a and the vectors of the other ranks of this host.
	 */
	TT_OP_WEIGH,
	/*
	 * By args->codec. len is that of the vector, tt_coded of it that of the encoding, with its
	 * head if its length varies; b.off is the place of these bytes in the vector.
	 */
	TT_OP_ENCODE,	  /* p = a + b, dst = C(p), b = p - D(dst); b.buf TT_BUF_NONE: dst = C(a) */
	TT_OP_DECODE,	  /* dst = D(a), which is peer's */
	TT_OP_MERGE,	  /* dst = a (+) b, sums of lists: tt_coded_sum; of whole vectors */
	TT_OP_DECODE_ADD, /* dst = dst (+) D(a), which is peer's */
	/*
	 * On mapped memory of one host, lib/coll/node/coll_node.h; peers, and all ranks, are those
	 * of this rank's host. Refs name places in other ranks' buffers. A rank publishes buffers
	 * in a SIGNAL; a rank that accesses them has waited for it.
	 */
	TT_OP_PULL_REDUCE, /* dst of peer (TT_ALL_RANKS: of all) = all ranks' a, combined in order
			      of rank; index > 0: those of the first index ranks only; b: this
			      rank's operand in place of its a, not published */
	TT_OP_PULL_COPY,   /* dst = a of peer */
	TT_OP_PUSH,	   /* dst of peer (TT_ALL_RANKS: of all others) = a */
	/*
	 * Of a block whose length only two ranks know, b.off bytes: the sender writes the length
	 * to dst, in its slot; the receiver expects it at a, in that of peer. Either also
	 * tells where a block begins in its buffer.
	 */
	TT_OP_TELL_LENGTH,
	TT_OP_EXPECT_LENGTH,
	/*
	 * This rank has reached step index, from 1 on; other ranks may read a and write dst. len
	 * is that of a, 0: the rest of its buffer.
	 * TT_NEXT_STEP: one step more than before, in any lane, so the last lane to end signals
	 * for all.
	 */
	TT_OP_SIGNAL,
	TT_OP_WAIT /* until peer (TT_ALL_RANKS: each) has reached step index */
};

#define TT_LENGTH_BYTES 8 /* of a length in a slot */
#define TT_ALL_RANKS (-1)
#define TT_NEXT_STEP 0
#define TT_STEPS_MAX 255

enum tt_buf {
	TT_BUF_NONE = 0,
	TT_BUF_SEND,	/* the caller's sendbuf; the recvbuf when in place */
	TT_BUF_RECV,	/* the caller's recvbuf; for bcast its only buffer */
	TT_BUF_SCRATCH, /* plan->scratch bytes of registered memory, this rank's own */
	TT_BUF_SLOT, /* node plans: TT_SLOT_BYTES of this rank that all ranks may read once it has
			signalled */
	TT_BUF_RESIDUAL, /* what encodings have left out so far, of the whole vector */
	TT_BUF_NET	 /* the bytes arriving in this op */
};

struct tt_ref {
	enum tt_buf buf;
	size_t off;
};

#define TT_SLOT_BYTES ((size_t)32 << 10)
#define TT_SLOT_SMALL ((size_t)3 << 10) /* of a persistent operation */

enum tt_op_flags {
	TT_OPF_DIVIDE = 1, /* after combining: divide dst by the number of ranks (avg) */
	/*
	 * SEND, RECV of an encoding whose length varies, or of a piece of it: len is the most. The
	 * bytes that travel are those that the head at b tells, which is there since an earlier
	 * round, and the encoding follows its head.
	 */
	TT_OPF_VARIES = 2,
	TT_OPF_SUM = 4,	     /* ENCODE, DECODE: the encoding is a sum of lists, at first of one */
	TT_OPF_MORE = 8,     /* VARIES: another piece follows */
	TT_OPF_HOST = 16,    /* WEIGH: the ranks of a host, not the neighbours; PULL_REDUCE: divide
				by the ranks of the host */
	TT_OPF_RELEASE = 32, /* WAIT: only until peers have read what this rank has published */
	TT_OPF_TOLD = 64,    /* PULL_COPY: a.off more, PUSH: dst.off more, as peer tells at b, in
				its slot */
	/* If an input that peers could read is streamed (lib/node/node.h) all the same: */
	TT_OPF_STREAMED = 128, /* PULL_COPY: only if that of the peer is */
	TT_OPF_ELSE = 256      /* PULL_COPY, PUSH: only if that of the peer, of this rank, is not */
};

struct tt_op {
	enum tt_op_kind kind;
	unsigned flags;
	int peer;	/* rank in the communicator */
	uint32_t index; /* number of the message to/from this peer in this lane, from 0; set by
			   the builder */
	struct tt_ref dst, a, b;
	size_t len;   /* bytes */
	size_t usual; /* of encodings that vary: bytes that cost time, about; 0: len */
};

static inline bool tt_op_applies(const struct tt_op *op, bool streamed)
{
	return !(op->flags & (streamed ? TT_OPF_ELSE : TT_OPF_STREAMED));
}

/* The collectives; v forms take counts per rank and are calls of their own, as in MPI. */
enum tt_coll {
	TT_COLL_ALLREDUCE,
	TT_COLL_BCAST,
	TT_COLL_BARRIER,
	TT_COLL_REDUCE,
	TT_COLL_REDUCE_SCATTER_BLOCK,
	TT_COLL_REDUCE_SCATTER,
	TT_COLL_ALLGATHER,
	TT_COLL_ALLGATHERV,
	TT_COLL_GATHER,
	TT_COLL_GATHERV,
	TT_COLL_SCATTER,
	TT_COLL_SCATTERV,
	TT_COLL_ALLTOALL,
	TT_COLL_ALLTOALLV,
	TT_COLL_SCAN,
	TT_COLL_EXSCAN,
	TT_NUM_COLLS,
	TT_COLL_ALLTOALLW = TT_NUM_COLLS, /* no plan: lib/engine/alltoallw.c */
	/* On args->edges; each has one algorithm: lib/coll/p2p/neighbors.c, neighbors_hier.c. */
	TT_COLL_NEIGHBOR_ALLREDUCE,
	TT_COLL_NEIGHBOR_ALLGATHER,
	TT_COLL_NEIGHBOR_ALLTOALL,
	TT_COLL_NEIGHBOR_HIER_ALLREDUCE, /* the graph is one of args->hosts */
	TT_ALL_COLLS
};

static inline bool tt_coll_neighbors(enum tt_coll coll)
{
	return coll >= TT_COLL_NEIGHBOR_ALLREDUCE && coll < TT_ALL_COLLS;
}

/*
 * Whether it goes on in a tolerant communicator after a death. The ranks of a host that is a
 * neighbour depend on each other: their call fails as other collectives do.
 */
static inline bool tt_coll_outlives(enum tt_coll coll)
{
	return tt_coll_neighbors(coll) && coll != TT_COLL_NEIGHBOR_HIER_ALLREDUCE;
}

/*
 * Ranks on several hosts whose memory those of a host share, two or more on at least one of them.
 * Hosts are in order of their lowest ranks, and so are the ranks of a host. All hosts have as many
 * places as the largest has ranks; where there are fewer ranks they take the places in turns, so
 * that each place pairs up across hosts.
 */
struct tt_hosts {
	int hosts, places, least; /* least: ranks on any host */
	bool in_order;		  /* the ranks of a host follow one another */
	const int *host, *local;  /* by rank: its host, and its number on that host, which is its
				     first place */
	const int *size;	  /* by host: ranks */
	const int *rank;	  /* by host and place there: [host * places + place] */
};
/*
 * hosts.c. by: a number for each rank's host. *hosts is NULL if they are not like that. free() it.
 */
int tt_hosts_new(const uint64_t *by, int nranks, struct tt_hosts **hosts);
/* The same of ranks on any hosts: on one, or each on its own, too. */
int tt_hosts_any(const uint64_t *by, int nranks, struct tt_hosts **hosts);
/* A layout that repeats: ranks fill one host after the other, size[i] on each of n hosts. */
int tt_hosts_sized(int nranks, const int *sizes, int n, struct tt_hosts **hosts);
int tt_hosts_blocks(int nranks, int each, struct tt_hosts **hosts);

/* A codec as plans see it: lib/codec/codec.h. */
struct tutti_codec;
struct tt_plan_codec {
	struct tutti_codec *codec;
	size_t (*bound)(const struct tutti_codec *codec, size_t count); /* bytes, at most */
	/*
	 * Elements: parts that are encoded begin at multiples of it. 0: only the whole vector is
	 * encoded.
	 */
	size_t align;
	bool varies;	       /* the bytes of an encoding: each has a head, which tells them */
	bool sparse;	       /* encodings are lists, and lists can be added */
	double encode, decode; /* ns per byte of the vector; 0: the model's */
};
/* From a codec of lib/codec, for files that may include that. */
#define TT_PLAN_CODEC(c)                                                                           \
	((struct tt_plan_codec){.codec = (c),                                                      \
				.bound = tt_codec_bound,                                           \
				.align = tt_codec_align(c),                                        \
				.varies = !tt_codec_fixed(c) || !tt_codec_align(c),                \
				.sparse = tt_codec_sparse(c),                                      \
				.encode = tt_codec_cost(c).encode,                                 \
				.decode = tt_codec_cost(c).decode})

/* In memory before an encoding whose length varies, and travels before it. */
struct tt_coded_head {
	uint64_t len; /* bytes of the encoding; of a sum of lists that is none, with this bit: */
};
#define TT_CODED_DENSE (1ull << 63) /* the vector as it is, once that is shorter than the list */

/*
 * The ways to sum lists once all ranks know the lengths of all of them: gather the lists, add them
 * up as lists, or add up the vectors that they stand for.
 */
enum tt_branch { TT_BRANCH_GATHER, TT_BRANCH_MERGE, TT_BRANCH_DENSE, TT_BRANCHES };

/*
 * Arguments of a plan: equal on all ranks except rank itself, in_place of rooted collectives,
 * feedback, and the counts of v forms that only some ranks know:
 *
 *	reduce_scatter	rcounts, on all ranks
 *	allgatherv	rcounts, on all ranks; rdispls, each rank's own, or NULL: in sequence
 *	gatherv		count, this rank's own; rcounts, rdispls, at the root only
 *	scatterv	count, this rank's own; scounts, sdispls, at the root only
 *	alltoallv	all four, each rank's own; in place only rcounts, rdispls
 *
 * All in elements, nranks of each; NULL if not named. count of other collectives: that of the
 * vector (reductions, bcast, scans), or of one block (reduce_scatter_block, allgather, gather,
 * scatter, alltoall).
 */
struct tt_plan_args {
	enum tt_coll coll;
	int rank, nranks, root;
	size_t count;			   /* elements */
	size_t elem;			   /* bytes of one */
	bool in_place;			   /* MPI_IN_PLACE on this rank; see tt_input */
	bool divide;			   /* op is avg */
	bool ordered;			   /* op does not commute: operands combine in rank order */
	bool node;			   /* all ranks share a host and its memory */
	bool direct;			   /* and reach each other's ordinary memory */
	bool persistent;		   /* its slot has TT_SLOT_SMALL bytes */
	bool feedback;			   /* this rank has TT_BUF_RESIDUAL */
	const struct tt_plan_codec *codec; /* vectors travel encoded; NULL: as they are */
	const struct tt_hosts *hosts;	   /* NULL: no plans in two levels */
	size_t list;			   /* of lists: bytes of one, about; 0: of the longest */
	/* of lists whose lengths follow the data: tt_list_branch; by tt_choose */
	size_t upto[TT_BRANCHES - 1];
	size_t chunk; /* longest message in bytes, a multiple of elem (at least one element) */
	int lanes;    /* maximum number of lanes */
	const size_t *scounts, *sdispls, *rcounts, *rdispls;
	const struct tt_edges *edges; /* of neighbours, or neighbouring hosts; else NULL */
};

/* Which rank of args->edges this rank is: in two levels, its host. */
static inline int tt_edges_rank(const struct tt_plan_args *args)
{
	return args->coll == TT_COLL_NEIGHBOR_HIER_ALLREDUCE ? args->hosts->host[args->rank]
							     : args->rank;
}

static inline size_t tt_slot_bytes(const struct tt_plan_args *args)
{
	return args->persistent ? TT_SLOT_SMALL : TT_SLOT_BYTES;
}

/* Bytes that the encoding of len bytes of a vector takes at most, in whole elements. */
static inline size_t tt_coded(const struct tt_plan_args *args, size_t len)
{
	size_t n = args->codec->bound(args->codec->codec, len / args->elem);

	if (args->codec->varies && len)
		n += sizeof(struct tt_coded_head);
	return (n + args->elem - 1) / args->elem * args->elem;
}

/* The same of a sum of lists. */
static inline size_t tt_coded_sum(const struct tt_plan_args *args, size_t len)
{
	size_t list = tt_coded(args, len), dense = len + sizeof(struct tt_coded_head);

	return list > dense ? list : dense;
}

/* Bytes of a list that cost time, about, without its head. */
static inline size_t tt_usual_list(const struct tt_plan_args *args)
{
	size_t most = tt_coded(args, args->count * args->elem);

	most -= most ? sizeof(struct tt_coded_head) : 0;
	return args->list && args->list < most ? args->list : most;
}

/* The same of the sum of so many ranks' lists, if they name different elements. */
static inline size_t tt_usual_sum(const struct tt_plan_args *args, size_t ranks)
{
	size_t len = args->count * args->elem, list = tt_usual_list(args);

	return list < len / ranks ? list * ranks : len;
}

/* By the bytes of all ranks' lists together: the same on all ranks. */
static inline enum tt_branch tt_list_branch(const struct tt_plan_args *args, uint64_t bytes)
{
	uint64_t mean = bytes / (uint64_t)args->nranks;

	return mean <= args->upto[TT_BRANCH_GATHER]  ? TT_BRANCH_GATHER
	       : mean <= args->upto[TT_BRANCH_MERGE] ? TT_BRANCH_MERGE
						     : TT_BRANCH_DENSE;
}

/* Bytes of a vector that are encoded together. */
static inline size_t tt_codec_unit(const struct tt_plan_args *args)
{
	return (args->codec->varies ? args->count : args->codec->align) * args->elem;
}

struct tt_plan;

/* Position in a sliced algorithm: slice s is turn s / lanes of lane s % lanes. */
struct tt_step {
	size_t slice;
	uint32_t turn;
	int lane, step;
};

/*
 * A sliced algorithm: the vector consists of slices that all take the same steps; a lane processes
 * its slices one after the other. fn writes this rank's ops of a step of a slice, perhaps none;
 * they are a round of their own. Stored as long as that is short, else generated. The builder
 * numbers the messages of the stored form; for the generated one fn sets index to the same
 * numbers, which it can as long as no op is empty: full says so.
 */
struct tt_sliced;
typedef int tt_slice_fn(const struct tt_plan_args *args, const struct tt_sliced *s,
			const struct tt_step *at, struct tt_op *ops);
/* lib/coll/coll.h: a step of a slice in a pipeline */
struct tt_pipe;
typedef int tt_pipe_fn(const struct tt_plan_args *args, const struct tt_pipe *p, size_t slice,
		       int step, struct tt_op *ops);
struct tt_sliced {
	tt_slice_fn *fn;
	tt_pipe_fn *pipe; /* of a pipeline, for its fn */
	size_t slices;
	int steps;	  /* of a slice */
	int max_ops;	  /* of a step */
	size_t slice_ops; /* of a slice, about: decides which form */
	bool full;	  /* no op of this rank is empty */
	/* The first step from k on that has an op which is not empty; NULL: try them all. */
	int (*skip)(const struct tt_plan_args *args, int k);
	int lanes;	 /* tt_sliced fills it in: args->lanes, or slices if less */
	size_t state[8]; /* what fn wants to remember */
};

/*
 * Ops of a round: either stored (the builder's) or, for plans too big to store, made on demand by
 * the sliced algorithm, which writes at most max_ops ops with their index set.
 */
struct tt_plan {
	struct tt_plan_args args;
	const char *algo;
	int nlanes;
	size_t scratch; /* bytes of TT_BUF_SCRATCH */
	int max_ops;	/* most ops of any round */
	/* stored form */
	struct tt_lane *lane;
	/* generated form */
	bool generated;
	int gen_rounds; /* of every lane; some may have no ops */
	struct tt_sliced sliced;
	bool node;  /* has node ops */
	bool mixed; /* and messages, or weighted sums, of the same buffers */
	/*
	 * Of a plan that goes on by the lengths of lists: after that many rounds of lane 0, the
	 * only one, the rounds of one of the ways; else nways is 0. first: a way's first round in
	 * memory. way: the one that readers of the plan see. The engine takes that of the lengths,
	 * which the heads of all ranks' lists tell then, in scratch.
	 */
	int nways, fork, first[TT_BRANCHES + 1];
	enum tt_branch way;
	size_t heads, head_stride;
};

int tt_plan_rounds(const struct tt_plan *plan, int lane);
/* The same, and that below, of a plan that goes another way. */
int tt_plan_branch_rounds(const struct tt_plan *plan, enum tt_branch way, int lane);
int tt_plan_branch_ops(const struct tt_plan *plan, enum tt_branch way, int lane, int round,
		       struct tt_op *tmp, const struct tt_op **ops);
/*
 * Ops of a round. tmp has room for plan->max_ops ops; *ops points to the stored ones or to tmp.
 * Returns how many (0 is possible).
 */
int tt_plan_ops(const struct tt_plan *plan, int lane, int round, struct tt_op *tmp,
		const struct tt_op **ops);
void tt_plan_free(struct tt_plan *plan);

/*
 * The builder. Zero-length ops are dropped (on both sides, as lengths agree). Memory failure is
 * remembered and reported by tt_plan_finish, so algorithms need no checks.
 */
struct tt_builder;
struct tt_builder *tt_builder_new(const struct tt_plan_args *args, const char *algo);
const struct tt_plan_args *tt_builder_args(const struct tt_builder *b);
/* Following ops go to this lane (lanes appear as used), in its current round. */
void tt_lane(struct tt_builder *b, int lane);
/* Following ops of the current lane go to its next round. An empty round is not stored. */
void tt_round(struct tt_builder *b);
/*
 * The plan, of one lane, goes on in several ways: rank r's list has its head in scratch at heads +
 * r * stride. Then a call of tt_next_branch before the rounds of each of them, in order of enum
 * tt_branch.
 */
void tt_fork(struct tt_builder *b, size_t heads, size_t stride);
void tt_next_branch(struct tt_builder *b);
/* Reserve scratch; returns its offset (64-byte aligned). */
size_t tt_scratch(struct tt_builder *b, size_t bytes);
void tt_send(struct tt_builder *b, int peer, struct tt_ref a, size_t len);
void tt_recv(struct tt_builder *b, int peer, struct tt_ref dst, size_t len);
/* dst = a (+) b, exactly one of a and b is TT_NET. */
void tt_recv_reduce(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a,
		    struct tt_ref bb, size_t len, unsigned flags);
void tt_reduce(struct tt_builder *b, struct tt_ref dst, struct tt_ref a, struct tt_ref bb,
	       size_t len, unsigned flags);
void tt_copy(struct tt_builder *b, struct tt_ref dst, struct tt_ref a, size_t len);
/*
 * Node ops. A place `a` of another rank in TT_BUF_SEND is counted from the beginning of its input,
 * see tt_input. None of them may be of length zero but for signals and waits.
 */
void tt_signal(struct tt_builder *b, unsigned step, struct tt_ref reads, struct tt_ref writes);
/* The same with an input of len bytes, not the rest of its buffer; none if len is 0. */
void tt_signal_block(struct tt_builder *b, unsigned step, struct tt_ref reads, size_t len);
void tt_wait(struct tt_builder *b, int peer, unsigned step);
/* A signal, and a wait for those of all ranks. */
void tt_meet(struct tt_builder *b, unsigned step, struct tt_ref reads, struct tt_ref writes);
/* TT_OPF_RELEASE. This rank publishes no result, and needs nothing of peers any more. */
void tt_wait_release(struct tt_builder *b, int peer, unsigned step);
void tt_pull_copy(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a, size_t len);
/* The same with TT_OPF_STREAMED or TT_OPF_ELSE. */
void tt_pull_copy_if(struct tt_builder *b, unsigned flags, int peer, struct tt_ref dst,
		     struct tt_ref a, size_t len);
/* Out of the peer's input, from where it tells that the block begins. */
void tt_pull_told(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref told,
		  size_t len);
/* Of a block of len bytes, which may be 0. */
void tt_tell_length(struct tt_builder *b, struct tt_ref dst, size_t len);
void tt_expect_length(struct tt_builder *b, int peer, struct tt_ref a, size_t len);
void tt_pull_reduce(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a, size_t len,
		    unsigned flags);
/* Into dst of peer, what the first so many ranks have in a, one at least. */
void tt_pull_reduce_first(struct tt_builder *b, int ranks, int peer, struct tt_ref dst,
			  struct tt_ref a, size_t len);
/* Into this rank's dst, what all ranks have in a; this rank's operand is own, not published. */
void tt_pull_combine(struct tt_builder *b, struct tt_ref dst, struct tt_ref a, struct tt_ref own,
		     size_t len, unsigned flags);
void tt_push(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a, size_t len);
/* The same with TT_OPF_ELSE. */
void tt_push_else(struct tt_builder *b, int peer, struct tt_ref dst, struct tt_ref a, size_t len);
/* Into the peer's result, where it tells that the block begins. */
void tt_push_told(struct tt_builder *b, int peer, struct tt_ref told, struct tt_ref a, size_t len);
/* Add an op made elsewhere; its index is set here. */
void tt_add(struct tt_builder *b, const struct tt_op *op);
/* Emit a sliced algorithm, in whichever form. */
void tt_sliced(struct tt_builder *b, const struct tt_sliced *s);
extern size_t tt_plan_store_max; /* ops; tests change it to see both forms of a plan */
/* Building can't go on, for a reason that tt_fail has been told. */
void tt_builder_broken(struct tt_builder *b, int err);
/* Ends the building: returns the plan, or the first error. Frees b in any case. */
int tt_plan_finish(struct tt_builder *b, struct tt_plan **plan);

#define TT_SENDBUF(o) ((struct tt_ref){TT_BUF_SEND, (o)})
#define TT_RECVBUF(o) ((struct tt_ref){TT_BUF_RECV, (o)})
#define TT_SCRATCH(o) ((struct tt_ref){TT_BUF_SCRATCH, (o)})
#define TT_SLOT(o) ((struct tt_ref){TT_BUF_SLOT, (o)})
#define TT_NET ((struct tt_ref){TT_BUF_NET, 0})
#define TT_RESIDUAL(o) ((struct tt_ref){TT_BUF_RESIDUAL, (o)})
#define TT_NONE ((struct tt_ref){TT_BUF_NONE, 0})

/* An algorithm: emits the plan of args->rank. One line in lib/coll/algs.def each. */
typedef void tt_alg_fn(struct tt_builder *b);

/* A cost in closed form: rounds and flows of messages, passed to the functions below. */
struct tt_cost;
typedef void tt_cost_fn(struct tt_cost *c, const struct tt_plan_args *args);

struct tt_alg {
	enum tt_coll coll;
	const char *name;
	tt_alg_fn *emit;
	/*
	 * Whether it can do this call at all (size, rank count), if that has no codec or the
	 * algorithm is one for codecs; NULL: always. See tt_alg_can.
	 */
	bool (*can)(const struct tt_plan_args *args);
	tt_cost_fn *cost;
};
extern const struct tt_alg tt_algs[]; /* ends with name NULL */
#define TT_ALG(coll, name, emit, can, cost)                                                        \
	void emit(struct tt_builder *b);                                                           \
	bool can(const struct tt_plan_args *args);                                                 \
	void cost(struct tt_cost *c, const struct tt_plan_args *args);
#include "lib/coll/algs.def"
#undef TT_ALG
/* Whether alg is for calls with a codec, which no other algorithm can do. */
bool tt_alg_codes(const struct tt_alg *alg);
/* Whether it goes on by the lengths of lists, rather than by what they may be. */
bool tt_alg_measures(const struct tt_alg *alg);
/* Whether alg can do this call. */
bool tt_alg_can(const struct tt_alg *alg, const struct tt_plan_args *args);
const struct tt_alg *tt_alg_find(enum tt_coll coll, const char *name);
/* lib/coll/p2p/neighbors.c: the algorithm of a collective of neighbours, not in tt_algs. */
const struct tt_alg *tt_alg_neighbors(enum tt_coll coll);
/* In two levels, where the ranks of each host share its memory. */
const struct tt_alg *tt_alg_neighbors_hier(void);
const char *tt_coll_name(enum tt_coll coll); /* "allreduce" */
/*
 * The one of that name; -ENOENT: there is none, and *near, if it is asked for, is the nearest
 * name, or NULL.
 */
int tt_coll_find(const char *name, enum tt_coll *coll, const char **near);

/* Build alg's plan. 0, -ENOMEM, or -EINVAL for args it can't do. */
int tt_plan_build(const struct tt_alg *alg, const struct tt_plan_args *args, struct tt_plan **plan);

/*
 * cost.c: called by cost functions. The following calls describe one slice; sets the number of
 * slices and of lanes (initially one slice in one lane).
 */
void tt_cost_slices(struct tt_cost *c, size_t slices, int lanes);
/* Slices follow one another: ranks that only send do not wait for their receivers. */
void tt_cost_one_way(struct tt_cost *c);
/* The vector is cut into this many parts; parts of a short vector may be empty. */
void tt_cost_parts(struct tt_cost *c, size_t parts);
/* Turns of the lanes; whether a message of this length waits for its receive. */
double tt_cost_turns(const struct tt_cost *c);
bool tt_cost_waits(const struct tt_cost *c, double len);
/* The destination of messages: it decides how many of them leave a host with several ranks. */
enum tt_reach {
	TT_ANY_RANK,
	TT_ROOT,  /* or from there */
	TT_SHIFT, /* the rank dist further on, or back */
	TT_BIT,	  /* the rank whose number differs by dist, a power of two */
	TT_CHAIN, /* the next rank, but for the last one */
	TT_TREE,  /* a tree whose deeper levels are nearer; dist: levels that may leave beside those
		     between hosts */
};
/*
 * Rounds in which all relevant ranks move together: a rank begins the next round when it has
 * received all messages of this one. A message longer than a chunk is sent in pieces.
 */
struct tt_rounds {
	double n;	/* one after another */
	double len;	/* bytes of a message */
	double out, in; /* messages that the busiest rank sends and receives in one round */
	double all;	/* that are received by all ranks together */
	bool reduces;	/* received data is combined */
	enum tt_reach to;
	int dist;
};
void tt_cost_rounds(struct tt_cost *c, struct tt_rounds r);
/*
 * Slices that follow one another along a chain or a tree: the first one takes hops messages, one
 * after another; out, in and all are messages of a whole slice. waits: rounds of a slice in which
 * the busiest rank posts a receive and waits for it. early: receives are posted long before.
 */
struct tt_cost_flow {
	double hops, len, out, in, all, waits;
	bool reduces, early;
	enum tt_reach to;
	int dist;
};
void tt_cost_flow(struct tt_cost *c, struct tt_cost_flow f);
/* Further messages of a flow after the first that its receiver (or sender) must handle. */
void tt_cost_queue(struct tt_cost *c, double messages, double len, bool reduces, enum tt_reach to);
/* So many bytes copied by one rank, once, not for each slice. */
void tt_cost_once(struct tt_cost *c, double bytes);
/* Bytes combined, or copied, by a number of ranks at the same time; nothing is sent meanwhile. */
void tt_cost_work(struct tt_cost *c, double bytes, bool reduces, double ranks);
/* Bytes of a vector that are encoded and decoded by so many ranks at the same time. */
void tt_cost_code(struct tt_cost *c, double encoded, double decoded, double ranks);
/*
 * The cost of another algorithm across hosts, with a number of slices for each of a number of
 * places on a host, all at once. across: arguments as for tt_plan_build, of a slice, with one rank
 * of each host.
 */
void tt_cost_across(struct tt_cost *c, tt_cost_fn *cost, const struct tt_plan_args *across,
		    int places, size_t slices);
int tt_cost_hosts(const struct tt_cost *c);
int tt_cost_places(const struct tt_cost *c); /* ranks on a host, the most */
/* Processors that the ranks of one host have, a rank one at most. */
int tt_cost_cores(const struct tt_cost *c);
double tt_cost_num_slices(const struct tt_cost *c);
/* Bytes copied from other ranks' memory by a number of ranks at the same time. */
void tt_cost_pull(struct tt_cost *c, double bytes, double ranks);
/* So many times every rank waits for a flag of all others, in memory that they share. */
void tt_cost_signals(struct tt_cost *c, double times);

/* Does the collective reduce; has it a root; is it a v form? */
bool tt_coll_reduces(enum tt_coll coll);
bool tt_coll_rooted(enum tt_coll coll);
/* Are there counts per rank? */
bool tt_coll_counts(enum tt_coll coll);
/* Whether the count is that of a block, and the larger buffer has a block for each rank. */
static inline bool tt_coll_blocks(enum tt_coll coll)
{
	return coll == TT_COLL_REDUCE_SCATTER_BLOCK || coll == TT_COLL_ALLGATHER ||
	       coll == TT_COLL_GATHER || coll == TT_COLL_SCATTER || coll == TT_COLL_ALLTOALL;
}

/* Does a rank know no counts but its own? */
bool tt_coll_own_counts(enum tt_coll coll);

/* A part of a buffer, in bytes. */
struct tt_span {
	size_t off, len;
};

/*
 * layout.c: where things are. Block i of the side that has one per rank (the result of allgather
 * and gather, the input of scatter and reduce_scatter, either side of alltoall). Only for ranks
 * that know it.
 */
struct tt_span tt_send_block(const struct tt_plan_args *a, int i);
struct tt_span tt_recv_block(const struct tt_plan_args *a, int i);
/*
 * The place of a block of the result if blocks followed one another: the same on all ranks that
 * know the counts.
 */
struct tt_span tt_packed_block(const struct tt_plan_args *a, int i);
/* Bytes of this rank's sendbuf and recvbuf that the call may touch; 0: it has no such buffer. */
size_t tt_send_bytes(const struct tt_plan_args *a);
size_t tt_recv_bytes(const struct tt_plan_args *a);
/*
 * The rank's own input. In place TT_BUF_SEND is TT_BUF_RECV from offset 0, but for allgather(v) and
 * gather(v) the input is the rank's own block of recvbuf, and for scatter(v) the root's block stays
 * in sendbuf (and recvbuf is not there): algorithms ask here instead of naming TT_BUF_SEND.
 */
struct tt_ref tt_input(const struct tt_plan_args *a);

/*
 * Split count elements over n parts as evenly as whole elements allow: first count%n parts get one
 * more.
 */
static inline size_t tt_part_begin(size_t count, int n, int i)
{
	size_t q = count / (size_t)n, r = count % (size_t)n;

	return q * (size_t)i + ((size_t)i < r ? (size_t)i : r);
}

/* Pieces first up to first + howmany of a span cut into n, as evenly as whole elements allow. */
static inline struct tt_span tt_pieces(struct tt_span whole, size_t elem, size_t n, size_t first,
				       size_t howmany)
{
	size_t q = whole.len / elem / n, r = whole.len / elem % n, end = first + howmany;
	size_t from = q * first + (first < r ? first : r), to = q * end + (end < r ? end : r);

	return (struct tt_span){whole.off + from * elem, (to - from) * elem};
}

/* Into how many pieces to cut, so that none is longer than most (or than one element). */
static inline size_t tt_num_pieces(size_t len, size_t elem, size_t most)
{
	size_t fit = most / elem, count = len / elem;

	fit = fit ? fit : 1;
	return count / fit + (count % fit > 0);
}

#define TT_NODE_LINE                                                                               \
	((size_t)64) /* parts of a vector begin at whole cache lines of it, where they can */

/*
 * Part i of n of a vector that all ranks have. Parts are cut at cache lines (of an aligned buffer)
 * to avoid false sharing; the last part takes the remainder.
 */
static inline struct tt_span tt_node_part_of(const struct tt_plan_args *a, int n, int i)
{
	size_t len = a->count * a->elem, line = TT_NODE_LINE % a->elem ? a->elem : TT_NODE_LINE;
	size_t from = tt_part_begin(len / line, n, i) * line;
	size_t to = i == n - 1 ? len : tt_part_begin(len / line, n, i + 1) * line;

	return (struct tt_span){from, to - from};
}

/*
 * layout.c: the same of a vector that is encoded, in bytes: parts also begin where the codec may
 * begin. And what they, and their slices, are made of.
 */
struct tt_span tt_codec_part(const struct tt_plan_args *a, int n, int i);
size_t tt_codec_grain(const struct tt_plan_args *a);

/* Rank i's, where all ranks share a host. */
static inline struct tt_span tt_node_part(const struct tt_plan_args *a, int i)
{
	return tt_node_part_of(a, a->nranks, i);
}

#define TT_REDUCE_BY_ONE ((size_t)32 << 10) /* bytes, at most */
#define TT_SCAN_BY_ONE ((size_t)128 << 10)

/*
 * Whether one of two ranks of a host combines whole vectors, of a reduce or scan, or copies one, of
 * an exscan; else each of them combines a part of them.
 */
static inline bool tt_node_by_one(const struct tt_plan_args *a)
{
	size_t len = a->count * a->elem;

	if (a->nranks != 2)
		return false;
	if (a->coll == TT_COLL_EXSCAN)
		return true;
	return a->direct && ((a->coll == TT_COLL_REDUCE && len <= TT_REDUCE_BY_ONE) ||
			     (a->coll == TT_COLL_SCAN && len <= TT_SCAN_BY_ONE));
}

/*
 * fold.c, what algorithms share. An algorithm for core ranks serves core + extra ones, extra <=
 * core:
 * rank 2i + 1, i < extra, first gives its vector to rank 2i and last gets the result from it. The
 * core is numbered in order of rank.
 */
struct tt_fold {
	int core, extra;
	int v;	   /* this rank's number in the core; -1: it is folded */
	int other; /* of a pair; -1: this rank is in none */
};
struct tt_fold tt_fold(const struct tt_plan_args *args, int core);
int tt_fold_rank(const struct tt_fold *f, int v); /* of the core's v */
/* This rank's op of a pair's fold (into recvbuf), or of its unfold. */
struct tt_op tt_fold_op(const struct tt_fold *f, struct tt_span s, bool un, uint32_t index);
int tt_fold_pow2(int n); /* the largest power of two that is not more than n */

/*
 * n operands in order, number own being mine and the others in scratch at slot, slot + stride,
 * ...: op m = 1..n-1 of the n - 1 that combine them, left to right. All but the last leave their
 * result in slot.
 */
struct tt_row {
	int n, own;
	struct tt_ref mine;
	size_t slot, stride, len;
};
struct tt_op tt_row_op(const struct tt_row *row, int m, struct tt_ref result, unsigned flags);
struct tt_ref tt_row_slot(const struct tt_row *row, int i); /* where operand i arrives; not own */
/* Scratch for n slots of at least len bytes, of whole elements; returns the stride. */
size_t tt_slots(struct tt_builder *b, size_t n, size_t len);

#endif
