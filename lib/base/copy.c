/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/base/copy.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif
/* Sanitizers do not see what the processor copies. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <cpuid.h>
#define STRING_COPY 1
#else
#define STRING_COPY 0
#endif

#define LINE 64
#define WORTH 8192		       /* bytes; fewer are read again soon after, from a cache */
#define CACHE ((size_t)32 << 20)       /* if the system does not tell */
#define NEAR_PIECE ((size_t)128 << 10) /* short enough for the C library to store it plainly */

#ifdef __SSE2__
/* Copy whole cache lines to an aligned address, around the cache. */
static void copy_lines(char *to, const char *from, size_t len)
{
	size_t at;

	for (at = 0; at < len; at += LINE) {
		__m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from + at));
		__m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 16));
		__m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 32));
		__m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 48));

		_mm_stream_si128((__m128i *)(void *)(to + at), a);
		_mm_stream_si128((__m128i *)(void *)(to + at + 16), b);
		_mm_stream_si128((__m128i *)(void *)(to + at + 32), c);
		_mm_stream_si128((__m128i *)(void *)(to + at + 48), d);
	}
	_mm_sfence();
}
#else
static void copy_lines(char *to, const char *from, size_t len)
{
	memcpy(to, from, len);
}
#endif

void tt_copy_away(void *to, const void *from, size_t len)
{
	size_t before = (LINE - (uintptr_t)to % LINE) % LINE, lines;

	if (len < WORTH) {
		memcpy(to, from, len);
		return;
	}
	lines = (len - before) / LINE * LINE;
	memcpy(to, from, before);
	copy_lines((char *)to + before, (const char *)from + before, lines);
	before += lines;
	memcpy((char *)to + before, (const char *)from + before, len - before);
}

#if defined(__x86_64__)
bool tt_hands_back(void)
{
	static atomic_int known; /* 0: not yet, 1: no, 2: yes */
	int is = atomic_load_explicit(&known, memory_order_relaxed);

	if (!is) {
		is = 1 + (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx2"));
		atomic_store_explicit(&known, is, memory_order_relaxed);
	}
	return is == 2;
}

/* Four vectors at a time, as each load waits for the stores before it to addresses like its own. */
__attribute__((target("avx2"))) static void copy_by_vector(char *to, const char *from, size_t len)
{
	size_t at = 32 - (uintptr_t)to % 32;

	memcpy(to, from, 32);
	for (; len - at >= 128; at += 128) {
		const __m256i *in = (const __m256i *)(const void *)(from + at);
		__m256i *out = (__m256i *)(void *)(to + at);
		__m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1);
		__m256i c = _mm256_loadu_si256(in + 2), d = _mm256_loadu_si256(in + 3);

		_mm256_store_si256(out, a);
		_mm256_store_si256(out + 1, b);
		_mm256_store_si256(out + 2, c);
		_mm256_store_si256(out + 3, d);
	}
	memcpy(to + at, from + at, len - at);
}

/* Processors without such vectors have no fast `rep movsb` either. */
void tt_copy_by_vector(void *to, const void *from, size_t len)
{
	static atomic_int known; /* 0: not yet, 1: no, 2: yes */
	int is = atomic_load_explicit(&known, memory_order_relaxed);

	if (!is) {
		is = 1 + !!__builtin_cpu_supports("avx2");
		atomic_store_explicit(&known, is, memory_order_relaxed);
	}
	if (is == 2 && len >= 128)
		copy_by_vector(to, from, len);
	else
		memcpy(to, from, len);
}

static inline void store_own(char *at)
{
	*(volatile char *)at = *(volatile char *)at;
}

static void hand_back(char *at, const char *end)
{
	for (; at < end; at += LINE - (uintptr_t)at % LINE)
		store_own(at);
}

void tt_hand_back(void *from, size_t len)
{
	if (tt_hands_back())
		hand_back(from, (char *)from + len);
}

