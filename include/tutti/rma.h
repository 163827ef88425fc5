/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided access: a window is memory that every rank of a communicator exposes to the other
 * ranks. Offsets are in bytes from the base of the target's window. Operations progress without
 * calls at the target.
 */
#ifndef TUTTI_RMA_H
#define TUTTI_RMA_H

#include <stddef.h>
#include <tutti/coll.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_win;

#define TUTTI_NOTIFY_IDS 256   /* notification ids of a window: 0 to 255 */
#define TUTTI_NOTIFY_RANK (-1) /* in place of an id: the count of the notifying rank */

enum tutti_win_flags {
	TUTTI_WIN_READ_ONLY =
		1, /* of this rank's memory: others may get, not put nor use atomics */
	TUTTI_WIN_ACCUMULATE = 2 /* for tutti_accumulate instead of tutti_fetch_add and
				    tutti_compare_swap: on all ranks or on none */
};

/* Operators of accumulates, beside those of collectives; rma only. */
#define TUTTI_REPLACE ((enum tutti_op)(TUTTI_OP_LIMIT - 1)) /* the new value */
#define TUTTI_NO_OP ((enum tutti_op)(TUTTI_OP_LIMIT - 2))   /* the old value: get only */

/* Blocks at equal distances, here and at the target. Distances may be negative. */
struct tutti_strides {
	size_t size;		/* of this struct */
	size_t block;		/* bytes of a block */
	size_t count;		/* blocks */
	ptrdiff_t local_stride; /* bytes from the begin of a block to that of the next */
	ptrdiff_t stride;	/* the same in the window of the target */
};

/**
 * tutti_win_create - expose [base, base + size) to the ranks of comm. Collective; sizes and flags
 * (0 or enum tutti_win_flags) may differ, size 0 is allowed. The memory should come from
 * tutti_alloc or be registered; other memory is registered for the life of the window. On failure
 * all ranks fail.
 */
int tutti_win_create(struct tutti_comm *comm, void *base, size_t size, unsigned flags,
		     struct tutti_win **win);

/**
 * tutti_win_allocate - as tutti_win_create, of size bytes that the library takes from its pool;
 * *base receives their address (NULL for size 0). They are zero, and freed with the window.
 */
int tutti_win_allocate(struct tutti_comm *comm, size_t size, unsigned flags, void **base,
		       struct tutti_win **win);

/**
 * tutti_win_allocate_shared - the same, and each rank can load and store the other ranks' parts
 * directly, at the addresses that tutti_win_shared_query gives. -EINVAL, on all ranks, unless all
 * ranks of comm are on one host.
 */
int tutti_win_allocate_shared(struct tutti_comm *comm, size_t size, unsigned flags, void **base,
			      struct tutti_win **win);

/**
 * tutti_win_shared_query - where rank's part is in this process, and its size; valid until the
 * window is freed. Local. A part of another rank that is read-only must not be stored to.
 */
int tutti_win_shared_query(struct tutti_win *win, int rank, void **base, size_t *size);

/**
 * tutti_win_free - collective; waits for this rank's own operations first. -EBUSY while a
 * request of one has not been waited for.
 */
int tutti_win_free(struct tutti_win *win);

/**
 * tutti_put - start writing len bytes at local to rank's window; local may be reused after a
 * flush. Short puts may be held back to travel together, until the next call that waits or tests.
 */
int tutti_put(struct tutti_win *win, int rank, const void *local, size_t len, uint64_t offset);

/**
 * tutti_put_notify - as put; when all bytes have arrived the target's count for this origin
 * rises by 1.
 */
int tutti_put_notify(struct tutti_win *win, int rank, const void *local, size_t len,
		     uint64_t offset);

/**
 * tutti_put_notify_id - as put; when all bytes have arrived the target's count for this id
 * (0 to TUTTI_NOTIFY_IDS - 1) rises by 1, whichever rank puts.
 */
int tutti_put_notify_id(struct tutti_win *win, int rank, const void *local, size_t len,
			uint64_t offset, int id);

/**
 * tutti_wait_notify - wait until `count` further notifications from rank have arrived, and
 * consume them; tutti_wait_notify_id: notifications of an id. tutti_test_notify and
 * tutti_test_notify_id never wait: *done becomes 1 if that many had arrived and were consumed,
 * else 0.
 */
int tutti_wait_notify(struct tutti_win *win, int rank, uint64_t count);
int tutti_test_notify(struct tutti_win *win, int rank, uint64_t count, int *done);
int tutti_wait_notify_id(struct tutti_win *win, int id, uint64_t count);
int tutti_test_notify_id(struct tutti_win *win, int id, uint64_t count, int *done);

/**
 * tutti_wait_notify_any - wait until one of the n ids has a notification, and consume one; *index
 * is its place in ids. tutti_test_notify_any: *index becomes -1 if there is none.
 */
int tutti_wait_notify_any(struct tutti_win *win, int n, const int *ids, int *index);
int tutti_test_notify_any(struct tutti_win *win, int n, const int *ids, int *index);

/**
 * tutti_wait_notify_all - wait until each of the n ids has a notification, and consume one of
 * each; an id that is listed twice needs two. tutti_test_notify_all consumes all or none.
 */
int tutti_wait_notify_all(struct tutti_win *win, int n, const int *ids);
int tutti_test_notify_all(struct tutti_win *win, int n, const int *ids, int *done);

