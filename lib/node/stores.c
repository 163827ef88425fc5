/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the results of long reductions are stored around the cache.
 *
 * A plain store of a line that is not in the cache reads the line first; a store around the cache
 * does not, but drives the line out. So the question is whether the buffers of a call are still in
 * the cache from an earlier call: they are if fewer bytes have been used since than a rank's part
 * of the cache. What the program uses between calls is not known.
 */
#include <unistd.h>

#include "lib/base/env.h"
#include "lib/node/stores.h"
#include "lib/reduce/reduce.h"
#include "lib/topo/topo.h"

#define UNKNOWN_CACHE ((size_t)8 << 20)

/* Ranks that share a cache. */
static int sharers_of(int cpus, int online, int ranks)
{
	int caches = online > cpus ? (online + cpus - 1) / cpus : 1;
	int sharers = (ranks + caches - 1) / caches;

	return sharers > 1 ? sharers : 1;
}

size_t tt_stores_cache(size_t size, int cpus, int online, int ranks)
{
	return (size ? size : UNKNOWN_CACHE) / (size_t)sharers_of(cpus, online, ranks);
}

size_t tt_stores_share(const struct tt_env *env, size_t measured, int ranks)
{
	int cpus, online = (int)sysconf(_SC_NPROCESSORS_ONLN);
	size_t size = tt_topo_cache(TT_SYSFS, &cpus);

	if (env->cache.number)
		return (size_t)env->cache.number;
	return tt_stores_cache(measured ? measured : size, cpus, online, ranks);
}

size_t tt_stores_whole(size_t share, int ranks)
{
	int cpus, online = (int)sysconf(_SC_NPROCESSORS_ONLN);

	tt_topo_cache(TT_SYSFS, &cpus);
	return share * (size_t)sharers_of(cpus, online, ranks);
}

/* The entry of buf, or a free one, or the oldest. */
static struct tt_stores_last *find(struct tt_stores *s, const void *buf)
{
	struct tt_stores_last *e, *oldest = s->last;

	for (e = s->last; e < s->last + TT_STORES_LAST; e++) {
		if (e->buf == buf || !e->buf)
			return e; /* entries are taken in order: none behind a free one is in use */
		if (e->used < oldest->used)
			oldest = e;
	}
	return oldest;
}

unsigned tt_stores_flags(struct tt_stores *s, const void *buf, size_t bytes)
{
	struct tt_stores_last *e = find(s, buf);
	uint64_t since = bytes;

	/* If another entry must go, buf was used before it, or never. */
	if (e->buf == buf || (e->buf && s->used - e->used > bytes))
		since = s->used - e->used;
	*e = (struct tt_stores_last){.buf = buf, .used = s->used};
	s->used += bytes;
	return since >= s->cache ? TT_REDUCE_STREAM : 0;
}
