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
int tt_cost_depth(int n);

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
double tt_cost_cut(struct tt_cost *c, const struct tt_plan_args *a, double len, size_t most);

/* Rounds in which every rank sends one message and receives one. */
void tt_cost_mutual(struct tt_cost *c, const struct tt_plan_args *a, double rounds,
		    enum tt_reach to, int dist, double len, bool reduces);

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
void tt_cost_pairs(struct tt_cost *c, double pairs, double len, bool reduces);

/*
 * The end of a fold. If only one rank was folded, other ranks have waited for its partner, which
 * already had their messages unless these had to wait.
 */
void tt_cost_unfold(struct tt_cost *c, int extra, double len);

#endif
