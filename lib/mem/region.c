/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a context, and regions: registration with the open transports, and lookups. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/mem/mem_internal.h"
#include "lib/topo/topo.h"

#define CACHE_MAX (256ul << 20) /* large slabs kept for reuse; at most an eighth of the limit */

struct tt_all tt_all = {.lock = PTHREAD_MUTEX_INITIALIZER};

void tt_mem_lock_tp(struct tt_memory *memory)
{
	if (memory->lock_tp)
		memory->lock_tp(memory->lock_arg);
}

void tt_mem_unlock_tp(struct tt_memory *memory)
{
	if (memory->unlock_tp)
		memory->unlock_tp(memory->lock_arg);
}

int tt_memory_new(const struct tt_env *env, struct tt_tp *const *tps, int ntps,
		  void (*lock_tp)(void *), void (*unlock_tp)(void *), void *lock_arg,
		  struct tt_memory **memory)
{
	struct tt_memory *m = calloc(1, sizeof(*m));
	int i, err;

	if (!m)
		return tt_fail(-ENOMEM, "no memory for the pool");
	pthread_mutex_init(&m->mutex, NULL);
	for (i = 0; i < ntps; i++)
		m->tps[i] = tps[i];
	m->ntps = ntps;
	m->lock_tp = lock_tp;
	m->unlock_tp = unlock_tp;
	m->lock_arg = lock_arg;
	m->page_size = (size_t)sysconf(_SC_PAGESIZE);
	m->slab_size = (size_t)env->pool_slab.number / m->page_size * m->page_size;
	m->limit = env->pool_limit.number ? (size_t)env->pool_limit.number : tt_topo_memory() / 2;
	if (m->slab_size > m->limit)
		m->slab_size = m->limit / m->page_size * m->page_size;
	if (m->slab_size < m->page_size)
		m->slab_size = m->page_size;
	m->cache_max = m->limit / 8 < CACHE_MAX ? m->limit / 8 : CACHE_MAX;
	m->lock_pages = env->pool_lock.number != 0;
	m->huge = env->hugepages.number != 0;
	tt_list_init(&m->slabs);
	tt_list_init(&m->large);
	tt_list_init(&m->cached);
	for (i = 0; i < TT_BINS; i++)
		tt_list_init(&m->partial[i]);
	err = env->reg_cache.number ? tt_cache_new(m, (size_t)env->reg_cache.number,
						   (int)env->reg_cache_count.number)
				    : 0;
	if (err) /* only slower without */
		tt_warn("the registration cache (TUTTI_REG_CACHE) stays off: %s",
			tt_fail_text(err));
	*memory = m;
	return 0;
}

void tt_memory_free(struct tt_memory *memory)
{
	int i;

	if (!memory)
		return;
	if (memory->cache)
		tt_cache_free(memory);
	for (i = memory->table.n - 1; i >= 0; i--) /* removal moves only visited entries */
		if (!memory->table.region[i]->pool)
			tt_mem_deregister(memory->table.region[i]);
	tt_pool_free(memory);
	tt_table_free(&memory->table);
	pthread_mutex_lock(&tt_all.lock);
	if (!tt_all.table.n)
		tt_table_free(&tt_all.table);
	pthread_mutex_unlock(&tt_all.lock);
	pthread_mutex_destroy(&memory->mutex);
	free(memory);
}

void tt_memory_stats(struct tt_memory *memory, struct tt_mem_stats *stats)
{
	pthread_mutex_lock(&memory->mutex);
	*stats = memory->stats;
	stats->pool_bytes = memory->bytes;
	pthread_mutex_unlock(&memory->mutex);
}

void tt_region_unregister(struct tt_region *region)
{
	int i;

	for (i = 0; i < region->memory->ntps; i++) {
		if (region->mr[i])
			region->mr[i]->tp->ops->dereg(region->mr[i]);
		region->mr[i] = NULL;
	}
}

