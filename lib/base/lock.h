/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A recursive lock that is taken and released around every message. Without contention, taking it
 * is one atomic operation, releasing it is a store, and neither is a call. tt_unlock is no barrier
 * for later loads, and looks at the lock after it has given it up: free its memory later.
 */
#ifndef TT_LOCK_H
#define TT_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Free when all is zero; nothing has to be destroyed. */
struct tt_lock {
	atomic_uint word;   /* 0: free, 1: held */
	atomic_uint wanted; /* 1: threads may sleep until it is free, or are about to */
	unsigned depth;	    /* the owner's: how often it holds it, less one */
	_Atomic(uintptr_t) owner;
};

/*
 * For tt_lock and its kin below. Sleep until it is free, at most ms, -1: for ever; false: that was
 * too short.
 */
bool tt_lock_slowly(struct tt_lock *lock, int ms);
void tt_lock_wake(struct tt_lock *lock);

/* Sleeps while *word is value, at most ns, less than a second; or less, for no reason. */
void tt_word_wait(atomic_uint *word, unsigned value, uint64_t ns);
/* Wakes a thread that sleeps there. */
void tt_word_wake(atomic_uint *word);

#if defined(__GLIBC__) && defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
#define TT_THREAD_POINTER
#endif
#endif

/* An id of the calling thread, without a system or library call where the compiler supports it. */
static inline uintptr_t tt_lock_self(void)
{
#ifdef TT_THREAD_POINTER
	return (uintptr_t)__builtin_thread_pointer();
#else
	return (uintptr_t)pthread_self();
#endif
}

/* false: not within ms, -1: for ever. */
static inline bool tt_lock_within(struct tt_lock *lock, int ms)
{
	uintptr_t self = tt_lock_self();
	unsigned free = 0;

	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == self) {
		lock->depth++;
		return true;
	}
	if (!atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire,
						     memory_order_relaxed) &&
	    !tt_lock_slowly(lock, ms))
		return false;
	atomic_store_explicit(&lock->owner, self, memory_order_relaxed);
	return true;
}

static inline void tt_lock(struct tt_lock *lock)
{
	tt_lock_within(lock, -1);
}

static inline void tt_unlock(struct tt_lock *lock)
{
	if (lock->depth) {
		lock->depth--;
		return;
	}
	atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
	atomic_store_explicit(&lock->word, 0, memory_order_release);
	if (atomic_load_explicit(&lock->wanted, memory_order_relaxed))
		tt_lock_wake(lock);
}

#endif
