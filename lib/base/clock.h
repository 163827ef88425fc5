/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time and deadlines. Every wait in the library carries a deadline. */
#ifndef TT_CLOCK_H
#define TT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define TT_MS 1000000ull
#define TT_SEC 1000000000ull
#define TT_NEVER UINT64_MAX

static inline uint64_t tt_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TT_SEC + (uint64_t)ts.tv_nsec;
}

/* The moment ms milliseconds from now; ms < 0: never. */
static inline uint64_t tt_deadline_ms(int64_t ms)
{
	return ms < 0 ? TT_NEVER : tt_now_ns() + (uint64_t)ms * TT_MS;
}

static inline bool tt_passed(uint64_t deadline)
{
	return deadline != TT_NEVER && tt_now_ns() >= deadline;
}

/* Nanoseconds left, 0 when passed, at most cap. */
static inline uint64_t tt_left_ns(uint64_t deadline, uint64_t cap)
{
	uint64_t now;

	if (deadline == TT_NEVER)
		return cap;
	now = tt_now_ns();
	if (now >= deadline)
		return 0;
	return deadline - now < cap ? deadline - now : cap;
}

/* Milliseconds left, rounded up, 0 when passed, at most cap: what poll(2) takes. */
static inline int tt_left_ms(uint64_t deadline, int cap)
{
	uint64_t now = tt_now_ns(), left;

	if (deadline == TT_NEVER)
		return cap;
	if (now >= deadline)
		return 0;
	left = (deadline - now + TT_MS - 1) / TT_MS;
	return left > (uint64_t)cap ? cap : (int)left;
}

static inline void tt_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* A cheap, steady counter; dump.c converts it to time. */
static inline uint64_t tt_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
	return tt_now_ns();
#endif
}

#endif
