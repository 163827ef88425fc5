/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows: memory that the ranks of a communicator expose to each other, see tutti/rma.h. */
#ifndef TT_RMA_H
#define TT_RMA_H

#include <tutti/rma.h>

#include "lib/base/byte_blocks.h"
#include "lib/engine/engine.h"
#include "lib/shm/segment.h"

#define TT_WIN_AMOS 64		  /* a device's atomics of a window under way */
#define TT_WIN_IDS (1u << 31)	  /* with the flags: the window has notification ids */
#define TT_WIN_UNKNOWN (1u << 30) /* flags that no window has: the call fails on all ranks */
#define TT_HELD_MARK 1		  /* 1 + place of the mark of copies under the lock */
#define TT_WIN_TPS 4		  /* transports with published keys: places in the compiled list */

/* A rank's published part of a window, in whole 64-bit words. */
struct tt_win_part {
	uint64_t base, size;
	uint64_t flags;	  /* enum tutti_win_flags */
	uint64_t token;	  /* of rank 0's notifications; rank i rings token + i */
	uint64_t has_key; /* bit per transport */
	uint64_t mapped;  /* 1: its host's processes can map the memory */
	uint64_t device;  /* place + 1 of the transport whose device atomics this rank could use; 0:
			     none */
	struct tt_rkey rkey[TT_WIN_TPS];
	uint64_t pid; /* its process; 0: the memory has no place that others can map */
	struct tt_shm_place place;
};

struct tt_win_bell {
	struct tt_bell bell;
	struct tutti_win *win;
	uint64_t count; /* notifications from one origin */
	bool woken;	/* that rank runs its progress thread for this rank */
};

/* A part of a window that all ranks keep, as it is mapped here. */
struct tt_win_map {
	struct tt_shm_map part;	  /* ptr: NULL: not yet */
	bool reached;		  /* over shared memory: accesses may copy */
	struct tt_open_word open; /* while the connection is */
	_Atomic uint32_t *mark;	  /* stores open.id while this window copies there */
	bool refused;		  /* it cannot be mapped: do not try again */
};

struct tt_win_op;
struct tt_win_req;
struct tt_accs;

#define TT_WIN_MAGIC 0x54755769u
#define TT_WIN_FREED 0x54755746u

struct tutti_win {
	uint32_t magic; /* TT_WIN_FREED: kept for a while to report late calls */
	int priority;	/* of operations that begin */
	struct tutti_comm *comm;
	char *base;
	size_t size;
	unsigned flags;
	struct tt_region *region;
	void *owned;		 /* memory of the pool, to be freed with the window; or NULL */
	bool shared;		 /* of tutti_win_allocate_shared */
	struct tt_win_map *maps; /* by rank: the parts of a window that is kept */
	int mark;	/* 1 + place among the marks of copies of this process; 0: has none */
	bool abandoned; /* other ranks may still put or store into owned memory, which
			   stays registered then */
	bool kept;	/* all ranks' parts are owned, until all have freed the window */
	struct tt_moved moved;	  /* through maps */
	struct tt_win_part *part; /* by rank */
	struct tt_win_bell *bell; /* by origin, then by notification id */
	int nbells;
	uint32_t token;
	/*
	 * By target: operations of this rank under way (tt_win_begin), and the first status of one
	 * that failed without a request. Written under the lock; a flush reads them without it.
	 */
	atomic_int *pending, *status;
	uint32_t age; /* number of flushes so far; an operation has the age at which it began */
	struct tt_list flushing;  /* flushes that wait */
	int *spare_counts;	  /* for the next flush of all ranks; or NULL */
	atomic_uint idle_flushes; /* that found nothing to flush */
	int requests;		  /* not collected yet */
	int amo_place; /* place of the transport whose devices execute atomics, as agreed; -1: CPUs
			  do */
	uint64_t *amo_word; /* for the results of devices' atomics */
	uint64_t amo_busy;  /* which of these TT_WIN_AMOS are in use */
	struct tt_region *amo_region;
	struct tt_win_op *free_ops;
	struct tt_win_req *free_reqs;
	struct tt_list strides, free_strides; /* strided operations, under way and idle */
	struct tt_accs *accs;		      /* NULL: the window is not for accumulates */
};

/* A put or a get, checked by lib/api. */
struct tt_win_access {
	int rank;
	void *local;
	size_t len;
	uint64_t offset;
	bool get, note;
	bool away;    /* put: the target reads it next */
	bool loose;   /* put: its end means that local is free, not that the bytes are in place */
	bool counted; /* with token: one of the window's own, so checksums cover the put */
	const uint32_t *token; /* the token that a note rings there; NULL: the window's count of
				  this origin */
	void *head; /* get: where the first head_len bytes (fewer than len) go; the rest go to local
		     */
	size_t head_len;
};

