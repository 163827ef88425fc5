/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A short input of ordinary memory comes to its one reader in one of two ways. Its owner copies it
 * into the slot, and the reader copies it out: two copies. Or the reader reads it where it is, by
 * one call to the kernel. Which takes less time depends on how long that call takes, on where the
 * caches of both ranks are, and on whether the input has changed since it was read last. So both
 * ranks measure their copies, by length and direction, and the owner takes the faster way. Now and
 * then it tries the other one for some inputs in a row.
 */
#include "lib/base/clock.h"
#include "lib/node/node_internal.h"

#define LEAST 13   /* log2 of the shortest length: below it a call to the kernel takes longer */
#define FIRST 8	   /* input with which the first trial begins */
#define SECOND 256 /* and the second one; */
#define AGAIN 1024 /* the others begin every so many */
#define TRIAL 8	   /* inputs of a trial; as many before it are measured, too */

_Static_assert(TT_NODE_SLOT >> LEAST < 1 << NODE_LENGTHS, "lengths up to that of a slot");

unsigned tt_node_measure(const struct tt_node_group *g, enum tt_node_how how, size_t len)
{
	if (how < TT_NODE_ONE_WAY || len >> LEAST == 0 || len > g->slot || !tt_node_direct(g))
		return 0;
	return 1 + (how == TT_NODE_BOTH_WAYS ? NODE_LENGTHS : 0) + 63 - LEAST -
	       (unsigned)__builtin_clzll(len);
}

#define MOST (UINT32_MAX / 8)

/* Low times count for more, as others have waited for a core or a page. 0: not measured yet. */
static uint32_t nearer(uint32_t mean, uint64_t took)
{
	uint32_t t = took < MOST ? (uint32_t)took | 1 : MOST;

	if (!mean)
		return t;
	if (t < mean)
		return (mean + t) / 2;
	t = t < 4 * mean ? t : 4 * mean;
	return t < MOST ? mean + (t - mean) / 4 : MOST;
}

/* Ticks for a KiB. */
static uint64_t pace(uint64_t from, size_t len)
{
	return (tt_ticks() - from) * 1024 / len;
}

void tt_node_copied_in(struct tt_node_group *g, unsigned measure, size_t len, uint64_t from)
{
	struct node_choice *c = &g->choice[measure - 1];

	atomic_thread_fence(memory_order_seq_cst); /* lines that the reader still had have come */
	c->in = nearer(c->in, pace(from, len));
}

void tt_node_taken(struct tt_node_group *g, unsigned measure, bool read, size_t len, uint64_t from)
{
	struct node_rank *self = &g->area->rank[g->rank];
	_Atomic uint32_t *mean;

	if (measure > NODE_MEASURES) /* a peer wrote it */
		return;
	mean = read ? &self->read[measure - 1] : &self->out[measure - 1];
	atomic_store_explicit(
		mean, nearer(atomic_load_explicit(mean, memory_order_relaxed), pace(from, len)),
		memory_order_relaxed);
}

/* The owner of what is read waits for its reader, so reading has to be faster by a tenth. */
static void decide(struct tt_node_group *g, unsigned measure)
{
	struct node_choice *c = &g->choice[measure - 1];
	struct node_rank *reader = &g->area->rank[!g->rank];
	uint64_t out = atomic_load_explicit(&reader->out[measure - 1], memory_order_relaxed);
	uint64_t read = atomic_load_explicit(&reader->read[measure - 1], memory_order_relaxed);

	if (out && read && c->in)
		c->reads = c->reads ? read <= c->in + out : read * 10 <= (c->in + out) * 9;
}

/* The first input of the trial that input n belongs to, or else of the next one. */
static uint64_t trial_at(uint64_t n)
{
	if (n < FIRST + TRIAL)
		return FIRST;
	if (n < SECOND + TRIAL)
		return SECOND;
	return n % AGAIN < TRIAL ? n - n % AGAIN : n - n % AGAIN + AGAIN;
}

bool tt_node_is_read(struct tt_node_group *g, unsigned *measure)
{
	struct node_choice *c = &g->choice[*measure - 1];
	uint64_t n = c->inputs++, trial = trial_at(n);

	if (n == FIRST + TRIAL || n == SECOND + TRIAL || (n > AGAIN && n % AGAIN == TRIAL))
		decide(g, *measure);
	if (n + TRIAL < trial) /* neither in a trial nor just before one */
		*measure = 0;
	return c->reads != (n >= trial);
}
