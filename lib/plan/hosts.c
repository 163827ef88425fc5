/* SPDX-License-Identifier: BSD-3-Clause */
/* Who shares a host with whom, for plans in two levels. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/plan/plan.h"

/* The first rank with this rank's host. */
static int first_of(const int *by, int rank)
{
	int i = 0;

	while (by[i] != by[rank])
		i++;
	return i;
}

/* Numbers hosts and places; returns how many hosts, 0: not the same number of ranks on each. */
static int number(const int *by, int n, int *host, int *local, int *each)
{
	int hosts = 0, r, first;

	*each = 0;
	for (r = 0; r < n; r++)
		*each += by[r] == by[0];
	for (r = 0; r < n; r++)
		local[r] = 0;
	for (r = 0; r < n; r++) { /* local of a first rank counts its host's others meanwhile */
		first = first_of(by, r);
		host[r] = first == r ? hosts++ : host[first];
		if (first != r)
			local[r] = ++local[first];
	}
	for (r = 0; r < n; r++) {
		if (first_of(by, r) != r)
			continue;
		if (local[r] + 1 != *each)
			return 0;
		local[r] = 0;
	}
	return hosts;
}

int tt_hosts_new(const int *by, int n, struct tt_hosts **out)
{
	struct tt_hosts *h = calloc(1, sizeof(*h) + 3 * (size_t)n * sizeof(int));
	int *host = (int *)(h + 1), *local = host + n, *rank = local + n, r;

	if (!h)
		return tt_fail(-ENOMEM, "no memory for the hosts of %d ranks", n);
	*out = NULL;
	h->hosts = number(by, n, host, local, &h->each);
	if (h->hosts < 2 || h->each < 2) {
		free(h);
		return 0;
	}
	h->in_order = true;
	for (r = 0; r < n; r++) {
		rank[host[r] * h->each + local[r]] = r;
		h->in_order &= host[r] == r / h->each;
	}
	h->host = host;
	h->local = local;
	h->rank = rank;
	*out = h;
	return 0;
}
