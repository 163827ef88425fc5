/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ESSP: servers send what workers have subscribed to, and workers pass it on. Where its parts are,
 * and the state of who sends and who gets.
 *
 *	of a worker's memory, for each copy of each server: [feed: words 0, words 1, batch] ...
 *	[want, bits] ... [block 0: copy 0, copy 1] [block 1: ...]
 *
 * A feed is what one sender writes: the server, or, where blocks are relayed, another worker. A
 * block has one sender at a time. A want is what another worker asks this one for.
 */
#ifndef TT_ESSP_H
#define TT_ESSP_H

#include "lib/ps/server/server.h"

#define TT_PS_PARENTS 4	 /* workers that one gets blocks of a server from */
#define TT_PS_NEAR 2	 /* workers that one passes them on to: of its own host, */
#define TT_PS_CHILDREN 4 /* and in all */
#define TT_PS_PIECE                                                                                \
	((size_t)512 << 10)   /* what is passed on travels in batches of about so much             \
			       */
#define TT_PS_LEFT UINT64_MAX /* the number of a batch that is none: the feed has ended */

/* The last of a batch, behind which the sender waits to be told that it is in force. */
struct tt_ps_batch {
	uint64_t number, parts, min_clock;
	uint64_t spare[5];
};

/* Before the bits of the blocks that a worker wants of another. */
struct tt_ps_want {
	uint64_t worker, feed; /* whose, and which of its feeds they are for */
	uint64_t leaves;       /* 1: none, from now on */
	uint64_t spare[4];
	uint64_t ack; /* written when a batch is in force */
};

struct tt_ps_cache;

/* One sender's blocks, as a worker gets them; under the lock. */
struct tt_ps_feed {
	struct tt_bell part, line;
	struct tt_win_end acked, asked;
	struct tt_ps_cache *cache;
	int index;	   /* a copy of the server, or behind those a parent */
	int parent, slot;  /* the worker that sends, and its place there; -1: a server's */
	char *area, *base; /* of this server and copy; in it, of the feed */
	bool here;	   /* the line is */
	bool ack_due, slow, lost, left;
	uint64_t parts;
	uint64_t number, min_clock; /* of the batch that is in force */
	uint64_t heard;		    /* when something came last */
	atomic_uint reading[2];	    /* puts to children that began under an even or odd batch */
	struct tt_ps_want *want;
	bool want_due, want_busy;
};

#define TT_PS_PUTS 8 /* blocks under way to a worker */

struct tt_ps_sub;

struct tt_ps_part_put {
	struct tt_win_end end;
	struct tt_ps_sub *sub;
	atomic_uint *reading; /* what counts those that read where it reads */
	bool busy;
};

enum tt_ps_sub_state {
	TT_PS_SUB_IDLE = 0,
	TT_PS_SUB_BLOCKS, /* some are still to be sent */
	TT_PS_SUB_SENT	  /* all is, until the worker says that it is there */
};

/* Where what is sent comes from. */
struct tt_ps_sub_ops {
	/* Whether there is something to send, or a new clock, which is then in sub->clock. */
	bool (*begin)(struct tt_ps_sub *sub);
	/* The next block to be sent, from sub->at on; false: there is none. */
	bool (*next)(struct tt_ps_sub *sub, uint64_t *block);
	/* A block as it is now; what counts its readers. */
	const struct tt_ps_head *(*take)(struct tt_ps_sub *sub, uint64_t block, uint64_t *sequence,
					 atomic_uint **reading);
	void (*starts)(struct tt_ps_sub *sub); /* a put, which is over later */
	void (*over)(struct tt_ps_sub *sub, int status);
	void (*stir)(struct tt_ps_sub *sub); /* something more can be sent, perhaps */
};

/*
 * What is sent to a worker of a server's part of a table, by a copy of that server or by another
 * worker.
 */
