/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks of one host in shared memory: the basis of a plan's node ops.
 *
 * Each process has a segment, a memfd that peers of the same host map when the job starts; the
 * card says where it is. The segment lists the process's pool memory and says whether it sleeps.
 * Each communicator whose ranks share a host has an area, a memfd of its lowest rank that all
 * ranks map: flags, a data slot and published buffers for each rank.
 *
 * A *turn* is a collective of a communicator that runs in its area; all ranks have the same turns
 * in the same order. A rank's flag is {turn, step}: the point it has reached. Flags, slots and
 * published buffers exist twice, for odd and even turns: a rank may begin turn t when all have
 * finished turn t - 2.
 *
 * A rank accesses a peer's memory only under a claim, and only if the peer has not withdrawn.
 * tt_node_withdraw waits for the claims of other ranks, so afterwards no rank reads or writes what
 * was published.
 */
#ifndef TT_NODE_H
#define TT_NODE_H

#include "lib/reduce/reduce.h"
#include "lib/wire/transport.h"

#define TT_NODE_RANKS 256	 /* most ranks of a communicator */
#define TT_NODE_SLOT (32u << 10) /* bytes of a slot */
#define TT_NODE_SMALL (3u << 10) /* bytes of the slot of a persistent operation */
/* bytes of a slot, from which handing lines back (lib/base/copy.h) saves more than it takes */
#define TT_NODE_BACK_LEAST 2048
#define TT_NODE_ALL (-1)

struct tt_node;
struct tt_node_group;

/* In a rank's card: where its segment is. pid 0: none. */
struct tt_node_card {
	uint64_t cookie[2], ino;
	int32_t pid, seg_fd;
};
_Static_assert(sizeof(struct tt_node_card) == 32, "doc/WIRE.md");

/* node_segment.c */

int tt_node_open(struct tt_node **node);
void tt_node_close(struct tt_node *node);
void tt_node_card(const struct tt_node *node, struct tt_node_card *card);
/* Receives memory registrations, like a transport; it has reg and dereg only. */
struct tt_tp *tt_node_keeper(struct tt_node *node);
/* Access that a process has to all peers it has attached to. */
enum { TT_NODE_MAPS = 1, TT_NODE_READS = 2 /* their ordinary memory too */ };
/* Maps the segment of a rank of this host. Removes from *can what does not work with it. */
int tt_node_attach(struct tt_node *node, int rank, int nranks, const struct tt_node_card *card,
		   unsigned *can);
/*
 * Sleeping: tt_node_lie_down returns a descriptor that becomes readable when a peer publishes
 * something after the call, so check once more before sleeping on it.
 */
int tt_node_lie_down(struct tt_node *node, bool first);
void tt_node_get_up(struct tt_node *node);
/* From time to time: unmaps memory that peers have given up. */
void tt_node_sweep(struct tt_node *node);

/* node_group.c */

struct tt_node_params {
	uint64_t uid; /* of the communicator */
	int rank, size;
	const int *world; /* world ranks, by rank here; valid as long as the group */
	const int *numa;  /* NUMA nodes, by rank here, -1: unknown; NULL: none is known */
	int areas;	  /* of a batch for persistent operations; 0: an area for all turns */
	bool now;	  /* do not wait for the lowest rank, or its room for areas: -EAGAIN */
	bool plain;	  /* all ranks can read and write each other's ordinary memory */
	uint64_t deadline;
	bool (*due)(void *arg, uint64_t deadline); /* whether it has passed; not if only this
						      process was stopped until then */
	bool (*failed)(void *arg);		   /* true: give up waiting for the other ranks */
	bool (*gone)(void *arg, int world);	   /* whether this rank counts as dead */
	void *arg;
};

/* Collective: waits until the lowest rank has made the area. */
int tt_node_group_new(struct tt_node *node, const struct tt_node_params *params,
		      struct tt_node_group **group);
void tt_node_group_free(struct tt_node_group *group);
/* As that, of a communicator that has not failed: the next group of the same ranks may get its
 * area. */
void tt_node_group_leave(struct tt_node_group *group);
/*
 * The ranks of a batch in one of its areas, which has slots of TT_NODE_SMALL bytes; to be freed
 * before the batch. Memory is used only where turns have touched it: two pages of each rank.
 */
int tt_node_group_part(const struct tt_node_group *batch, int i, struct tt_node_group **group);
/* Bytes of a slot. */
size_t tt_node_slot_bytes(const struct tt_node_group *g);
/*
 * At the lowest rank, before the communicator is freed: no more ranks come for the area, although
 * some have not.
 */
