/* SPDX-License-Identifier: BSD-3-Clause */
/* Units ordered by urgency, in a heap that knows each unit's place, so that a unit can move. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/heap.h"
#include "lib/ps/worker/accumulate.h"

int tt_ps_urgent_new(uint64_t units, struct tt_ps_urgent *u)
{
	*u = (struct tt_ps_urgent){0};
	u->key = calloc((size_t)units + 1, sizeof(*u->key));
	u->heap = calloc((size_t)units + 1, sizeof(*u->heap));
	u->at = calloc((size_t)units + 1, sizeof(*u->at));
	if (u->key && u->heap && u->at)
		return 0;
	tt_ps_urgent_free(u);
	return tt_fail(-ENOMEM, "no memory to order %llu updates", (unsigned long long)units);
}

void tt_ps_urgent_free(struct tt_ps_urgent *u)
{
	free(u->key);
	free(u->heap);
	free(u->at);
	*u = (struct tt_ps_urgent){0};
}

/* Ties go to the lower unit. */
static bool before(const void *a, const void *b, const void *arg)
{
	const struct tt_ps_urgent *u = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

	return u->key[i] > u->key[j] || (u->key[i] == u->key[j] && i < j);
}

static void placed(const void *item, size_t place, void *arg)
{
	((struct tt_ps_urgent *)arg)->at[*(const uint32_t *)item] = (uint32_t)place + 1;
}

static const struct tt_heap_kind kind = {sizeof(uint32_t), before, placed};

/* Moves a unit whose key has changed from `place` to its place. */
static void settle(struct tt_ps_urgent *u, uint32_t unit, uint32_t place)
{
	tt_heap_up(&kind, u->heap, place, &unit, u);
	tt_heap_down(&kind, u->heap, u->n, u->at[unit] - 1, &unit, u);
}

void tt_ps_urgent_set(struct tt_ps_urgent *u, uint32_t unit, double key)
{
	u->key[unit] = isnan(key) ? HUGE_VAL : key;
	settle(u, unit, u->at[unit] ? u->at[unit] - 1 : u->n++);
}

void tt_ps_urgent_drop(struct tt_ps_urgent *u, uint32_t unit)
{
	uint32_t place = u->at[unit], last;

	if (!place)
		return;
	u->at[unit] = 0;
	last = u->heap[--u->n];
	if (last == unit)
		return;
	settle(u, last, place - 1);
}
