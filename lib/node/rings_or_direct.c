/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In a reduction of which each of two ranks combines a part, ordinary memory has two ways. Through
 * rings (staging_ring.c): the input is copied in and the result out, by stores and loads. Or
 * straight: the kernel reads a peer's input and writes a peer's result. A straight one takes less
 * time where buffers stay in the cache of the rank that reads or writes them there, as no program
 * touches them between calls; where programs do, rings do. So both ranks measure whole reductions,
 * by kind and length. Each decides for its own memory, by the times of both.
 */
#include "lib/base/clock.h"
#include "lib/node/node_internal.h"

#define LEAST 13			    /* log2 of the shortest length */
#define LENGTHS (NODE_WAYS / TT_NODE_KINDS) /* powers of two: below 1 MiB */

unsigned tt_node_way(const struct tt_node_group *g, unsigned kind, size_t len)
{
	if (len >> LEAST == 0 || len >> LEAST >> LENGTHS || !tt_node_direct(g))
		return 0;
	return 1 + kind * LENGTHS + 63 - LEAST - (unsigned)__builtin_clzll(len);
}

uint64_t tt_node_filled(uint64_t began)
{
	atomic_thread_fence(memory_order_seq_cst); /* lines that the peer still had have come */
	return tt_ticks() - began;
}

void tt_node_went(struct tt_node_group *g, unsigned way, bool direct, size_t len, uint64_t ticks)
{
	struct node_rank *self = &g->area->rank[g->rank];
	_Atomic uint32_t *mean = direct ? &self->direct[way - 1] : &self->ringed[way - 1];
	uint32_t before = atomic_load_explicit(mean, memory_order_relaxed);

	atomic_store_explicit(mean, tt_trial_mean(before, ticks, len), memory_order_relaxed);
	if (!direct) /* the next one may be */
		tt_node_try_reach(g);
}

/*
 * A call takes as long as its slower rank: the root of a reduce has more to do. A rank whose
 * buffers need no rings has measured nothing.
 */
static void decide(struct tt_node_group *g, unsigned way)
{
	struct node_way *w = &g->way[way - 1];
	uint64_t ringed = 0, direct = 0, r, d;
	int i;

	for (i = 0; i < g->size; i++) {
		r = atomic_load_explicit(&g->area->rank[i].ringed[way - 1], memory_order_relaxed);
		d = atomic_load_explicit(&g->area->rank[i].direct[way - 1], memory_order_relaxed);
		if (!r || !d)
			continue;
		ringed = r > ringed ? r : ringed;
		direct = d > direct ? d : direct;
	}
	if (direct)
		w->direct = tt_node_is_reached(g) &&
			    (w->direct ? direct <= ringed : direct * 10 <= ringed * 9);
}

bool tt_node_goes_direct(struct tt_node_group *g, unsigned *way)
{
	struct node_way *w = &g->way[*way - 1];
	struct tt_trial trial = tt_trial_of(w->calls++);

	if (trial.decides)
		decide(g, *way);
	if (!trial.measured)
		*way = 0;
	return tt_node_by_kernel(g, &trial, w->direct);
}
