/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of lib/node: the layout of shared memory, and the structs behind node.h. */
#ifndef TT_NODE_INTERNAL_H
#define TT_NODE_INTERNAL_H

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/list.h"
#include "lib/mem/mem.h"
#include "lib/node/node.h"
#include "lib/node/trials.h"
#include "lib/shm/segment.h"

#define SEG_NAME "tutti-node"
#define AREA_NAME "tutti-area"
#define SEG_MAGIC 0x3930444e54545454ull /* includes the layout version */
#define SEG_AREAS 256			/* areas being distributed at once */
#define SEG_SLABS 4096
#define SLOT_SKIP                                                                                  \
	((size_t)48) /* in the slot a ring begins at a cache line, as vectors are stored there */
#define LINE 128     /* two cache lines: processors fetch them in pairs */

/* An area whose home is the lowest rank. The uid is written last. */
struct node_home {
	_Atomic uint64_t uid; /* 0: free */
	uint64_t ino;
	int32_t fd, pad; /* fd < 0: its ranks have kept it */
};

struct node_seg {
	struct tt_shm_head head;
	_Alignas(LINE) _Atomic uint32_t sleeping;
	_Atomic uint32_t given_up; /* slabs so far */
	_Alignas(LINE) struct node_home home[SEG_AREAS];
	_Alignas(4096) struct tt_shm_entry slab[SEG_SLABS]; /* its pool memory */
};

enum node_kind { NODE_NONE, NODE_POOL, NODE_PLAIN, NODE_SLOT };

/* This buffer is a ring (node.h); its rank has one (published with its input); it is a stream. */
enum { NODE_RING_HERE = 1, NODE_RING_OWNER = 2, NODE_STREAM = 4 };

/* A published buffer. */
struct node_buf {
	uint16_t kind, ring;   /* ring: NODE_RING_*, NODE_STREAM */
	uint32_t slab;	       /* of pool memory; else a tt_node_measure */
	uint64_t id, off, len; /* off: into the slab; an address; into the slot */
};

#define NODE_LENGTHS 3 /* of copy_or_read.c: powers of two */
#define NODE_MEASURES (3 * NODE_LENGTHS)
#define NODE_WAYS (TT_NODE_KINDS * (7 + 10) + TT_NODE_COPY_KINDS * 10) /* of call_ways.c */

/* A way for the inputs of a measure. */
struct node_choice {
	uint64_t inputs; /* so far */
	uint32_t in;	 /* ticks for a KiB into the slot; 0: not known */
	bool reads;	 /* between trials: they stay where they are */
};

/* The reductions of a way. */
struct node_way {
	uint64_t calls; /* so far */
	bool second;	/* between trials: not the first of its two forms */
};

/* flag is {turn, step}; the vector follows in the same line. */
struct node_slot {
	_Alignas(LINE) _Atomic uint64_t flag;
	uint64_t fprint;
	char data[SLOT_SKIP + TT_NODE_SLOT];
};

/*
 * A rank's part of an area, written by that rank only. Whole pages, on its NUMA node. A turn with a
 * small slot touches the first page and the page of the second slot's beginning.
 */
struct node_rank {
	_Alignas(4096) struct node_buf buf[2][TT_NODE_WHICH];
	_Alignas(LINE) _Atomic uint64_t done; /* turns it has finished */
	_Atomic uint64_t called[4]; /* fingerprints of its last turns, by turn % 4; node_turns.c */
	_Atomic uint32_t busy;	    /* it is accessing peers' memory */
	/* copy_or_read.c: ticks for a KiB, out of a peer's slot and where it is; 0: not known */
	_Atomic uint32_t out[NODE_MEASURES], read[NODE_MEASURES];
	/* reach.c: an address in its process; it has read that of its peer, of two ranks, lately */
	_Atomic uint64_t word;
	_Atomic bool reaches;
	_Alignas(LINE) _Atomic uint32_t
		count[2][TT_NODE_COUNTS]; /* of its ring and its part, by turn % 2 */
	/* In a line that is seldom written: */
	_Alignas(LINE) _Atomic int32_t core; /* last known core */
	_Atomic uint32_t withdrawn;
	_Atomic uint64_t ended; /* a number of its turns, plus 1, once it begins no further one */
	struct node_slot slot[2];
	/* call_ways.c: ticks for a KiB, of the two forms; 0: not
	 * known */
	_Atomic uint32_t first[NODE_WAYS], second[NODE_WAYS];
};

#define SMALL_END (offsetof(struct node_slot, data) + SLOT_SKIP + TT_NODE_SMALL)
_Static_assert(offsetof(struct node_rank, slot[0]) + SMALL_END <= 4096, "one page");
_Static_assert(offsetof(struct node_rank, slot[1]) % 4096 + SMALL_END <= 4096, "one page");

struct node_area {
	uint64_t uid;
	int32_t size;
	_Atomic uint32_t attached, left; /* ranks that have mapped it; that keep it */
	_Atomic uint32_t dropped;	 /* kept_areas.c: its home does not keep it */
	struct node_rank rank[];
};

struct node_peer {
	struct node_seg *seg;
	pid_t pid;
	int wake_fd;		  /* the write end of its pipe */
	uint32_t given_up;	  /* seen so far */
	bool ended;		  /* killed, in the middle of a pull */
	struct tt_shm_maps slabs; /* its pool memory, mapped here */
};

/* An area that some ranks have not mapped yet. */
struct node_handing {
	struct node_area *area; /* NULL: none */
	size_t len;
	int size;
	bool orphan; /* the home has left it: it stays mapped for the remaining ranks */
};

