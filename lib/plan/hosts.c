/* SPDX-License-Identifier: BSD-3-Clause */
/* Who shares a host with whom, for plans in two levels. */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/plan/plan.h"

struct member {
	uint64_t host;
	int rank;
};

static int by_host(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->host != y->host)
		return x->host < y->host ? -1 : 1;
	return x->rank - y->rank;
}

/* Numbers hosts and places; returns how many hosts, 0: not the same number of ranks on each. */
static int number(struct member *m, int n, int *host, int *local, int *each)
{
	int hosts = 0, first = 0, r, i;
	bool same;

	qsort(m, (size_t)n, sizeof(*m), by_host);
	for (*each = 1; *each < n && m[*each].host == m[0].host; ++*each)
		;
	for (i = 0; i < n; i++) {
		same = i && m[i].host == m[i - 1].host;
		if (same == (i % *each == 0))
			return 0;
		first = same ? first : i;
		host[m[i].rank] = m[first].rank; /* for now */
		local[m[i].rank] = i - first;
	}
	if (n % *each)
		return 0;
	for (r = 0; r < n; r++)
		host[r] = host[r] == r ? hosts++ : host[host[r]];
	return hosts;
}

int tt_hosts_new(const uint64_t *by, int n, struct tt_hosts **out)
{
	struct tt_hosts *h = calloc(1, sizeof(*h) + 3 * (size_t)n * sizeof(int));
	struct member *m = malloc((size_t)n * sizeof(*m));
	int *host = (int *)(h + 1), *local = host + n, *rank = local + n, r;

	if (!h || !m) {
		free(h);
		free(m);
		return tt_fail(-ENOMEM, "no memory for the hosts of %d ranks", n);
	}
	*out = NULL;
	for (r = 0; r < n; r++)
		m[r] = (struct member){by[r], r};
	h->hosts = number(m, n, host, local, &h->each);
	free(m);
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

int tt_hosts_blocks(int nranks, int each, struct tt_hosts **hosts)
{
	uint64_t *by = malloc((size_t)nranks * sizeof(*by));
	int r, err;

	if (!by)
		return tt_fail(-ENOMEM, "no memory for the hosts of %d ranks", nranks);
	for (r = 0; r < nranks; r++)
		by[r] = (uint64_t)(r / each);
	err = tt_hosts_new(by, nranks, hosts);
	free(by);
	return err;
}
