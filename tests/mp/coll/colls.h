/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any collective as a value: made with inputs of a known result and guarded buffers, issued in any
 * of its three forms, checked to the byte.
 */
#ifndef TT_MP_COLLS_H
#define TT_MP_COLLS_H

#include "tests/mp/job.h"

enum colls_kind {
	C_ALLREDUCE,
	C_REDUCE,
	C_REDUCE_SCATTER_BLOCK,
	C_REDUCE_SCATTER,
	C_SCAN,
	C_EXSCAN,
	C_REDUCING, /* those before combine, those after move blocks */
	C_BCAST = C_REDUCING,
	C_ALLGATHER,
	C_ALLGATHERV,
	C_GATHER,
	C_GATHERV,
	C_SCATTER,
	C_SCATTERV,
	C_ALLTOALL,
	C_ALLTOALLV,
	C_KINDS
};

enum colls_form { F_BLOCKING, F_NONBLOCKING, F_PERSISTENT, F_FORMS };
/* A call in one of them: its name, and the arguments before the communicator. */
#define COLLS_CALL(form, comm, req, name, ...)                                                     \
	((form) == F_BLOCKING	   ? tutti_##name(__VA_ARGS__, comm)                               \
	 : (form) == F_NONBLOCKING ? tutti_i##name(__VA_ARGS__, comm, req)                         \
				   : tutti_##name##_init(__VA_ARGS__, comm, req))

struct coll {
	/* the caller's */
	enum colls_kind kind;
	enum tutti_datatype type;
	enum tutti_op op;      /* given to the call */
	enum tutti_op base_op; /* the oracle's operator; op itself if that is built in */
	bool premul;	       /* a premultiplied sum, of rank + 1 */
	void (*combine)(void *a, const void *b, size_t count); /* instead of base_op */
	int root;
	size_t count; /* v forms: about the mean of a block */
	bool in_place;
	bool displs; /* v forms: blocks in reverse order, with gaps; else NULL */
	enum mp_kind memory;
	bool by_struct; /* by tutti_call */

	/* colls_new's */
	unsigned seed;
	struct mp_buf send, recv;
	size_t send_bytes, recv_bytes;
	size_t *counts, *scounts, *sdispls, *rdispls;
	char *want, *sent;
};

bool colls_rooted(enum colls_kind kind);
const char *colls_name(enum colls_kind kind);
/* Buffers and arrays. */
int colls_new(struct mp_job *job, struct coll *c);
int colls_free(struct mp_job *job, struct coll *c);
/* New inputs; everything else in the buffers is a known byte. */
void colls_fill(struct mp_job *job, struct coll *c, unsigned seed);
int colls_issue(struct mp_job *job, struct coll *c, enum colls_form form,
		struct tutti_request **req);
/* 0: results right, sendbuf and all bytes around and between as before. */
int colls_check(struct mp_job *job, struct coll *c);
/* All of it in one go; the persistent form is started twice. */
int colls_once(struct mp_job *job, struct coll *c, enum colls_form form);

#endif
