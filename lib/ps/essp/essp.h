/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP: servers send the blocks that workers have subscribed to, and workers relay them. This
 * header has the memory layout and the state of senders and receivers.
 *
 * A worker's memory, for each replica of each server:
 * [feed: words 0, words 1, batch] ... [want, bits] ... [block 0: slot 0, slot 1] [block 1: ...]
 * A slot: head, then the block's values, or its encoded copy in their place if the table has them.
 *
 * One sender writes a feed: the server or, for relayed blocks, another worker. A block has one
 * sender at a time. A want lists the blocks that another worker asks this worker for.
 */
#ifndef TT_ESSP_H
#define TT_ESSP_H

#include "lib/ps/server/server.h"

#define TT_PS_PARENTS 4			/* workers that send one worker blocks of a server */
#define TT_PS_NEAR 2			/* workers that a worker relays to: on its own host, */
#define TT_PS_CHILDREN 4		/* and in all */
#define TT_PS_PIECE ((size_t)512 << 10) /* size of a relayed batch, approximately */
#define TT_PS_LEFT UINT64_MAX		/* as a batch number: the feed has ended */
#define TT_PS_LOST UINT64_C(0xff)	/* as a word: the sender does not get the block any more */
#define TT_PS_UNSENT 0xff		/* as a block's sender: it has failed, and none followed */
_Static_assert(TT_PS_PARENTS + 1 < TT_PS_UNSENT, "a parent's place is no special value");

/*
 * The last part of a batch. The sender then waits for the receiver to say that the batch is in
 * force.
 */
struct tt_ps_batch {
	uint64_t number, parts, min_clock;
	uint64_t spare[5];
};

/* In front of the bits of the blocks that a worker wants from another. */
struct tt_ps_want {
	uint64_t worker, feed; /* the child, and which of its feeds the blocks go to */
	uint64_t leaves;       /* 1: the child wants none from now on */
	uint64_t spare[4];
	uint64_t ack; /* a batch is in force: written back to the sender */
};

struct tt_ps_cache;

/* One sender's blocks, at the receiving worker; under the lock. */
struct tt_ps_feed {
	struct tt_bell part, line;
	struct tt_win_end acked, asked;
	struct tt_ps_cache *cache;
	int index;	   /* below copies: a replica of the server; above: a parent */
	int parent, slot;  /* the sending worker, and its slot there; -1: a server */
	char *area, *base; /* of this replica of the server; of the feed in it */
	bool here;	   /* the line has arrived */
	bool ack_due, slow, lost, left;
	uint64_t parts;
	uint64_t number, min_clock; /* of the batch in force */
	uint64_t heard;		    /* when data last arrived */
	atomic_uint reading[2];	    /* puts to children that began under an even or odd batch */
	struct tt_ps_want *want;
	bool want_due, want_busy;
};

#define TT_PS_PUTS 8 /* blocks under way to a worker */

struct tt_ps_sub;

struct tt_ps_part_put {
	struct tt_win_end end;
	struct tt_ps_sub *sub;
	atomic_uint *reading; /* counts the readers of the block that the put reads */
	bool busy;
};

enum tt_ps_sub_state {
	TT_PS_SUB_IDLE = 0,
	TT_PS_SUB_BLOCKS, /* blocks remain to be sent */
	TT_PS_SUB_SENT	  /* all is sent; the worker has not acknowledged the batch */
};

/* The source of what is sent. */
struct tt_ps_sub_ops {
	/* Whether there is a block to send or a new clock (in sub->clock). */
	bool (*begin)(struct tt_ps_sub *sub);
	/* The next block to send, from sub->at on; false: none. */
	bool (*next)(struct tt_ps_sub *sub, uint64_t *block);
	/* A block as it is now, and the counter of its readers. */
	const struct tt_ps_head *(*take)(struct tt_ps_sub *sub, uint64_t block, uint64_t *sequence,
					 atomic_uint **reading);
	void (*starts)(struct tt_ps_sub *sub); /* a put starts; its end is reported later */
	void (*over)(struct tt_ps_sub *sub, int status);
	void (*stir)(struct tt_ps_sub *sub); /* more can perhaps be sent */
};

/*
 * One subscription: what a replica of a server, or another worker, sends to a worker of that
 * server's part of a table.
 */
