/* SPDX-License-Identifier: BSD-3-Clause */
/* The slow path of tt_lock: sleeping for a held lock, and waking. See lock.h. */
#include "lib/base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/clock.h"

/*
 * A thread that has slept sets 2, because it cannot know whether other threads sleep. An
 * unnecessary wake is harmless.
 */
bool tt_lock_slowly(struct tt_lock *lock, int ms)
{
	uint64_t end = tt_deadline_ms(ms), now;
	struct timespec left, *limit = NULL;

	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire)) {
		if (ms >= 0) {
			now = tt_now_ns();
			if (now >= end)
				return false;
			left = (struct timespec){.tv_sec = (time_t)((end - now) / TT_SEC),
						 .tv_nsec = (long)((end - now) % TT_SEC)};
			limit = &left;
		}
		syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, limit, NULL, 0);
	}
	return true;
}

void tt_lock_wake(struct tt_lock *lock)
{
	syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
