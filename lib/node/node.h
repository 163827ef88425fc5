/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks of one host in mapped memory: what the node ops of a plan are made of.
 *
 * Each process has a segment, a memfd that peers of the same host map when the job starts; where
 * it is travels in the card. It says which pool memory the process has, and whether it sleeps.
 * Each communicator whose ranks share a host has an area, a memfd of its lowest rank that all map:
 * flags, a slot of data and published buffers for each rank.
 *
 * A *turn* is a collective of a communicator that runs in its area; ranks have the same turns in
 * the same order. A rank's flag is {turn, step}: what it has reached. Flags, slots and published
 * buffers exist twice, for odd and even turns: a rank may begin turn t when all have finished turn
 * t - 2.
 *
 * Nobody touches a peer's memory but under a claim, and not if the peer has withdrawn:
 * tt_node_withdraw waits for the claims of others, so afterwards nobody reads or writes what was
 * published.
 */
#ifndef TT_NODE_H
#define TT_NODE_H

#include <stdatomic.h>

#include "lib/reduce/reduce.h"
#include "lib/wire/transport.h"

#define TT_NODE_RANKS 256	 /* at most so many ranks of a communicator */
#define TT_NODE_SLOT (32u << 10) /* bytes of a slot */
#define TT_NODE_ALL (-1)

struct tt_node;
struct tt_node_group;

/* In a rank's card: where its segment is. pid 0: it has none. */
struct tt_node_card {
	uint64_t cookie[2], ino;
	int32_t pid, seg_fd;
};
_Static_assert(sizeof(struct tt_node_card) == 32, "doc/WIRE.md");

/* node_segment.c */

int tt_node_open(struct tt_node **node);
void tt_node_close(struct tt_node *node);
void tt_node_card(const struct tt_node *node, struct tt_node_card *card);
/* To be told of memory, as a transport is; it has reg and dereg only. */
struct tt_tp *tt_node_keeper(struct tt_node *node);
/* What a process can do with all peers it has attached to. */
enum { TT_NODE_MAPS = 1, TT_NODE_READS = 2 /* their ordinary memory too */ };
/* Map the segment of a rank of this host. *can loses what does not work with it. */
int tt_node_attach(struct tt_node *node, int rank, int nranks, const struct tt_node_card *card,
		   unsigned *can);
/*
 * Sleeping: tt_node_lie_down gives a descriptor that becomes readable when a peer has published
 * something after the call, so look once more before sleeping on it.
 */
int tt_node_lie_down(struct tt_node *node, bool first);
void tt_node_get_up(struct tt_node *node);
/* Now and then: unmap what peers have given up. */
void tt_node_sweep(struct tt_node *node);

/* node_group.c */

struct tt_node_params {
	uint64_t uid; /* of the communicator */
	int rank, size;
	const int *world; /* ranks in the world, by rank here; as long as the group is there */
	const int *numa;  /* by rank here: its NUMA node, -1: unknown; NULL: nobody's is known */
	bool plain;	  /* all ranks can read and write each other's ordinary memory */
	uint64_t deadline;
	bool (*failed)(void *arg);	    /* give up waiting for the others */
	bool (*gone)(void *arg, int world); /* this rank counts as dead, whether it is or not */
	void *arg;
};

/* Collective: waits until the lowest rank has made the area. */
int tt_node_group_new(struct tt_node *node, const struct tt_node_params *params,
		      struct tt_node_group **group);
void tt_node_group_free(struct tt_node_group *group);
/*
 * Before it is freed at the lowest rank: nobody comes for the area any more, though not all have.
 */
void tt_node_forget(struct tt_node *node, uint64_t uid);

/* The first turn is 1. Whether this rank may begin it. */
bool tt_node_may_begin(struct tt_node_group *g, uint64_t turn);
/* Where this rank's slot of a turn is. */
void *tt_node_slot(struct tt_node_group *g, uint64_t turn);

/* What of a rank peers may touch: what they may read, what they may write, its slot. */
enum tt_node_which { TT_NODE_INPUT, TT_NODE_RESULT, TT_NODE_SLOTS, TT_NODE_WHICH = TT_NODE_SLOTS };
struct tt_region;
/* Whether peers can map it. */
bool tt_node_maps(const struct tt_node_group *g, const struct tt_region *region);
/*
 * Peers may touch len bytes at addr in this turn, once this rank has signalled. region covers them
 * or is NULL. A short input that peers can't map goes into the slot (*copied is its length then),
 * which the turn must not use otherwise. -EOPNOTSUPP: peers can't reach it.
 */
int tt_node_publish(struct tt_node_group *g, uint64_t turn, enum tt_node_which which, void *addr,
		    size_t len, const struct tt_region *region, size_t *copied);
/*
 * Whether all ranks have published memory that is mapped, or rings, for both input and result, in
 * this turn, which all have begun.
 */
bool tt_node_all_mapped(const struct tt_node_group *g, uint64_t turn);
/*
 * A ring stands for a vector that peers can't map, where each rank combines a part of it: in each
 * rank's ring every other rank has `depth` places, for piece k, k + 1, ... of the part that this
 * other rank combines. It finds the input in them and leaves the result there. All ranks of a turn
 * take the same shape.
 */
struct tt_node_ring {
	size_t piece; /* bytes of a place */
	uint32_t depth;
};
size_t tt_node_ring_bytes(const struct tt_node_group *g, const struct tt_node_ring *ring);
/* So many bytes of the slot for a ring, NULL: it is shorter. The turn must not use it otherwise. */
char *tt_node_ring_slot(struct tt_node_group *g, uint64_t turn, size_t bytes);
/*
 * As tt_node_publish, and the input before the result; addr is the vector itself, mem the ring, in
 * the slot (region NULL) or in memory that peers map.
 */