struct tt_node {
	struct tt_tp keeper; /* first */
	struct tt_shm_seg own;
	struct node_seg *seg; /* own, mapped */
	struct tt_shm_table slabs;
	struct node_peer **peer; /* by rank in the world */
	int npeers;
	/* several threads may create and free communicators at once */
	pthread_mutex_t homes; /* guards home, and seg->home of this process */
	struct node_handing home[SEG_AREAS];
	struct tt_list kept; /* kept_areas.c; guarded by homes, too */
};

struct tt_node_group {
	struct tt_node *node;
	struct node_area *area;
	size_t area_len; /* 0: the area belongs to a batch */
	uint64_t ino;	 /* of the area's memfd */
	size_t slot;	 /* bytes of a slot */
	int rank, size;
	bool plain;
	struct node_peer **peer; /* by rank here; NULL for this rank */
	bool (*gone)(void *arg, int world);
	const int *world; /* the caller's, by rank here */
	void *arg;
	uint64_t all_done;	     /* all ranks have finished this many turns */
	uint64_t agreed;	     /* all ranks have made the same calls in this many */
	char *own[2][TT_NODE_WHICH]; /* published or private buffers of this rank */
	int core;		     /* as in this rank's part of the area */
	int fenced;		     /* withdrawn: this many ranks have no claim any more, */
	uint64_t looked, awaited; /* when this was looked at, and how long the next one has one */
	char *tmp;		  /* scratch for ordinary memory of peers */
	size_t tmp_len;
	struct node_choice choice[NODE_MEASURES];
	struct node_way way[NODE_WAYS];
};

/* copy_or_read.c: which times such an input belongs to, from 1 on; 0: none, it is not chosen. */
unsigned tt_node_measure(const struct tt_node_group *g, enum tt_node_how how, size_t len);
/* Whether the next such input of this rank stays where it is. *measure 0: not to be measured. */
bool tt_node_is_read(struct tt_node_group *g, unsigned *measure);
/* Since that tick this rank has copied one into its slot; or got a peer's. */
void tt_node_copied_in(struct tt_node_group *g, unsigned measure, size_t len, uint64_t from);
void tt_node_taken(struct tt_node_group *g, unsigned measure, bool read, size_t len, uint64_t from);

/* reach.c, of two ranks: so that peers can try; tries; whether the peer reaches this rank. */
void tt_node_show_word(struct tt_node_group *g);
void tt_node_try_reach(struct tt_node_group *g);
bool tt_node_is_reached(const struct tt_node_group *g);
bool tt_node_reach_each_other(const struct tt_node_group *g);
/* Whether a call of a trial takes the way that the kernel has to allow, which is in use or not. */
bool tt_node_by_kernel(const struct tt_trial *trial, bool in_use, bool reached);

/* node_turns.c: the registration by which peers map a region; NULL: they cannot. */
const struct tt_mr *tt_node_mr(const struct tt_node_group *g, const struct tt_region *region);
/* Memory that peers can map, described for them. */
struct node_buf tt_node_pool_buf(const struct tt_mr *mr, const void *addr, size_t len);

/* peer_pull.c: the caller accesses peers' memory until it releases it; -EPIPE: *gone withdrew. */
int tt_node_claim(struct tt_node_group *g, int *gone);
void tt_node_release(struct tt_node_group *g);

/* stream.c, under a claim: all of a stream, if all pieces are there; else -EAGAIN. */
int tt_node_stream_whole(struct tt_node_group *g, uint64_t turn, int from, struct tt_node_ref src,
			 void *dst, size_t len);

/* kept_areas.c, all under the lock of homes. Whether the area stays mapped after this rank left it.
 */
bool tt_node_keep(struct tt_node_group *g);
/* At the home: an area that all of these ranks have left, as new. */
bool tt_node_reuse(struct tt_node_group *g);
/* At other ranks: the area with this inode, which has been given this uid. */
bool tt_node_find_kept(struct tt_node_group *g, uint64_t ino, uint64_t uid);
/* Unmaps the areas that their homes have dropped; all. */
void tt_node_drop_stale(struct tt_node *node);
void tt_node_drop_all(struct tt_node *node);
/* node_group.c, the same: whether some ranks have yet to map an area of this home. */
bool tt_node_is_handed(const struct tt_node *node, const struct node_area *area);
/* Unmaps it; at the home, after those ranks, and tells the ranks that keep it. */
void tt_node_let_go(struct tt_node *node, struct node_area *area, size_t len, bool home);

/* node_segment.c */
/* Closes the descriptors of areas that all ranks have mapped. */
void tt_node_hand_out(struct tt_node *node);
/* At the end: no rank comes for the remaining areas. */
void tt_node_take_back(struct tt_node *node);

/* peer_memory.c */
int tt_node_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mr);
int tt_node_dereg(struct tt_mr *mr);
/* The local address of a byte of a peer's slab. */
int tt_node_map(struct node_peer *peer, const struct node_buf *buf, char **ptr);
void tt_node_unmap_stale(struct node_peer *peer);

/*
 * Publishes a buffer unless it is the same as two turns ago, as peers then still have the line.
 * Compares by fields, which are in registers; reading the whole struct again would stall.
 */
static inline void tt_node_put_buf(struct node_buf *buf, const struct node_buf *b)
{
	if (buf->kind != b->kind || buf->ring != b->ring || buf->slab != b->slab ||
	    buf->id != b->id || buf->off != b->off || buf->len != b->len)
		*buf = *b;
}

static inline uint64_t tt_node_flag(uint64_t turn, unsigned step)
{
	return turn << 8 | step;
}

#endif
