/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Averaging that waits for no neighbour: mailboxes (asynchronous gossip), pairs of ranks (AD-PSGD),
 * and a centre (elastic averaging). See tutti_decentralized(7).
 *
 * Mailboxes and pairs have a tolerant communicator of their own: after a death the other ranks go
 * on, whatever the communicator that was passed does.
 */
#ifndef TUTTI_GOSSIP_H
#define TUTTI_GOSSIP_H

#include <tutti/coll.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* ---- mailboxes ---- */

struct tutti_gossip;

struct tutti_gossip_config {
	size_t size;	       /* sizeof(struct tutti_gossip_config) */
	size_t count;	       /* elements of a vector; the same on all ranks */
	int datatype;	       /* TUTTI_FLOAT32 or TUTTI_FLOAT64; the same on all ranks */
	int nin, nout;	       /* how many neighbours write here, and read what this rank posts */
	const int *in, *out;   /* which: ranks of comm, no rank twice, not this one */
	const double *weights; /* of in, each >= 0, at most 1 together; NULL: 1 / (nin + 1) each */
};

/**
 * tutti_gossip_create - make this rank's mailbox, which has a slot for each in-neighbour.
 * Collective. If rank a lists b in out, b must list a in in, and conversely. Arrays are copied.
 */
int tutti_gossip_create(struct tutti_comm *comm, const struct tutti_gossip_config *config,
			struct tutti_gossip **gossip);

/**
 * tutti_gossip_post - write x, with the next version, to this rank's slots at its out-neighbours.
 * x may be reused at once. Waits for no rank: a neighbour whose last post has not arrived yet is
 * left out, and one that has died for ever.
 */
int tutti_gossip_post(struct tutti_gossip *gossip, const void *x);

/**
 * tutti_gossip_mix - x += sum over in-neighbours of weight (s - x), s: the newest whole vector in
 * the neighbour's slot. Local. A slot that is still empty, or whose writer has died, is left out.
 */
int tutti_gossip_mix(struct tutti_gossip *gossip, void *x);

/** tutti_gossip_flush - wait until what was posted is in the slots of the live out-neighbours. */
int tutti_gossip_flush(struct tutti_gossip *gossip);

/**
 * tutti_gossip_versions - by in-neighbour, the version that the last mix used; 0: none. Versions
 * count the posts of their writer, from 1.
 */
int tutti_gossip_versions(struct tutti_gossip *gossip, uint64_t *versions);

/* Counters of this rank. */
struct tutti_gossip_state {
	size_t size;	       /* sizeof(struct tutti_gossip_state) */
	uint64_t posts;	       /* calls of tutti_gossip_post */
	uint64_t sent;	       /* vectors written to neighbours */
	uint64_t skipped;      /* not written: the last one was still on its way */
	uint64_t mixes;	       /* calls of tutti_gossip_mix */
	uint64_t mixed;	       /* vectors of neighbours in them */
	uint64_t fresh;	       /* those that no mix before had used */
	uint64_t empty;	       /* slots without a post */
	uint64_t torn;	       /* slots that were written faster than they could be read */
	uint64_t bytes;	       /* written to neighbours */
	int dead_in, dead_out; /* neighbours known to have died */
};

int tutti_gossip_state(struct tutti_gossip *gossip, struct tutti_gossip_state *state);

/** tutti_gossip_free - collective over the live ranks. */
int tutti_gossip_free(struct tutti_gossip *gossip);

/* ---- pairs ---- */

struct tutti_pair;

#define TUTTI_PAIR_ANY (-1) /* as a rank: a live one at random, not this one */

/**
 * tutti_pair_create - a vector of count elements on each rank, at *x, zero to begin with. int32,
 * int64, float32 or float64. Collective; count and datatype are the same on all ranks.
 */
int tutti_pair_create(struct tutti_comm *comm, size_t count, enum tutti_datatype datatype, void **x,
		      struct tutti_pair **pair);

/**
 * tutti_pair_average - replace this rank's vector and rank's by their average, at once in the eyes
 * of all ranks. rank makes no call for it. Integers: the lower rank gets the floor, the other one
 * the rest, so that the sum is kept. -TUTTI_EPEER if rank has died. partner (may be NULL): the rank
 * that TUTTI_PAIR_ANY has chosen; untouched on failure.
 */
int tutti_pair_average(struct tutti_pair *pair, int rank, int *partner);

/**
 * tutti_pair_lock - keep averages away from rank's vector until tutti_pair_unlock: this rank's own
 * while it reads or changes x. One lock at a time.
 */
int tutti_pair_lock(struct tutti_pair *pair, int rank);
int tutti_pair_unlock(struct tutti_pair *pair);

/* Counters of this rank. */
struct tutti_pair_state {
	size_t size;	   /* sizeof(struct tutti_pair_state) */
	uint64_t averages; /* that this rank has begun and that succeeded */
	uint64_t waits;	   /* locks that another one held */
	uint64_t broken;   /* locks of dead ranks that this rank has taken over */
	uint64_t bytes;	   /* of vectors read and written */
};

int tutti_pair_state(struct tutti_pair *pair, struct tutti_pair_state *state);

/** tutti_pair_free - collective over the live ranks; *x ends with it. */
int tutti_pair_free(struct tutti_pair *pair);

/* ---- elastic averaging ---- */

/**
 * tutti_elastic_average - the synchronous form: with x_i of rank i, n ranks, and old values on the
 * right,
 *
 *	center = center + alpha (sum of x_i - n center)
 *	x_i = x_i - alpha (x_i - center)
 *
 * float32 or float64. center is the same on all ranks before and after. work is room for count
 * elements. Collective.
 */
int tutti_elastic_average(void *x, void *center, void *work, size_t count,
			  enum tutti_datatype datatype, double alpha, struct tutti_comm *comm);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
