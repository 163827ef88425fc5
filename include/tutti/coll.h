/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datatypes, operators and collectives.
 *
 * Every collective comes blocking, nonblocking (i...: returns a request at once) and persistent
 * (..._init: a request to start with tutti_start, in any order, any number of times). All ranks of
 * a communicator call the same collectives in the same order with the same count, datatype, op and
 * root. Counts are in elements. A buffer belongs to the library until the call or request is done.
 */
#ifndef TUTTI_COLL_H
#define TUTTI_COLL_H

#include <tutti/request.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

enum tutti_datatype {
	TUTTI_INT8 = 0,
	TUTTI_UINT8,
	TUTTI_INT16,
	TUTTI_UINT16,
	TUTTI_INT32,
	TUTTI_UINT32,
	TUTTI_INT64,
	TUTTI_UINT64,
	TUTTI_BOOL, /* one byte; any value but 0 is true */
	/*
	 * Each operation on the two 16-bit floats is made in float32 and its result rounded to 16
	 * bits.
	 */
	TUTTI_FLOAT16,	/* IEEE binary16 */
	TUTTI_BFLOAT16, /* upper half of a float32 */
	TUTTI_FLOAT32,
	TUTTI_FLOAT64,
	TUTTI_COMPLEX64,  /* C's float complex, 8 bytes */
	TUTTI_COMPLEX128, /* C's double complex, 16 bytes */
	/* A value and the index it is from, for TUTTI_MINLOC and TUTTI_MAXLOC. */
	TUTTI_INT32_INDEX,   /* struct tutti_int32_index */
	TUTTI_INT64_INDEX,   /* struct tutti_int64_index */
	TUTTI_FLOAT32_INDEX, /* struct tutti_float32_index */
	TUTTI_FLOAT64_INDEX, /* struct tutti_float64_index */
	TUTTI_NUM_DATATYPES,
	TUTTI_OPAQUE_FLAG = 1 << 28, /* TUTTI_OPAQUE's values are from here on */
	TUTTI_DATATYPE_LIMIT = 0x7fffffff
};

struct tutti_int32_index {
	int32_t value, index;
};
struct tutti_int64_index {
	int64_t value, index;
};
struct tutti_float32_index {
	float value;
	int32_t index;
};
struct tutti_float64_index {
	double value;
	int64_t index;
};

#define TUTTI_OPAQUE_MAX ((size_t)1 << 20)
/* Elements of 1 to TUTTI_OPAQUE_MAX bytes; bytes is evaluated twice. */
/* Reductions of such elements need an operator of tutti_op_create. */
#define TUTTI_OPAQUE(bytes)                                                                        \
	((enum tutti_datatype)((int)TUTTI_OPAQUE_FLAG |                                            \
			       ((size_t)(bytes) > TUTTI_OPAQUE_MAX ? 0 : (int)(bytes))))

enum tutti_op {
	TUTTI_SUM = 0,
	TUTTI_PROD,
	TUTTI_MIN,
	TUTTI_MAX,
	TUTTI_AVG,  /* sum, then divided by the number of ranks (integers: toward zero) */
	TUTTI_BAND, /* the bitwise three: integer types only */
	TUTTI_BOR,
	TUTTI_BXOR,
	TUTTI_LAND, /* the logical three: integers and bool; the result is 1 or 0 */
	TUTTI_LOR,
	TUTTI_LXOR,
	TUTTI_MINLOC, /* value-index pairs only: the lowest value, with the lowest index it has */
	TUTTI_MAXLOC, /* the highest value, with the lowest index it has */
	TUTTI_NUM_OPS,
	TUTTI_OP_LIMIT = 0x7fffffff /* values of tutti_op_create are less */
};

/*
 * As sendbuf: the result replaces the input in recvbuf. Scatter: as the root's recvbuf; the root's
 * block stays in sendbuf. Rooted collectives: at the root only. All other collectives: on all ranks
 * or on none, else -TUTTI_EMISMATCH; a buffer at the in-place address counts as TUTTI_IN_PLACE.
 */
#define TUTTI_IN_PLACE ((void *)(intptr_t)-1)

/** tutti_datatype_size - bytes of one element, 0 for an invalid value. */
size_t tutti_datatype_size(enum tutti_datatype datatype);
/** tutti_datatype_name - "float32", "opaque"; "invalid" for an invalid value. Static. */
const char *tutti_datatype_name(enum tutti_datatype datatype);

