/* SPDX-License-Identifier: BSD-3-Clause */
/* Units ordered by urgency: a binary heap that knows each unit's place, so that a unit can move. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

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
static bool before(const struct tt_ps_urgent *u, uint32_t a, uint32_t b)
{
	return u->key[a] > u->key[b] || (u->key[a] == u->key[b] && a < b);
}

static void put(struct tt_ps_urgent *u, uint32_t place, uint32_t unit)
{
	u->heap[place] = unit;
	u->at[unit] = place + 1;
}

/* Move a unit whose key has changed to its place. */
static void settle(struct tt_ps_urgent *u, uint32_t unit)
{
	uint32_t place = u->at[unit] - 1, up, down;

	for (; place; place = up) {
		up = (place - 1) / 2;
		if (!before(u, unit, u->heap[up]))
			break;
		put(u, place, u->heap[up]);
	}
	for (; (uint64_t)place * 2 + 1 < u->n; place = down) {
		down = place * 2 + 1;
		if (down + 1 < u->n && before(u, u->heap[down + 1], u->heap[down]))
			down++;
		if (!before(u, u->heap[down], unit))
			break;
		put(u, place, u->heap[down]);
	}
	put(u, place, unit);
}

void tt_ps_urgent_set(struct tt_ps_urgent *u, uint32_t unit, double key)
{
	u->key[unit] = isnan(key) ? HUGE_VAL : key;
	if (!u->at[unit])
		put(u, u->n++, unit);
	settle(u, unit);
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
	put(u, place - 1, last);
	settle(u, last);
}
