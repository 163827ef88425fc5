/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: memory that the ranks of a communicator expose to each other, see tutti/rma.h. */
#ifndef TT_RMA_H
#define TT_RMA_H

#include <tutti/rma.h>

#include "lib/engine/engine.h"

#define TT_WIN_AMOS 64 /* a device's atomics of a window under way */
#define TT_WIN_TPS 4   /* transports whose keys a rank tells: places in the list of compiled ones */

/* What every rank tells the others about its part of a window: whole 64-bit words. */
struct tt_win_part {
	uint64_t base, size;
	uint64_t flags;	  /* enum tutti_win_flags */
	uint64_t token;	  /* of rank 0's notifications; rank i rings token + i */
	uint64_t has_key; /* bit per transport */
	uint64_t mapped;  /* 1: its host's processes can map the memory */
	uint64_t device;  /* of which transport's place - 1 this rank could use the atomics; 0: none
			   */
	struct tt_rkey rkey[TT_WIN_TPS];
};

struct tt_win_bell {
	struct tt_bell bell;
	struct tutti_win *win;
	uint64_t count; /* notifications from one origin */
	bool woken;	/* that rank runs its progress thread for this rank's atomics */
};

struct tt_win_op;
struct tt_win_req;

struct tutti_win {
	struct tutti_comm *comm;
	bool closed; /* freed: kept for a while, so that a late call is told */
	char *base;
	size_t size;
	unsigned flags;
	struct tt_region *region;
	struct tt_win_part *part; /* by rank */
	struct tt_win_bell *bell; /* by origin */
	uint32_t token;
	int *pending; /* operations of this rank under way, by target: tt_win_begin */
	uint32_t age; /* how many flushes as requests there were: an operation has the age it began
			 at */
	struct tt_list flushing; /* those that wait */
	int status;		 /* of the first that failed and has no request */
	int requests;		 /* not collected yet */
	int amo_place;	    /* whose devices execute atomics, as all have agreed; -1: CPUs do */
	uint64_t *amo_word; /* for what devices' atomics bring */
	uint64_t amo_busy;  /* which of these TT_WIN_AMOS are in use */
	struct tt_region *amo_region;
	struct tt_win_op *free_ops;
	struct tt_win_req *free_reqs;
};

/* A put or a get, checked by lib/api. */
struct tt_win_access {
	int rank;
	void *local;
	size_t len;
	uint64_t offset;
	bool get, note;
	bool away;  /* put: the target reads it next */
	bool loose; /* put: its end says that local is free, not that the bytes are in place */
	const uint32_t
		*token; /* what a note rings there; NULL: the window's count of this origin */
	void *head;	/* get: where the first head_len bytes, fewer than len, go; the others go to
			   local */
	size_t head_len;
};

/* Told of the end of an operation, once for each that was started with it. Under the lock. */
struct tt_win_end {
	void (*over)(struct tt_win_end *end, int status);
};

/* An atomic, from its first try to its end; embedded in whatever waits for it. */
struct tt_win_amo {
	struct tt_atomic at;
	struct tt_stalled stalled; /* of a blocking call, while it has no room */
	struct tutti_win *win;
	int rank;
	bool started, over;
	uint32_t age;
	int status;
	void (*done)(struct tt_win_amo *amo); /* after it is over; NULL: the waiting thread polls */
};

/* An operation on rank begins; returns its age, with which it ends, once. Under the lock. */
static inline uint32_t tt_win_begin(struct tutti_win *win, int rank)
{
	win->pending[rank]++;
	return win->age;
}
void tt_win_end(struct tutti_win *win, int rank, uint32_t age);

/* Before the parts are exchanged: registration and tokens. Fills *mine. */
int tt_win_open(struct tutti_comm *comm, void *base, size_t size, unsigned flags,
		struct tutti_win **win, struct tt_win_part *mine);
/* After it: what follows from all parts. */
void tt_win_agree(struct tutti_win *win);
/* What is left of it is only good to be told from a window. */
void tt_win_close(struct tutti_win *win);
/* Forget what is left of the windows of ctx. */
void tt_win_forget(const struct tutti_context *ctx);

/*
 * Each transport has its own words for a lost connection: in ours. A refusal says what was
 * refused.
 */
int tt_win_status(int status);

/* put_get.c: a put or get; waits for connection and room. Without the lock. */
int tt_win_op(struct tutti_win *win, const struct tt_win_access *access);
/*
 * The same, under the lock, with a callback at its end, perhaps before this returns. Waits for
 * nothing.
 */
int tt_win_op_start(struct tutti_win *win, const struct tt_win_access *access,
		    struct tt_win_end *end);
/*
 * Whether a get with a head is one operation of the transport; else, or while that is not known,
 * it is one after the other, and who wants no order starts two. Under the lock.
 */
bool tt_win_gets_head(struct tutti_win *win, int rank);
/* Those on rank (-1: all) that wait for their turn end with status. Under the lock. */
void tt_win_drop_stalled(struct tutti_win *win, int rank, int status);
void tt_win_free_ops(struct tutti_win *win);

/* atomic.c: an atomic on rank's window, whose old value *old receives. Without the lock. */
int tt_win_atomic(struct tutti_win *win, int rank, enum tt_amo_op op, uint64_t operand,
		  uint64_t compare, uint64_t offset, uint64_t *old);
void tt_win_amo_init(struct tt_win_amo *amo, struct tutti_win *win, int rank, enum tt_amo_op op,
		     uint64_t operand, uint64_t compare, uint64_t offset);
/*
 * Try to start it if it has not; afterwards it has, is over, or is to be tried again. Under the
 * lock.
 */
void tt_win_amo_try(struct tt_win_amo *amo);
/* What to tell of one that did not succeed; returns the code. */
int tt_win_amo_failure(struct tutti_win *win, int rank, int status);
/* For the bells: a peer's request to execute an atomic here. Under the lock. */
int tt_win_execute(struct tt_bell *bell, int peer, enum tt_amo_op op, uint64_t operand,
		   uint64_t compare, uint64_t offset, uint64_t *old);

/* rma_request.c: operations as requests. Without the lock. */
int tt_win_iop(struct tutti_win *win, const struct tt_win_access *access, const char *call,
	       struct tutti_request **request);
int tt_win_iatomic(struct tutti_win *win, int rank, enum tt_amo_op op, uint64_t operand,
		   uint64_t compare, uint64_t offset, uint64_t *old, const char *call,
		   struct tutti_request **request);
/* All operations on rank, -1: on all ranks, that have begun. */
int tt_win_iflush(struct tutti_win *win, int rank, const char *call,
		  struct tutti_request **request);
/*
 * For window.c: an operation that the flushing request of this link may wait for has ended. Under
 * the lock.
 */
void tt_win_flush_end(struct tt_list *link, int rank, uint32_t age);
void tt_win_free_reqs(struct tutti_win *win);

/*
 * Nobody touches a buffer of this rank's operations on rank afterwards, -1: on all. Under the
 * lock.
 */
void tt_win_take_back(struct tutti_win *win, int rank);
/* Wait for this rank's operations on rank, -1: on all. Without the lock. */
int tt_win_wait(struct tutti_win *win, int rank);
int tt_win_wait_bell(struct tutti_win *win, int rank, uint64_t count);

/*
 * window_make.c: a window on comm, made by collectives on coll, which has the same ranks; and its
 * end without waiting for others.
 */
int tt_win_make(struct tutti_comm *comm, struct tutti_comm *coll, void *base, size_t size,
		unsigned flags, struct tutti_win **out);
void tt_win_drop(struct tutti_win *win);

#endif
