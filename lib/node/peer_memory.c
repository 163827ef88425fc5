/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pool memory, as seen by the processes of a host. Each process lists its slabs in its segment. A
 * peer maps a slab when it first finds it in a published buffer, and keeps the mapping until the
 * owner gives the slab up.
 */
#include <errno.h>
#include <string.h>

#include "lib/node/node_internal.h"

int tt_node_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mr)
{
	struct tt_node *node = (struct tt_node *)tp;

	/* For peers, unlisted memory is ordinary memory. */
	if (mem->memfd < 0 || !(access & TT_ACCESS_WRITE) || tt_shm_table_full(&node->slabs))
		return -EOPNOTSUPP;
	return tt_shm_list(&node->slabs, tp, mem, access, mr);
}

int tt_node_dereg(struct tt_mr *mr)
{
	struct tt_node *node = (struct tt_node *)mr->tp;

	tt_shm_unlist(&node->slabs, mr);
	atomic_fetch_add(&node->seg->given_up, 1);
	tt_shm_mr_free(&node->slabs, mr, true);
	return 0;
}

void tt_node_unmap_stale(struct node_peer *peer)
{
	uint32_t given_up = atomic_load_explicit(&peer->seg->given_up, memory_order_acquire);

	if (given_up == peer->given_up)
		return;
	peer->given_up = given_up;
	tt_shm_maps_sweep(&peer->slabs, peer->seg->slab);
}

int tt_node_map(struct node_peer *peer, const struct node_buf *buf, char **ptr)
{
	const struct tt_shm_entry *s;
	int err;

	tt_node_unmap_stale(peer);
	if (buf->slab >= SEG_SLABS)
		return tt_fail(-EPROTO, "process %d published no slab", (int)peer->pid);
	s = &peer->seg->slab[buf->slab];
	if (!buf->id || atomic_load_explicit(&s->id, memory_order_acquire) != buf->id)
		return tt_fail(-ESTALE, "process %d has given up memory that a collective uses",
			       (int)peer->pid);
	if (!tt_shm_maps_has(&peer->slabs, buf->slab, buf->id)) {
		err = tt_shm_maps_add(&peer->slabs, peer->pid, peer->seg->slab, buf->slab, buf->id);
		if (err)
			err = tt_shm_refusal(peer->pid, err, "pool memory");
		if (err == -EPERM)
			return err;
		if (err)
			return tt_fail(
				err, "%zu bytes of pool memory of process %d cannot be mapped: %s",
				(size_t)s->at.len, (int)peer->pid, strerror(-err));
	}
	if (buf->off > s->at.len || buf->len > s->at.len - buf->off)
		return tt_fail(-EPROTO, "process %d published more than its slab holds",
			       (int)peer->pid);
	*ptr = peer->slabs.map[buf->slab].ptr + buf->off;
	return 0;
}
