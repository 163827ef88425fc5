/* SPDX-License-Identifier: BSD-3-Clause */
/* A range of a dense table as what it is at each server, taken in turn so that all are busy at once. */
#include <errno.h>
#include <stdlib.h>

#include "lib/ps/ps.h"

int tt_ps_range_new(const struct tutti_ps_table *t, uint64_t offset, uint64_t count,
		    struct tt_ps_range *range)
{
	int n = t->ps->nservers, k;

	range->n = n;
	range->at = t->ps->my_worker % n; /* workers that begin together begin at different servers */
	range->next = malloc(2 * (size_t)n * sizeof(uint64_t));
	if (!range->next)
		return tt_fail(-ENOMEM, "no memory for a range of table '%s'", t->name);
	for (k = 0; k < n; k++) {
		uint64_t begin = t->part[k].begin, end = begin + t->part[k].elems;
		uint64_t from = offset > begin ? offset : begin;
		uint64_t to = offset + count < end ? offset + count : end;

		range->next[k] = from < to ? from - begin : 0;
		range->next[n + k] = from < to ? to - begin : 0;
	}
	return 0;
}

void tt_ps_range_free(struct tt_ps_range *range)
{
	free(range->next);
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
