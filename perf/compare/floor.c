/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The least that an all-reduce of float32 sums on one host can take: processes that share all
 * buffers, of which each sums its part of all inputs and stores it in all outputs, between two
 * barriers. There is no call to check, no buffer to find and no peer that may be late or dead.
 *
 *	floor RANKS PAIRS plain|stream BYTES...
 *
 * PAIRS: pairs of buffers, used in turn. stream: stores go around the cache (x86-64, AVX2). Each
 * process keeps to a core if there are enough. It prints "BYTES MICROSECONDS WRONG" for each size,
 * as drive.c does: the median of the slowest process.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/whole_number.h"
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define MOST 16	  /* ranks */
#define LANE 8	  /* floats: parts begin at multiples */
#define SHORT 200 /* calls timed, of up to 1 MiB */
#define LONG 20	  /* of more */
#define WARM 3
#define SPINS 2000

struct shared {
	_Alignas(64) atomic_int missing;
	_Alignas(64) atomic_int turn;
	_Alignas(64) double usec[MOST];
};

static struct shared *shared;
static int ranks, rank;
static float *in[MOST], *out[MOST]; /* of all pairs */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void relax(void)
{
#ifdef __x86_64__
	_mm_pause();
#endif
}

static void barrier(void)
{
	int turn = atomic_load(&shared->turn), spins = 0;

	if (atomic_fetch_add(&shared->missing, 1) == ranks - 1) {
		atomic_store(&shared->missing, 0);
		atomic_store(&shared->turn, turn + 1);
		return;
	}
	while (atomic_load_explicit(&shared->turn, memory_order_acquire) == turn)
		if (++spins > SPINS)
			sched_yield();
		else
			relax();
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void sum(size_t at, size_t from, size_t to, bool stream)
{
	size_t i;
	int p;

	for (i = at + from; i < at + to; i += LANE) {
		__m256 s = _mm256_load_ps(in[0] + i);

		for (p = 1; p < ranks; p++)
			s = _mm256_add_ps(s, _mm256_load_ps(in[p] + i));
		for (p = 0; p < ranks; p++)
			if (stream)
				_mm256_stream_ps(out[p] + i, s);
			else
				_mm256_store_ps(out[p] + i, s);
	}
	_mm_sfence();
}
#else
static void sum(size_t at, size_t from, size_t to, bool stream)
{
	size_t i;
	float s;
	int p;

	(void)stream;
	for (i = at + from; i < at + to; i++) {
		for (s = in[0][i], p = 1; p < ranks; p++)
			s += in[p][i];
		for (p = 0; p < ranks; p++)
			out[p][i] = s;
	}
}
#endif

/* One all-reduce of count floats, of the buffers from at on; microseconds of the slowest rank. */
static double one(size_t at, size_t count, bool stream)
{
	size_t from = count * (size_t)rank / (size_t)ranks / LANE * LANE;
	size_t to = rank == ranks - 1 ? count
				      : count * (size_t)(rank + 1) / (size_t)ranks / LANE * LANE;
	double start, most = 0;
	int p;

	barrier();
	start = now();
	barrier();
	sum(at, from, to, stream);
	barrier();
	shared->usec[rank] = now() - start;
	barrier();
	for (p = 0; p < ranks; p++)
		most = shared->usec[p] > most ? shared->usec[p] : most;
	return most;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(size_t bytes, size_t room, int pairs, bool stream)
{
	size_t count = bytes / sizeof(float), at = 0, wrong = 0, i;
	int k, calls = bytes <= 1 << 20 ? SHORT : LONG;
	double usec[SHORT], took;

	for (k = -WARM - pairs; k < calls; k++) {
		at = (size_t)((k + WARM + pairs) % pairs) * (room / sizeof(float));
		took = one(at, count, stream);
		if (k >= 0)
			usec[k] = took;
	}
	for (i = 0; i < count; i++)
		wrong += out[rank][at + i] != (float)(ranks * (ranks + 1) / 2);
	if (rank)
		return;
	qsort(usec, (size_t)calls, sizeof(usec[0]), by_value);
	printf("%zu %.3f %zu\n", bytes, usec[calls / 2], wrong);
	fflush(stdout);
}

static void *get(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("floor: mmap");
		exit(1);
	}
	madvise(p, size, MADV_HUGEPAGE);
	return p;
}

/* The CPU of this number among those that the process may use. */
static void bind_rank(void)
{
	cpu_set_t may, mine;
	int cpu, n = 0;

	if (sched_getaffinity(0, sizeof(may), &may) || CPU_COUNT(&may) < ranks)
		return;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && n++ == rank)
			break;
	CPU_ZERO(&mine);
	CPU_SET(cpu, &mine);
	sched_setaffinity(0, sizeof(mine), &mine);
}

int main(int argc, char **argv)
{
	int pairs = argc > 2 ? whole_number(argv[2]) : 0, i, p;
	bool stream = argc > 3 && !strcmp(argv[3], "stream");
	size_t room = 0, j;

	ranks = argc > 1 ? whole_number(argv[1]) : 0;
	for (i = 4; i < argc; i++)
		if (whole_number(argv[i]) < 0)
			ranks = 0;
		else if ((size_t)whole_number(argv[i]) > room)
			room = (size_t)whole_number(argv[i]);
	if (ranks < 1 || ranks > MOST || pairs < 1 || room < LANE * sizeof(float) * MOST)
		return fprintf(stderr, "floor: RANKS PAIRS plain|stream BYTES...\n"), 2;
	room = (room + 4095) & ~(size_t)4095;
	shared = get(sizeof(*shared));
	for (p = 0; p < ranks; p++) {
		in[p] = get(room * (size_t)pairs);
		out[p] = get(room * (size_t)pairs);
	}
	for (p = 1; p < ranks && !rank; p++)
		if (!fork())
			rank = p;
	bind_rank();
	for (j = 0; j < room * (size_t)pairs / sizeof(float); j++) {
		in[rank][j] = (float)(rank + 1);
		out[rank][j] = 0;
	}
	for (i = 4; i < argc; i++)
		measure((size_t)whole_number(argv[i]), room, pairs, stream);
	if (!rank)
		while (wait(NULL) > 0)
			;
	return 0;
}