/* 0, also if transport i does without it; *count rises if it has not. */
static int register_with(struct tt_region *region, int i, int *count)
{
	struct tt_memory *memory = region->memory;
	struct tt_tp *tp = memory->tps[i];
	int err;

	if (!tp || (region->mem.memfd < 0 && !(tp->caps & TT_CAP_REG_ANY)))
		return 0;
	if (tt_inject(TT_INJECT_REG))
		err = tt_fail(-errno, "TUTTI_FAULT makes this registration fail");
	else
		err = tp->ops->reg(tp, &region->mem, region->access, &region->mr[i]);
	if (!err) {
		++*count;
		return 0;
	}
	region->mr[i] = NULL;
	if (err == -EOPNOTSUPP)
		return 0;
	if (!tp->optional)
		return err;
	if (!memory->gave_up[i])
		tt_warn("transport %s cannot use new pool memory: %s", tp->ops->name,
			tt_fail_text(err));
	memory->gave_up[i] = true;
	return 0;
}

/* With each transport that can take it: all of them take pool memory, some only that. */
int tt_region_register(struct tt_region *region, int *count)
{
	int i, err;

	for (i = 0; i < region->memory->ntps; i++) {
		err = register_with(region, i, count);
		if (err) {
			tt_region_unregister(region);
			return err;
		}
	}
	return 0;
}

/*
 * Regions enter the table, and are freed, with the transport lock held, so none is missed, and
 * none goes.
 */
void tt_memory_add(struct tt_memory *memory, int index, struct tt_tp *tp)
{
	struct tt_region **all = NULL;
	int i, n, count = 0;

	tt_mem_lock_tp(memory);
	memory->tps[index] = tp;
	if (index >= memory->ntps)
		memory->ntps = index + 1;
	pthread_mutex_lock(&memory->mutex);
	n = memory->table.n;
	if (n)
		all = malloc((size_t)n * sizeof(struct tt_region *));
	if (all)
		memcpy(all, memory->table.region, (size_t)n * sizeof(struct tt_region *));
	pthread_mutex_unlock(&memory->mutex);
	for (i = 0; all && i < n; i++)
		(void)register_with(all[i], index, &count);
	free(all);
	pthread_mutex_lock(&memory->mutex);
	memory->stats.registrations += (uint64_t)count;
	pthread_mutex_unlock(&memory->mutex);
	tt_mem_unlock_tp(memory);
}

static int insert(struct tt_region *region, int registrations)
{
	struct tt_memory *memory = region->memory;
	int err;

	pthread_mutex_lock(&tt_all.lock);
	err = tt_table_insert(&tt_all.table, region);
	if (!err) {
		pthread_mutex_lock(&memory->mutex);
		err = tt_table_insert(&memory->table, region);
		tt_mem_changed();
		if (!err)
			memory->stats.registrations += (uint64_t)registrations;
		pthread_mutex_unlock(&memory->mutex);
		if (err)
			tt_table_remove(&tt_all.table, region);
	}
	pthread_mutex_unlock(&tt_all.lock);
	return err;
}

int tt_region_enter(struct tt_region *region)
{
	int err, count = 0;

	err = tt_region_register(region, &count);
	if (err)
		return err;
	err = insert(region, count);
	if (err)
		tt_region_unregister(region);
	return err;
}

/* Out of the tables; false if it is not in them, and then region may be anything. */
static bool take_out(struct tt_region *region)
{
	struct tt_memory *memory;
	bool found;

	pthread_mutex_lock(&tt_all.lock);
	found = tt_table_remove(&tt_all.table, region);
	if (found) {
		memory = region->memory;
		pthread_mutex_lock(&memory->mutex);
		tt_table_remove(&memory->table, region);
		tt_mem_changed();
		pthread_mutex_unlock(&memory->mutex);
	}
	pthread_mutex_unlock(&tt_all.lock);
	return found;
}

void tt_region_leave(struct tt_region *region)
{
	take_out(region);
	tt_region_unregister(region);
}

int tt_mem_register(struct tt_memory *memory, void *addr, size_t len, unsigned access,
		    struct tt_region **region)
{
	struct tt_region *r, *slab;
	int err;

