/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a rank still reaches its peer's ordinary memory. It did when the job began; since then
 * either process may have shut itself in. A way that needs this is tried only if it does, so that a
 * measurement ends no job whose calls need it nowhere else.
 */
#include "lib/node/node_internal.h"

static const uint64_t word; /* of this process, for peers to read */

void tt_node_show_word(struct tt_node_group *g)
{
	atomic_store(&g->area->rank[g->rank].word, (uint64_t)(uintptr_t)&word);
}

void tt_node_try_reach(struct tt_node_group *g)
{
	uint64_t there = atomic_load(&g->area->rank[!g->rank].word), value;
	bool reaches =
		there && !tt_shm_vm_try(g->peer[!g->rank]->pid, &value, there, sizeof(value));

	atomic_store_explicit(&g->area->rank[g->rank].reaches, reaches, memory_order_release);
}

bool tt_node_is_reached(const struct tt_node_group *g)
{
	return atomic_load_explicit(&g->area->rank[!g->rank].reaches, memory_order_acquire);
}

bool tt_node_reach_each_other(const struct tt_node_group *g)
{
	return tt_node_is_reached(g) &&
	       atomic_load_explicit(&g->area->rank[g->rank].reaches, memory_order_relaxed);
}

bool tt_node_by_kernel(const struct tt_trial *trial, bool in_use, bool reached)
{
	return in_use != (trial->tried && (in_use || reached));
}
