/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No length or offset of a plan is cut to 32 bits: the plan of a call with a million times as many
 * elements, in pieces a million times as long, is the same op by op, with every length and offset
 * a million times as big. Nothing is moved, so terabytes cost nothing. (tests/mp/coll/test_big
 * moves 4 GiB for real.)
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/plan/whole.h"
#include "tests/test.h"

#define SHIFT 20
#define ELEM 8
#define COUNT 53760 /* 512 * 3 * 5 * 7; shifted, 450 GB */

static bool scaled(size_t small, size_t big)
{
	return big == small << SHIFT;
}

static bool same_ref(struct tt_ref small, struct tt_ref big)
{
	return small.buf == big.buf && scaled(small.off, big.off);
}

/* Lengths of blocks, which have a place in the slot. */
static bool same_length(const struct tt_op *a, const struct tt_op *b)
{
	return a->kind == b->kind && a->peer == b->peer && a->len == b->len &&
	       a->dst.off == b->dst.off && a->a.off == b->a.off && scaled(a->b.off, b->b.off);
}

static bool same_op(const struct tt_op *a, const struct tt_op *b)
{
	if (a->kind == TT_OP_TELL_LENGTH || a->kind == TT_OP_EXPECT_LENGTH)
		return same_length(a, b);
	return a->kind == b->kind && a->flags == b->flags && a->peer == b->peer &&
	       a->index == b->index && scaled(a->len, b->len) && same_ref(a->dst, b->dst) &&
	       same_ref(a->a, b->a) &&
	       (a->flags & TT_OPF_TOLD ? a->b.off == b->b.off : same_ref(a->b, b->b));
}

static bool same_round(const struct tt_plan *a, const struct tt_plan *b, int lane, int round)
{
	struct tt_op *ta = calloc((size_t)a->max_ops + 1, sizeof(*ta));
	struct tt_op *tb = calloc((size_t)b->max_ops + 1, sizeof(*tb));
	const struct tt_op *oa, *ob;
	int n = tt_plan_ops(a, lane, round, ta, &oa), i;
	bool same = n == tt_plan_ops(b, lane, round, tb, &ob);

	for (i = 0; same && i < n; i++)
		same = same_op(&oa[i], &ob[i]);
	free(ta);
	free(tb);
	return same;
}

static bool same_plan(const struct tt_plan *a, const struct tt_plan *b)
{
	int lane, round;

	if (a->nlanes != b->nlanes || !scaled(a->scratch, b->scratch))
		return false;
	for (lane = 0; lane < a->nlanes; lane++) {
		if (tt_plan_rounds(a, lane) != tt_plan_rounds(b, lane))
			return false;
		for (round = 0; round < tt_plan_rounds(a, lane); round++)
			if (!same_round(a, b, lane, round))
				return false;
	}
	return true;
}

/* These two keep their scratch below a fixed size, so longer vectors are cut into more slices. */
static bool cut_finer(const struct tt_alg *alg)
{
	return !strcmp(alg->name, "single_master") || !strcmp(alg->name, "direct_rsag");
}

static bool same_volume(const struct tt_plan *a, const struct tt_plan *b)
{
	struct tt_plan_cost small, big;

	tt_plan_count(a, &small);
	tt_plan_count(b, &big);
	return small.bytes_sent << SHIFT == big.bytes_sent &&
	       small.bytes_received << SHIFT == big.bytes_received &&
	       small.bytes_reduced << SHIFT == big.bytes_reduced;
}

static bool same(const struct tt_alg *alg, const struct tt_plan *a, const struct tt_plan *b)
{
	if (!a || !b)
		return !a && !b;
	return cut_finer(alg) ? same_volume(a, b) : same_plan(a, b);
}

/* The plan of one rank, for COUNT << shift elements. */
static struct tt_plan *plan_of(const struct tt_alg *alg, struct tt_plan_args call, int rank,
			       int shift)
{
	struct tt_whole *w = calloc(1, sizeof(*w));
	struct tt_plan *plan = NULL;
	struct tt_plan_args a;

	call.count <<= shift;
	call.chunk <<= shift;
	tt_whole_init(w, &call, 0); /* equal counts: the other shapes add odd ends */
	if (alg->can && !alg->can(&w->args))
		goto free_whole;
	tt_plan_args_of(&w->args, rank, &a);
	if (tt_plan_build(alg, &a, &plan))
		plan = NULL;
free_whole:
	free(w);
	return plan;
}

static int compare(const struct tt_alg *alg, const struct tt_plan_args *call)
{
	struct tt_plan *small, *big;
	int rank, compared = 0;
	bool equal;

	for (rank = 0; rank < call->nranks; rank++) {
		small = plan_of(alg, *call, rank, 0);
		big = plan_of(alg, *call, rank, SHIFT);
		equal = same(alg, small, big);
		compared += small != NULL;
		if (small)
			tt_plan_free(small);
		if (big)
			tt_plan_free(big);
		if (!equal) {
			printf("  %s %s n=%d rank=%d chunk=%zu lanes=%d: not the same\n",
			       tt_coll_name(alg->coll), alg->name, call->nranks, rank, call->chunk,
			       call->lanes);
			return -1;
		}
	}
	return compared;
}

static void test_shifted(void)
{
	static const int sizes[] = {1, 2, 3, 4, 5, 7, 8};
	const struct tt_alg *alg;
	int i, lanes, compared = 0, done;

	for (alg = tt_algs; alg->name; alg++)
		for (i = 0; alg->coll != TT_COLL_BARRIER && i < 7; i++)
			for (lanes = 1; lanes <= 2; lanes++) {
				struct tt_plan_args call = {.coll = alg->coll,
							    .nranks = sizes[i],
							    .root = sizes[i] / 2,
							    .count = COUNT,
							    .elem = ELEM,
							    .chunk = (size_t)COUNT * ELEM / 4,
							    .lanes = lanes};

				done = compare(alg, &call);
				TT_CHECK(done >= 0);
				compared += done > 0 ? done : 0;
			}
	TT_CHECK(compared > 2000);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"shifted", test_shifted}, {NULL, NULL}};

	return tt_test_main("huge", tests, argc, argv);
}
