/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A short input of ordinary memory comes to its one reader in one of two ways. Its owner copies it
 * into the slot, and the reader copies it out: two copies. Or the reader reads it where it is, by
 * one call to the kernel. Which takes less time depends on how long that call takes, on where the
 * caches of both ranks are, and on whether the input has changed since it was read last. So both
 * ranks measure their copies, by length and direction, and the owner takes the faster way.
 */
#include "lib/base/clock.h"
#include "lib/node/node_internal.h"

#define LEAST 13 /* log2 of the shortest length: below it a call to the kernel takes longer */

_Static_assert(TT_NODE_SMALL >> LEAST == 0, "persistent operations measure nothing");
_Static_assert(TT_NODE_SLOT >> LEAST < 1 << NODE_LENGTHS, "lengths up to that of a slot");

unsigned tt_node_measure(const struct tt_node_group *g, enum tt_node_how how, size_t len)
{
	if (how < TT_NODE_ONE_WAY || len >> LEAST == 0 || len > g->slot || !tt_node_direct(g))
		return 0;
	return 1 + (how - TT_NODE_ONE_WAY) * NODE_LENGTHS + 63 - LEAST -
	       (unsigned)__builtin_clzll(len);
}

void tt_node_copied_in(struct tt_node_group *g, unsigned measure, size_t len, uint64_t from)
{
	struct node_choice *c = &g->choice[measure - 1];

	atomic_thread_fence(memory_order_seq_cst); /* lines that the reader still had have come */
	c->in = tt_trial_mean(c->in, tt_ticks() - from, len);
}

void tt_node_taken(struct tt_node_group *g, unsigned measure, bool read, size_t len, uint64_t from)
{
	struct node_rank *self = &g->area->rank[g->rank];
	_Atomic uint32_t *mean;
	uint32_t before;

	if (measure > NODE_MEASURES) /* a peer wrote it */
		return;
	mean = read ? &self->read[measure - 1] : &self->out[measure - 1];
	before = atomic_load_explicit(mean, memory_order_relaxed);
	atomic_store_explicit(mean, tt_trial_mean(before, tt_ticks() - from, len),
			      memory_order_relaxed);
	if (!read) /* the next one may be */
		tt_node_try_reach(g);
}

/* The owner of what is read waits for its reader, so reading has to be faster by a tenth. */
static void decide(struct tt_node_group *g, unsigned measure)
{
	struct node_choice *c = &g->choice[measure - 1];
	struct node_rank *reader = &g->area->rank[!g->rank];
	uint64_t out = atomic_load_explicit(&reader->out[measure - 1], memory_order_relaxed);
	uint64_t read = atomic_load_explicit(&reader->read[measure - 1], memory_order_relaxed);

	if (out && read && c->in)
		c->reads = tt_node_is_reached(g) &&
			   (c->reads ? read <= c->in + out : read * 10 <= (c->in + out) * 9);
}

bool tt_node_is_read(struct tt_node_group *g, unsigned *measure)
{
	struct node_choice *c = &g->choice[*measure - 1];
	struct tt_trial trial = tt_trial_of(c->inputs++);

	if (trial.decides)
		decide(g, *measure);
	if (!trial.measured)
		*measure = 0;
	return tt_node_by_kernel(&trial, c->reads, tt_node_is_reached(g));
}
