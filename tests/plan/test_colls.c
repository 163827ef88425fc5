/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every algorithm but the all-reduces proved by the checker: over ranks, roots, counts, chunks,
 * lanes, in place or not, operators that commute or don't, and channel limits; a new line in
 * algs.def is tested at once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/verify/check.h"
#include "tests/plan/whole.h"
#include "tests/test.h"

#define MAX_N TT_WHOLE_RANKS
#define ELEM 4

static uint64_t dice = 1;

static size_t roll(size_t sides)
{
	return (size_t)(tt_random(&dice) % sides);
}

static struct tt_check_opts any_channel(void)
{
	static const int limits[] = {1, 2, 0};
	static const size_t eager[] = {0, 2 * ELEM, SIZE_MAX};

	return (struct tt_check_opts){.credits = limits[roll(3)],
				      .offers = limits[roll(3)],
				      .eager = eager[roll(3)],
				      .seed = roll(1 << 20),
				      .streamed = roll(2)};
}

/*
 * One call under one channel; v forms in all their shapes. An algorithm that can't do it is fine.
 */
static bool check_call(const struct tt_alg *alg, const struct tt_plan_args *call)
{
	struct tt_check_opts o = any_channel();
	struct tt_whole *w = calloc(1, sizeof(*w));
	int shape, err = 0;

	for (shape = 0; w && !err && shape < tt_whole_shapes(call->coll); shape++) {
		tt_whole_init(w, call, shape);
		if (alg->can && !alg->can(&w->args))
			continue;
		err = tt_plan_check(alg, &w->args, &o);
		if (err)
			printf("  shape %d of counts:\n", shape);
	}
	free(w);
	if (err)
		tt_whole_describe(alg, call, &o);
	return !err;
}

static bool has_blocks(enum tt_coll coll)
{
	return coll != TT_COLL_BCAST && coll != TT_COLL_REDUCE && coll != TT_COLL_SCAN &&
	       coll != TT_COLL_EXSCAN;
}

static bool can_be_in_place(enum tt_coll coll)
{
	return coll != TT_COLL_BCAST && coll != TT_COLL_BARRIER;
}

/* Kind 0 to 3: in place or not, ordered or not; an average or not by dice. */
static bool check_kind(const struct tt_alg *alg, struct tt_plan_args a, int kind)
{
	bool reduces = tt_coll_reduces(alg->coll);
	bool averages = reduces && alg->coll != TT_COLL_SCAN && alg->coll != TT_COLL_EXSCAN;

	a.in_place = kind % 2;
	a.ordered = kind / 2;
	if ((a.in_place && !can_be_in_place(alg->coll)) || (a.ordered && !reduces))
		return true;
	a.divide = averages && roll(2);
	return check_call(alg, &a);
}

static bool check_kinds(const struct tt_alg *alg, struct tt_plan_args a)
{
	int i;

	for (i = 0; i < 4; i++)
		if (!check_kind(alg, a, i))
			return false;
	return true;
}

/* All small calls of few ranks. */
static bool check_small(const struct tt_alg *alg)
{
	static const size_t counts[] = {0, 1, 2, 3, 7, 16}, chunks[] = {ELEM, 3 * ELEM, 1 << 20};
	struct tt_plan_args a = {.coll = alg->coll, .elem = ELEM};
	unsigned i, k;

	for (a.nranks = 1; a.nranks <= 5; a.nranks++)
		for (i = 0; i < 6; i++)
			for (k = 0; k < 3; k++)
				for (a.lanes = 1; a.lanes <= 3; a.lanes++) {
					a.count = counts[i];
					a.chunk = chunks[k];
					a.root = (int)roll((size_t)a.nranks);
					if (!check_kinds(alg, a))
						return false;
				}
	return true;
}

/* Vectors and blocks around the length of a slot or a part of it, where other plans begin. */
static bool check_long(const struct tt_alg *alg)
{
	struct tt_plan_args a = {.coll = alg->coll, .elem = ELEM, .chunk = 1 << 20, .lanes = 1};
	size_t part, more;

	for (a.nranks = 2; a.nranks <= 3; a.nranks++)
		for (part = 1; part <= 3; part++)
			for (more = 0; more < 2; more++) {
				a.count = TT_SLOT_BYTES / ELEM / part + more;
				a.root = (int)roll((size_t)a.nranks);
				if (!check_kinds(alg, a))
					return false;
			}
	return true;
}