/* Called at the end of each operation started with it. Under the lock. */
struct tt_win_end {
	void (*over)(struct tt_win_end *end, int status);
	bool here; /* status -EFAULT, also of the start, is about memory of this rank */
};

/* A put or get of blocks, checked by lib/api: as many bytes here, from local on, as there. */
struct tt_win_strides {
	int rank;
	void *local;
	uint64_t offset;
	struct tt_byte_blocks here, there;
	bool get, note;
	uint32_t token; /* with note; 0: the window's count of this origin */
};

/* An accumulate, checked by lib/api. */
struct tt_win_acc {
	int rank;
	const void *local;
	void *result; /* of the old elements; NULL: not wanted */
	size_t count;
	enum tutti_datatype datatype;
	enum tutti_op op;
	uint64_t offset;
};

/* An atomic, from its first try to its end; embedded in its owner. */
struct tt_win_amo {
	struct tt_atomic at;
	struct tt_stalled stalled; /* of a blocking call, while it has no room */
	struct tutti_win *win;
	int rank;
	bool waits; /* for the connection */
	bool started, over;
	uint32_t age;
	int status;
	void (*done)(struct tt_win_amo *amo); /* after it is over; NULL: the waiting thread polls */
};

/* A wait for the operations on rank (-1: all) that have begun before it. */
struct tt_win_flush {
	struct tt_list link; /* while operations are left */
	int rank;
	uint32_t age;				  /* of the latest of them */
	uint64_t left;				  /* of them */
	int *left_at;				  /* of all ranks: by rank; or NULL */
	void (*over)(struct tt_win_flush *flush); /* none is left; NULL: its owner polls */
};

/*
 * Begins an operation on rank; returns its age, which is passed to tt_win_end once. Under the
 * lock.
 */
static inline uint32_t tt_win_begin(struct tutti_win *win, int rank)
{
	atomic_int *n = &win->pending[rank];

	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	return win->age;
}
void tt_win_end(struct tutti_win *win, int rank, uint32_t age);
/* Under the lock; over is not called within it. */
void tt_win_flush_begin(struct tutti_win *win, int rank, struct tt_win_flush *flush);
/* It waits no more. */
void tt_win_flush_end(struct tutti_win *win, struct tt_win_flush *flush);
/* Takes back the operations for which it waits, which closes connections; then ends it. */
void tt_win_flush_give_up(struct tutti_win *win, struct tt_win_flush *flush);
/* The first rank for whose operations it waits; -1: none. */
int tt_win_first_left(const struct tutti_win *win, const struct tt_win_flush *flush);
/* Takes the status of operations on rank (-1: all, the lowest rank's); *at: the rank. */
int tt_win_take_status(struct tutti_win *win, int rank, int *at);
/* Sets the last error of an operation on rank that has ended with status; returns it. */
int tt_win_failure(struct tutti_win *win, int rank, const char *call, int status);

/* An operation on rank without a request has ended: the next flush reports the first failure. */
static inline void tt_win_keep_status(struct tutti_win *win, int rank, int status)
{
	if (status && !win->status[rank])
		win->status[rank] = status;
}

/* Before the parts are exchanged: registration and tokens. Fills *mine. */
int tt_win_open(struct tutti_comm *comm, void *base, size_t size, unsigned flags,
		struct tutti_win **win, struct tt_win_part *mine);
/* After the exchange: derives the settings that follow from all parts. */
void tt_win_agree(struct tutti_win *win);
/* Afterwards the struct only serves to detect late calls. */
void tt_win_close(struct tutti_win *win);
/* Releases what is kept of the freed windows of ctx. */
void tt_win_forget(const struct tutti_context *ctx);

/* Translates a transport's code for a lost connection to tutti's. A refusal keeps its text. */
int tt_win_status(int status);
/*
 * The same for an operation that a transport had begun. A refusal then broke the connection: the
 * memory of a rank that ends is unregistered before its death is known.
 */
int tt_win_lost_status(int status);
/*
 * An operation that could not start, because of err: the error of the communicator if that has
 * failed, or else err, translated, with its text. Under the lock.
 */
int tt_win_refused(struct tutti_win *win, int rank, int err);
/*
 * -TUTTI_EPEER for a lost connection does not say which end has failed: if this rank was silent for
 * too long, the others have closed it. The control tree decides; reports to it are repeated after
 * TT_ACCUSE_AGAIN. A failure waits for that decision, but no longer than this. So does
 * -TUTTI_ETRANSPORT for a connection that did not come about although both ends had agreed on it:
 * the peer may have died meanwhile.
 */
