/* SPDX-License-Identifier: BSD-3-Clause */
/* One call of a random program: drawn, started, finished, and compared with a serial oracle. */
#ifndef TT_MP_RANDOM_H
#define TT_MP_RANDOM_H

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

/* The same on all ranks, but for rank. */
struct rnd_call {
	enum rnd_what what;
	struct tutti_comm *comm;
	int rank, n, root, by;
	int step; /* in its program */
	size_t count; /* of a block; v forms: the longest */
	enum tutti_datatype type;
	enum tutti_op op;
	uint64_t id; /* its data are drawn from this */
};

/* The blocks of a buffer, in elements. */
struct rnd_side {
	int n;
	size_t len[RND_RANKS], off[RND_RANKS], total;
	struct mp_buf buf;
};

struct rnd_slot {
	struct rnd_call c;
	struct rnd_side in, out;
	struct tutti_request *req[RND_RANKS];
	struct tutti_status status[RND_RANKS];
	bool used;
};

uint64_t rnd_next(uint64_t *state);
int rnd_below(uint64_t *state, int n);
/* A call on comm, from a state that is equal on all ranks. */
void rnd_draw(uint64_t *state, struct tutti_comm *comm, int step, struct rnd_call *c);
/* 0, or what to fail with. Buffers of slot->c, of this kind of memory. */
int rnd_prepare(struct mp_job *job, struct rnd_slot *slot, enum mp_kind kind);
int rnd_start(struct rnd_slot *slot);
int rnd_finish(struct mp_job *job, struct rnd_slot *slot);

#endif
