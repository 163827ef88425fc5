/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the cost functions. A cost function is the closed form of the cost in the header of
 * its algorithm's file; tests/plan/test_cost.c compares it with the simulated plans.
 */
#ifndef TT_COSTS_H
#define TT_COSTS_H

#include "lib/coll/coll.h"

static inline int tt_log2_up(int n)
{
	int q = 0;

	while ((long)1 << q < n)
		q++;
	return q;
}

/* Levels of a binomial tree of n: the most bits that are set in a number below n. */
static inline int tt_cost_depth(int n)
{
	int most = __builtin_popcount((unsigned)(n - 1)), bit, above;

	for (bit = 0; (n - 1) >> bit; bit++) { /* this one clear instead, all lower ones set */
		above = __builtin_popcount((unsigned)((n - 1) >> bit >> 1));
		if ((n - 1) >> bit & 1 && above + bit > most)
			most = above + bit;
	}
	return most;
}

/* Bytes of the vector, or of a block. */
static inline double tt_cost_bytes(const struct tt_plan_args *a)
{
	return (double)a->count * (double)a->elem;
}

/* Bytes of the longest of n parts. */
static inline double tt_cost_part(const struct tt_plan_args *a, size_t n)
{
	return (double)((a->count / n + (a->count % n > 0)) * a->elem);
}

/* Cut len bytes into slices of at most `most`, and deal them out to the lanes; the bytes of one. */
static inline double tt_cost_cut(struct tt_cost *c, const struct tt_plan_args *a, double len,
				 size_t most)
{
	size_t slices = tt_num_pieces((size_t)len, a->elem, most);

	tt_cost_slices(c, slices, a->lanes);
	return slices ? len / (double)slices : 0;
}

/* Rounds in which every rank sends one message and receives one. */
static inline void tt_cost_mutual(struct tt_cost *c, const struct tt_plan_args *a, double rounds,
				  enum tt_reach to, int dist, double len, bool reduces)
{
	tt_cost_rounds(c, (struct tt_rounds){.n = rounds,
					     .len = len,
					     .out = 1,
					     .in = 1,
					     .all = a->nranks,
					     .reduces = reduces,
					     .to = to,
					     .dist = dist});
}

/* Such rounds with any rank. */
static inline void tt_cost_exchange(struct tt_cost *c, const struct tt_plan_args *a, double rounds,
				    double len, bool reduces)
{
	tt_cost_mutual(c, a, rounds, TT_ANY_RANK, 0, len, reduces);
}

/* One such round, with the rank whose number differs by a bit, or to the rank at a distance. */
static inline void tt_cost_meet(struct tt_cost *c, const struct tt_plan_args *a, enum tt_reach to,
				int dist, double len, bool reduces)
{
	tt_cost_mutual(c, a, 1, to, dist, len, reduces);
}

/* Such rounds to the next rank, as on a ring. */
static inline void tt_cost_pass(struct tt_cost *c, const struct tt_plan_args *a, double rounds,
				double len, bool reduces)
{
	tt_cost_mutual(c, a, rounds, TT_SHIFT, 1, len, reduces);
}

/* A round in which each of some ranks sends a message to another rank, such as a fold. */
static inline void tt_cost_pairs(struct tt_cost *c, double pairs, double len, bool reduces)
{
	if (pairs > 0)
		tt_cost_rounds(c, (struct tt_rounds){.n = 1,
						     .len = len,
						     .in = 1,
						     .all = pairs,
						     .reduces = reduces,
						     .to = TT_BIT,
						     .dist = 1});
}

/*
 * The end of a fold. If only one rank was folded, other ranks have waited for its partner, which
 * already had their messages unless these had to wait.
 */
static inline void tt_cost_unfold(struct tt_cost *c, int extra, double len)
{
	if (extra > 1 || tt_cost_waits(c, len))
		tt_cost_pairs(c, extra, len, false);
}

#endif
