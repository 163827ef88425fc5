/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocation inside slabs: whole pages first-fit, smaller sizes as equal blocks of a page, sizes
 * beyond half a slab in a slab of their own. In the steady state neither alloc nor free calls the
 * system: freed runs merge lazily, and large slabs are cached up to a bound.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/mem/mem_internal.h"

static char *page_addr(const struct tt_memory *memory, const struct tt_page *page)
{
	const struct tt_slab *slab = page->slab;

	return (char *)slab->region.mem.addr + (size_t)(page - slab->page) * memory->page_size;
}

static size_t block_size(const struct tt_memory *memory, int bin)
{
	return memory->page_size >> (TT_BINS - bin);
}

/* The smallest bin that holds size, TT_BINS if only whole pages do. */
static int bin_of(const struct tt_memory *memory, size_t size)
{
	int bin = 0;

	while (bin < TT_BINS && block_size(memory, bin) < size)
		bin++;
	return bin;
}

/* Take in the free runs that follow a free run. */
static void merge(struct tt_slab *slab, struct tt_page *page)
{
	struct tt_page *end = slab->page + slab->npages, *next;

	while ((next = page + page->run) < end && next->state == TT_PAGE_FREE) {
		page->run += next->run;
		next->state = TT_PAGE_INSIDE;
	}
}

static void release_run(struct tt_page *page)
{
	struct tt_slab *slab = page->slab;

	slab->nused -= page->run;
	page->state = TT_PAGE_FREE;
	merge(slab, page);
	slab->max_free = slab->npages; /* unknown: it may merge with the block before it */
}

static void split(struct tt_slab *slab, struct tt_page *page, uint32_t n)
{
	if (page->run > n) {
		page[n].state = TT_PAGE_FREE;
		page[n].run = page->run - n;
	}
	page->run = n;
	page->state = TT_PAGE_RUN;
	slab->nused += n;
}

/* A run of n pages in slab. */
static struct tt_page *first_fit(struct tt_slab *slab, uint32_t n)
{
	struct tt_page *page = slab->page, *end = page + slab->npages;
	uint32_t longest = 0;

	if (slab->max_free < n)
		return NULL;
	for (; page < end; page += page->run) {
		if (page->state != TT_PAGE_FREE)
			continue;
		merge(slab, page);
		if (page->run >= n) {
			split(slab, page, n);
			return page;
		}
		if (page->run > longest)
			longest = page->run;
	}
	slab->max_free = longest;
	return NULL;
}

static struct tt_page *find_run(struct tt_memory *memory, uint32_t n)
{
	struct tt_list *pos, *tmp;
	struct tt_page *page;

	tt_list_each(pos, tmp, &memory->slabs)
	{
		page = first_fit(tt_container(pos, struct tt_slab, link), n);
		if (page)
			return page;
	}
	return NULL;
}

static uint64_t all_blocks(int bin)
{
	return ~0ull >> (64 - (1 << (TT_BINS - bin)));
}

static struct tt_page *find_block(struct tt_memory *memory, int bin, void **ptr)
{
	struct tt_list *list = &memory->partial[bin];
	struct tt_page *page;
	int bit;

	if (tt_list_empty(list)) {
		page = find_run(memory, 1);
		if (!page)
			return NULL;
		page->state = TT_PAGE_BLOCKS;
		page->bin = (uint8_t)bin;
		page->used = 0;
		tt_list_add(list, &page->partial);
	}
	page = tt_container(list->next, struct tt_page, partial);
	bit = __builtin_ctzll(~page->used);
	page->used |= 1ull << bit;
	if (page->used == all_blocks(bin))
		tt_list_del(&page->partial);
	*ptr = page_addr(memory, page) + (size_t)bit * block_size(memory, bin);
	return page;
}

static bool is_large(const struct tt_memory *memory, size_t size)
{
	return size > memory->slab_size / 2;
}

/* The best of the cached large slabs: the shortest that fits without wasting a third. */
static struct tt_slab *find_cached(struct tt_memory *memory, size_t size)
{
	struct tt_slab *best = NULL, *slab;
	struct tt_list *pos, *tmp;
	size_t len;

