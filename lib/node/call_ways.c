/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of two ranks that can go in two ways. Both ranks measure whole calls, by kind and
 * length. Each decides for its own memory, by the times of both.
 *
 * Reductions of ordinary memory, of which each rank combines a part. Through rings
 * (staging_ring.c): the input is copied in and the result out, by stores and loads. Or straight:
 * the kernel reads a peer's input and writes a peer's result. A straight one takes less time where
 * buffers stay in the cache of the rank that reads or writes them there, as no program touches them
 * between calls; where programs do, rings do.
 *
 * The same of memory that peers map. Its owner leaves the result as the peer has stored it; or, as
 * programs may read it, hands its lines back to the peer (lib/base/copy.h). Lines of longer results
 * leave the cache before the peer stores again, so these go through rings, which stay there.
 *
 * Copies of ordinary memory that is longer than a slot. As a stream (stream.c), or by the kernel,
 * which again pays where no program touches the buffers between calls and cores share no cache.
 */
#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/node/node_internal.h"

#define LEAST 13 /* log2 of the shortest length */
/* powers of two: below 1 MiB, and below 8 MiB in memory that peers map */
#define LENGTHS 7
#define MAPPED_LENGTHS 10
#define RINGS_LEAST ((size_t)1 << 20)
#define MAPPED (TT_NODE_KINDS * LENGTHS) /* ways of that memory come after so many */

#define COPY_LEAST 15	/* log2 of a slot; */
#define COPY_LENGTHS 10 /* below 32 MiB: a stream takes as much of the pool */
#define COPIES (MAPPED + TT_NODE_KINDS * MAPPED_LENGTHS)

_Static_assert(NODE_WAYS == COPIES + TT_NODE_COPY_KINDS * COPY_LENGTHS, "node_internal.h");
_Static_assert(TT_NODE_SLOT == 1 << COPY_LEAST, "longer than a slot");

/* Of n lengths; 0: none of them. */
static unsigned length_of(size_t len, unsigned n)
{
	if (len >> LEAST == 0 || len >> LEAST >> n)
		return 0;
	return 64 - LEAST - (unsigned)__builtin_clzll(len);
}

unsigned tt_node_way(const struct tt_node_group *g, unsigned kind, size_t len)
{
	unsigned length = tt_node_direct(g) ? length_of(len, LENGTHS) : 0;

	return length ? kind * LENGTHS + length : 0;
}

unsigned tt_node_mapped_way(const struct tt_node_group *g, unsigned kind, size_t len)
{
	unsigned length = g->size == 2 && tt_hands_back() ? length_of(len, MAPPED_LENGTHS) : 0;

	return length ? MAPPED + kind * MAPPED_LENGTHS + length : 0;
}

unsigned tt_node_copy_way(const struct tt_node_group *g, enum tt_node_copy_kind kind, size_t len)
{
	if (!tt_node_direct(g) || !tt_hands_back() || len <= TT_NODE_SLOT ||
	    len >> COPY_LEAST >> COPY_LENGTHS)
		return 0;
	return COPIES + kind * COPY_LENGTHS + 64 - COPY_LEAST - (unsigned)__builtin_clzll(len);
}

uint64_t tt_node_filled(uint64_t began)
{
	atomic_thread_fence(memory_order_seq_cst); /* lines that the peer still had have come */
	return tt_ticks() - began;
}

void tt_node_went(struct tt_node_group *g, unsigned way, bool second, size_t len, uint64_t ticks)
{
	struct node_rank *self = &g->area->rank[g->rank];
	_Atomic uint32_t *mean = second ? &self->second[way - 1] : &self->first[way - 1];
	uint32_t before = atomic_load_explicit(mean, memory_order_relaxed);

	atomic_store_explicit(mean, tt_trial_mean(before, ticks, len), memory_order_relaxed);
	if (!second && way <= MAPPED) /* the next one may go straight */
		tt_node_try_reach(g);
}

/*
 * A call takes as long as its slower rank: the root of a reduce has more to do. A rank whose
 * buffers do not go this way has measured nothing.
 */
static void decide(struct tt_node_group *g, unsigned way)
{
	struct node_way *w = &g->way[way - 1];
	uint64_t first = 0, second = 0, f, s;
	int i;

	for (i = 0; i < g->size; i++) {
		f = atomic_load_explicit(&g->area->rank[i].first[way - 1], memory_order_relaxed);
		s = atomic_load_explicit(&g->area->rank[i].second[way - 1], memory_order_relaxed);
		if (!f || !s)
			continue;
		first = f > first ? f : first;
		second = s > second ? s : second;
	}
	if (second)
		w->second = w->second ? second <= first : second * 10 <= first * 9;
}

/* The next one. */
static struct tt_trial trial_of(struct tt_node_group *g, unsigned *way)
{
	struct tt_trial trial = tt_trial_of(g->way[*way - 1].calls++);

	if (trial.decides)
		decide(g, *way);
	if (!trial.measured)
		*way = 0;
	return trial;
}

bool tt_node_goes_direct(struct tt_node_group *g, unsigned *way)
{
	struct node_way *w = &g->way[*way - 1];
	bool reached = tt_node_is_reached(g);
	struct tt_trial trial = trial_of(g, way);

	if (trial.decides)
		w->second &= reached;
	return tt_node_by_kernel(&trial, w->second, reached);
}

bool tt_node_streams(struct tt_node_group *g, unsigned *way, bool *asks)
{
	struct node_way *w = &g->way[*way - 1];
	bool reached = tt_node_reach_each_other(g);
	struct tt_trial trial = trial_of(g, way);

	if (trial.decides)
		w->second &= reached;
	*asks = trial.first && !w->second;
	if (!*asks)
		return !tt_node_by_kernel(&trial, w->second, reached);
	tt_node_try_reach(g);
	*way = 0; /* both ranks take a while for that */
	return true;
}

enum tt_mapped tt_node_mapped(struct tt_node_group *g, unsigned *way, size_t len)
{
	const struct node_way *w = &g->way[*way - 1];
	struct tt_trial trial = trial_of(g, way);

	if (w->second == trial.tried)
		return TT_MAPPED_LEFT;
	return len < RINGS_LEAST ? TT_MAPPED_BACK : TT_MAPPED_RINGS;
}
