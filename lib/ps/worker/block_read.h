/* SPDX-License-Identifier: BSD-3-Clause */
/* block_read.c: blocks read one-sidedly */
#ifndef TT_BLOCK_READ_H
#define TT_BLOCK_READ_H

#include "lib/ps/ps.h"

#define TT_PS_UNITS 16

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

#define TT_PS_SPAN 8128 /* bytes of data read together with their head, and copied from there */

/* A unit's memory that the device can write. */
struct tt_ps_landing {
	struct tt_ps_landing *next; /* in the first landing of a set: the next free set */
	uint64_t word;		    /* of the directory, or a stamp */
	uint64_t spare[6];
	struct tt_ps_head head;
	char data[TT_PS_SPAN];
};

struct tt_ps_pull;

struct tt_ps_unit {
	struct tt_win_end end;
	struct tt_ps_pull *pull;
	enum tt_ps_read_state state;
	int pending, status;
	int server, copy; /* the server and replica that is read */
	uint64_t block;
	struct tt_ps_item *item, one;
	size_t items;
	size_t span;	       /* > 0: bytes that land behind the head */
	bool retired;	       /* the slot was retired when it was read */
	uint64_t word;	       /* where the block is looked for */
	uint64_t posted, told; /* time of posting, and the clock that the server had told then */
	uint64_t over;	       /* when all posted operations had ended */
	uint64_t since; /* essp: when it began to wait for what the server has announced; 0: not
			   waiting */
	uint64_t floor; /* as of posting: pushes of later calls may be answered meanwhile */
	struct tt_ps_landing *landing;
};

struct tt_ps_pull {
	struct tt_ps_task task;
	/* Fill in server, block, item, items of the next unit; false: no more units. */
	bool (*next)(struct tt_ps_pull *pull, struct tt_ps_unit *unit);
	/* A unit has arrived, with its head in its landing; may be NULL. */
	void (*got)(struct tt_ps_pull *pull, const struct tt_ps_unit *unit);
	bool more, busy;
	int active;
	uint64_t need; /* the clock that must have been reached */
	struct tt_ps_landing *landing;
	struct tt_ps_unit unit[TT_PS_UNITS];
	struct tutti_ps_read seen;
};

int tt_ps_pull_init(struct tt_ps_pull *pull);
void tt_ps_pull_free(struct tt_ps_pull *pull);
void tt_ps_landings_free(struct tutti_ps *ps);
void tt_ps_pull_advance(struct tt_ps_task *task);
bool tt_ps_pull_reads(const struct tt_ps_task *task); /* an operation of the task is under way */

#endif