void tt_node_publish_ring(struct tt_node_group *g, uint64_t turn, enum tt_node_which which,
			  void *addr, char *mem, size_t bytes, const struct tt_region *region);
/* Where owner's ring has piece k of the part that rank `by` combines, from its beginning. */
size_t tt_node_ring_place(const struct tt_node_group *g, const struct tt_node_ring *ring, int owner,
			  int by, size_t k);
/* Whether a rank has published one, in this turn, which all have begun. */
bool tt_node_has_ring(const struct tt_node_group *g, uint64_t turn, int rank);
/*
 * How far this rank is: pieces that its ring has, or had; pieces of its part that it has combined.
 * From 0, which tt_node_uncount says before the first signal.
 */
enum tt_node_counter { TT_NODE_FILLED, TT_NODE_COMBINED, TT_NODE_COUNTS };
void tt_node_uncount(struct tt_node_group *g, uint64_t turn);
void tt_node_count(struct tt_node_group *g, uint64_t turn, enum tt_node_counter which, uint32_t n);
/* Whether a rank has come to more than n. */
bool tt_node_counted(const struct tt_node_group *g, uint64_t turn, int rank,
		     enum tt_node_counter which, uint32_t n);

/* What is this rank's own: not for peers. */
void tt_node_own(struct tt_node_group *g, uint64_t turn, enum tt_node_which which, void *addr);
/* This rank has reached a step, 1 .. 255, of a turn of this fingerprint. */
void tt_node_signal(struct tt_node_group *g, uint64_t turn, unsigned step, uint64_t fprint);
/*
 * The two halves of it: peers that look see it; those that sleep are woken, which costs the time
 * until all that was stored is visible.
 */
void tt_node_tell(struct tt_node_group *g, uint64_t turn, unsigned step, uint64_t fprint);
void tt_node_wake_all(struct tt_node_group *g);
/* Whether peer has reached it; *differs: with another fingerprint. */
bool tt_node_reached(struct tt_node_group *g, int peer, uint64_t turn, unsigned step,
		     uint64_t fprint, bool *differs);
/* The first of the ranks from .. on that has not, or differs; their number: there is none. */
int tt_node_missing(struct tt_node_group *g, int from, uint64_t turn, unsigned step,
		    uint64_t fprint, bool *differs);
/*
 * Whether one of the peers from .. end - 1 that has not reached it was last seen on the core of
 * the calling thread: then only giving the core away helps.
 */
bool tt_node_shares(struct tt_node_group *g, int from, int end, uint64_t turn, unsigned step);
/*
 * How many ranks were last seen on each of n cores; returns that of the calling thread, -1: it is
 * beyond or unknown.
 */
int tt_node_cores(struct tt_node_group *g, uint16_t *on, int n);
/* This rank begins a turn that others may see nothing of. */
void tt_node_began(struct tt_node_group *g, uint64_t turn, uint64_t fprint);
/*
 * Whether all have called the same up to this turn, which all have finished; else *turn is one in
 * which they have not.
 */
bool tt_node_agreed(struct tt_node_group *g, uint64_t upto, uint64_t *turn);
/* All have begun this turn, with the same fingerprint. */
void tt_node_all_began(struct tt_node_group *g, uint64_t turn);
/* This rank needs nothing of this turn any more. */
void tt_node_finish(struct tt_node_group *g, uint64_t turn);
/* A fence: afterwards no peer touches what this rank has published, now or later. */
void tt_node_withdraw(struct tt_node_group *g);

/* peer_pull.c */

/* A place in the same buffer of one or of all ranks. */
struct tt_node_ref {
	enum tt_node_which which;
	size_t off;
};

struct tt_node_reduce {
	enum tutti_datatype datatype;
	enum tutti_op op;
	size_t elem;
	int divide_by; /* 0: not */
	unsigned flags;
	struct tt_node_ring
		ring; /* where a rank has one: this is piece `number` of this rank's part */
	size_t number;
	/* instead of op: dst = a (+) b, of which dst may be one */
	void (*fn)(void *arg, void *dst, const void *a, const void *b, size_t count);
	void *arg;
};

/* What a pull did, in bytes. */
struct tt_node_count {
	uint64_t pulled, reduced, copied;
};

/*
 * Combine a part of all ranks' src, in order of rank, into dst of rank `to` (TT_NODE_ALL: of all
 * of them). The ranks have all published. 0; or -EPIPE, and *gone is a rank that has withdrawn; or
 * another code: *gone is the rank whose memory can't be reached.
 */
int tt_node_pull_reduce(struct tt_node_group *g, uint64_t turn, struct tt_node_ref src, int to,
			struct tt_node_ref dst, size_t len, const struct tt_node_reduce *r,
			struct tt_node_count *count, int *gone);
/* Copy out of from's src to dst here. */
int tt_node_pull_copy(struct tt_node_group *g, uint64_t turn, int from, struct tt_node_ref src,
		      void *dst, size_t len, struct tt_node_count *count, int *gone);
/* Copy what is here to dst of rank `to` (TT_NODE_ALL: of all others). */
int tt_node_push(struct tt_node_group *g, uint64_t turn, int to, struct tt_node_ref dst,
		 const void *src, size_t len, struct tt_node_count *count, int *gone);
/* All ranks' slots of a turn, which has begun everywhere, combined to dst here. */
void tt_node_reduce_slots(struct tt_node_group *g, uint64_t turn, void *dst, size_t count,
			  const struct tt_node_reduce *r);

#endif