/**
 * tutti_op_fn - a user-defined operator: b[i] = a[i] op b[i] for i < count; a is from lower ranks.
 * Must be associative. Called for pieces of the vector, one at a time, from any thread that
 * advances operations; must not call tutti. arg is that of tutti_op_create.
 */
typedef void tutti_op_fn(const void *a, void *b, size_t count, enum tutti_datatype datatype,
			 void *arg);

/**
 * tutti_op_create - make an operator of ctx from fn; local. commutative 0: operands combine in
 * rank order.
 */
int tutti_op_create(struct tutti_context *ctx, tutti_op_fn *fn, void *arg, int commutative,
		    enum tutti_op *op);
/**
 * tutti_op_create_premul_sum - the sum of each rank's vector times that rank's *scalar (an
 * element of datatype, copied). For vectors of datatype only; local.
 */
int tutti_op_create_premul_sum(struct tutti_context *ctx, const void *scalar,
			       enum tutti_datatype datatype, enum tutti_op *op);
/**
 * tutti_reduce_local - inout[i] = in[i] op inout[i] for i < count, in the memory of this process;
 * in is of the lower ranks. op: one of the built-in operators but avg, or one of ctx.
 */
int tutti_reduce_local(struct tutti_context *ctx, const void *in, void *inout, size_t count,
		       enum tutti_datatype datatype, enum tutti_op op);
/** tutti_op_free - free an operator of ctx; requests with it keep it. */
int tutti_op_free(struct tutti_context *ctx, enum tutti_op op);

int tutti_allreduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		    enum tutti_op op, struct tutti_comm *comm);
int tutti_iallreduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		     enum tutti_op op, struct tutti_comm *comm, struct tutti_request **request);
int tutti_allreduce_init(const void *sendbuf, void *recvbuf, size_t count,
			 enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm,
			 struct tutti_request **request);

int tutti_bcast(void *buf, size_t count, enum tutti_datatype datatype, int root,
		struct tutti_comm *comm);
int tutti_ibcast(void *buf, size_t count, enum tutti_datatype datatype, int root,
		 struct tutti_comm *comm, struct tutti_request **request);
int tutti_bcast_init(void *buf, size_t count, enum tutti_datatype datatype, int root,
		     struct tutti_comm *comm, struct tutti_request **request);

int tutti_barrier(struct tutti_comm *comm);
int tutti_ibarrier(struct tutti_comm *comm, struct tutti_request **request);
int tutti_barrier_init(struct tutti_comm *comm, struct tutti_request **request);

/*
 * Rooted: only the root has the result. In place, and recvbuf: at the root only.
 */
int tutti_reduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		 enum tutti_op op, int root, struct tutti_comm *comm);
int tutti_ireduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		  enum tutti_op op, int root, struct tutti_comm *comm,
		  struct tutti_request **request);
int tutti_reduce_init(const void *sendbuf, void *recvbuf, size_t count,
		      enum tutti_datatype datatype, enum tutti_op op, int root,
		      struct tutti_comm *comm, struct tutti_request **request);

/*
 * The vector of nranks * recvcount elements is combined, and rank i gets block i of recvcount
 * elements. In place: the input is in recvbuf (all nranks blocks); the result is at its beginning.
 */
int tutti_reduce_scatter_block(const void *sendbuf, void *recvbuf, size_t recvcount,
			       enum tutti_datatype datatype, enum tutti_op op,
			       struct tutti_comm *comm);
int tutti_ireduce_scatter_block(const void *sendbuf, void *recvbuf, size_t recvcount,
				enum tutti_datatype datatype, enum tutti_op op,
				struct tutti_comm *comm, struct tutti_request **request);
int tutti_reduce_scatter_block_init(const void *sendbuf, void *recvbuf, size_t recvcount,
				    enum tutti_datatype datatype, enum tutti_op op,
				    struct tutti_comm *comm, struct tutti_request **request);

/* The same with blocks of recvcounts[i] elements for rank i, one after the other in sendbuf. */
int tutti_reduce_scatter(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
			 enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm);
int tutti_ireduce_scatter(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
			  enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm,
			  struct tutti_request **request);
int tutti_reduce_scatter_init(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
			      enum tutti_datatype datatype, enum tutti_op op,
			      struct tutti_comm *comm, struct tutti_request **request);

/* Rank i gets the combination of ranks 0 to i (scan), or 0 to i - 1 (exscan; rank 0: undefined). */
int tutti_scan(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
	       enum tutti_op op, struct tutti_comm *comm);
