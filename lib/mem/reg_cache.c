/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registration cache: registers unregistered user memory, in whole pages, on first use and
 * keeps the registration. Opt-in (TUTTI_REG_CACHE), because it costs a thread and slows munmap of
 * such memory.
 *
 * An entry is found by its interval, so a buffer inside a cached larger one is a hit. Entries may
 * overlap. When the cache is full, the least recently used idle entry is evicted; if all entries
 * are in use, no new entry is made. Both limits are hard.
 *
 * Correctness comes before speed: every lookup first reads all changes of watched memory (watch.h)
 * and removes the entries that share a byte with them.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/mem/mem_internal.h"
#include "lib/mem/spans.h"
#include "lib/mem/watch.h"

#define SMALLEST 16384 /* bytes: shorter buffers are copied faster than looked up */

struct tt_cache {
	struct tt_watch *watch;
	struct tt_span *root;
	struct tt_list unused; /* longest unused first */
	size_t bytes, max_bytes;
	int count, max_count;
	uint64_t hits, misses, evictions, stale, registrations;
};

struct entry {
	struct tt_region region; /* first: what callers get */
	struct tt_span span;
	struct tt_list unused;
	int users;
	bool stale; /* its memory has changed: out of the tree, gone with its last user */
};

int tt_cache_new(struct tt_memory *memory, size_t max_bytes, int max_count)
{
	struct tt_cache *cache = calloc(1, sizeof(*cache));
	int err;

	if (!cache)
		return tt_fail(-ENOMEM, "no memory for the registration cache");
	err = tt_watch_new(&cache->watch);
	if (err) {
		free(cache);
		return err;
	}
	tt_list_init(&cache->unused);
	cache->max_bytes = max_bytes;
	cache->max_count = max_count;
	memory->cache = cache;
	return 0;
}

static size_t size_of(const struct entry *e)
{
	return e->span.end - e->span.start;
}

static void free_entry(struct tt_cache *cache, struct entry *e)
{
	tt_list_del(&e->unused);
	tt_region_unregister(&e->region);
	cache->bytes -= size_of(e);
	cache->count--;
	free(e);
}

/* Stop watching what no entry covers. */
static void unwatch(struct tt_cache *cache, uintptr_t start, uintptr_t end)
{
	struct tt_span *next;

	while (start < end && (next = tt_spans_overlap(cache->root, start, end))) {
		if (next->start > start)
			tt_watch_remove(cache->watch, start, next->start);
		start = next->end;
	}
	if (start < end)
		tt_watch_remove(cache->watch, start, end);
}

static void evict(struct tt_cache *cache, struct entry *e)
{
	tt_spans_remove(&cache->root, &e->span);
	unwatch(cache, e->span.start, e->span.end);
	free_entry(cache, e);
}

static bool evict_oldest(struct tt_cache *cache)
{
	if (tt_list_empty(&cache->unused))
		return false;
	evict(cache, tt_container(cache->unused.next, struct entry, unused));
	cache->evictions++;
	return true;
}

/*
 * Drops regions in changed memory, and keeps its watch: the memory may belong to another mapping
 * now.
 */
static int apply_changes(struct tt_cache *cache)
{
	struct tt_range range[TT_WATCH_MAX];
	struct tt_span *span;
	struct entry *e;
	int i, n, err = tt_watch_changes(cache->watch, range, &n);

	for (i = 0; !err && i < n; i++)
		while ((span = tt_spans_overlap(cache->root, range[i].start, range[i].end))) {
			tt_spans_remove(&cache->root, span);
			cache->stale++;
			e = tt_container(span, struct entry, span);
			e->stale = true;
			if (!e->users)
				free_entry(cache, e);
		}
	return err;
}

static struct entry *new_entry(struct tt_memory *memory, uintptr_t start, uintptr_t end)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->region.mem = (struct tt_mem){.addr = (void *)start, .len = end - start, .memfd = -1};
	e->region.access =
		TT_ACCESS_WRITE; /* receives are offered to peers; no peer gets from it */
	e->region.memory = memory;
	e->region.cached = true;
	e->span = (struct tt_span){.start = start, .end = end};
	tt_list_init(&e->unused);
	return e;
}