	tt_list_each(pos, tmp, &memory->cached)
	{
		slab = tt_container(pos, struct tt_slab, link);
		len = slab->region.mem.len;
		if (len >= size && len - size <= len / 3 && (!best || len < best->region.mem.len))
			best = slab;
	}
	if (best)
		memory->cached_bytes -= best->region.mem.len;
	return best;
}

static void use_large(struct tt_memory *memory, struct tt_slab *slab)
{
	tt_list_del(&slab->link);
	tt_list_add(&memory->large, &slab->link);
	split(slab, slab->page, 1);
}

/* Allocates from the existing slabs; false if the pool must grow. Mutex held. */
static bool take(struct tt_memory *memory, size_t size, void **ptr, struct tt_region **region)
{
	int bin = bin_of(memory, size);
	struct tt_page *page = NULL;
	struct tt_slab *slab;

	if (is_large(memory, size)) {
		slab = find_cached(memory, size);
		if (slab) {
			use_large(memory, slab);
			page = slab->page;
		}
	} else if (bin < TT_BINS) {
		page = find_block(memory, bin, ptr);
	} else {
		page = find_run(memory,
				(uint32_t)((size + memory->page_size - 1) / memory->page_size));
	}
	if (!page)
		return false;
	if (bin == TT_BINS)
		*ptr = page_addr(memory, page);
	if (region)
		*region = &page->slab->region;
	return true;
}

/* Unlinks unused slabs for destroy(). Mutex held. */
static void drop_unused(struct tt_memory *memory, struct tt_list *from, size_t keep,
			struct tt_list *victims)
{
	struct tt_list *pos, *tmp;
	struct tt_slab *slab;

	tt_list_each(pos, tmp, from)
	{
		slab = tt_container(pos, struct tt_slab, link);
		if (slab->nused || (from == &memory->cached && memory->cached_bytes <= keep))
			continue;
		if (from == &memory->cached)
			memory->cached_bytes -= slab->region.mem.len;
		memory->bytes -= slab->region.mem.len;
		memory->stats.slabs--;
		tt_list_del(&slab->link);
		tt_list_add(victims, &slab->link);
	}
}

static void destroy(struct tt_memory *memory, struct tt_list *victims)
{
	struct tt_list *pos, *tmp;
	struct tt_slab *slab;

	if (tt_list_empty(victims))
		return;
	tt_mem_lock_tp(memory);
	tt_list_each(pos, tmp, victims)
	{
		slab = tt_container(pos, struct tt_slab, link);
		tt_region_leave(&slab->region);
		tt_slab_free(slab);
	}
	tt_mem_unlock_tp(memory);
}

/* Counts len against the limit; frees unused slabs if necessary. Transport lock held. */
static int charge(struct tt_memory *memory, size_t len)
{
	struct tt_list victims;
	size_t bytes;
	bool fits;

	tt_list_init(&victims);
	pthread_mutex_lock(&memory->mutex);
	if (len > memory->limit || memory->bytes > memory->limit - len) {
		drop_unused(memory, &memory->cached, 0, &victims);
		drop_unused(memory, &memory->slabs, 0, &victims);
	}
	bytes = memory->bytes;
	fits = len <= memory->limit && bytes <= memory->limit - len;
	if (fits)
		memory->bytes += len;
	pthread_mutex_unlock(&memory->mutex);
	destroy(memory, &victims);
	if (fits)
		return 0;
	return tt_fail(-ENOMEM,
		       "pool memory of %zu bytes is needed, but %zu of %zu allowed bytes are in "
		       "use; free memory, or raise TUTTI_POOL_LIMIT",
		       len, bytes, memory->limit);
}

static void uncharge(struct tt_memory *memory, size_t len)
{
	pthread_mutex_lock(&memory->mutex);
	memory->bytes -= len;
	pthread_mutex_unlock(&memory->mutex);
}

/* A new slab, registered, in no list yet. Transport lock held. */
static int make_slab(struct tt_memory *memory, size_t len, bool large, struct tt_slab **slab)
{
	struct tt_slab *s;
	int err;

	err = charge(memory, len);
	if (err)
		return err;
	err = tt_slab_new(memory, len, large, &s);
	if (err)
		goto uncharge;
	err = tt_region_enter(&s->region);
	if (err)
		goto free_slab;
	*slab = s;
	return 0;
free_slab:
	tt_slab_free(s);
uncharge:
	uncharge(memory, len);
	return err;
}

