/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions (memory known to transports) and the pool (slabs of registered memory, memfd-backed).
 *
 * A region has one registration per open transport, made with the region. So no hot path registers
 * memory, and the number of registrations does not grow with the number of peers. A lookup by
 * address that the thread does not remember is a binary search in a sorted array. Thread-safe: one
 * mutex per struct tt_memory.
 */
#ifndef TT_MEM_H
#define TT_MEM_H

#include <stdatomic.h>

#include "lib/wire/transport.h"

struct tt_memory; /* the memory of one context */

struct tt_region {
	struct tt_mem mem;
	unsigned access;
	struct tt_mr *mr[TT_TP_MAX]; /* by transport index; NULL where it could not be registered */
	struct tt_memory *memory;
	bool pool;   /* a slab of the pool, not the user's */
	bool cached; /* made by the registration cache */
	bool once;   /* made by tt_mem_register_once */
};

struct tt_mem_stats {
	uint64_t registrations; /* made so far */
	uint64_t slabs;
	uint64_t pool_bytes;  /* taken from the system */
	uint64_t allocations; /* tt_mem_alloc calls that took a new slab */
	/*
	 * the registration cache: found, made, given up for room, given up as their memory changed
	 */
	uint64_t cache_hits, cache_misses, cache_evictions, cache_stale;
	uint64_t cache_bytes, cache_count; /* in it now */
};

/*
 * tps[0..ntps) are the open transports, or NULL; they outlive the struct (the array need not).
 * lock_tp/unlock_tp: the lock under which transports may be called, NULL in single-threaded tests.
 * It must be recursive: every call here may be made with it held; calls that register or grow the
 * pool take it themselves. A call without it may wait for it, so the caller must not hold a lock
 * that holders of the transport lock take.
 */
int tt_memory_new(const struct tt_env *env, struct tt_tp *const *tps, int ntps,
		  void (*lock_tp)(void *), void (*unlock_tp)(void *), void *lock_arg,
		  struct tt_memory **memory);
/*
 * One more open transport, an optional one, whose index was free (NULL in tps, or beyond): the
 * memory that there is already is registered with it as far as it can.
 */
void tt_memory_add(struct tt_memory *memory, int index, struct tt_tp *tp);
/* Frees everything, user regions that were forgotten included. */
void tt_memory_free(struct tt_memory *memory);
void tt_memory_stats(struct tt_memory *memory, struct tt_mem_stats *stats);

/*
 * Pool memory: size bytes, zero-size gives a unique pointer. It is aligned to size rounded up to a
 * power of two, to 64 bytes at least and to a page (4096) at most. region (may be NULL) receives
 * its slab. -ENOMEM says need, limit and remedy. Freed blocks are reused; slabs are kept, except
 * those made for one large allocation beyond the cache bound.
 */
int tt_mem_alloc(struct tt_memory *memory, size_t size, void **ptr, struct tt_region **region);
/* -EINVAL if ptr was not allocated here or was freed already. */
int tt_mem_free(struct tt_memory *memory, void *ptr);
/*
 * An operation of owner may still write at addr: after it is freed, the block there is not reused
 * until owner releases its withheld blocks. No effect on free memory and memory outside the pool.
 */
void tt_mem_withhold(struct tt_memory *memory, const void *addr, const void *owner);
void tt_mem_give_back(struct tt_memory *memory, const void *owner);
/*
 * The memory that ptr (a live tt_mem_alloc block of any context) belongs to, NULL for a stranger.
 */
struct tt_memory *tt_mem_owner(const void *ptr);

/*
 * User regions. Overlapping registrations are allowed. Transports without TT_CAP_REG_ANY get no mr
 * unless the memory lies in the pool; a transport that refuses otherwise fails the call.
 * Deregistering anything else than a user region is -EINVAL.
 */
int tt_mem_register(struct tt_memory *memory, void *addr, size_t len, unsigned access,
		    struct tt_region **region);
int tt_mem_deregister(struct tt_region *region);

/*
 * In which region a buffer is. Every call that moves data asks, mostly of the same few buffers:
 * each thread remembers a few ranges with one answer, which are regions or memory between regions,
 * and asks the table, under its mutex, only about others and after a change.
 */
#define TT_MEM_RANGES 4 /* a call has two buffers, in the pool, the heap, on stacks */
struct tt_mem_range {
	const struct tt_memory *memory;
	uint64_t version; /* when this was the answer */
	uintptr_t start;
	size_t len;
	struct tt_region *region; /* NULL: none touches it */
};
/* As in launch.c: one load, and little of what the C library keeps for libraries loaded later. */
extern _Thread_local __attribute__((tls_model("initial-exec"))) struct tt_mem_ranges {
	struct tt_mem_range range[TT_MEM_RANGES];
	unsigned next;
} tt_mem_ranges;
/*
 * Rises with each change of a table. A memory whose table is empty is freed, so another one in its
 * place begins with the same answers.
 */
extern _Atomic uint64_t tt_mem_version;

bool tt_mem_ask(struct tt_memory *memory, const void *addr, size_t len, struct tt_region **region);

/*
 * The region, pool or user's, that covers all of a caller's buffer, NULL if none does, into
 * *region. False: the buffer runs out of the pool's memory, a mistake worth naming. One that is
 * partly in the caller's own regions is staged as unregistered memory is.
 */
static inline bool tt_mem_find_buffer(struct tt_memory *memory, const void *addr, size_t len,
				      struct tt_region **region)
{
	uint64_t version = atomic_load_explicit(&tt_mem_version, memory_order_acquire);
	const struct tt_mem_range *r = tt_mem_ranges.range, *end = r + TT_MEM_RANGES;
	uintptr_t offset;

	for (; r < end; r++) {
		offset = (uintptr_t)addr - r->start;
		if (r->version == version && r->memory == memory && offset <= r->len &&
		    len <= r->len - offset) {
			*region = r->region;
			return true;
		}
	}
	return tt_mem_ask(memory, addr, len, region);
}

/* The same of any memory. */
static inline struct tt_region *tt_mem_find(struct tt_memory *memory, const void *addr, size_t len)
{
	struct tt_region *region;

	(void)tt_mem_find_buffer(memory, addr, len, &region);
	return region;
}

/*
 * The same for one operation, with the registration cache if it is on. NULL: the memory must be
 * copied. Give the region (or NULL) back when it is no longer in use.
 */
bool tt_mem_caches(const struct tt_memory *memory); /* whether it is on */
struct tt_region *tt_mem_borrow(struct tt_memory *memory, void *addr, size_t len);
/*
 * A private region for one operation whose transport needs registered memory; it ends when it is
 * given back. For the local side only.
 */
int tt_mem_register_once(struct tt_memory *memory, void *addr, size_t len,
			 struct tt_region **region);
void tt_mem_return(struct tt_region *region);
/*
 * RLIMIT_MEMLOCK failure as a sentence: need, limit, remedy; returns -ENOMEM. For transports' reg
 * too.
 */
int tt_mem_fail_memlock(size_t need, const char *what);
/* Whether something is mapped at all of [addr, addr + len). */
bool tt_mem_is_mapped(const void *addr, size_t len);

#endif
