/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mixing: reads the newest whole vector of each slot and moves x towards it. The sum over the
 * neighbours is in float64, so that the result does not depend on rounding between them. Weights
 * of neighbours that are left out stay with x.
 */
#include <stdatomic.h>
#include <string.h>

#include "lib/gossip/gossip.h"
#include "lib/reduce/mix.h"
#include "lib/reduce/xxh.h"

#define TRIES 8

static uint64_t version_of(const char *buffer)
{
	const volatile struct tt_gossip_head *head = (const void *)buffer;

	return head->version;
}

/* Copies a buffer, if it is whole before and after; returns its version, or 0. */
static uint64_t copy_buffer(struct tutti_gossip *g, const char *buffer)
{
	const volatile struct tt_gossip_head *head = (const void *)buffer;
	uint64_t version = head->version, sum = head->sum;

	atomic_thread_fence(memory_order_acquire);
	memcpy(g->copy, buffer + sizeof(*head), g->len);
	return version && tt_reduce_xxh(g->copy, g->len, version) == sum ? version : 0;
}

/* The newest vector of a slot, in g->copy; 0: empty or torn. */
static uint64_t read_slot(struct tutti_gossip *g, int slot)
{
	const char *first = g->base.mem + (size_t)slot * 2 * g->pitch;
	const char *second = first + g->pitch;
	bool newer;
	uint64_t got;
	int i;

	for (i = 0; i < TRIES; i++) {
		newer = version_of(second) > version_of(first);
		got = copy_buffer(g, newer ? second : first);
		if (!got)
			got = copy_buffer(g, newer ? first : second);
		if (got)
			return got;
		if (!version_of(first) && !version_of(second)) {
			g->state.empty++;
			return 0;
		}
	}
	g->state.torn++;
	return 0;
}

/* Whether the slot has a vector to mix, which then is in g->copy. */
static bool take_slot(struct tutti_gossip *g, int slot)
{
	struct tt_gossip_in *in = &g->in[slot];

	in->used = 0;
	in->dead = in->dead || tt_gossip_dead(&g->base, in->rank);
	if (in->dead)
		return false;
	in->used = read_slot(g, slot);
	if (!in->used)
		return false;
	g->state.mixed++;
	g->state.fresh += in->used != in->last;
	in->last = in->used;
	return true;
}

/* The last slot moves x, also if it has nothing to add itself. */
static void mix_slots(struct tutti_gossip *g, void *x)
{
	unsigned flags = TT_MIX_FIRST, add, last;
	int i;

	for (i = 0; i < g->nin; i++) {
		add = take_slot(g, i) ? TT_MIX_ADD : 0;
		last = i == g->nin - 1 ? TT_MIX_LAST : 0;
		if (add || (last && !(flags & TT_MIX_FIRST)))
			tt_reduce_gather(x, g->sum, g->copy, g->in[i].weight, g->count, g->datatype,
					 flags | add | last);
		flags = add ? 0 : flags;
	}
}

int tt_gossip_mix(struct tutti_gossip *g, void *x)
{
	uint64_t before;
	int err;

	tt_wire_lock(g->base.comm->ctx->wire);
	err = tt_comm_check(g->base.comm);
	tt_wire_unlock(g->base.comm->ctx->wire);
	if (err)
		return err;
	pthread_mutex_lock(&g->lock);
	before = g->state.mixed;
	mix_slots(g, x);
	g->state.mixes++;
	tt_gossip_copied(&g->base, (g->state.mixed - before) * g->len);
	pthread_mutex_unlock(&g->lock);
	return 0;
}