	if (!addr || !len)
		return tt_fail(-EINVAL,
			       "a region to register needs an address and at least one byte");
	if ((uintptr_t)addr + len < len)
		return tt_fail(-EINVAL, "%zu bytes at %p do not fit into the address space", len,
			       addr);
	r = calloc(1, sizeof(*r));
	if (!r)
		return tt_fail(-ENOMEM, "no memory to describe a region");
	r->mem = (struct tt_mem){.addr = addr, .len = len, .memfd = -1};
	r->access = access;
	r->memory = memory;
	tt_mem_lock_tp(memory);
	pthread_mutex_lock(&memory->mutex);
	slab = tt_table_find(&memory->table, addr, len, true);
	if (slab) { /* part of the pool: it has a memfd to offer */
		r->mem.memfd = slab->mem.memfd;
		r->mem.memfd_off = (uint64_t)((char *)addr - (char *)slab->mem.addr);
	}
	pthread_mutex_unlock(&memory->mutex);
	err = tt_region_enter(r);
	tt_mem_unlock_tp(memory);
	if (err) {
		free(r);
		return err;
	}
	*region = r;
	return 0;
}

int tt_mem_deregister(struct tt_region *region)
{
	struct tt_memory *memory;
	bool known;
	int i;

	/*
	 * looked up by value first: whatever was passed, nothing is read from it before it is
	 * known
	 */
	pthread_mutex_lock(&tt_all.lock);
	for (i = 0, known = false; i < tt_all.table.n && !known; i++)
		known = tt_all.table.region[i] == region;
	known = known && !region->pool;
	pthread_mutex_unlock(&tt_all.lock);
	if (!known || !take_out(region))
		return tt_fail(
			-EINVAL,
			"%p is not a registered region; it may have been deregistered already",
			(void *)region);
	memory = region->memory;
	tt_mem_lock_tp(memory);
	tt_region_unregister(region);
	tt_mem_unlock_tp(memory);
	free(region);
	return 0;
}

bool tt_mem_caches(const struct tt_memory *memory)
{
	return memory->cache;
}

struct tt_region *tt_mem_borrow(struct tt_memory *memory, void *addr, size_t len)
{
	struct tt_region *r = tt_mem_find(memory, addr, len);

	if (r || !memory->cache)
		return r;
	tt_mem_lock_tp(memory);
	r = tt_cache_get(memory, addr, len);
	tt_mem_unlock_tp(memory);
	return r;
}

int tt_mem_register_once(struct tt_memory *memory, void *addr, size_t len,
			 struct tt_region **region)
{
	struct tt_region *r = calloc(1, sizeof(*r));
	int err, count = 0;

	if (!r)
		return tt_fail(-ENOMEM, "no memory to describe a region");
	r->mem = (struct tt_mem){.addr = addr, .len = len, .memfd = -1};
	r->access = TT_ACCESS_LOCAL;
	r->memory = memory;
	r->once = true;
	tt_mem_lock_tp(memory);
	err = tt_region_register(r, &count);
	tt_mem_unlock_tp(memory);
	if (err) {
		free(r);
		return err;
	}
	pthread_mutex_lock(&memory->mutex);
	memory->stats.registrations += (uint64_t)count;
	pthread_mutex_unlock(&memory->mutex);
	*region = r;
	return 0;
}

void tt_mem_return(struct tt_region *region)
{
	struct tt_memory *memory;

	if (!region || !(region->cached || region->once))
		return;
	memory = region->memory;
	tt_mem_lock_tp(memory);
	if (region->cached) {
		tt_cache_put(region);
	} else {
		tt_region_unregister(region);
		free(region);
	}
	tt_mem_unlock_tp(memory);
}

struct tt_memory *tt_mem_owner(const void *ptr)
{
	struct tt_memory *owner = NULL;
	struct tt_region *r;

	pthread_mutex_lock(&tt_all.lock);
	r = tt_table_find(&tt_all.table, ptr, 1, true);
	if (r) {
		pthread_mutex_lock(&r->memory->mutex);
		if (tt_block_live((struct tt_slab *)r, ptr))
			owner = r->memory;
		pthread_mutex_unlock(&r->memory->mutex);
	}
	pthread_mutex_unlock(&tt_all.lock);
	return owner;
}
