/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each block is one of malloc, so that its user frees it as any other. Small ones are for votes and
 * messages, the others for a plan and its request; they cost nothing until they are used.
 */
#include "lib/base/reserve.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SIZES 4
#define BLOCKS 34

static const struct {
	int blocks;
	size_t bytes, rank_bytes;
} sizes[SIZES] = {{16, 640, 0}, {8, 2048, 0}, {8, 8 << 10, 192}, {2, 16 << 10, 320}};

static struct {
	_Atomic(void *) memory; /* NULL: taken */
	atomic_size_t bytes;
} block[BLOCKS];

static atomic_flag filling = ATOMIC_FLAG_INIT;
static atomic_int most_ranks;
/*
 * volatile, as malloc is declared not to call back into this file: the compiler would leave out
 * what surrounds it.
 */
static _Thread_local volatile int entered;

static void fill_one(int i, size_t bytes)
{
	if (atomic_load(&block[i].bytes) < bytes) {
		free(atomic_exchange(&block[i].memory, NULL));
		atomic_store(&block[i].bytes, bytes);
	}
	if (!atomic_load(&block[i].memory))
		atomic_store(&block[i].memory, malloc(bytes));
}

void tt_reserve_fill(int nranks)
{
	int i, k, at = 0, was = entered;

	if (atomic_flag_test_and_set(&filling))
		return;
	if (nranks > atomic_load(&most_ranks))
		atomic_store(&most_ranks, nranks);
	entered = 0; /* the blocks are for other work than this */
	for (i = 0; i < SIZES; i++)
		for (k = 0; k < sizes[i].blocks; k++)
			fill_one(at++, sizes[i].bytes + sizes[i].rank_bytes *
								(size_t)atomic_load(&most_ranks));
	entered = was;
	atomic_flag_clear(&filling);
}

void tt_reserve_in_child(void)
{
	atomic_flag_clear(&filling);
}

/* When the process ends or unloads the library. */
__attribute__((destructor)) static void drop(void)
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		free(atomic_exchange(&block[i].memory, NULL));
}

void tt_reserve_enter(void)
{
	entered = entered + 1;
}

void tt_reserve_leave(void)
{
	entered = entered - 1;
}

void *tt_reserve_malloc(size_t size)
{
	void *p;

	tt_reserve_enter();
	p = malloc(size);
	tt_reserve_leave();
	return p;
}

void *tt_reserve_take(size_t size)
{
	void *p = NULL;
	int i;

	for (i = 0; entered && !p && i < BLOCKS; i++)
		if (atomic_load(&block[i].bytes) >= size)
			p = atomic_exchange(&block[i].memory, NULL);
	if (!p)
		errno = ENOMEM;
	return p;
}
