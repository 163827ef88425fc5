/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces with codecs, proved by the checker, which follows what is quantized and what is left
 * over; both forms of the plans; planted faults.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verify/check.h"
#include "tests/plan/codec_plans.h"
#include "tests/plan/forms.h"
#include "tests/plan/whole.h"
#include "tests/test.h"

static enum tt_branch taken; /* by plans with several */

/* Feedback and in place: on all ranks, on none, or on every other one. */
enum { NONE, ALL, SOME };

static int build_all(struct tt_plan_args a, int feedback, int in_place, struct tt_plan **plans)
{
	int err = 0;

	for (a.rank = 0; !err && a.rank < a.nranks; a.rank++) {
		a.feedback = feedback == ALL || (feedback == SOME && a.rank % 2);
		a.in_place = in_place == ALL || (in_place == SOME && a.rank % 2);
		err = tt_plan_build(alg_of(&a), &a, &plans[a.rank]);
		if (!err && plans[a.rank]->nways)
			plans[a.rank]->way = taken;
	}
	return err;
}

static unsigned turn; /* goes through the channel limits */

static bool proved(const struct tt_plan_args *a, int feedback, int in_place)
{
	struct tt_check_opts o = tt_whole_opts(turn++ * 37 % TT_WHOLE_OPTS, ELEM);
	struct tt_plan *plans[MAX_N] = {0};
	int err = build_all(*a, feedback, in_place, plans);

	if (!err)
		err = tt_plan_check_plans(plans, a->nranks, &o);
	if (err) {
		tt_whole_describe(alg_of(a), a, &o);
		printf("  feedback %d, in place %d, align %zu\n", feedback, in_place,
		       a->codec->align);
	}
	tt_free_plans(plans, a->nranks);
	return !err;
}

/* Lists travel in pieces of a chunk: of a few, which the checker goes through in bounded time. */
static size_t chunk_of(const struct tt_plan_args *a, size_t chunk)
{
	size_t least = a->codec->varies ? tt_coded_sum(a, a->count * ELEM) / 4 / ELEM * ELEM : 0;

	return chunk > least ? chunk : least;
}

static bool proved_cuts(struct tt_plan_args a)
{
	static const size_t chunks[] = {ELEM, 40 * ELEM, 1 << 20};
	int i;

	for (i = 0; i < 3; i++)
		for (a.lanes = 1; a.lanes <= 4; a.lanes += a.lanes == 2 ? 2 : 1) {
			a.chunk = chunk_of(&a, chunks[i]);
			a.divide = a.lanes % 2;
			if (!proved(&a, (int)turn % 3, (int)(turn / 3) % 3))
				return false;
		}
	return true;
}

static void prove(const struct tt_plan_codec *codec)
{
	size_t i;
	int n;

	for (n = 1; n <= MAX_N; n += n < 9 ? 1 : n == 9 ? 7 : 17) {
		size_t u = codec->align ? codec->align : 5, all = u * (size_t)n;
		size_t counts[] = {0,	1,	 u - 1,	  u,	       u + 1,	2 * u + 1,
				   all, all - 1, all + 1, 3 * all - 1, 3 * all, 500};

		for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
			TT_REQUIRE(proved_cuts(args_of(n, counts[i], codec)));
	}
}

static void test_proof(void)
{
	size_t c;

	for (c = 0; c < CODECS; c++)
		prove(&codecs[c]);
}

static void prove_way(const char *algo)
{
	size_t c;

	way = algo;
	for (c = 0; c < CODECS; c++)
		if (codecs[c].sparse)
			prove(&codecs[c]);
	way = "codec_gather";
}

static void test_merge_proof(void)
{
	prove_way("codec_merge");
}

static void test_dense_proof(void)
{
	prove_way("codec_dense");
}

/* Each way of a plan that has several is a plan of its own. */
static void test_lists_proof(void)
{
	for (taken = TT_BRANCH_GATHER; taken < TT_BRANCHES; taken++)
		prove_way("codec_lists");
	taken = TT_BRANCH_GATHER;
}

static void prove_on(const struct tt_hosts *hosts, int n, const struct tt_plan_codec *codec)
{
	size_t u = codec->align, i;
	size_t counts[] = {0, 1, u - 1, u + 1, 17, 5 * u + 3, 500, 16 * u * (size_t)n};
	struct tt_plan_args a;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		a = args_of(n, counts[i], codec);
		a.hosts = hosts;
		TT_REQUIRE(proved_cuts(a));
	}
}

