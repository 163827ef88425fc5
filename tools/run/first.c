/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the rank that failed first.
 *
 * The order in which ranks end is not enough: a rank whose connections close wakes its peers before
 * the system reports its end, other hosts report later still, and a rank that leaves with status 0
 * makes other ranks fail. A rank that fails because of another rank names that rank in its flight
 * recorder. Following these names from the first reported rank leads to the cause.
 */
#include <stdlib.h>

#include "tools/run/run.h"

void first_open(struct first *f, int nranks)
{
	int r;

	f->nranks = nranks;
	f->rank = must_alloc((size_t)nranks * sizeof(*f->rank));
	for (r = 0; r < nranks; r++)
		f->rank[r].blames = -1;
}

void first_close(struct first *f)
{
	free(f->rank);
	f->rank = NULL;
}

void first_ended(struct first *f, int rank, int status, int blames)
{
	bool other = blames >= 0 && blames < f->nranks && blames != rank;

	f->rank[rank] =
		(struct first_rank){.ended = true, .status = status, .blames = other ? blames : -1};
}

void first_excuse(struct first *f, int rank)
{
	f->rank[rank].excused = true;
}

int first_cause(const struct first *f, int rank, int *waits, int *excused)
{
	int at = rank, steps = 0, next;

	*waits = *excused = -1;
	for (; (next = f->rank[at].blames) >= 0; at = next) {
		if (f->rank[next].excused) {
			*excused = next;
			return at;
		}
		if (!f->rank[next].ended) {
			*waits = next;
			return at;
		}
		if (++steps > f->nranks) /* they blame each other */
			return rank;
	}
	return at;
}