/* Transport lock held. */
static int grow_and_take(struct tt_memory *memory, size_t size, void **ptr,
			 struct tt_region **region)
{
	bool large = is_large(memory, size), taken;
	size_t len = (size + memory->page_size - 1) / memory->page_size * memory->page_size;
	struct tt_slab *slab;
	int err;

	pthread_mutex_lock(&memory->mutex);
	taken = take(memory, size, ptr, region); /* another thread may just have made a slab */
	pthread_mutex_unlock(&memory->mutex);
	if (taken)
		return 0;
	if (!large)
		len = memory->slab_size;
	err = make_slab(memory, len, large, &slab);
	if (err)
		return err;
	pthread_mutex_lock(&memory->mutex);
	memory->bytes += slab->region.mem.len - len; /* rounded up to huge pages */
	memory->stats.slabs++;
	memory->stats.allocations++;
	if (large) {
		use_large(memory, slab);
		*ptr = slab->region.mem.addr;
		if (region)
			*region = &slab->region;
	} else {
		tt_list_add(&memory->slabs, &slab->link);
		taken = take(memory, size, ptr, region);
	}
	pthread_mutex_unlock(&memory->mutex);
	return large || taken ? 0 : -ENOMEM;
}

int tt_mem_alloc(struct tt_memory *memory, size_t size, void **ptr, struct tt_region **region)
{
	bool taken;
	int err;

	if (size > SIZE_MAX / 2)
		return tt_fail(-ENOMEM, "pool memory of %zu bytes is too large", size);
	if (!size)
		size = 1;
	pthread_mutex_lock(&memory->mutex);
	taken = take(memory, size, ptr, region);
	pthread_mutex_unlock(&memory->mutex);
	if (taken)
		return 0;
	tt_mem_lock_tp(memory);
	err = grow_and_take(memory, size, ptr, region);
	tt_mem_unlock_tp(memory);
	return err;
}

/*
 * The page that ptr lies in and, of a page of blocks, the bit; NULL if no live block starts at
 * ptr.
 */
static struct tt_page *live_page(const struct tt_slab *slab, const void *ptr, uint64_t *bit)
{
	const struct tt_memory *memory = slab->region.memory;
	size_t off = (size_t)((const char *)ptr - (const char *)slab->region.mem.addr), in, size;
	const struct tt_page *page;

	if (slab->large)
		return off == 0 && slab->nused ? (struct tt_page *)slab->page : NULL;
	/* a slab on huge pages may be longer than its pages say */
	if (off / memory->page_size >= slab->npages)
		return NULL;
	page = slab->page + off / memory->page_size;
	in = off % memory->page_size;
	if (page->state == TT_PAGE_RUN && !in)
		return (struct tt_page *)page;
	if (page->state != TT_PAGE_BLOCKS)
		return NULL;
	size = block_size(memory, page->bin);
	*bit = 1ull << (in / size);
	return in % size || !(page->used & *bit) ? NULL : (struct tt_page *)page;
}

bool tt_block_live(const struct tt_slab *slab, const void *ptr)
{
	uint64_t bit;

	return live_page(slab, ptr, &bit) != NULL;
}

static void free_block(struct tt_memory *memory, struct tt_page *page, uint64_t bit)
{
	if (page->used == all_blocks(page->bin))
		tt_list_add(&memory->partial[page->bin], &page->partial);
	page->used &= ~bit;
	if (page->used)
		return;
	tt_list_del(&page->partial);
	release_run(page);
}

static void free_large(struct tt_memory *memory, struct tt_slab *slab, struct tt_list *victims)
{
	release_run(slab->page);
	tt_list_del(&slab->link);
	tt_list_add(&memory->cached, &slab->link);
	memory->cached_bytes += slab->region.mem.len;
	drop_unused(memory, &memory->cached, memory->cache_max, victims); /* oldest first */
}