int tutti_iscan(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		enum tutti_op op, struct tutti_comm *comm, struct tutti_request **request);
int tutti_scan_init(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		    enum tutti_op op, struct tutti_comm *comm, struct tutti_request **request);

int tutti_exscan(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		 enum tutti_op op, struct tutti_comm *comm);
int tutti_iexscan(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		  enum tutti_op op, struct tutti_comm *comm, struct tutti_request **request);
int tutti_exscan_init(const void *sendbuf, void *recvbuf, size_t count,
		      enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm,
		      struct tutti_request **request);

/*
 * All ranks get the sendcount elements of every rank, in rank order. In place: this rank's block
 * is already at its place in recvbuf.
 */
int tutti_allgather(const void *sendbuf, void *recvbuf, size_t sendcount,
		    enum tutti_datatype datatype, struct tutti_comm *comm);
int tutti_iallgather(const void *sendbuf, void *recvbuf, size_t sendcount,
		     enum tutti_datatype datatype, struct tutti_comm *comm,
		     struct tutti_request **request);
int tutti_allgather_init(const void *sendbuf, void *recvbuf, size_t sendcount,
			 enum tutti_datatype datatype, struct tutti_comm *comm,
			 struct tutti_request **request);

/*
 * v forms: counts and displacements are arrays of nranks values, in elements, copied by the call.
 * The block of rank i begins displs[i] elements into its buffer, or before it: a negative
 * displacement is passed converted to size_t, as (size_t)-4. NULL: the blocks follow one
 * another.
 */
int tutti_allgatherv(const void *sendbuf, size_t sendcount, void *recvbuf, const size_t *recvcounts,
		     const size_t *displs, enum tutti_datatype datatype, struct tutti_comm *comm);
int tutti_iallgatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
		      const size_t *recvcounts, const size_t *displs, enum tutti_datatype datatype,
		      struct tutti_comm *comm, struct tutti_request **request);
int tutti_allgatherv_init(const void *sendbuf, size_t sendcount, void *recvbuf,
			  const size_t *recvcounts, const size_t *displs,
			  enum tutti_datatype datatype, struct tutti_comm *comm,
			  struct tutti_request **request);

/* The root gets the blocks of all ranks. In place: sendbuf at the root. */
int tutti_gather(const void *sendbuf, void *recvbuf, size_t sendcount, enum tutti_datatype datatype,
		 int root, struct tutti_comm *comm);
int tutti_igather(const void *sendbuf, void *recvbuf, size_t sendcount,
		  enum tutti_datatype datatype, int root, struct tutti_comm *comm,
		  struct tutti_request **request);
int tutti_gather_init(const void *sendbuf, void *recvbuf, size_t sendcount,
		      enum tutti_datatype datatype, int root, struct tutti_comm *comm,
		      struct tutti_request **request);

/* recvbuf, recvcounts and displs count at the root only. */
int tutti_gatherv(const void *sendbuf, size_t sendcount, void *recvbuf, const size_t *recvcounts,
		  const size_t *displs, enum tutti_datatype datatype, int root,
		  struct tutti_comm *comm);
int tutti_igatherv(const void *sendbuf, size_t sendcount, void *recvbuf, const size_t *recvcounts,
		   const size_t *displs, enum tutti_datatype datatype, int root,
		   struct tutti_comm *comm, struct tutti_request **request);
int tutti_gatherv_init(const void *sendbuf, size_t sendcount, void *recvbuf,
		       const size_t *recvcounts, const size_t *displs, enum tutti_datatype datatype,
		       int root, struct tutti_comm *comm, struct tutti_request **request);

/*
 * Rank i gets block i of the root. In place: recvbuf at the root, whose own block stays where it
 * is.
 */
int tutti_scatter(const void *sendbuf, void *recvbuf, size_t recvcount,
		  enum tutti_datatype datatype, int root, struct tutti_comm *comm);
int tutti_iscatter(const void *sendbuf, void *recvbuf, size_t recvcount,
		   enum tutti_datatype datatype, int root, struct tutti_comm *comm,
		   struct tutti_request **request);
int tutti_scatter_init(const void *sendbuf, void *recvbuf, size_t recvcount,
		       enum tutti_datatype datatype, int root, struct tutti_comm *comm,
		       struct tutti_request **request);

/* sendbuf, sendcounts and displs count at the root only. */
int tutti_scatterv(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
		   void *recvbuf, size_t recvcount, enum tutti_datatype datatype, int root,
		   struct tutti_comm *comm);