/* All numbers of ranks and all roots; the rest by dice, for many ranks the kind, too. */
static bool check_large(const struct tt_alg *alg)
{
	static const size_t chunks[] = {ELEM, 2 * ELEM, 5 * ELEM, 16 * ELEM, 1 << 20};
	struct tt_plan_args a = {.coll = alg->coll, .elem = ELEM};
	int i, times;

	for (a.nranks = 1; a.nranks <= MAX_N; a.nranks++) {
		size_t n = (size_t)a.nranks, counts[] = {1, 2, 3, 5, n - 1, n, n + 1, 31, 97};

		times = tt_coll_rooted(alg->coll) ? a.nranks : 3;
		for (i = 0; i < times; i++) {
			a.root = tt_coll_rooted(alg->coll) ? i : 0;
			/* a block for each rank is long enough soon */
			a.count = counts[roll(n > 12 && has_blocks(alg->coll) ? 4 : 9)];
			a.chunk = chunks[roll(5)];
			a.lanes = 1 + (int)roll(4);
			if (times <= 12 ? !check_kinds(alg, a) : !check_kind(alg, a, (int)roll(4)))
				return false;
		}
	}
	return true;
}

/* Both forms of plans: all stored, and all generated that have a generator. */
static void check_coll(enum tt_coll coll)
{
	size_t max = tt_plan_store_max;
	const struct tt_alg *alg;
	int algs = 0;

	for (alg = tt_algs; alg->name; alg++) {
		if (alg->coll != coll)
			continue;
		algs++;
		TT_CHECK(check_small(alg));
		TT_CHECK(check_large(alg));
		TT_CHECK(check_long(alg));
		tt_plan_store_max = 0;
		TT_CHECK(check_small(alg));
		tt_plan_store_max = max;
	}
	TT_CHECK(algs >= 2);
}

#define COLL_TEST(name, coll)                                                                      \
	static void test_##name(void)                                                              \
	{                                                                                          \
		check_coll(TT_COLL_##coll);                                                        \
	}
COLL_TEST(bcast, BCAST)
COLL_TEST(barrier, BARRIER)
COLL_TEST(reduce, REDUCE)
COLL_TEST(reduce_scatter_block, REDUCE_SCATTER_BLOCK)
COLL_TEST(reduce_scatter, REDUCE_SCATTER)
COLL_TEST(allgather, ALLGATHER)
COLL_TEST(allgatherv, ALLGATHERV)
COLL_TEST(gather, GATHER)
COLL_TEST(gatherv, GATHERV)
COLL_TEST(scatter, SCATTER)
COLL_TEST(scatterv, SCATTERV)
COLL_TEST(alltoall, ALLTOALL)
COLL_TEST(alltoallv, ALLTOALLV)
COLL_TEST(scan, SCAN)
COLL_TEST(exscan, EXSCAN)

/* Each collective can do every call by some algorithm, operators that don't commute included. */
static void test_always_one(void)
{
	struct tt_plan_args a = {.elem = ELEM, .count = 7, .chunk = ELEM, .lanes = 1};
	const struct tt_alg *alg;
	struct tt_whole *w = calloc(1, sizeof(*w));
	int coll, found, shape;

	TT_REQUIRE(w != NULL);
	for (coll = TT_COLL_BCAST; coll < TT_NUM_COLLS; coll++)
		for (a.nranks = 1; a.nranks <= MAX_N; a.nranks++) {
			a.coll = (enum tt_coll)coll;
			a.ordered = tt_coll_reduces(a.coll);
			for (shape = 0; shape < tt_whole_shapes(a.coll); shape++) {
				tt_whole_init(w, &a, shape);
				for (alg = tt_algs, found = 0; alg->name; alg++)
					found += alg->coll == a.coll &&
						 (!alg->can || alg->can(&w->args));
				TT_CHECK(found > 0);
			}
		}
	free(w);
}

static const struct tt_test tests[] = {{"bcast", test_bcast},
				       {"barrier", test_barrier},
				       {"reduce", test_reduce},
				       {"reduce_scatter_block", test_reduce_scatter_block},
				       {"reduce_scatter", test_reduce_scatter},
				       {"allgather", test_allgather},
				       {"allgatherv", test_allgatherv},
				       {"gather", test_gather},
				       {"gatherv", test_gatherv},
				       {"scatter", test_scatter},
				       {"scatterv", test_scatterv},
				       {"alltoall", test_alltoall},
				       {"alltoallv", test_alltoallv},
				       {"scan", test_scan},
				       {"exscan", test_exscan},
				       {"always_one", test_always_one},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("colls", tests, argc, argv);
}
