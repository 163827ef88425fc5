/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorted arrays of regions: lookups by address are a binary search, overlaps included. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/mem/mem_internal.h"

static uintptr_t start_of(const struct tt_region *r)
{
	return (uintptr_t)r->mem.addr;
}

static uintptr_t end_of(const struct tt_region *r)
{
	return (uintptr_t)r->mem.addr + r->mem.len;
}

/* How many regions start at addr or before. */
static int upper_bound(const struct tt_region_table *t, uintptr_t addr)
{
	int lo = 0, hi = t->n, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (start_of(t->region[mid]) <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void update_reach(struct tt_region_table *t, int from)
{
	uintptr_t reach = from ? t->reach[from - 1] : 0;
	int i;

	for (i = from; i < t->n; i++) {
		if (end_of(t->region[i]) > reach)
			reach = end_of(t->region[i]);
		t->reach[i] = reach;
	}
}

static int grow(struct tt_region_table *t)
{
	int room = t->room ? 2 * t->room : 16;
	struct tt_region **region;
	uintptr_t *reach;

	region = realloc(t->region, (size_t)room * sizeof(*region));
	if (!region)
		return tt_fail(-ENOMEM, "no memory for a table of %d regions", room);
	t->region = region;
	reach = realloc(t->reach, (size_t)room * sizeof(*reach));
	if (!reach)
		return tt_fail(-ENOMEM, "no memory for a table of %d regions", room);
	t->reach = reach;
	t->room = room;
	return 0;
}

int tt_table_insert(struct tt_region_table *t, struct tt_region *region)
{
	int at, err;

	if (t->n == t->room) {
		err = grow(t);
		if (err)
			return err;
	}
	at = upper_bound(t, start_of(region));
	memmove(t->region + at + 1, t->region + at, (size_t)(t->n - at) * sizeof(*t->region));
	t->region[at] = region;
	t->n++;
	update_reach(t, at);
	return 0;
}

/* Compares pointers only: region may have been freed already. */
bool tt_table_remove(struct tt_region_table *t, const struct tt_region *region)
{
	int at;

	for (at = 0; at < t->n && t->region[at] != region; at++)
		;
	if (at == t->n)
		return false;
	t->n--;
	memmove(t->region + at, t->region + at + 1, (size_t)(t->n - at) * sizeof(*t->region));
	update_reach(t, at);
	return true;
}

struct tt_region *tt_table_find(const struct tt_region_table *t, const void *addr, size_t len,
				bool pool_only)
{
	uintptr_t start = (uintptr_t)addr, end = start + len;
	int i;

	if (end < start)
		return NULL;
	for (i = upper_bound(t, start) - 1; i >= 0 && t->reach[i] >= end; i--)
		if (end_of(t->region[i]) >= end && (!pool_only || t->region[i]->pool))
			return t->region[i];
	return NULL;
}

/* Whether some of the range, but not all, is in the pool's regions. */
bool tt_table_partial(const struct tt_region_table *t, const void *addr, size_t len)
{
	uintptr_t start = (uintptr_t)addr, end = start + len, covered = start;
	bool touched = false;
	int i;

	if (end <= start)
		return false;
	i = upper_bound(t, start);
	while (i > 0 && t->reach[i - 1] > start)
		i--; /* back to the first that may reach into the range */
	for (; i < t->n && start_of(t->region[i]) < end; i++) {
		if (end_of(t->region[i]) <= start || !t->region[i]->pool)
			continue;
		touched = true;
		if (start_of(t->region[i]) > covered)
			return true; /* a gap before this one */
		if (end_of(t->region[i]) > covered)
			covered = end_of(t->region[i]);
	}
	return touched && covered < end;
}

bool tt_table_gap(const struct tt_region_table *t, const void *addr, size_t len, uintptr_t *start,
		  size_t *gap)
{
	uintptr_t from, end, at = (uintptr_t)addr;
	int i = upper_bound(t, at);

	from = i ? t->reach[i - 1] : 0;
	end = i < t->n ? start_of(t->region[i]) : UINTPTR_MAX;
	if (at < from || at > end || len > end - at)
		return false;
	*start = from;
	*gap = end - from;
	return true;
}

void tt_table_free(struct tt_region_table *t)
{
	free(t->region);
	free(t->reach);
	memset(t, 0, sizeof(*t));
}