struct tt_ps_sub {
	const struct tt_ps_sub_ops *ops;
	struct tutti_ps_table *table;
	int server, rank;    /* whose blocks; to whom */
	uint64_t area, feed; /* in its memory */
	uint32_t token;	     /* of its bell of parts; that of the line is the next */
	struct tt_bell acked;
	enum tt_ps_sub_state state; /* under the lock, as are the puts */
	struct tt_ps_part_put put[TT_PS_PUTS];
	struct tt_win_end end;	   /* of the other parts */
	struct tt_ps_batch *batch; /* in memory that can be sent, as are the words behind it */
	size_t most, bytes;	   /* of blocks in a batch; 0: all that is due */
	bool more;		   /* the last batch had not all */
	uint64_t clock;		   /* what the worker is told when it has all */
	uint64_t at, lo, hi, last_lo, last_hi; /* blocks of this batch, and of the one before */
	uint64_t *wanted;		       /* bits of blocks */

	/* a server's; its thread alone looks at it */
	struct tt_ps_store *store;
	uint64_t *due;	   /* bits: published since it was sent */
	uint64_t due_at;   /* by then what is due goes, even if the clock does not move; TT_NEVER:
			      nothing is due */
	bool any, fresh;   /* it has subscribed; to something new */
	bool relays;	   /* it passes on */
	uint64_t promised; /* the worker, or one behind it, waits for this publication; 0: for none
			    */
};

/* A worker that gets blocks from this one; under the lock. */
struct tt_ps_child {
	struct tt_bell wants;
	struct tt_ps_sub sub;
	struct tt_ps_cache *cache;
	struct tt_win_end end;
	int slot, worker;
	uint64_t seen; /* of the news, when there was nothing for it, or it got that */
	bool open, dead, leaves, told; /* told that it gets nothing any more */
};

