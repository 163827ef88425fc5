/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pull in flight: pull.c has its states, block_read.c reads its blocks. Everything here runs
 * under the wire lock.
 */
#ifndef TT_PULL_H
#define TT_PULL_H

#include "lib/ps/ps.h"

#define TT_PS_UNITS 16	/* blocks that a pull reads at once */
#define TT_PS_SPAN 8128 /* bytes of data read together with their head, and copied from there */

/* Memory of a unit that the device can write; for encoded copies data is longer. */
struct tt_ps_landing {
	uint64_t word; /* of the directory, or a stamp */
	uint64_t spare[7];
	struct tt_ps_head head;
	char data[TT_PS_SPAN];
};

struct tt_ps_item {
	void *local;
	size_t offset, len; /* within the block's data */
};

enum tt_ps_read_state {
	TT_PS_READ_IDLE = 0,
	TT_PS_READ_WAIT,  /* waits until it may read */
	TT_PS_READ_DATA,  /* head and data are read */
	TT_PS_READ_CHECK, /* the read took long, or the slot was retired: read the stamp again */
	TT_PS_READ_DIR	  /* the slot was overwritten, or is too old: read the directory */
};

/* One block of a pull. */
struct tt_ps_unit {
	struct tt_win_end end;
	struct tt_ps_landing *landing;
	struct tt_ps_pull *pull;
	enum tt_ps_read_state state;
	int pending, status; /* operations under way; the first failure */
	int server, copy;    /* the server and replica that is read */
	uint64_t block;
	struct tt_ps_item *item, one;
	size_t items;
	size_t span;	       /* > 0: bytes that land behind the head */
	const char *coded;     /* the encoded copy, if the pull reads it */
	bool retired;	       /* the slot was retired when it was read */
	uint64_t word;	       /* where the block is looked for */
	uint64_t posted, told; /* time of posting, and the clock that the server had told then */
	uint64_t over;	       /* when all posted operations had ended */
	uint64_t since; /* essp: when it began to wait for what the server has announced; 0: not
			   waiting */
	uint64_t floor; /* as of posting: pushes of later calls may be answered meanwhile */
};

/* The units of a pull; kept for later pulls, as their landings are registered memory. */
struct tt_ps_units {
	struct tt_ps_landing landing[TT_PS_UNITS];
	struct tt_ps_unit unit[TT_PS_UNITS];
	char *wide; /* landings for encoded copies of up to `coded` bytes; NULL: none yet */
	size_t coded;
	float *decoded; /* a block of `elems` elements */
	size_t elems;
	struct tt_ps_units *next;
};

enum tt_ps_pull_state {
	TT_PS_PULL_PLACES = 0, /* rows: asks the servers for the places of unknown keys */
	TT_PS_PULL_SUBSCRIBE,  /* essp: asks the servers to send the blocks from now on */
	TT_PS_PULL_READ	       /* reads the blocks into the caller's buffer */
};

struct tt_ps_row {
	int server;
	uint32_t place;
	char *local;
	uint64_t version; /* as pulled, in tables with row versions */
};

struct tt_ps_pull {
	struct tt_ps_task task;
	enum tt_ps_pull_state state;
	bool more;	  /* blocks are left that have no unit yet */
	bool busy;	  /* advance runs */
	bool coded;	  /* it reads encoded copies */
	bool yields;	  /* to reads of higher priority, in this step */
	int used, active; /* units: that were used; that are */
	uint64_t need;	  /* the clock that must have been reached */
	struct tt_ps_units *units;
	struct tutti_ps_read seen;
	char *buf;

	/* a dense table: count elements from offset on */
	uint64_t offset, count;
	struct tt_ps_range range;

	/* rows: those to be read, sorted by server and place */
	struct tt_ps_places places;
	struct tt_ps_row *row;
	size_t reads, at; /* how many; how many have a unit */
	struct tt_ps_item *item;
};

extern const struct tt_ps_task_ops tt_ps_pull_ops;

/* NULL: the task is not a pull. */
static inline struct tt_ps_pull *tt_ps_pull_of(const struct tt_ps_task *task)
{
	return task->ops == &tt_ps_pull_ops ? tt_container(task, struct tt_ps_pull, task) : NULL;
}

/* A unit has its block, with the head in its landing. */
void tt_ps_pull_got(const struct tt_ps_unit *u);

/* block_read.c */
bool tt_ps_unit_step(struct tt_ps_unit *u); /* false: it waits */
int tt_ps_units_get(struct tt_ps_pull *pull);
void tt_ps_units_put(struct tt_ps_pull *pull);

#endif