static void test_hier_proof(void)
{
	static const uint64_t by[][9] = {{1, 1, 2, 2},
					 {1, 2, 1, 2},
					 {1, 1, 1, 2},
					 {1, 1, 2, 2, 3, 3},
					 {1, 1, 1, 2, 2, 2},
					 {1, 2, 2, 2, 3},
					 {3, 1, 2, 1, 2, 3, 1, 1, 2}};
	static const int ranks[] = {4, 4, 4, 6, 6, 5, 9};
	struct tt_hosts *hosts;
	size_t c, i;

	for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		TT_REQUIRE(!tt_hosts_new(by[i], ranks[i], &hosts) && hosts);
		for (c = 0; c < LISTS; c++)
			prove_on(hosts, ranks[i], &codecs[c]);
		free(hosts);
	}
}

static void test_forms(void)
{
	struct tt_plan_args a;
	int n, generated = 0, same;

	for (n = 2; n <= 17; n += 5)
		for (a = args_of(n, 4001, &codecs[1]); a.lanes <= 4; a.lanes++) {
			a.chunk = 20 * ELEM;
			a.feedback = a.lanes % 2;
			a.rank = n - 1;
			same = tt_same_forms(direct(), &a);
			TT_REQUIRE(same);
			generated += same == 2;
		}
	TT_CHECK(generated == 16);
}

/* Every place in the vector is encoded alike, whatever the chunks and lanes. */
static void test_cut_at_units(void)
{
	struct tt_op tmp[2 * MAX_N];
	const struct tt_op *ops;
	struct tt_plan_args a = args_of(3, 1000, &codecs[2]);
	struct tt_plan *plan;
	int r, i, n, lane, encoded = 0;

	for (a.lanes = 1; a.lanes <= 4; a.lanes++) {
		a.chunk = 100 * ELEM;
		TT_REQUIRE(!tt_plan_build(direct(), &a, &plan));
		for (lane = 0; lane < plan->nlanes; lane++)
			for (r = 0; r < tt_plan_rounds(plan, lane); r++) {
				n = tt_plan_ops(plan, lane, r, tmp, &ops);
				for (i = 0; i < n; i++) {
					if (ops[i].kind != TT_OP_ENCODE)
						continue;
					TT_CHECK(ops[i].b.off % (64 * ELEM) == 0);
					encoded++;
				}
			}
		tt_plan_free(plan);
	}
	TT_CHECK(encoded > 40);
}

/* Changes an op of a kind in rank 1's plan; the checker must say this. */
static bool found_in(const struct tt_plan_codec *codec, enum tt_op_kind kind,
		     void (*spoil)(struct tt_op *op), int which, const char *says)
{
	struct tt_plan_args a = args_of(3, 96, codec);
	struct tt_plan *plans[3] = {0};
	struct tt_op tmp[6], *op = NULL;
	const struct tt_op *ops;
	int r, i, n, err;

	if (build_all(a, ALL, NONE, plans))
		return false;
	for (r = 0; !op && r < tt_plan_rounds(plans[1], 0); r++) {
		n = tt_plan_ops(plans[1], 0, r, tmp, &ops);
		for (i = 0; !op && i < n; i++)
			if (ops[i].kind == kind && !which--)
				op = (struct tt_op *)&ops[i];
	}
	if (!op)
		return false;
	spoil(op);
	err = tt_plan_check_plans(plans, 3, NULL);
	if (err && !strstr(tt_fail_text(err), says))
		printf("  %s\n", tt_fail_text(err));
	tt_free_plans(plans, 3);
	return err == -EINVAL && strstr(tt_fail_text(err), says);
}

static bool found(enum tt_op_kind kind, void (*spoil)(struct tt_op *op), int which,
		  const char *says)
{
	return found_in(&codecs[1], kind, spoil, which, says);
}

static void forget_residual(struct tt_op *op)
{
	op->b.buf = TT_BUF_NONE;
}

static void move_place(struct tt_op *op)
{
	op->b.off = op->b.off ? 0 : 8 * ELEM;
}

static void move_inside_unit(struct tt_op *op)
{
	op->b.off += ELEM;
}

