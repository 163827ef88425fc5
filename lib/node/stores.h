/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the results of long reductions are stored around the cache. */
#ifndef TT_STORES_H
#define TT_STORES_H

#include <stddef.h>
#include <stdint.h>

struct tt_env;

#define TT_STORES_LONG ((size_t)128 << 10) /* calls on fewer bytes are not counted */
#define TT_STORES_LAST 16

/* The long calls on one communicator. */
struct tt_stores {
	size_t cache;  /* a rank's part of it */
	uint64_t used; /* bytes of the buffers of all calls */
	struct tt_stores_last {
		const void *buf; /* NULL: the entry is free */
		uint64_t used;	 /* before the call */
	} last[TT_STORES_LAST];
};

/* TT_REDUCE_STREAM or 0 for a call on buf and perhaps another buffer, of so many bytes together. */
unsigned tt_stores_flags(struct tt_stores *s, const void *buf, size_t bytes);

/*
 * A rank's part of a cache of size bytes (0: unknown), if there is one for each `cpus` of the CPUs
 * that are online.
 */
size_t tt_stores_cache(size_t size, int cpus, int online, int ranks);
/*
 * The same for this machine and the ranks of this host: TUTTI_CACHE if it is set, else by the size
 * that a tuning table has (measured, 0: none), else by what the kernel says.
 */
size_t tt_stores_share(const struct tt_env *env, size_t measured, int ranks);
/* The size of which that many bytes are a rank's part, on this machine. */
size_t tt_stores_whole(size_t share, int ranks);

#endif