struct tt_ps_sub {
	const struct tt_ps_sub_ops *ops;
	struct tutti_ps_table *table;
	int server, rank;    /* owner of the blocks; receiving rank */
	uint64_t area, feed; /* offsets in the receiver's memory */
	uint32_t token;	     /* of the bell for parts; the bell for lines is the next */
	struct tt_bell acked;
	enum tt_ps_sub_state state; /* under the lock, as are the puts */
	struct tt_ps_part_put put[TT_PS_PUTS];
	struct tt_win_end end;	   /* completion of the other parts */
	struct tt_ps_batch *batch; /* in registered memory, as are the words behind it */
	size_t most, bytes;	   /* limits of a batch, in blocks and bytes; 0: all that is due */
	bool more;		   /* the last batch was not complete */
	uint64_t clock;		   /* what the worker is told with the last batch */
	uint64_t at, lo, hi, last_lo, last_hi; /* blocks of this batch, and of the last */
	uint64_t *wanted;		       /* bits: blocks */

	/* of a server; used by its thread alone */
	struct tt_ps_store *store;
	uint64_t *due;	   /* bits: published since last sent */
	uint64_t due_at;   /* what is due is sent by then even if the clock stands still; TT_NEVER:
			      nothing is due */
	bool any, fresh;   /* the worker has subscribed; to a block not sent yet */
	bool relays;	   /* the worker relays */
	uint64_t promised; /* the publication that the worker, or a worker behind it, waits for; 0:
			      none */
};

/* A worker that this worker relays to; under the lock. */
struct tt_ps_child {
	struct tt_bell wants;
	struct tt_ps_sub sub;
	struct tt_ps_cache *cache;
	struct tt_win_end end;
	int slot, worker;
	uint64_t seen;		       /* cache->news when the child last had everything */
	bool open, dead, leaves, told; /* the child was told that it gets nothing more */
};

/* A server's blocks, as a worker keeps them; under the lock. */
struct tt_ps_cache {
	struct tutti_ps_table *table;
	int server;
	struct tt_ps_feed *feed; /* of the server's replicas, then of parents */
	uint8_t *of;		 /* by block, the sender; 0: none, 1: the server, else a parent, or
				    TT_PS_UNSENT */
	uint64_t *asked;	 /* bits: blocks subscribed to */
	uint32_t *ask;		 /* blocks that the server has not been asked for yet */
	uint32_t asks;
	uint64_t *own; /* by block: a publication that contains this worker's pushes, and will be
			  sent */
	struct tt_ps_child *child;
	struct tt_stalled step; /* pending look at the children */
	uint64_t news;		/* counts batches that came into force, answers, wants and losses */
};

/* ---- offsets ---- */

static inline uint64_t tt_ps_bits_size(const struct tutti_ps_table *t, int server)
{
	return (t->part[server].blocks / 512 + 1) * 64;
}

static inline uint64_t tt_ps_feed_size(const struct tutti_ps_table *t, int server)
{
	return 2 * tt_ps_dir_size(t, server) + sizeof(struct tt_ps_batch);
}

static inline uint64_t tt_ps_want_size(const struct tutti_ps_table *t, int server)
{
	return sizeof(struct tt_ps_want) + tt_ps_bits_size(t, server);
}

/* In a feed: the words that name the newest slot of each block, then the line. */
static inline uint64_t tt_ps_feed_words(const struct tutti_ps_table *t, int server, uint64_t number)
{
	return number % 2 * tt_ps_dir_size(t, server);
}

static inline uint64_t tt_ps_feed_line(const struct tutti_ps_table *t, int server)
{
	return 2 * tt_ps_dir_size(t, server);
}

/* Offset in the memory kept for a server; parent -1: the server's own feed. */
static inline uint64_t tt_ps_feed_at(const struct tutti_ps_table *t, int server, int parent)
{
	return (uint64_t)(parent + 1) * tt_ps_feed_size(t, server);
}

static inline uint64_t tt_ps_want_at(const struct tutti_ps_table *t, int server, int slot)
{
	return tt_ps_feed_at(t, server, t->ps->parents) +
	       (uint64_t)slot * tt_ps_want_size(t, server);
}

/* Bytes of a slot with its head. */
static inline size_t tt_ps_cache_pitch(const struct tutti_ps_table *t)
{
	return t->coded ? sizeof(struct tt_ps_head) + t->coded : t->block_pitch;
}

static inline uint64_t tt_ps_cache_block(const struct tutti_ps_table *t, int server, uint64_t block,
					 unsigned copy)
{
	return tt_ps_want_at(t, server, t->ps->children) +
	       (block * 2 + copy) * tt_ps_cache_pitch(t);
}

/* Offset, in a rank's part of the window, of the memory for a replica of a server. */
static inline uint64_t tt_ps_area_at(const struct tutti_ps_table *t, int rank, int server, int copy)
{
	return tt_ps_hints_at(t, rank) + (uint64_t)copy * t->dirs + t->part[server].cache;
}

/*
 * Bells of a worker, behind its first: of a feed, parts then line; of a child, wants then
 * acknowledgements.
 */
static inline uint32_t tt_ps_feed_bell(const struct tutti_ps_table *t, int server, int feed)
{
	return 2 * (uint32_t)(server * (t->ps->copies + t->ps->parents) + feed);
}