/* A server's blocks, as a worker keeps them; under the lock. */
struct tt_ps_cache {
	struct tutti_ps_table *table;
	int server;
	struct tt_ps_feed *feed; /* of the server's copies, then of parents */
	uint8_t *of;	 /* by block: who sends it; 0: nobody, 1: the server, else a parent */
	uint64_t *asked; /* bits of blocks that were subscribed to */
	uint32_t *ask;	 /* those that the server does not know of */
	uint32_t asks;
	uint64_t *own; /* by block: a publication that will be sent, for it has this worker's pushes
			*/
	struct tt_ps_child *child;
	struct tt_stalled step; /* children are looked at */
	uint64_t news;		/* batches that came into force, and wants */
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

/* In a feed: the words that say which copy of each block is the newest, then the line. */
static inline uint64_t tt_ps_feed_words(const struct tutti_ps_table *t, int server, uint64_t number)
{
	return number % 2 * tt_ps_dir_size(t, server);
}

static inline uint64_t tt_ps_feed_line(const struct tutti_ps_table *t, int server)
{
	return 2 * tt_ps_dir_size(t, server);
}

/* In what is kept of a server: parent -1: the server's own feed. */
static inline uint64_t tt_ps_feed_at(const struct tutti_ps_table *t, int server, int parent)
{
	return (uint64_t)(parent + 1) * tt_ps_feed_size(t, server);
}

static inline uint64_t tt_ps_want_at(const struct tutti_ps_table *t, int server, int slot)
{
	return tt_ps_feed_at(t, server, t->ps->parents) +
	       (uint64_t)slot * tt_ps_want_size(t, server);
}

static inline uint64_t tt_ps_cache_block(const struct tutti_ps_table *t, int server, uint64_t block,
					 unsigned copy)
{
	return tt_ps_want_at(t, server, t->ps->children) + (block * 2 + copy) * t->block_pitch;
}

/* In a rank's part of the window: what it keeps of a copy of a server. */
static inline uint64_t tt_ps_area_at(const struct tutti_ps_table *t, int rank, int server, int copy)
{
	return tt_ps_copies_at(t, rank) + (uint64_t)copy * t->dirs + t->part[server].cache;
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

/* To a feed of a worker; the rest of sub is 0 or filled. */
void tt_ps_sub_to(struct tt_ps_sub *sub, int rank, int copy, int feed);
/* Send what can be sent now; whether something was. */
bool tt_ps_sub_go(struct tt_ps_sub *sub);
bool tt_ps_sub_quiet(const struct tt_ps_sub *sub); /* no block is under way */
/* Put to the worker, with a note that rings part or line. */
void tt_ps_sub_put(struct tt_ps_sub *sub, const void *from, size_t len, uint64_t to, bool line,
		   struct tt_win_end *end);

static inline uint64_t *tt_ps_sub_words(const struct tt_ps_sub *sub)
{
	return (uint64_t *)(void *)(sub->batch + 1);
}

/* The next set bit from `from` on, before n; n: there is none. */
uint64_t tt_ps_next_bit(const uint64_t *bits, uint64_t from, uint64_t n);

/* ---- essp.c: the server's side ---- */

int tt_ps_sub_new(struct tt_ps_store *s);
void tt_ps_sub_free(struct tt_ps_store *s);
/* Who sends each block is in feeder. */
int tt_ps_subscribe(struct tt_ps_store *s, int worker, const struct tt_ps_msg *m,
		    const char *payload, uint32_t *feeder);
/* The worker waits for this publication. */
void tt_ps_sub_promise(struct tt_ps_store *s, int worker, uint64_t sequence);
/* A block was published. */
void tt_ps_sub_due(struct tt_ps_store *s, uint64_t block);
/* This copy serves from now on: everybody gets everything from it. */
void tt_ps_sub_serve(struct tt_ps_store *s);
/* Under the lock: send what is due and can be sent. */
void tt_ps_sub_send(struct tt_ps_server *srv);

/* ---- essp_tree.c: who sends a block to whom ---- */

struct tt_ps_tree;

#define TT_PS_BY_SERVER UINT32_MAX

int tt_ps_tree_new(const struct tt_ps_store *s, struct tt_ps_tree **tree);
void tt_ps_tree_free(struct tt_ps_tree *tree);
/* The worker's index and its slot there, or TT_PS_BY_SERVER. living: by worker. */
uint32_t tt_ps_tree_feeder(struct tt_ps_tree *tree, int worker, uint64_t block, const bool *living);
static inline int tt_ps_feeder_worker(uint32_t feeder)
{
	return (int)(feeder >> 8);
}

/* It gets something from other workers; it passes on. */
bool tt_ps_tree_relayed(const struct tt_ps_tree *tree, int worker);

/* ---- essp_cache.c and essp_relay.c: a worker's side ---- */

/* Who brings a block; NULL: nobody. */
struct tt_ps_feed *tt_ps_feed_of(const struct tt_ps_cache *c, uint64_t block);
/* Which copy of it is the newest, and of which publication; 0: none. */
uint64_t tt_ps_feed_word(const struct tt_ps_feed *f, uint64_t block);
const struct tt_ps_head *tt_ps_feed_block(const struct tt_ps_feed *f, uint64_t block,
					  uint64_t word);
/* A batch is in force: tell its sender, as soon as no child reads what would be written then. */
void tt_ps_feed_ack(struct tt_ps_feed *f);

size_t tt_ps_relay_memory(const struct tutti_ps_table *t, int server);
void tt_ps_relay_new(struct tt_ps_cache *c, char *memory);
void tt_ps_relay_bells(struct tt_ps_cache *c, struct tt_bell **bells);
void tt_ps_relay_free(struct tt_ps_cache *c);
/* Children may get more. */
void tt_ps_relay_stir(struct tt_ps_cache *c);
/*
 * From now on this block is wanted of a worker, at that slot of it; if that can't be, nobody sends
 * it. Then ask for all such.
 */
void tt_ps_relay_want(struct tt_ps_cache *c, uint64_t block, int worker, int slot);
void tt_ps_relay_ask(struct tt_ps_cache *c);
/* A copy of the server has taken over, which sends to all. */
void tt_ps_relay_over(struct tt_ps_cache *c);

#endif
