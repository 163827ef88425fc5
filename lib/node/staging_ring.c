/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings, which replace vectors that peers cannot map; node.h. lib/engine/node/ring_reduce.c runs
 * them.
 */
#include <assert.h>
#include <stddef.h>

#include "lib/node/node_internal.h"

static_assert((offsetof(struct node_slot, data) + SLOT_SKIP) % 64 == 0, "a ring begins at a line");

size_t tt_node_ring_bytes(const struct tt_node_group *g, const struct tt_node_ring *ring)
{
	return ring->piece * ring->depth * (size_t)(g->size - 1);
}

char *tt_node_ring_slot(struct tt_node_group *g, uint64_t turn, size_t bytes)
{
	return bytes <= g->slot ? (char *)tt_node_slot(g, turn) + SLOT_SKIP : NULL;
}

void tt_node_publish_ring(struct tt_node_group *g, uint64_t turn, enum tt_node_which which,
			  void *addr, char *mem, size_t bytes, const struct tt_region *region)
{
	struct node_buf *buf = g->area->rank[g->rank].buf[turn % 2];
	struct node_buf b = {.kind = NODE_SLOT, .off = SLOT_SKIP, .len = bytes};
	const struct tt_mr *mr = tt_node_mr(g, region);

	if (mr)
		b = tt_node_pool_buf(mr, mem, bytes);
	b.ring = NODE_RING_HERE | (which == TT_NODE_INPUT ? NODE_RING_OWNER : 0);
	g->own[turn % 2][which] = addr;
	tt_node_put_buf(&buf[which], &b);
	if (!(buf[TT_NODE_INPUT].ring & NODE_RING_OWNER))
		buf[TT_NODE_INPUT].ring |= NODE_RING_OWNER;
}

size_t tt_node_ring_place(const struct tt_node_group *g, const struct tt_node_ring *ring, int owner,
			  int by, size_t k)
{
	size_t others = (size_t)g->size - 1,
	       i = (size_t)(by - owner + g->size - 1) % (size_t)g->size;

	return (k % ring->depth * others + i) * ring->piece;
}

bool tt_node_has_ring(const struct tt_node_group *g, uint64_t turn, int rank)
{
	return g->area->rank[rank].buf[turn % 2][TT_NODE_INPUT].ring & NODE_RING_OWNER;
}

void tt_node_uncount(struct tt_node_group *g, uint64_t turn)
{
	_Atomic uint32_t *count = g->area->rank[g->rank].count[turn % 2];
	int i;

	for (i = 0; i < TT_NODE_COUNTS; i++)
		atomic_store_explicit(&count[i], 0, memory_order_relaxed);
}

void tt_node_count(struct tt_node_group *g, uint64_t turn, enum tt_node_counter which, uint32_t n)
{
	atomic_store_explicit(&g->area->rank[g->rank].count[turn % 2][which], n,
			      memory_order_release);
	tt_node_wake_all(g);
}

bool tt_node_counted(const struct tt_node_group *g, uint64_t turn, int rank,
		     enum tt_node_counter which, uint32_t n)
{
	return atomic_load_explicit(&g->area->rank[rank].count[turn % 2][which],
				    memory_order_acquire) > n;
}
