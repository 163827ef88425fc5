/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives and requests.
 *
 * Every collective comes blocking, nonblocking (i...: returns a request at once) and persistent
 * (..._init: a request to be started with tutti_start, any number of times). All ranks of a
 * communicator call the same collectives in the same order with the same count, datatype, op and
 * root. Counts are in elements. A buffer belongs to the library until the call or request is done.
 */
#ifndef TUTTI_COLL_H
#define TUTTI_COLL_H

#include <tutti/comm.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

enum tutti_datatype {
	TUTTI_INT8 = 0,
	TUTTI_UINT8,
	TUTTI_INT32,
	TUTTI_UINT32,
	TUTTI_INT64,
	TUTTI_UINT64,
	/* Each operation on the two 16-bit floats is made in float32 and its result rounded to 16 bits. */
	TUTTI_FLOAT16,		/* IEEE binary16 */
	TUTTI_BFLOAT16,		/* upper half of a float32 */
	TUTTI_FLOAT32,
	TUTTI_FLOAT64,
	TUTTI_NUM_DATATYPES
};

enum tutti_op {
	TUTTI_SUM = 0,
	TUTTI_PROD,
	TUTTI_MIN,
	TUTTI_MAX,
	TUTTI_AVG,		/* sum, then divided by the number of ranks (integers: toward zero) */
	TUTTI_BAND,		/* the bitwise three: integer types only */
	TUTTI_BOR,
	TUTTI_BXOR,
	TUTTI_NUM_OPS
};

/* As sendbuf: the input is in recvbuf and the result replaces it. */
#define TUTTI_IN_PLACE ((const void *)(intptr_t)-1)

struct tutti_request;

/** tutti_datatype_size - bytes of one element, 0 for a value that is no datatype. */
size_t tutti_datatype_size(enum tutti_datatype datatype);

int tutti_allreduce(const void *sendbuf, void *recvbuf, size_t count, enum tutti_datatype datatype,
		    enum tutti_op op, struct tutti_comm *comm);
int tutti_iallreduce(const void *sendbuf, void *recvbuf, size_t count,
		     enum tutti_datatype datatype, enum tutti_op op, struct tutti_comm *comm,
		     struct tutti_request **request);
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

/** tutti_start - start a persistent request; -EBUSY while it is running. */
int tutti_start(struct tutti_request *request);

/**
 * tutti_test - advance; *done becomes 1 if the operation is complete, else 0. A complete request
 * that is not persistent is freed and *request set to NULL. NULL and never-started are complete.
 * The return value is the operation's own result once it is done.
 */
int tutti_test(struct tutti_request **request, int *done);
int tutti_wait(struct tutti_request **request);
/** tutti_waitall - wait for all; returns the first error among them, after all are complete. */
int tutti_waitall(int n, struct tutti_request **requests);
/** tutti_waitany - wait for one; *index is its place, or -1 when all are NULL. */
int tutti_waitany(int n, struct tutti_request **requests, int *index);
/** tutti_request_free - free a persistent request that is not running, else -EBUSY. */
int tutti_request_free(struct tutti_request **request);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