void tt_node_forget(struct tt_node *node, uint64_t uid);

/* node_turns.c */

/* Whether this rank may begin a turn. The first turn is 1. */
bool tt_node_may_begin(struct tt_node_group *g, uint64_t turn);
/* The first other rank, at `from` or behind it, for which it has to wait; -1: none. */
int tt_node_behind(const struct tt_node_group *g, int from, uint64_t turn);
/* This rank's slot of a turn; another rank's. */
void *tt_node_slot(struct tt_node_group *g, uint64_t turn);
void *tt_node_slot_of(const struct tt_node_group *g, int rank, uint64_t turn);

/* A rank's memory that peers may access: its input to read, its result to write, its slot. */
enum tt_node_which { TT_NODE_INPUT, TT_NODE_RESULT, TT_NODE_SLOTS, TT_NODE_WHICH = TT_NODE_SLOTS };
struct tt_region;
/* Whether peers can map it. */
bool tt_node_maps(const struct tt_node_group *g, const struct tt_region *region);
/*
 * Whether ordinary memory has one reader, which can read it where it is: a copy that both can map
 * moves it twice, and its lines from core to core, although the memory itself may not have changed.
 */
bool tt_node_direct(const struct tt_node_group *g);
/* How an input that peers cannot map is published. */
enum tt_node_how {
	TT_NODE_COPIES,	   /* in the slot, if it is short */
	TT_NODE_STAYS,	   /* where it is: the turn uses the slot otherwise */
	TT_NODE_ONE_WAY,   /* copy_or_read.c: as is faster, if tt_node_direct; */
	TT_NODE_BOTH_WAYS, /* the reader publishes one, too; */
	TT_NODE_OPERAND	   /* the reader combines it with its own */
};
/*
 * Peers may access len bytes at addr in this turn, once this rank has signalled. region covers
 * them or is NULL. Returns the length of a copy in the slot, which the turn must not use otherwise;
 * 0: there is none; -EOPNOTSUPP: peers cannot reach it.
 */
int tt_node_publish(struct tt_node_group *g, uint64_t turn, enum tt_node_which which, void *addr,
		    size_t len, const struct tt_region *region, enum tt_node_how how);
/*
 * A ring replaces a vector that peers cannot map. Each rank combines one part of the vector: in
 * each rank's ring every other rank has `depth` places, for pieces k, k + 1, ... of the part that
 * this other rank combines. It finds the input there and leaves the result there. All ranks of a
 * turn use the same shape.
 */
struct tt_node_ring {
	size_t piece; /* bytes of a place */
	uint32_t depth;
};
size_t tt_node_ring_bytes(const struct tt_node_group *g, const struct tt_node_ring *ring);
/*
 * So many bytes of the slot for a ring; NULL: the slot is shorter. The turn must not use it
 * otherwise.
 */
char *tt_node_ring_slot(struct tt_node_group *g, uint64_t turn, size_t bytes);
/*
 * As tt_node_publish, and the input before the result; addr is the vector itself, mem the ring, in
 * the slot (region NULL) or in memory that peers map.
 */
void tt_node_publish_ring(struct tt_node_group *g, uint64_t turn, enum tt_node_which which,
			  void *addr, char *mem, size_t bytes, const struct tt_region *region);
/* Where owner's ring has piece k of the part that rank `by` combines, from the ring's beginning. */
size_t tt_node_ring_place(const struct tt_node_group *g, const struct tt_node_ring *ring, int owner,
			  int by, size_t k);
/* Whether a rank has published a ring in this turn, which all have begun. */
bool tt_node_has_ring(const struct tt_node_group *g, uint64_t turn, int rank);
/*
 * Progress counters of this rank: pieces put into its ring; pieces of its part combined. They
 * start from 0, which tt_node_uncount stores before the first signal.
 */
enum tt_node_counter { TT_NODE_FILLED, TT_NODE_COMBINED, TT_NODE_COUNTS };
void tt_node_uncount(struct tt_node_group *g, uint64_t turn);
void tt_node_count(struct tt_node_group *g, uint64_t turn, enum tt_node_counter which, uint32_t n);
/* Whether a rank's counter exceeds n. */
bool tt_node_counted(const struct tt_node_group *g, uint64_t turn, int rank,
		     enum tt_node_counter which, uint32_t n);

/*
 * call_ways.c. Of two ranks that may read and write each other's ordinary memory, a reduction
 * of which each combines a part goes through rings, or straight between their memory: as is faster.
 */