/** tutti_get - start reading len bytes of rank's window into local; complete after a flush. */
int tutti_get(struct tutti_win *win, int rank, void *local, size_t len, uint64_t offset);

/**
 * tutti_put_strided - as put, of strides->count blocks: the first from local to offset, each
 * further one strides->local_stride and strides->stride bytes from the last. Blocks must not
 * overlap where they are written. tutti_put_strided_notify: when all are in place, the target's
 * count for id rises by 1; TUTTI_NOTIFY_RANK: its count for this rank.
 */
int tutti_put_strided(struct tutti_win *win, int rank, const void *local, uint64_t offset,
		      const struct tutti_strides *strides);
int tutti_put_strided_notify(struct tutti_win *win, int rank, const void *local, uint64_t offset,
			     const struct tutti_strides *strides, int id);
/** tutti_get_strided - as get, of such blocks. */
int tutti_get_strided(struct tutti_win *win, int rank, void *local, uint64_t offset,
		      const struct tutti_strides *strides);

/**
 * tutti_accumulate - start to combine count elements at local with those at offset of rank's
 * window: each becomes itself op local's. op is an operator of the collectives but TUTTI_AVG and
 * those of tutti_op_create, or TUTTI_REPLACE. Atomic, element by element, to all accumulates of all
 * ranks, and to nothing else. The window must have been made with TUTTI_WIN_ACCUMULATE. local may
 * be reused after a flush.
 */
int tutti_accumulate(struct tutti_win *win, int rank, const void *local, size_t count,
		     enum tutti_datatype datatype, enum tutti_op op, uint64_t offset);
/**
 * tutti_get_accumulate - the same, and result receives the old elements; complete after a flush.
 * With TUTTI_NO_OP it only gets, and local may be NULL.
 */
int tutti_get_accumulate(struct tutti_win *win, int rank, const void *local, void *result,
			 size_t count, enum tutti_datatype datatype, enum tutti_op op,
			 uint64_t offset);

/**
 * tutti_fetch_add - add value to the 64-bit word at offset (a multiple of 8) of rank's window,
 * modulo 2^64; *old receives the previous value. Blocks until done. Atomic only to fetch_add and
 * compare_swap of all ranks, the target's own included.
 */
int tutti_fetch_add(struct tutti_win *win, int rank, uint64_t value, uint64_t offset,
		    uint64_t *old);

/** tutti_compare_swap - as fetch_add; the word becomes value only if it was equal to compare. */
int tutti_compare_swap(struct tutti_win *win, int rank, uint64_t compare, uint64_t value,
		       uint64_t offset, uint64_t *old);

/**
 * The same as requests for tutti_test and tutti_wait. When a request is done, a put is in place at
 * the target, local of a get holds the bytes, and *old is set; until then do not use local and
 * old. tutti_win_flush also waits for them, but each request must be waited for. These calls never
 * wait.
 */
int tutti_iput(struct tutti_win *win, int rank, const void *local, size_t len, uint64_t offset,
	       struct tutti_request **request);
int tutti_iput_notify(struct tutti_win *win, int rank, const void *local, size_t len,
		      uint64_t offset, struct tutti_request **request);
int tutti_iput_notify_id(struct tutti_win *win, int rank, const void *local, size_t len,
			 uint64_t offset, int id, struct tutti_request **request);
int tutti_iget(struct tutti_win *win, int rank, void *local, size_t len, uint64_t offset,
	       struct tutti_request **request);
int tutti_ifetch_add(struct tutti_win *win, int rank, uint64_t value, uint64_t offset,
		     uint64_t *old, struct tutti_request **request);
int tutti_icompare_swap(struct tutti_win *win, int rank, uint64_t compare, uint64_t value,
			uint64_t offset, uint64_t *old, struct tutti_request **request);

int tutti_iput_strided(struct tutti_win *win, int rank, const void *local, uint64_t offset,
		       const struct tutti_strides *strides, struct tutti_request **request);
int tutti_iget_strided(struct tutti_win *win, int rank, void *local, uint64_t offset,
		       const struct tutti_strides *strides, struct tutti_request **request);
int tutti_iaccumulate(struct tutti_win *win, int rank, const void *local, size_t count,
		      enum tutti_datatype datatype, enum tutti_op op, uint64_t offset,
		      struct tutti_request **request);
int tutti_iget_accumulate(struct tutti_win *win, int rank, const void *local, void *result,
			  size_t count, enum tutti_datatype datatype, enum tutti_op op,
			  uint64_t offset, struct tutti_request **request);

/** tutti_win_flush - wait until this rank's operations on rank are complete here and there. */
int tutti_win_flush(struct tutti_win *win, int rank);
int tutti_win_flush_all(struct tutti_win *win);

/**
 * tutti_win_set_priority - puts and gets that this rank starts on win from now on go before those
 * of lower priority that wait for the same peer, over transports between hosts. Local; 0 at first.
 */
int tutti_win_set_priority(struct tutti_win *win, int priority);

/**
 * tutti_win_iflush - a request that is done when this rank's earlier operations on rank are
 * complete at both ends; tutti_win_iflush_all: on all ranks. Each must be waited for.
 */
int tutti_win_iflush(struct tutti_win *win, int rank, struct tutti_request **request);
int tutti_win_iflush_all(struct tutti_win *win, struct tutti_request **request);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
