/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by short_path.c and short_shape.c. */
#ifndef TT_SHORT_PATH_H
#define TT_SHORT_PATH_H

#include "lib/engine/node/node_ops.h"

/* The part that all calls with these arguments share. An entry that is not known fits no call. */
struct tt_short_shape {
	uint64_t key; /* of its arguments; 0: the entry is not in use */
	size_t count; /* as in struct tt_call */
	bool in_place;
	bool packed, packs;	      /* a v form without displacements of what comes, goes */
	struct tt_counts *counts;     /* of a v form */
	struct tt_counts *own_counts; /* the same, if other ranks have others */
	struct tt_fields fields;
	uint64_t mixed;	      /* of the fields */
	struct tt_plan *plan; /* NULL: such calls are made as requests */
	const struct tt_op *ops;
	unsigned nops;
	size_t extent[TT_BUF_NET]; /* bytes of the caller's buffers; 0: not used */
	bool publishes;		   /* buffers of the caller, beside the slot */
	bool stored;		   /* peers store parts of the result */
	bool rings;		   /* those that peers cannot map are replaced by a ring */
	size_t ring_bytes;
	enum tt_node_how how;
	unsigned way;	     /* which times such reductions belong to, tt_node_way, */
	unsigned mapped_way; /* or tt_node_mapped_way, */
	size_t way_len;	     /* and of what length they are */
	struct tt_node_reduce reduce;
	struct tt_node_count bytes; /* of copies and of ops on slots */
	struct tt_flight_op record;
};

/* The shape of a checked call by a built-in operator. Under the lock. */
struct tt_short_shape *tt_short_shape(struct tutti_comm *comm, const struct tt_call *call);
/* record.c: the record of such calls */
struct tt_flight_op tt_record_short(struct tutti_comm *comm, const struct tt_short_shape *shape);

/* Whether TT_BUF_SEND is the recvbuf; a scatter's root keeps its block in sendbuf. */
static inline bool tt_short_sends_recvbuf(const struct tt_call *call)
{
	return call->in_place && call->recvbuf;
}

/* Slots need no claim: the area stays mapped. */
static inline bool tt_short_uses_slots(const struct tt_op *op)
{
	return (op->kind == TT_OP_PULL_COPY || op->kind == TT_OP_PULL_REDUCE) &&
	       op->a.buf == TT_BUF_SLOT;
}
/* The bytes that such an op moves, or a local copy. */
struct tt_node_count tt_short_bytes(const struct tt_plan *plan, const struct tt_op *op);

#endif