#define TT_NODE_KINDS 4 /* of reductions: a number below this */
/* Which times those of len bytes belong to, from 1 on; 0: they are not measured, but take rings. */
unsigned tt_node_way(const struct tt_node_group *g, unsigned kind, size_t len);
/* Whether the next one goes straight. *way 0: not to be measured. */
bool tt_node_goes_direct(struct tt_node_group *g, unsigned *way);
/* The same for memory that peers map: this rank leaves its result as it is, hands its lines back to
 * the peer at the end, or takes rings. */
enum tt_mapped { TT_MAPPED_LEFT, TT_MAPPED_BACK, TT_MAPPED_RINGS };
unsigned tt_node_mapped_way(const struct tt_node_group *g, unsigned kind, size_t len);
enum tt_mapped tt_node_mapped(struct tt_node_group *g, unsigned *way, size_t len);
/* The same for an input of ordinary memory that peers copy: straight, or it is streamed. */
enum tt_node_copy_kind {
	TT_NODE_TO_ALL,
	TT_NODE_SCATTERS,
	TT_NODE_GATHERS,
	TT_NODE_ALL_TO_ALL,
	TT_NODE_EXCHANGES,
	TT_NODE_COPY_KINDS
};
unsigned tt_node_copy_way(const struct tt_node_group *g, enum tt_node_copy_kind kind, size_t len);
/* Whether the next one is streamed; *asks: as in tt_node_publish_stream. */
bool tt_node_streams(struct tt_node_group *g, unsigned *way, bool *asks);
/* Ticks that this rank has needed to fill its ring, which it began then. */
uint64_t tt_node_filled(uint64_t began);
/*
 * One of len bytes, in the second form: straight, handed back, or by rings in spite of the mapping,
 * has taken so many ticks at this rank, but for the wait until all had come.
 */
void tt_node_went(struct tt_node_group *g, unsigned way, bool second, size_t len, uint64_t ticks);

/*
 * A stream replaces an input that peers can neither map nor read: memory that they map, into which
 * the owner puts the input piece by piece while they copy out what is there. A lane is a part of
 * the input, for one reader or for all other ranks, which copy it from its beginning to its end. A
 * stream has one lane; or n - 1, for the next rank, the one after it, ...
 */
struct tt_node_lane {
	size_t off, len; /* off: from the beginning of the input */
	int reader;	 /* TT_NODE_ALL: all other ranks */
};
size_t tt_node_stream_bytes(const struct tt_node_group *g, const struct tt_node_lane *lane, int n);
/*
 * As tt_node_publish, of the input, in memory that peers map. asks: its reader is to try whether
 * it reaches this rank's memory.
 */
void tt_node_publish_stream(struct tt_node_group *g, uint64_t turn, void *mem, size_t bytes,
			    const struct tt_region *region, const struct tt_node_lane *lane, int n,
			    bool asks);
/* The bytes of a lane's piece that begins at `at`. */
size_t tt_node_stream_next(size_t len, size_t at);
/*
 * Puts the next piece into lane i, if that has room: where all readers have left a place, or within
 * `most` bytes of places. Returns its bytes or 0.
 */
size_t tt_node_stream_fill(struct tt_node_group *g, char *stream, int i, const char *input,
			   size_t most);
/* Whether all pieces have been put in. */
bool tt_node_stream_full(const struct tt_node_group *g, char *stream);
/* Whether a rank that has published its input has a stream. */
bool tt_node_has_stream(const struct tt_node_group *g, uint64_t turn, int rank);

/* Memory of this rank only, not for peers. */
void tt_node_own(struct tt_node_group *g, uint64_t turn, enum tt_node_which which, void *addr);
/* This rank has reached a step, 1 .. 255, of a turn of this fingerprint. */
void tt_node_signal(struct tt_node_group *g, uint64_t turn, unsigned step, uint64_t fprint);
/*
 * The two halves of tt_node_signal. tell: polling peers see the step. wake_all: wakes sleeping
 * peers, which costs the time until all stores are visible.
 */
void tt_node_tell(struct tt_node_group *g, uint64_t turn, unsigned step, uint64_t fprint);
void tt_node_wake_all(struct tt_node_group *g);
/* Whether peer has reached the step; *differs: with another fingerprint. */
bool tt_node_reached(struct tt_node_group *g, int peer, uint64_t turn, unsigned step,
		     uint64_t fprint, bool *differs);
/* The first rank in from .. end - 1 that has not reached it, or differs; end: none. */
int tt_node_missing(struct tt_node_group *g, int from, int end, uint64_t turn, unsigned step,
		    uint64_t fprint, bool *differs);
/*
 * Whether a peer in from .. end - 1 that has not reached it was last seen on the calling thread's
 * core: then only yielding helps.
 */
