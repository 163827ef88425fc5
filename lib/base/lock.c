/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping for a word of memory, as for a held tt_lock, and waking. See lock.h. */
#include "lib/base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/clock.h"

/*
 * tt_unlock has no barrier between its store and its look at `wanted`, so it can miss a thread that
 * is just going to sleep. The kernel compares the word before that thread sleeps, long after the
 * store has left the other core. If it has not, or if a waker has cleared what another thread had
 * just set, the sleep is short.
 */
#define SLEEP_NS TT_MS

void tt_word_wait(atomic_uint *word, unsigned value, uint64_t ns)
{
	struct timespec limit = {.tv_nsec = (long)ns};

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &limit, NULL, 0);
}

void tt_word_wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/*
 * A thread that has slept leaves `wanted` set, because it cannot know whether other threads sleep.
 * An unnecessary wake is harmless.
 */
bool tt_lock_slowly(struct tt_lock *lock, int ms)
{
	uint64_t end = tt_deadline_ms(ms), now, left = SLEEP_NS;

	for (;;) {
		atomic_store(&lock->wanted, 1);
		if (!atomic_exchange(&lock->word, 1))
			return true;
		if (ms >= 0) {
			now = tt_now_ns();
			if (now >= end)
				return false;
			left = end - now < SLEEP_NS ? end - now : SLEEP_NS;
		}
		tt_word_wait(&lock->word, 1, left);
	}
}

void tt_lock_wake(struct tt_lock *lock)
{
	atomic_store_explicit(&lock->wanted, 0, memory_order_relaxed);
	tt_word_wake(&lock->word);
}