/* Each line is stored while others come: that costs nothing. */
__attribute__((target("avx2"))) static void copy_and_hand_back(char *to, char *from, size_t len)
{
	size_t at, before = (LINE - (uintptr_t)from % LINE) % LINE;

	before = before < len ? before : len;
	memcpy(to, from, before);
	hand_back(from, from + before);
	for (at = before; len - at >= LINE; at += LINE) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(from + at));
		__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(from + at + 32));

		_mm256_storeu_si256((__m256i *)(void *)(to + at), a);
		_mm256_storeu_si256((__m256i *)(void *)(to + at + 32), b);
		store_own(from + at);
	}
	memcpy(to + at, from + at, len - at);
	hand_back(from + at, from + len);
}

void tt_copy_out(void *to, void *from, size_t len)
{
	if (tt_hands_back())
		copy_and_hand_back(to, from, len);
	else
		tt_copy_near(to, from, len);
}
#else
void tt_copy_by_vector(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

bool tt_hands_back(void)
{
	return false;
}

void tt_hand_back(void *from, size_t len)
{
	(void)from;
	(void)len;
}

void tt_copy_out(void *to, void *from, size_t len)
{
	tt_copy_near(to, from, len);
}
#endif

#if STRING_COPY
#define FSRM (1u << 4) /* in edx of leaf 7: the processor's own copy is fast */

/*
 * Whether long copies by `rep movsb` are faster than the C library's, which leaves it alone on
 * AMD's processors above the size of the second-level cache.
 */
static bool find_string_copy(void)
{
	unsigned a, b = 0, c = 0, d = 0;

	return __builtin_cpu_is("amd") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & FSRM;
}

static bool string_copy(void *to, const void *from, size_t len)
{
	static atomic_int known; /* 0: not yet, 1: no, 2: yes */
	int is = atomic_load_explicit(&known, memory_order_relaxed);

	if (!is) {
		is = 1 + find_string_copy();
		atomic_store_explicit(&known, is, memory_order_relaxed);
	}
	if (is == 1)
		return false;
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(len) : : "memory");
	return true;
}
#else
static bool string_copy(void *to, const void *from, size_t len)
{
	(void)to;
	(void)from;
	(void)len;
	return false;
}
#endif

static bool overlap(const char *a, const char *b, size_t len)
{
	return a < b + len && b < a + len;
}

void tt_copy_near(void *to, const void *from, size_t len)
{
	size_t at, n;

	if (len > TT_COPY_SHORT && tt_copy_lags(to, from)) {
		tt_copy_by_vector(to, from, len);
		return;
	}
	if (len >= TT_COPY_LONG && !overlap(to, from, len) && string_copy(to, from, len))
		return;
	for (at = 0; at < len; at += n) {
		n = len - at < NEAR_PIECE ? len - at : NEAR_PIECE;
		memmove((char *)to + at, (const char *)from + at, n);
	}
}

/* So many bytes leave nothing of what is copied in the last cache. */
static bool fills_cache(size_t len)
{
	static atomic_size_t known; /* half of it; 0: not yet */
	size_t half = atomic_load_explicit(&known, memory_order_relaxed);
	long size;

	if (!half) {
		size = sysconf(_SC_LEVEL3_CACHE_SIZE);
		half = size > 0 ? (size_t)size / 2 : CACHE / 2;
		atomic_store_explicit(&known, half, memory_order_relaxed);
	}
	return len >= half;
}

void tt_copy_by_length(void *to, const void *from, size_t len)
{
	if (overlap(to, from, len))
		memmove(to, from, len);
	else if (len >= TT_COPY_LONG && fills_cache(len))
		tt_copy_away(to, from, len);
	else if (tt_copy_lags(to, from))
		tt_copy_by_vector(to, from, len);
	else if (len < TT_COPY_LONG || !string_copy(to, from, len))
		memcpy(to, from, len);
}