bool tt_node_shares(struct tt_node_group *g, int from, int end, uint64_t turn, unsigned step);
/*
 * How many ranks were last seen on each of n cores; returns the calling thread's core, -1: beyond
 * n or unknown.
 */
int tt_node_cores(struct tt_node_group *g, uint16_t *on, int n);
/* This rank begins a turn in which other ranks may not see any flag of it. */
void tt_node_began(struct tt_node_group *g, uint64_t turn, uint64_t fprint);
/*
 * Whether all ranks have made the same calls up to this turn, which all have finished; else *turn
 * is a turn in which they differ.
 */
bool tt_node_agreed(struct tt_node_group *g, uint64_t upto, uint64_t *turn);
/*
 * The same for the last two turns of this rank, which has finished them, as far as other ranks
 * have: of each two ranks, the one that comes later finds out.
 */
bool tt_node_last_agreed(struct tt_node_group *g, uint64_t last, uint64_t *turn);
/*
 * This rank begins no further turn; turns is a number that ranks have in common if they had the
 * same turns. Returns whether all ranks that have ended had that number: of each two ranks, the one
 * that comes later finds out.
 */
bool tt_node_end_turns(struct tt_node_group *g, uint64_t turns);
/* All ranks have begun this turn, with the same fingerprint. */
void tt_node_all_began(struct tt_node_group *g, uint64_t turn);
/* This rank is done with this turn. */
void tt_node_finish(struct tt_node_group *g, uint64_t turn);
/*
 * A fence: afterwards no peer accesses what this rank has published, now or later. A peer that is
 * stopped in the middle of an access for 5 s, or is taken for dead, is killed.
 */
void tt_node_withdraw(struct tt_node_group *g);
/* The same without waiting; false: a peer accesses it still. To be repeated until true. */
bool tt_node_try_withdraw(struct tt_node_group *g);

/* peer_pull.c */

/* A place in the same buffer of one rank or of all ranks. */
struct tt_node_ref {
	enum tt_node_which which;
	size_t off;
};

struct tt_node_reduce {
	enum tutti_datatype datatype;
	enum tutti_op op;
	size_t elem;
	int divide_by; /* 0: not */
	int ranks;     /* combines the vectors of the first so many ranks; 0: of all */
	unsigned flags;
	struct tt_node_ring
		ring; /* for a rank with a ring: this is piece `number` of this rank's part */
	size_t number;
	/* used instead of op: dst = a (+) b, where dst may be a or b */
	void (*fn)(void *arg, void *dst, const void *a, const void *b, size_t count);
	void *arg;
};

/* Bytes moved by a pull. */
struct tt_node_count {
	uint64_t pulled, reduced, copied;
};

/*
 * Combines a part of all ranks' src, in rank order, into dst of rank `to` (TT_NODE_ALL: of all
 * ranks). All ranks have published. 0; -EPIPE: rank *gone has withdrawn; another code: the memory
 * of rank *gone cannot be reached.
 */
int tt_node_pull_reduce(struct tt_node_group *g, uint64_t turn, struct tt_node_ref src, int to,
			struct tt_node_ref dst, size_t len, const struct tt_node_reduce *r,
			struct tt_node_count *count, int *gone);
/* Copies from rank from's src to dst here. -EAGAIN: of a stream not all is there. */
int tt_node_pull_copy(struct tt_node_group *g, uint64_t turn, int from, struct tt_node_ref src,
		      void *dst, size_t len, struct tt_node_count *count, int *gone);
/*
 * stream.c: the same of the next piece of a stream, len bytes in all, of which this rank has `at`.
 * *took: its bytes, 0: it is not there yet.
 */
int tt_node_stream_take(struct tt_node_group *g, uint64_t turn, int from, struct tt_node_ref src,
			void *dst, size_t at, size_t len, size_t *took, int *gone);
/* Whether it is there, or never will be. */
bool tt_node_stream_there(struct tt_node_group *g, uint64_t turn, int from, struct tt_node_ref src,
			  size_t len, size_t at);
/* Copies local data to dst of rank `to` (TT_NODE_ALL: of all other ranks). */
int tt_node_push(struct tt_node_group *g, uint64_t turn, int to, struct tt_node_ref dst,
		 const void *src, size_t len, struct tt_node_count *count, int *gone);
/* Combines len bytes at off of the slots of a turn, which those ranks have filled, into dst. */
void tt_node_reduce_slots(struct tt_node_group *g, uint64_t turn, void *dst, size_t off, size_t len,
			  int ranks, const struct tt_node_reduce *r);

#endif