static void divide(struct tt_op *op)
{
	op->flags |= TT_OPF_DIVIDE;
}

static void read_elsewhere(struct tt_op *op)
{
	op->a.off += 64;
}

static void only_decode(struct tt_op *op)
{
	op->kind = TT_OP_DECODE;
}

static void overlap(struct tt_op *op)
{
	op->a = op->dst;
}

static void forget_head(struct tt_op *op)
{
	op->a.off += 64;
}

static void send_head_again(struct tt_op *op)
{
	op->a.off -= ELEM;
}

static void shorten(struct tt_op *op)
{
	op->len -= ELEM;
}

/* In test_list_faults the first two receives and sends are of heads. */
static void test_list_faults(void)
{
	const struct tt_plan_codec *lists = &codecs[LISTS];

	TT_CHECK(found_in(lists, TT_OP_SEND, forget_head, 0, "is not the head of what travels"));
	TT_CHECK(found_in(lists, TT_OP_RECV, shorten, 2, "lengths differ"));
	TT_CHECK(found_in(lists, TT_OP_SEND, send_head_again, 2, "not the head of what travels"));
	TT_CHECK(found_in(lists, TT_OP_DECODE, read_elsewhere, 0, "is not an encoding"));
	TT_CHECK(found_in(lists, TT_OP_DECODE_ADD, only_decode, 0, "exactly once"));
	TT_CHECK(found_in(lists, TT_OP_DECODE_ADD, divide, 1, "is divided too often"));
	TT_CHECK(found_in(lists, TT_OP_ENCODE, move_inside_unit, 0, "units of"));
	TT_CHECK(!found_in(lists, TT_OP_ENCODE, forget_residual, 0, "anything"));
}

/* Heads that come in the round of what they announce, not before it. */
static void test_late_heads(void)
{
	struct tt_plan_args a = args_of(2, 96, &codecs[LISTS]);
	struct tt_plan *plans[2] = {0};
	struct tt_op tmp[4], *recv[2] = {0};
	const struct tt_op *ops;
	int r, i, n, k = 0, err;

	TT_REQUIRE(!build_all(a, ALL, NONE, plans));
	for (r = 0; r < tt_plan_rounds(plans[1], 0); r++) {
		n = tt_plan_ops(plans[1], 0, r, tmp, &ops);
		for (i = 0; i < n; i++)
			if (ops[i].kind == TT_OP_RECV && k < 2)
				recv[k++] = (struct tt_op *)&ops[i];
	}
	TT_REQUIRE(k == 2);
	recv[0]->dst.off += 2048; /* a place of nobody */
	plans[1]->scratch += 4096;
	err = tt_plan_check_plans(plans, 2, NULL);
	TT_CHECK(err == -EINVAL && strstr(tt_fail_text(err), "is not the head of what travels"));
	tt_free_plans(plans, 2);
}

static void test_faults(void)
{
	/* the encoding then has the whole, which is as good */
	TT_CHECK(!found(TT_OP_ENCODE, forget_residual, 0, "anything"));
	TT_CHECK(found(TT_OP_ENCODE, move_place, 0, "hazard at byte 0 of residual"));
	TT_CHECK(found(TT_OP_ENCODE, move_inside_unit, 0, "units of 32"));
	TT_CHECK(found(TT_OP_DECODE, move_place, 0, "is not an encoding"));
	TT_CHECK(found(TT_OP_DECODE, read_elsewhere, 0, "is not an encoding"));
	TT_CHECK(found(TT_OP_DECODE, divide, 1, "is divided too often"));
	TT_CHECK(found(TT_OP_DECODE_ADD, only_decode, 0, "exactly once"));
	TT_CHECK(found(TT_OP_ENCODE, overlap, 1, "overlaps its result"));
}

static const struct tt_test tests[] = {
	{"proof", test_proof},
	{"merge_proof", test_merge_proof},
	{"dense_proof", test_dense_proof},
	{"lists_proof", test_lists_proof},
	{"forms", test_forms},
	{"cut_at_units", test_cut_at_units},
	{"faults", test_faults},
	{"hier_proof", test_hier_proof},
	{"list_faults", test_list_faults},
	{"late_heads", test_late_heads},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return tt_test_main("codec_plans", tests, argc, argv);
}