/* The block of whole pages, or of one, that addr lies in; NULL: that is free. */
static void *block_at(const struct tt_slab *slab, const void *addr)
{
	size_t off = (size_t)((const char *)addr - (const char *)slab->region.mem.addr);
	const struct tt_memory *memory = slab->region.memory;
	const struct tt_page *page = slab->page;
	char *block = slab->region.mem.addr;

	if (!slab->large) {
		if (off / memory->page_size >= slab->npages)
			return NULL;
		page += off / memory->page_size;
		while (page->state == TT_PAGE_INSIDE)
			page--;
		block = page_addr(memory, page);
		if (page->state == TT_PAGE_BLOCKS)
			block += off % memory->page_size & ~(block_size(memory, page->bin) - 1);
	}
	return tt_block_live(slab, block) ? block : NULL;
}

/* 0: the freed block may be reused; 1: not yet; -EINVAL: it was freed before. */
static int hold(struct tt_memory *memory, const struct tt_slab *slab, const void *block)
{
	struct tt_withheld *w, *mine = NULL;

	for (w = memory->withheld; w; w = w->next) {
		if (w->block != block)
			continue;
		if (w->freed)
			return -EINVAL;
		mine = w;
	}
	if (mine)
		mine->freed = true;
	return mine || slab->kept;
}

void tt_mem_withhold(struct tt_memory *memory, const void *addr, const void *owner)
{
	struct tt_withheld *new = malloc(sizeof(*new)), *w;
	struct tt_region *r;
	void *block;

	pthread_mutex_lock(&memory->mutex);
	r = tt_table_find(&memory->table, addr, 1, true);
	block = r ? block_at((struct tt_slab *)r, addr) : NULL;
	for (w = memory->withheld; w; w = w->next)
		if (w->block == block && w->owner == owner)
			block = NULL; /* it is already */
	if (block && new) {
		*new = (struct tt_withheld){memory->withheld, owner, block, false};
		memory->withheld = new;
		new = NULL;
	} else if (block) {
		((struct tt_slab *)r)->kept = true;
	}
	pthread_mutex_unlock(&memory->mutex);
	free(new);
}

void tt_mem_give_back(struct tt_memory *memory, const void *owner)
{
	struct tt_withheld **link = &memory->withheld, *w, *mine = NULL;

	pthread_mutex_lock(&memory->mutex);
	while ((w = *link) != NULL) {
		if (w->owner != owner) {
			link = &w->next;
			continue;
		}
		*link = w->next;
		w->next = mine;
		mine = w;
	}
	pthread_mutex_unlock(&memory->mutex);
	while ((w = mine) != NULL) {
		mine = w->next;
		if (w->freed)
			tt_mem_free(memory, w->block); /* another owner's it may be still */
		free(w);
	}
}

static void release(struct tt_memory *memory, struct tt_page *page, uint64_t bit,
		    struct tt_list *victims)
{
	if (page->slab->large)
		free_large(memory, page->slab, victims);
	else if (page->state == TT_PAGE_BLOCKS)
		free_block(memory, page, bit);
	else
		release_run(page);
}

int tt_mem_free(struct tt_memory *memory, void *ptr)
{
	struct tt_page *page = NULL;
	struct tt_list victims;
	struct tt_region *r;
	int held = -EINVAL;
	uint64_t bit = 0;

	tt_list_init(&victims);
	pthread_mutex_lock(&memory->mutex);
	r = tt_table_find(&memory->table, ptr, 1, true);
	if (r)
		page = live_page((struct tt_slab *)r, ptr, &bit);
	if (page)
		held = hold(memory, page->slab, ptr);
	if (!held)
		release(memory, page, bit, &victims);
	pthread_mutex_unlock(&memory->mutex);
	destroy(memory, &victims);
	if (held < 0)
		return tt_fail(-EINVAL, "%p is not pool memory, or was freed already", ptr);
	return 0;
}

void tt_pool_free(struct tt_memory *memory)
{
	struct tt_list victims, *lists[] = {&memory->slabs, &memory->large, &memory->cached};
	struct tt_list *pos, *tmp;
	struct tt_withheld *w;
	int i;

	while ((w = memory->withheld) != NULL) {
		memory->withheld = w->next;
		free(w);
	}
	tt_list_init(&victims);
	pthread_mutex_lock(&memory->mutex);
	for (i = 0; i < 3; i++)
		tt_list_each(pos, tmp, lists[i])
		{
			tt_list_del(pos);
			tt_list_add(&victims, pos);
		}
	pthread_mutex_unlock(&memory->mutex);
	destroy(memory, &victims);
}
