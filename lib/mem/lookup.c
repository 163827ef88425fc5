/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking up buffers that a thread does not remember. See mem.h. */
#include "lib/mem/mem_internal.h"

_Thread_local struct tt_mem_ranges tt_mem_ranges;
_Atomic uint64_t tt_mem_version = 1;

void tt_mem_changed(void)
{
	atomic_fetch_add_explicit(&tt_mem_version, 1, memory_order_release);
}

bool tt_mem_ask(struct tt_memory *memory, const void *addr, size_t len, struct tt_region **region)
{
	/* before the answer, which may be older than it and then counts for nothing */
	struct tt_mem_range r = {.memory = memory, .version = atomic_load(&tt_mem_version)};
	bool whole = true, known;

	pthread_mutex_lock(&memory->mutex);
	r.region = tt_table_find(&memory->table, addr, len, false);
	known = r.region || tt_table_gap(&memory->table, addr, len, &r.start, &r.len);
	if (!known)
		whole = !tt_table_partial(&memory->table, addr, len);
	if (r.region) { /* which another thread may deregister, if the buffer is in a second one */
		r.start = (uintptr_t)r.region->mem.addr;
		r.len = r.region->mem.len;
	}
	pthread_mutex_unlock(&memory->mutex);
	*region = r.region;
	if (known)
		tt_mem_ranges.range[tt_mem_ranges.next++ % TT_MEM_RANGES] = r;
	return whole;
}
