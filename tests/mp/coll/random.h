/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call of a random program: drawn, started in one of its forms, finished, and compared with a
 * serial oracle (random_oracle.c).
 */
#ifndef TT_MP_RANDOM_H
#define TT_MP_RANDOM_H

#include "tests/mp/coll/colls.h"
#include "tests/mp/job.h"

#define RND_RANKS 8

enum rnd_what {
	RND_ALLREDUCE,
	RND_REDUCE,
	RND_REDUCE_SCATTER,
	RND_SCAN,
	RND_EXSCAN,
	RND_BCAST,
	RND_ALLGATHER,
	RND_GATHER,
	RND_SCATTER,
	RND_ALLTOALL,
	RND_BARRIER,
	RND_SHIFT,  /* to the rank `by` after this one, from the one `by` before */
	RND_FUNNEL, /* from all others to the root, which takes them from any source */
	RND_REDUCE_SCATTER_V,
	RND_ALLGATHER_V,
	RND_GATHER_V,
	RND_SCATTER_V,
	RND_ALLTOALL_V,
	RND_WHATS
};

/* Those from RND_COMMUTING on are the caller's. */
enum rnd_op { RND_SUM, RND_MAX, RND_XOR, RND_COMMUTING, RND_ORDERED, RND_PREMUL, RND_OPS };
#define RND_TYPES 3

/* The caller's, of a context. */
struct rnd_ops {
	enum tutti_op commuting, ordered, premul[RND_TYPES];
};

/* The same on all ranks, but for rank, form (unless persistent) and, in a call with a root,
 * in_place. */
struct rnd_call {
	enum rnd_what what;
	struct tutti_comm *comm;
	int rank, n, root, by;
	int step;     /* in its program */
	size_t count; /* of a block; v forms: the longest */
	enum tutti_datatype type;
	enum rnd_op op;
	enum tutti_op handle; /* of op */
	bool in_place;
	enum colls_form form;
	int times;	   /* one after the other */
	uint64_t id, data; /* its properties and data are drawn from these */
};

/* The blocks of a buffer, in elements. */
struct rnd_side {
	int n;
	size_t len[RND_RANKS], off[RND_RANKS], total;
	struct mp_buf buf;
};

struct rnd_slot {
	struct rnd_call c;
	struct rnd_side in, out; /* in place: in says where in out's buffer */
	struct tutti_request *req[RND_RANKS];
	struct tutti_status status[RND_RANKS];
	bool used;
};

uint64_t rnd_next(uint64_t *state);
int rnd_below(uint64_t *state, int n);

/* random_oracle.c */
#define RND_UNTOUCHED 0xa5
int rnd_ops_new(struct mp_job *job, struct rnd_ops *ops);
int rnd_ops_free(struct mp_job *job, struct rnd_ops *ops);
enum tutti_datatype rnd_type(int i); /* i < RND_TYPES; all are unsigned */
bool rnd_is_v(const struct rnd_call *c);
/* The count of the block from one rank to another; some v forms use only one of the two. */
size_t rnd_length(const struct rnd_call *c, int from, int to);
/* Element k of block b of what rank puts in. */
uint64_t rnd_input(const struct rnd_call *c, int rank, int b, size_t k);
/* The expected element k of block b of the result. */
uint64_t rnd_expected(const struct rnd_slot *s, int b, size_t k);
/* The value of an element that was not written. */
uint64_t rnd_untouched(const struct rnd_call *c);

/*
 * A call on comm, drawn from a state that is equal on all ranks. once: calls in a group are not
 * repeated.
 */
void rnd_draw(uint64_t *state, const struct rnd_ops *ops, struct tutti_comm *comm, int step,
	      bool once, struct rnd_call *c);
/* 0, or what to fail with. Buffers of slot->c, of this kind of memory. */
int rnd_prepare(struct mp_job *job, struct rnd_slot *slot, enum mp_kind kind);
/* All its times but the last one are finished and compared as well. */
int rnd_start(struct mp_job *job, struct rnd_slot *slot);
int rnd_finish(struct mp_job *job, struct rnd_slot *slot);

#endif