static inline uint32_t tt_ps_child_bell(const struct tutti_ps_table *t, int server, int slot)
{
	return tt_ps_feed_bell(t, t->ps->nservers, 0) +
	       2 * (uint32_t)(server * t->ps->children + slot);
}

uint64_t tt_ps_ack_at(const struct tutti_ps_table *t, int server, int worker);

/* ---- essp_batch.c: sending, under the lock ---- */

/* A subscription that sends to a feed of a worker; the rest of sub is 0 or filled. */
void tt_ps_sub_to(struct tt_ps_sub *sub, int rank, int copy, int feed);
/* Send what can be sent now. Returns whether anything was sent. */
bool tt_ps_sub_go(struct tt_ps_sub *sub);
bool tt_ps_sub_quiet(const struct tt_ps_sub *sub); /* no block is under way */
/* Put to the worker, with a note that rings the bell for parts or for the line. */
void tt_ps_sub_put(struct tt_ps_sub *sub, const void *from, size_t len, uint64_t to, bool line,
		   struct tt_win_end *end);

/* In next(): tell the worker that it gets this block no more. */
void tt_ps_sub_lost(struct tt_ps_sub *sub, uint64_t block);

static inline uint64_t *tt_ps_sub_words(const struct tt_ps_sub *sub)
{
	return (uint64_t *)(void *)(sub->batch + 1);
}

/* The next set bit from `from` on, before n; n: none. */
uint64_t tt_ps_next_bit(const uint64_t *bits, uint64_t from, uint64_t n);

/* ---- essp.c: the server's side ---- */

int tt_ps_sub_new(struct tt_ps_store *s);
void tt_ps_sub_free(struct tt_ps_store *s);
/* feeder: which process sends each block. */
int tt_ps_subscribe(struct tt_ps_store *s, int worker, const struct tt_ps_msg *m,
		    const char *payload, uint32_t *feeder);
/* The worker waits for this publication. */
void tt_ps_sub_promise(struct tt_ps_store *s, int worker, uint64_t sequence);
/* A block was published. */
void tt_ps_sub_due(struct tt_ps_store *s, uint64_t block);
/* This replica serves from now on, and sends every subscribed block to every worker. */
void tt_ps_sub_serve(struct tt_ps_store *s);
/* Under the lock: send what is due and can be sent. */
void tt_ps_sub_send(struct tt_ps_server *srv);

/* ---- essp_tree.c: relay trees ---- */

struct tt_ps_tree;

#define TT_PS_BY_SERVER UINT32_MAX

int tt_ps_tree_new(const struct tt_ps_store *s, struct tt_ps_tree **tree);
void tt_ps_tree_free(struct tt_ps_tree *tree);
/* The sending worker's index and the slot there, or TT_PS_BY_SERVER. living: by worker. */
uint32_t tt_ps_tree_feeder(struct tt_ps_tree *tree, int worker, uint64_t block, const bool *living);
static inline int tt_ps_feeder_worker(uint32_t feeder)
{
	return (int)(feeder >> 8);
}

/* The worker gets blocks from other workers; it relays blocks. */
bool tt_ps_tree_relayed(const struct tt_ps_tree *tree, int worker);

/* ---- essp_cache.c and essp_relay.c: a worker's side ---- */

/* The feed that brings a block; NULL: none. */
struct tt_ps_feed *tt_ps_feed_of(const struct tt_ps_cache *c, uint64_t block);
/* The newest slot of a block and its publication; 0: none, or TT_PS_LOST. */
uint64_t tt_ps_feed_word(const struct tt_ps_feed *f, uint64_t block);
const struct tt_ps_head *tt_ps_feed_block(const struct tt_ps_feed *f, uint64_t block,
					  uint64_t word);
/*
 * A batch is in force: acknowledge it as soon as no put to a child reads what the next batch
 * overwrites.
 */
void tt_ps_feed_ack(struct tt_ps_feed *f);

size_t tt_ps_relay_memory(const struct tutti_ps_table *t, int server);
void tt_ps_relay_new(struct tt_ps_cache *c, char *memory);
void tt_ps_relay_bells(struct tt_ps_cache *c, struct tt_bell **bells);
/* There may be more to send to children. */
void tt_ps_relay_stir(struct tt_ps_cache *c);
/*
 * Want this block from a worker, in that slot of it. If no feed is left, no process sends the
 * block. tt_ps_relay_ask() then sends all such wants.
 */
void tt_ps_relay_want(struct tt_ps_cache *c, uint64_t block, int worker, int slot);
void tt_ps_relay_ask(struct tt_ps_cache *c);
/* A replica of the server has taken over, and sends to all workers. */
void tt_ps_relay_over(struct tt_ps_cache *c);

#endif
