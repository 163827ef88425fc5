/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocations that fail: see allocations.h. */
#include "tests/fault/allocations.h"

#include <errno.h>
#include <unistd.h>

#define SOME 500   /* least bytes of what fails in a row: news of a failure, parts of comms */
#define EARLY 4096 /* bytes of an early message, which there must be memory for */
#define MOST 1500  /* allocations of a call */

static atomic_int armed; /* enum who */
static atomic_long calls, first, last;

static bool fails(size_t size)
{
	int who = atomic_load(&armed);
	bool other = who != NONE && gettid() != getpid();
	long n;

	if (who == SLOW && other)
		usleep(1000);
	if (who == NONE || (who != ALL && other))
		return false;
	if (who == SLOW && (size < SOME || size >= EARLY))
		return false;
	n = atomic_fetch_add(&calls, 1) + 1;
	if (n < atomic_load(&first) || n > atomic_load(&last))
		return false;
	errno = ENOMEM; /* glibc asserts it in pthread_create, the library reports it */
	return true;
}

#define REPLACES __attribute__((visibility("default")))

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);

REPLACES void *malloc(size_t size)
{
	return fails(size) ? NULL : __libc_malloc(size);
}

REPLACES void *calloc(size_t n, size_t size)
{
	return fails(n * size) ? NULL : __libc_calloc(n, size);
}

REPLACES void *realloc(void *p, size_t size)
{
	return fails(size) ? NULL : __libc_realloc(p, size);
}
#endif

void arm(enum who who, long from, long row)
{
	atomic_store(&calls, 0);
	atomic_store(&first, from);
	atomic_store(&last, from - 1 + row);
	atomic_store(&armed, who);
}

long counted(void)
{
	return atomic_load(&calls);
}

int each_allocation(struct mp_job *job, without_fn *call, void *arg, long step)
{
	atomic_int *over = &job->shared->word[1];
	long from, count;

	for (from = 1; from < MOST; from += step) {
		MP_OK(call(job, arg, from, &count));
		if (job->rank == BAD)
			atomic_store(over, count < from);
		mp_meet(job);
		if (atomic_load(over))
			break;
	}
	TT_EXPECT(from > 1 && from < MOST);
	return 0;
}
