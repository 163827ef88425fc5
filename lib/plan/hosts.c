/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of ranks on hosts, for plans in two levels. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* Numbers hosts, and the ranks of each from 0 on; returns how many hosts. */
static int number(struct member *m, int n, int *host, int *local)
{
	int hosts = 0, first = 0, r, i;

	qsort(m, (size_t)n, sizeof(*m), by_host);
	for (i = 0; i < n; i++) {
		first = i && m[i].host == m[i - 1].host ? first : i;
		host[m[i].rank] = m[first].rank; /* for now */
		local[m[i].rank] = i - first;
	}
	for (r = 0; r < n; r++)
		host[r] = host[r] == r ? hosts++ : host[host[r]];
	return hosts;
}

/* The rank at each place. Smaller hosts than the largest assign their ranks to places in turn. */
static void fill_places(const struct tt_hosts *h, int n, int *rank)
{
	int r, j;

	for (r = 0; r < n; r++)
		for (j = h->local[r]; j < h->places; j += h->size[h->host[r]])
			rank[h->host[r] * h->places + j] = r;
}

static struct tt_hosts *new_hosts(const int *host, const int *local, int n, int hosts, int places)
{
	size_t ints = 2 * (size_t)n + (size_t)hosts * (size_t)(1 + places);
	struct tt_hosts *h = calloc(1, sizeof(*h) + ints * sizeof(int));
	int *to = (int *)(h + 1), *size = to + 2 * (size_t)n, r;

	if (!h)
		return NULL;
	memcpy(to, host, (size_t)n * sizeof(int));
	memcpy(to + n, local, (size_t)n * sizeof(int));
	*h = (struct tt_hosts){hosts, places, places, true, to, to + n, size, size + hosts};
	for (r = 0; r < n; r++) {
		size[host[r]]++;
		h->in_order &= !r || host[r] >= host[r - 1];
	}
	for (r = 0; r < hosts; r++)
		h->least = size[r] < h->least ? size[r] : h->least;
	fill_places(h, n, size + hosts);
	return h;
}

/* any: one host, or one rank on each, will do. */
static int sort_hosts(const uint64_t *by, int n, bool any, struct tt_hosts **out)
{
	struct member *m = malloc((size_t)n * sizeof(*m));
	int *host = malloc(2 * (size_t)n * sizeof(int)), *local = host + n, r, hosts, places = 0;
	struct tt_hosts *h = NULL;
	bool none = false;

	if (m && host) {
		for (r = 0; r < n; r++)
			m[r] = (struct member){by[r], r};
		hosts = number(m, n, host, local);
		for (r = 0; r < n; r++)
			places = local[r] >= places ? local[r] + 1 : places;
		none = !any && (hosts < 2 || places < 2);
		h = none ? NULL : new_hosts(host, local, n, hosts, places);
	}
	free(m);
	free(host);
	if (!h && !none)
		return tt_fail(-ENOMEM, "no memory for the hosts of %d ranks", n);
	*out = h;
	return 0;
}

int tt_hosts_new(const uint64_t *by, int n, struct tt_hosts **hosts)
{
	return sort_hosts(by, n, false, hosts);
}

int tt_hosts_any(const uint64_t *by, int n, struct tt_hosts **hosts)
{
	return sort_hosts(by, n, true, hosts);
}

int tt_hosts_sized(int nranks, const int *sizes, int n, struct tt_hosts **hosts)
{
	uint64_t *by = malloc((size_t)nranks * sizeof(*by)), host = 0;
	int r, left = sizes[0], err;

	if (!by)
		return tt_fail(-ENOMEM, "no memory for the hosts of %d ranks", nranks);
	for (r = 0; r < nranks; r++, left--) {
		if (!left)
			left = sizes[++host % (uint64_t)n];
		by[r] = host;
	}
	err = tt_hosts_new(by, nranks, hosts);
	free(by);
	return err;
}

int tt_hosts_blocks(int nranks, int each, struct tt_hosts **hosts)
{
	return tt_hosts_sized(nranks, &each, 1, hosts);
}
