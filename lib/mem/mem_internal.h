/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations shared by the files of lib/mem.
 *
 * Locks, in the order in which they are taken:
 *   1. The transport lock given to tt_memory_new. It must be recursive: the progress path allocates
 *      pool memory while holding it. Growing the pool takes it first, so two threads short of
 * memory do not both make a slab.
 *   2. all.lock of the process-wide table (tt_mem_owner, tt_mem_deregister).
 *   3. The mutex of a struct tt_memory. No function that takes 1 or 2 is called with it held.
 */
#ifndef TT_MEM_INTERNAL_H
#define TT_MEM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/base/list.h"
#include "lib/mem/mem.h"

/*
 * Regions sorted by address; reach[i] is the highest end among regions 0..i, as they may overlap.
 */
struct tt_region_table {
	struct tt_region **region;
	uintptr_t *reach;
	int n, room;
};

int tt_table_insert(struct tt_region_table *table, struct tt_region *region);
/* false: it was not there */
bool tt_table_remove(struct tt_region_table *table, const struct tt_region *region);
struct tt_region *tt_table_find(const struct tt_region_table *table, const void *addr, size_t len,
				bool pool_only);
bool tt_table_partial(const struct tt_region_table *table, const void *addr, size_t len);
/* The memory without a region around a buffer; false: it touches one. */
bool tt_table_gap(const struct tt_region_table *table, const void *addr, size_t len,
		  uintptr_t *start, size_t *gap);
void tt_table_free(struct tt_region_table *table);

/* Every region of the process. */
struct tt_all {
	pthread_mutex_t lock;
	struct tt_region_table table;
};
extern struct tt_all tt_all;

#define TT_BINS 6 /* blocks smaller than a page: 1/64, 1/32 ... 1/2 of it */

enum tt_page_state { TT_PAGE_INSIDE, TT_PAGE_FREE, TT_PAGE_RUN, TT_PAGE_BLOCKS };

/* A page of a slab. Kept apart from the memory itself, which peers can write. */
struct tt_page {
	uint8_t state; /* the pages of a run after its first are INSIDE */
	uint8_t bin;   /* BLOCKS */
	uint32_t run;  /* FREE, RUN: pages of the run that starts here */
	uint64_t used; /* BLOCKS: a bit a block */
	struct tt_slab *slab;
	struct tt_list partial; /* BLOCKS: among the pages of its bin with free blocks */
};

struct tt_slab {
	struct tt_region region; /* first: a pool region is its slab */
	struct tt_list link;
	bool large; /* made for one allocation; page[0] stands for all of it */
	uint32_t npages;
	uint32_t max_free; /* no free run is longer than this */
	uint32_t nused;	   /* pages in use */
	bool kept; /* freed blocks are not reused: there was no memory to withhold a block */
	struct tt_page page[];
};

/* See tt_mem_withhold. */
struct tt_withheld {
	struct tt_withheld *next;
	const void *owner;
	void *block;
	bool freed; /* owner that withheld it; reusable when given back */
};

struct tt_memory {
	pthread_mutex_t mutex;
	struct tt_tp *tps[TT_TP_MAX];
	bool gave_up[TT_TP_MAX]; /* an optional transport could not register: said once */
	int ntps;
	void (*lock_tp)(void *), (*unlock_tp)(void *);
	void *lock_arg;
	size_t page_size, slab_size, limit, cache_max;
	bool lock_pages, huge;
	struct tt_region_table table;
	struct tt_list slabs;  /* shared by many allocations */
	struct tt_list large;  /* in use */
	struct tt_list cached; /* large and free */
	size_t cached_bytes, bytes;
	struct tt_list partial[TT_BINS];
	struct tt_withheld *withheld;
	struct tt_cache *cache; /* NULL: off */
	struct tt_mem_stats stats;
};

void tt_mem_lock_tp(struct tt_memory *memory);
void tt_mem_unlock_tp(struct tt_memory *memory);

/*
 * region.c: with all open transports; enter and leave also keep the two tables. Transport lock
 * held.
 */
int tt_region_enter(struct tt_region *region);
void tt_region_leave(struct tt_region *region);

/* The part without tables. *count rises by the number of registrations. */
int tt_region_register(struct tt_region *region, int *count);
void tt_region_unregister(struct tt_region *region);

/* lookup.c: a table has changed; its mutex is held. */
void tt_mem_changed(void);

/* reg_cache.c: all with the transport lock held */
int tt_cache_new(struct tt_memory *memory, size_t max_bytes, int max_count);
void tt_cache_free(struct tt_memory *memory);
struct tt_region *tt_cache_get(struct tt_memory *memory, void *addr, size_t len);
void tt_cache_put(struct tt_region *region);

/* slab.c: memory from the system, not yet registered. */
int tt_slab_new(struct tt_memory *memory, size_t len, bool large, struct tt_slab **slab);
void tt_slab_free(struct tt_slab *slab);

/* pool.c */
bool tt_block_live(const struct tt_slab *slab, const void *ptr); /* mutex held */
void tt_pool_free(struct tt_memory *memory);

#endif