#define TT_WIN_DECISION (4 * TT_ACCUSE_AGAIN)
/* Whether an operation on rank that ended with status waits for it. Under the lock. */
bool tt_win_doubtful(const struct tutti_win *win, int rank, int status);
/* Status, or -TUTTI_EPEER instead if it was in doubt and is decided. Under the lock. */
int tt_win_judged(const struct tutti_win *win, int rank, int status);
/* Whether the control tree has decided about the connection to rank. Under the lock. */
bool tt_win_decided(const struct tutti_win *win, int rank);
/*
 * A blocking call fails with err, which is recorded; rank: of the operation. Waits for the decision
 * and reports that. Without the lock.
 */
int tt_win_lost(struct tutti_win *win, int rank, int err);

/* put_get.c: a put or get; waits for connection and room. Without the lock. */
int tt_win_op(struct tutti_win *win, const struct tt_win_access *access);
/* Whether both ends of a connection are open, as they were. */
static inline bool tt_win_is_open(const struct tt_open_word *open)
{
	return !open->word || atomic_load_explicit(open->word, memory_order_acquire) == open->is;
}

/*
 * Around a copy into mapped memory: the peer sees meanwhile that this process may write. Whether
 * the connection is open is asked in between.
 */
static inline void tt_copy_begin(_Atomic uint32_t *mark, const struct tt_open_word *open)
{
	atomic_store_explicit(mark, open->id, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void tt_copy_end(_Atomic uint32_t *mark)
{
	atomic_store_explicit(mark, 0, memory_order_release);
}

/* Counts bytes in win->moved: only the thread that uses the window. */
static inline void tt_win_count(_Atomic uint64_t *n, size_t len)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + len,
			      memory_order_relaxed);
}

/* For what begins from now on. Without the lock. */
int tt_win_set_priority(struct tutti_win *win, int priority);
/*
 * The same, under the lock, with a callback at its end, perhaps before this returns. Waits for
 * nothing.
 */
int tt_win_op_start(struct tutti_win *win, const struct tt_win_access *access,
		    struct tt_win_end *end);
/* The same with another priority than the window's. */
int tt_win_op_start_at(struct tutti_win *win, int priority, const struct tt_win_access *access,
		       struct tt_win_end *end);
/*
 * Whether a get with a head is one operation of the transport. If not, or not yet known, it is two
 * in sequence; a caller that needs no order starts two operations instead. Under the lock.
 */
bool tt_win_gets_head(struct tutti_win *win, int rank);
/* Ends the operations on rank (-1: all) that wait for their turn, with status. Under the lock. */
void tt_win_drop_stalled(struct tutti_win *win, int rank, int status);
void tt_win_free_ops(struct tutti_win *win);

/* atomic.c: an atomic on rank's window, whose old value *old receives. Without the lock. */
int tt_win_atomic(struct tutti_win *win, int rank, enum tt_amo_op op, uint64_t operand,
		  uint64_t compare, uint64_t offset, uint64_t *old);
void tt_win_amo_init(struct tt_win_amo *amo, struct tutti_win *win, int rank, enum tt_amo_op op,
		     uint64_t operand, uint64_t compare, uint64_t offset);
/*
 * Tries to start it if it has not started; afterwards it has started, has ended, or is to be
 * retried. Under the lock.
 */
void tt_win_amo_try(struct tt_win_amo *amo);
/* Sets the last error for a failed atomic; returns the code. */
int tt_win_amo_failure(struct tutti_win *win, int rank, int status);
/* For the bells: a peer's request to execute an atomic here. Under the lock. */
int tt_win_execute(struct tt_bell *bell, int peer, enum tt_amo_op op, uint64_t operand,
		   uint64_t compare, uint64_t offset, uint64_t *old);

/* Wakes a target that makes no calls, once per window. Under the lock. */
void tt_win_wake_target(struct tutti_win *win, int rank);

/* Starts an operation without waiting. Under the lock; end as for tt_win_op_start. */
typedef int tt_win_start_fn(struct tutti_win *win, const void *what, struct tt_win_end *end);
/* rma_request.c: starts an operation that ends by itself. Without the lock. */
int tt_win_run(struct tutti_win *win, tt_win_start_fn *start, const void *what);

/* strided.c: strides and layouts; `what` is a struct tt_win_strides. */
int tt_win_strides_start(struct tutti_win *win, const void *what, struct tt_win_end *end);
/* Operations under way start no more blocks. Under the lock. */
void tt_win_drop_strides(struct tutti_win *win, int rank, int status);
/*
 * strided.c: an operation out of a list of idle ones, or a new one of so many bytes, all 0 but its
 * link, the first member. NULL: no memory.
 */
void *tt_win_take_op(struct tutti_win *win, struct tt_list *idle, size_t bytes);
void tt_win_free_idle(struct tt_list *idle);