/* With every transport; what limits them may be gone when another entry is. */
static int register_entry(struct tt_cache *cache, struct entry *e)
{
	int err, count = 0;

	do
		err = tt_region_register(&e->region, &count);
	while (err == -ENOMEM && evict_oldest(cache));
	cache->registrations += (uint64_t)count;
	return err || count ? err : -EOPNOTSUPP;
}

static bool make_room(struct tt_cache *cache, size_t size)
{
	if (size > cache->max_bytes)
		return false;
	while (cache->count == cache->max_count || cache->bytes > cache->max_bytes - size)
		if (!evict_oldest(cache))
			return false;
	return true;
}

static struct entry *add(struct tt_memory *memory, uintptr_t start, uintptr_t end)
{
	struct tt_cache *cache = memory->cache;
	struct entry *e;
	int err;

	if (!make_room(cache, end - start))
		return NULL;
	e = new_entry(memory, start, end);
	if (!e)
		return NULL;
	err = tt_watch_add(cache->watch, start, end);
	if (err == -EOPNOTSUPP)
		goto free_entry;
	if (err || register_entry(cache, e))
		goto unwatch;
	cache->bytes += size_of(e);
	cache->count++;
	e->users = 1;
	tt_spans_insert(&cache->root, &e->span);
	return e;

unwatch:
	unwatch(cache, start, end);
free_entry:
	free(e);
	return NULL;
}

static void stop_using(struct tt_cache *cache, struct entry *e)
{
	if (--e->users)
		return;
	if (e->stale)
		free_entry(cache, e);
	else
		tt_list_add(&cache->unused, &e->unused);
}

static struct entry *lookup(struct tt_memory *memory, uintptr_t start, uintptr_t end)
{
	struct tt_cache *cache = memory->cache;
	struct tt_span *span;
	struct entry *e;

	if (apply_changes(cache))
		return NULL;
	span = tt_spans_covering(cache->root, start, end);
	if (span) {
		e = tt_container(span, struct entry, span);
		tt_list_del(&e->unused);
		e->users++;
		cache->hits++;
		return e;
	}
	cache->misses++;
	e = add(memory, start, end);
	/* Its pages may have changed between being watched and being registered. */
	if (e && (apply_changes(cache) || e->stale)) {
		stop_using(cache, e);
		return NULL;
	}
	return e;
}

/* For readers that have the mutex only. */
static void publish(struct tt_memory *memory)
{
	struct tt_cache *cache = memory->cache;

	pthread_mutex_lock(&memory->mutex);
	memory->stats.registrations += cache->registrations;
	memory->stats.cache_hits = cache->hits;
	memory->stats.cache_misses = cache->misses;
	memory->stats.cache_evictions = cache->evictions;
	memory->stats.cache_stale = cache->stale;
	memory->stats.cache_bytes = cache->bytes;
	memory->stats.cache_count = (uint64_t)cache->count;
	pthread_mutex_unlock(&memory->mutex);
	cache->registrations = 0;
}

struct tt_region *tt_cache_get(struct tt_memory *memory, void *addr, size_t len)
{
	uintptr_t page = memory->page_size, start = (uintptr_t)addr / page * page;
	struct entry *e;

	if (len < SMALLEST || (uintptr_t)addr + len + page < len)
		return NULL;
	e = lookup(memory, start, ((uintptr_t)addr + len + page - 1) / page * page);
	publish(memory);
	return e ? &e->region : NULL;
}

void tt_cache_put(struct tt_region *region)
{
	struct tt_memory *memory = region->memory;

	stop_using(memory->cache, tt_container(region, struct entry, region));
	publish(memory);
}

/* The end of the watch ends it for all memory. */
void tt_cache_free(struct tt_memory *memory)
{
	struct tt_cache *cache = memory->cache;

	while (cache->root) {
		struct entry *e = tt_container(cache->root, struct entry, span);

		tt_spans_remove(&cache->root, &e->span);
		free_entry(cache, e);
	}
	tt_watch_free(cache->watch);
	free(cache);
	memory->cache = NULL;
}
