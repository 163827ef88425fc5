/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock under which ranks of one host combine in a part of a window for accumulates. It lies
 * behind the part, in memory that they map. It names its holder, so that it can be taken over from
 * a process that has ended. doc/WIRE.md
 */
#ifndef TT_PART_LOCK_H
#define TT_PART_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TT_PART_LINE 128 /* two cache lines: processors fetch them in pairs */

struct tt_part_lock {
	_Alignas(TT_PART_LINE) _Atomic uint64_t holder; /* {1 + rank, process}; 0: free */
	_Atomic uint32_t wanted; /* 1: a rank waits for the end of a piece; it looks now */
	_Atomic uint32_t closed; /* 1: the owner has freed the window without the others */
};
_Static_assert(sizeof(struct tt_part_lock) == TT_PART_LINE, "doc/WIRE.md");

/* Where the lock of a part of so many bytes is, from its start. */
static inline size_t tt_part_lock_at(size_t size)
{
	return (size + TT_PART_LINE - 1) / TT_PART_LINE * TT_PART_LINE;
}

static inline uint64_t tt_part_name(int rank, pid_t pid)
{
	return (uint64_t)(rank + 1) << 32 | (uint32_t)pid;
}

/* -1: it is free. */
static inline int tt_part_holder(const struct tt_part_lock *lock)
{
	return (int)(atomic_load_explicit(&lock->holder, memory_order_relaxed) >> 32) - 1;
}

/* was: 0, or the name of a holder that has ended. Released: the mark of the copy comes before. */
static inline bool tt_part_take(struct tt_part_lock *lock, uint64_t was, uint64_t name)
{
	return atomic_compare_exchange_strong_explicit(&lock->holder, &was, name,
						       memory_order_acq_rel, memory_order_relaxed);
}

static inline void tt_part_release(struct tt_part_lock *lock)
{
	atomic_store_explicit(&lock->holder, 0, memory_order_release);
}

#endif
