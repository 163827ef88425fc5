/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A range of a dense table, cut into one range per server. Callers take pieces from the servers in
 * turn, so that all servers are busy at once.
 */
#include "lib/ps/ps.h"

size_t tt_ps_range_size(const struct tutti_ps_table *t)
{
	return 2 * (size_t)t->ps->nservers * sizeof(uint64_t);
}

void tt_ps_range_set(const struct tutti_ps_table *t, uint64_t offset, uint64_t count,
		     uint64_t *next, struct tt_ps_range *range)
{
	int n = t->ps->nservers, k;

	range->n = n;
	range->at =
		t->ps->my_worker % n; /* workers that begin together begin at different servers */
	range->next = next;
	for (k = 0; k < n; k++) {
		uint64_t begin = t->part[k].begin, end = begin + t->part[k].elems;
		uint64_t from = offset > begin ? offset : begin;
		uint64_t to = offset + count < end ? offset + count : end;

		range->next[k] = from < to ? from - begin : 0;
		range->next[n + k] = from < to ? to - begin : 0;
	}
}

int tt_ps_range_server(struct tt_ps_range *range)
{
	int i, k;

	for (i = 0; i < range->n; i++) {
		k = (range->at + i) % range->n;
		if (range->next[k] < range->next[range->n + k]) {
			range->at = (k + 1) % range->n;
			return k;
		}
	}
	return -1;
}
