/* SPDX-License-Identifier: BSD-3-Clause */
/* ESSP: servers send what workers have subscribed to. Where its parts are, and both sides' state. */
#ifndef TT_PS_EAGER_H
#define TT_PS_EAGER_H

#include "lib/ps/server.h"

/* The last of a batch, behind which the server waits to be told that it is in force. */
struct tt_ps_batch {
	uint64_t number, parts, min_clock;
	uint64_t spare[5];
};

/* A server's blocks, as a worker keeps them; under the lock. */
struct tt_ps_cache {
	struct tt_bell part, line;
	struct tt_win_end acked;
	struct tutti_ps_table *table;
	int server;
	bool here; /* the line is */
	uint64_t parts;
	uint64_t number, min_clock; /* of the batch that is in force */
	uint64_t *asked; /* bits of blocks that were subscribed to */
	uint32_t *ask;	 /* those that the server does not know of */
	uint32_t asks;
	uint64_t *own; /* by block: a publication that will be sent, for it has this worker's pushes */
};

#define TT_PS_PUTS 8 /* blocks under way to a worker */

struct tt_ps_sub;

struct tt_ps_part_put {
	struct tt_win_end end;
	struct tt_ps_sub *sub;
	atomic_uint *sending; /* of its slot */
	bool busy;
};

enum tt_ps_sub_state {
	TT_PS_SUB_IDLE = 0,
	TT_PS_SUB_BLOCKS, /* some are still to be sent */
	TT_PS_SUB_SENT	  /* all is, until the worker says that it is there */
};

/* What a server sends a worker of a table. The server's thread alone looks at it, but for what notes change. */
struct tt_ps_sub {
	struct tt_bell acked;
	struct tt_ps_store *store;
	enum tt_ps_sub_state state; /* under the lock, as are the puts */
	struct tt_ps_part_put put[TT_PS_PUTS];
	struct tt_win_end end; /* of the other parts */
	uint64_t *wanted, *due; /* bits of blocks; due: published since it was sent */
	bool any, fresh;	/* it has subscribed; to something new */
	struct tt_ps_batch *batch; /* in memory that can be sent, as are the words behind it */
	uint64_t at, lo, hi, last_lo, last_hi; /* blocks of this batch, and of the one before */
	uint64_t promised; /* the worker waits for this publication; 0: for none */
};

/* Offsets: in a worker's cache of a server's blocks, and in a server's part of the window. */
static inline uint64_t tt_ps_cache_words(const struct tutti_ps_table *t, int server, uint64_t number)
{
	return number % 2 * tt_ps_dir_size(t, server);
}

static inline uint64_t tt_ps_cache_line(const struct tutti_ps_table *t, int server)
{
	return 2 * tt_ps_dir_size(t, server);
}

static inline uint64_t tt_ps_cache_block(const struct tutti_ps_table *t, int server, uint64_t block,
					 unsigned copy)
{
	return tt_ps_cache_line(t, server) + sizeof(struct tt_ps_batch) +
	       (block * 2 + copy) * t->block_pitch;
}

uint64_t tt_ps_ack_at(const struct tutti_ps_table *t, int server, int worker);

/* eager.c: the server's side */
int tt_ps_sub_new(struct tt_ps_store *s);
void tt_ps_sub_free(struct tt_ps_store *s);
int tt_ps_subscribe(struct tt_ps_store *s, int worker, const struct tt_ps_msg *m, const char *payload);
/* A block was published. */
void tt_ps_sub_due(struct tt_ps_store *s, uint64_t block);
/* Under the lock: send what is due and can be sent. */
void tt_ps_sub_send(struct tt_ps_server *srv);

#endif