/* accumulate_mapped.c: an accumulate without a request. Without the lock. */
int tt_win_accumulate(struct tutti_win *win, const struct tt_win_acc *acc);
/* win_accumulate.c: `what` is a struct tt_win_acc. */
int tt_win_acc_start(struct tutti_win *win, const void *what, struct tt_win_end *end);
/* Whether an accumulate of these elements can have this operator. */
bool tt_win_acc_valid(enum tutti_datatype datatype, enum tutti_op op);
/* Bytes of the longest element that accumulates of the window take. */
size_t tt_win_acc_longest(const struct tutti_win *win);
int tt_accs_new(struct tutti_win *win);
/* Before the first collective on coll by which the window is made: the same name on all ranks. */
void tt_accs_name(struct tutti_win *win, const struct tutti_comm *coll);
/* After the parts are exchanged. Under the lock, as are all below. */
void tt_accs_open(struct tutti_win *win);
void tt_accs_drop(struct tutti_win *win, int rank, int status);
/* The rank that holds the lock for which operations on rank wait; -1: none. */
int tt_accs_holder(const struct tutti_win *win, int rank);
/*
 * When all ranks have flushed, they have this rank's replies, which may still count as being sent
 * here. Waits until they do not: else freeing the window would close the connections. Without the
 * lock.
 */
void tt_accs_finish(struct tutti_win *win);
/* This rank does not have the window, or frees it and cannot meet the other ranks: tells them. */
void tt_accs_tell_closed(struct tutti_win *win);
void tt_accs_closed_msg(void *ctx, int from, const void *data, size_t len);
void tt_accs_free(struct tutti_win *win);

/* rma_request.c: operations as requests. Without the lock. */
int tt_win_iop(struct tutti_win *win, const struct tt_win_access *access, const char *call,
	       struct tutti_request **request);
int tt_win_iatomic(struct tutti_win *win, int rank, enum tt_amo_op op, uint64_t operand,
		   uint64_t compare, uint64_t offset, uint64_t *old, const char *call,
		   struct tutti_request **request);
/* Of strided operations and accumulates. */
int tt_win_irun(struct tutti_win *win, int rank, const char *call, tt_win_start_fn *start,
		const void *what, struct tutti_request **request);
/* All operations on rank, -1: on all ranks, that have begun. */
int tt_win_iflush(struct tutti_win *win, int rank, const char *call,
		  struct tutti_request **request);
void tt_win_free_reqs(struct tutti_win *win);

/*
 * Takes back this rank's operations on rank (-1: all): afterwards their buffers are not accessed.
 * Under the lock.
 */
void tt_win_take_back(struct tutti_win *win, int rank);
/* Waits for this rank's operations on rank (-1: all). Without the lock. */
int tt_win_wait(struct tutti_win *win, int rank);

/*
 * notification.c: notifications of a rank (bell = rank) or an id (bell = size + id). Waits until
 * the n bells have `count` each (all), or one of them has (*index is its place), and consumes
 * these. With test it looks once: *index is -1 if not.
 */
struct tt_win_bells {
	int n;
	const int *bell;
	int first; /* added to each bell */
	uint64_t count;
	bool all, test;
};
int tt_win_wait_bells(struct tutti_win *win, const struct tt_win_bells *bells, int *index);
/* Registers this rank's bells. */
int tt_win_new_bells(struct tutti_win *win);
void tt_win_free_bells(struct tutti_win *win);
/* The token that notifies an id of rank. */
static inline uint32_t tt_win_id_token(const struct tutti_win *win, int rank, int id)
{
	return (uint32_t)win->part[rank].token + (uint32_t)win->comm->size + (uint32_t)id;
}

/*
 * window_make.c: creates a window on comm by collectives on coll, which has the same ranks; and
 * frees it without waiting for other ranks.
 */
int tt_win_make(struct tutti_comm *comm, struct tutti_comm *coll, void *base, size_t size,
		unsigned flags, struct tutti_win **out);
/* The same on comm, of memory of the pool; shared: which the ranks of the host map. */
int tt_win_allocate(struct tutti_comm *comm, size_t size, unsigned flags, bool shared, void **base,
		    struct tutti_win **out);
void tt_win_drop(struct tutti_win *win);

/* window_maps.c */
extern _Atomic uint32_t tt_win_unseen; /* the mark where no other process reads one */
void tt_win_place(struct tutti_win *win, struct tt_win_part *mine);
/* Collective; maps the other ranks' parts. */
int tt_win_share(struct tutti_win *win);
/*
 * Maps rank's part of a window that is kept, if it is reached over shared memory; true: it is
 * mapped. Under the lock.
 */
bool tt_win_map(struct tutti_win *win, int rank);
struct tt_acc_peer;
/* The same for accumulates. */
bool tt_win_map_locked(struct tutti_win *win, int rank, struct tt_acc_peer *peer);
void tt_win_unmap(struct tutti_win *win);
void tt_win_unmark(struct tutti_win *win); /* under the lock */

#endif