int tutti_iscatterv(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
		    void *recvbuf, size_t recvcount, enum tutti_datatype datatype, int root,
		    struct tutti_comm *comm, struct tutti_request **request);
int tutti_scatterv_init(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
			void *recvbuf, size_t recvcount, enum tutti_datatype datatype, int root,
			struct tutti_comm *comm, struct tutti_request **request);

/*
 * Block j of rank i's sendbuf becomes block i of rank j's recvbuf. In place: recvbuf's blocks are
 * sent and replaced; the v form then looks at recvcounts and rdispls only.
 */
int tutti_alltoall(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		   struct tutti_comm *comm);
int tutti_ialltoall(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		    struct tutti_comm *comm, struct tutti_request **request);
int tutti_alltoall_init(const void *sendbuf, void *recvbuf, size_t count,
			enum tutti_datatype datatype, struct tutti_comm *comm,
			struct tutti_request **request);

int tutti_alltoallv(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
		    void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
		    enum tutti_datatype datatype, struct tutti_comm *comm);
int tutti_ialltoallv(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
		     void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
		     enum tutti_datatype datatype, struct tutti_comm *comm,
		     struct tutti_request **request);
int tutti_alltoallv_init(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
			 void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
			 enum tutti_datatype datatype, struct tutti_comm *comm,
			 struct tutti_request **request);

/* The collectives, for tutti_call. */
enum tutti_coll {
	TUTTI_COLL_ALLREDUCE = 1,
	TUTTI_COLL_BCAST, /* the buffer is recvbuf */
	TUTTI_COLL_BARRIER,
	TUTTI_COLL_REDUCE,
	TUTTI_COLL_REDUCE_SCATTER_BLOCK,
	TUTTI_COLL_REDUCE_SCATTER,
	TUTTI_COLL_ALLGATHER,
	TUTTI_COLL_ALLGATHERV,
	TUTTI_COLL_GATHER,
	TUTTI_COLL_GATHERV,
	TUTTI_COLL_SCATTER,
	TUTTI_COLL_SCATTERV,
	TUTTI_COLL_ALLTOALL,
	TUTTI_COLL_ALLTOALLV,
	TUTTI_COLL_SCAN,
	TUTTI_COLL_EXSCAN
};

struct tutti_codec;    /* tutti/codec.h */
struct tutti_feedback; /* tutti/feedback.h */

/* flags */
#define TUTTI_CALL_PERSISTENT 1u /* as the _init form */
/*
 * As the blocking form, by a caller that only tests the request until its end and may do other
 * short work between the tests. *request becomes NULL if the call has ended already.
 */
#define TUTTI_CALL_POLL 2u

/*
 * A collective with its options. Fields that a collective does not have are 0. Later versions
 * append fields whose value 0 means what this version does.
 */
struct tutti_call {
	size_t size; /* sizeof(struct tutti_call) */
	enum tutti_coll coll;
	unsigned flags;
	const void *sendbuf;
	void *recvbuf;
	size_t count;
	const size_t *sendcounts, *senddispls, *recvcounts, *recvdispls;
	enum tutti_datatype datatype;
	enum tutti_op op;
	int root;
	int timeout_ms; /* 0: the communicator's; TUTTI_NEVER: none */
	int priority;	/* its waiting operations go before those of lower priority; local */
	/* For later versions; must be 0: */
	int quorum;
	int cutoff_ms;
	int pad;
	/*
	 * All-reduce of float32 by sum or avg: the vector travels encoded. All ranks pass codecs of
	 * the same name. NULL: as it is.
	 */
	struct tutti_codec *codec;
	/* With codec: what encodings leave out is added in the next call. NULL: it is lost. */
	struct tutti_feedback *feedback;
};

/**
 * tutti_call - the collective *call of comm. request NULL: blocking; else nonblocking, or
 * persistent by flags. The struct is copied; buffers are as for the plain call.
 */
int tutti_call(struct tutti_comm *comm, const struct tutti_call *call,
	       struct tutti_request **request);

/**
 * tutti_comm_agree - *value becomes the bitwise AND (op TUTTI_BAND) or OR (TUTTI_BOR) of the
 * values of the live ranks of comm, the same on all. Collective over the live ranks; comm may have
 * failed.
 */
int tutti_comm_agree(struct tutti_comm *comm, enum tutti_op op, uint64_t *value);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
