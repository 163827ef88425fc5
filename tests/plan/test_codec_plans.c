/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces with codecs: proved by the checker, which follows what is quantized and what is left
 * over; bytes, steps and fan-in by formulas; both forms of the plans; costs against the simulator;
 * planted faults. The codecs here are lengths only.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/plan/choose.h"
#include "lib/plan/cost.h"
#include "lib/verify/check.h"
#include "lib/verify/sim.h"
#include "tests/plan/forms.h"
#include "tests/plan/whole.h"
#include "tests/test.h"

#define MAX_N 33
#define ELEM 4

/* As casts to 16 bits, */
static size_t half(const struct tutti_codec *codec, size_t count)
{
	return 2 * count;
}

/* bytes with a scale for every 8 elements, */
static size_t scaled(const struct tutti_codec *codec, size_t count)
{
	return count + 4 * ((count + 7) / 8);
}

/* bits with a scale for every 64, */
static size_t bits(const struct tutti_codec *codec, size_t count)
{
	return (count + 7) / 8 + 4 * ((count + 63) / 64);
}

/* and an encoding that is longer than the vector. */
static size_t longer(const struct tutti_codec *codec, size_t count)
{
	return count ? 6 * count + 3 : 0;
}

static const struct tt_plan_codec codecs[] = {
	{.bound = half, .align = 1},
	{.bound = scaled, .align = 8},
	{.bound = bits, .align = 64},
	{.bound = longer, .align = 3},
	{.bound = scaled, .varies = true, .sparse = true},
	{.bound = longer, .align = 1, .varies = true, .sparse = true},
	{.bound = scaled, .align = 5, .varies = true}};
#define CODECS (sizeof(codecs) / sizeof(codecs[0]))
#define FIXED 3 /* the first ones, as casts and the like: not longer than the vector */
#define LISTS 4 /* the first whose encodings vary in length */

static const struct tt_alg *direct(void)
{
	return tt_alg_find(TT_COLL_ALLREDUCE, "codec_direct");
}

static const char *way = "codec_gather"; /* of lists, which can be added */

static enum tt_branch taken; /* by plans with several */

static const struct tt_alg *alg_of(const struct tt_plan_args *a)
{
	const struct tt_alg *alg = tt_alg_find(TT_COLL_ALLREDUCE, way);

	if (!a->codec->varies)
		return a->hosts ? tt_alg_find(TT_COLL_ALLREDUCE, "hier_codec") : direct();
	return a->codec->sparse && tt_alg_can(alg, a)
		       ? alg
		       : tt_alg_find(TT_COLL_ALLREDUCE, "codec_gather");
}

static struct tt_plan_args args_of(int n, size_t count, const struct tt_plan_codec *codec)
{
	return (struct tt_plan_args){.coll = TT_COLL_ALLREDUCE,
				     .nranks = n,
				     .count = count,
				     .elem = ELEM,
				     .chunk = 1 << 20,
				     .lanes = 1,
				     .codec = codec};
}

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

/* Whole units for each rank: all ranks do the same. */
static void test_counts(void)
{
	const uint64_t each = 128 * 5;
	struct tt_plan_cost cost;
	struct tt_plan *plan;
	struct tt_plan_args a;
	size_t c;
	int n;

	for (c = 0; c < FIXED; c++)
		for (n = 1; n <= MAX_N; n++) {
			uint64_t others = (uint64_t)n - 1, block = each * ELEM;

			a = args_of(n, (size_t)(each * (uint64_t)n), &codecs[c]);
			a.rank = n / 2;
			a.feedback = n % 2;
			TT_REQUIRE(!tt_plan_build(direct(), &a, &plan));
			tt_plan_count(plan, &cost);
			tt_plan_free(plan);
			TT_CHECK(cost.bytes_sent == 2 * others * tt_coded(&a, block));
			TT_CHECK(cost.bytes_received == cost.bytes_sent);
			TT_CHECK(cost.bytes_encoded == (others + 1) * block);
			TT_CHECK(cost.bytes_decoded == (2 * others + 1) * block);
			TT_CHECK(cost.bytes_reduced == others * block);
			TT_CHECK(cost.steps == (n > 1 ? 2 : 0) && cost.fan_in == n - 1);
			TT_CHECK(cost.messages_sent == 2 * others);
		}
}

/* All-gathers of encodings: a head and an encoding for each other rank. */
static void test_list_counts(void)
{
	const uint64_t bytes = 1001 * ELEM;
	struct tt_plan_cost cost;
	struct tt_plan *plan;
	struct tt_plan_args a;
	size_t c;
	int n;

	for (c = LISTS; c < CODECS; c++)
		for (n = 1; n <= MAX_N; n++) {
			uint64_t others = (uint64_t)n - 1;

			a = args_of(n, 1001, &codecs[c]);
			a.rank = n / 2;
			a.feedback = n % 2;
			TT_REQUIRE(!tt_plan_build(alg_of(&a), &a, &plan));
			tt_plan_count(plan, &cost);
			tt_plan_free(plan);
			TT_CHECK(cost.bytes_sent == others * tt_coded(&a, bytes));
			TT_CHECK(cost.bytes_received == cost.bytes_sent);
			TT_CHECK(cost.bytes_encoded == bytes);
			TT_CHECK(cost.bytes_decoded == (others + 1) * bytes);
			TT_CHECK(cost.bytes_reduced == others * bytes);
			TT_CHECK(cost.steps == (n > 1 ? 2 : 0) && cost.fan_in == n - 1);
			TT_CHECK(cost.messages_sent == 2 * others);
		}
}

/* Sums of lists: a head and a sum for each step and each end of a fold. */
static void test_merge_counts(void)
{
	const uint64_t bytes = 1001 * ELEM;
	struct tt_plan_cost cost;
	struct tt_plan *plan;
	struct tt_plan_args a;
	int n, core, extra, levels;
	size_t c;

	way = "codec_merge";
	for (c = LISTS; codecs[c].sparse; c++)
		for (n = 1; n <= MAX_N; n++)
			for (a = args_of(n, 1001, &codecs[c]); a.rank < n; a.rank++) {
				uint64_t sent, sum = tt_coded_sum(&a, bytes);
				bool paired, folded;

				core = tt_fold_pow2(n);
				extra = n - core;
				levels = __builtin_ctz((unsigned)core);
				paired = a.rank < 2 * extra;
				folded = paired && a.rank % 2;
				sent = folded ? 1 : (uint64_t)(levels + paired);
				TT_REQUIRE(!tt_plan_build(alg_of(&a), &a, &plan));
				tt_plan_count(plan, &cost);
				tt_plan_free(plan);
				TT_CHECK(cost.bytes_sent == sent * sum);
				TT_CHECK(cost.bytes_received == sent * sum);
				TT_CHECK(cost.bytes_encoded == bytes &&
					 cost.bytes_decoded == bytes);
				TT_CHECK(cost.bytes_reduced == (folded ? 0 : sent) * bytes);
				TT_CHECK(cost.steps == (folded ? 4 : 2 * levels + 4 * paired));
				TT_CHECK(cost.messages_sent == 2 * sent);
				TT_CHECK(cost.fan_in == (n > 1));
			}
	way = "codec_gather";
}

/* ---- on several hosts ---- */

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

/* Only encodings leave a host, and each rank's are those of its part. */
static void test_hier_counts(void)
{
	const struct tt_op *ops;
	struct tt_plan_cost cost;
	struct tt_op tmp[64];
	struct tt_plan_args a;
	struct tt_plan *plan;
	struct tt_hosts *hosts;
	int h, m, r, i, n, sends;
	size_t c, block, bytes;

	for (c = 0; c < FIXED; c++)
		for (h = 2; h <= 4; h++)
			for (m = 2; m <= 4; m++) {
				n = h * m;
				block = 128 * ELEM;
				a = args_of(n, 128 * (size_t)n, &codecs[c]);
				TT_REQUIRE(!tt_hosts_blocks(n, m, &hosts));
				a.hosts = hosts;
				a.feedback = h % 2;
				a.rank = n - 2;
				TT_REQUIRE(!tt_plan_build(alg_of(&a), &a, &plan));
				tt_plan_count(plan, &cost);
				bytes = 2 * (size_t)(h - 1) * tt_coded(&a, block);
				TT_CHECK(cost.bytes_sent == bytes);
				TT_CHECK(cost.bytes_received == bytes);
				TT_CHECK(cost.bytes_encoded == (size_t)h * block);
				TT_CHECK(cost.bytes_decoded == (size_t)(2 * h - 1) * block);
				for (r = sends = 0; r < tt_plan_rounds(plan, 0); r++) {
					int k = tt_plan_ops(plan, 0, r, tmp, &ops);

					for (i = 0; i < k; i++) {
						if (ops[i].kind != TT_OP_SEND)
							continue;
						sends++;
						TT_CHECK(ops[i].peer / m != a.rank / m);
						TT_CHECK(ops[i].a.buf == TT_BUF_SCRATCH);
						TT_CHECK(ops[i].len == tt_coded(&a, block));
					}
				}
				TT_CHECK(sends == 2 * (h - 1));
				tt_plan_free(plan);
				free(hosts);
			}
}

/* Where ranks share a slow link, a host encodes once, not each of its ranks. */
static void test_hier_choice(void)
{
	struct tt_sim_result flat, levels;
	struct tt_plan_args a, b;
	struct tt_hosts *hosts;
	struct tt_chooser *c;
	struct tt_cost cost;
	struct tt_model m;
	int n, each;
	size_t count;

	for (each = 2; each <= 4; each *= 2)
		for (n = 2 * each; n <= 8 * each; n *= 2)
			for (count = 1 << 12; count <= 4 << 20; count *= 32) {
				tt_model_default(&m);
				m.link[TT_LEVEL_LEAF] = (struct tt_hop){15000, 1 / 0.0125};
				m.ranks_per_host = each;
				TT_REQUIRE(!tt_hosts_blocks(n, each, &hosts));
				a = args_of(n, count, &codecs[1]);
				a.hosts = hosts;
				TT_REQUIRE(!tt_chooser_new("", 1 << 20, 4, &m, &c));
				b = a;
				TT_CHECK(!strcmp(tt_choose(c, &b)->name, "hier_codec"));
				TT_REQUIRE(!tt_sim(alg_of(&b), &b, &m, &levels));
				TT_REQUIRE(!tt_sim(direct(), &a, &m, &flat));
				TT_CHECK(flat.last > 1.3 * levels.last);
				tt_cost(alg_of(&b), &b, &m, &cost);
				TT_CHECK(cost.time > 0.5 * levels.last &&
					 cost.time < 2 * levels.last);
				if (cost.time <= 0.5 * levels.last || cost.time >= 2 * levels.last)
					printf("  n=%d each=%d count=%zu: %.1f us, simulated "
					       "%.1f\n",
					       n, each, count, cost.time / 1e3, levels.last / 1e3);
				tt_chooser_free(c);
				free(hosts);
			}
}

/* The bytes that each way sends after the heads. */
static void test_lists_counts(void)
{
	const uint64_t bytes = 1024 * ELEM, head = sizeof(struct tt_coded_head);
	struct tt_plan_cost cost[TT_BRANCHES], alone;
	struct tt_plan *plan;
	struct tt_plan_args a;
	int n;

	way = "codec_lists";
	for (n = 2; n <= 32; n *= 2) {
		uint64_t others = (uint64_t)n - 1;

		a = args_of(n, 1024, &codecs[LISTS + 1]);
		TT_REQUIRE(!tt_plan_build(alg_of(&a), &a, &plan));
		TT_REQUIRE(plan->nways == TT_BRANCHES);
		for (taken = TT_BRANCH_GATHER; taken < TT_BRANCHES; taken++) {
			plan->way = taken;
			tt_plan_count(plan, &cost[taken]);
			TT_CHECK(cost[taken].bytes_encoded == bytes);
		}
		tt_plan_free(plan);
		TT_CHECK(cost[TT_BRANCH_GATHER].bytes_sent == others * tt_coded(&a, bytes));
		TT_REQUIRE(
			!tt_plan_build(tt_alg_find(TT_COLL_ALLREDUCE, "codec_merge"), &a, &plan));
		tt_plan_count(plan, &alone);
		tt_plan_free(plan);
		TT_CHECK(cost[TT_BRANCH_MERGE].bytes_sent == others * head + alone.bytes_sent);
		TT_CHECK(cost[TT_BRANCH_MERGE].steps == 1 + alone.steps);
		TT_CHECK(cost[TT_BRANCH_DENSE].bytes_sent ==
			 others * head + 2 * others * bytes / (uint64_t)n);
		TT_CHECK(cost[TT_BRANCH_DENSE].bytes_decoded == bytes);
	}
	taken = TT_BRANCH_GATHER;
	way = "codec_gather";
}

/* The lengths that the chooser sets: each way is the shortest up to its length. */
static void test_lengths(void)
{
	static const char *const name[TT_BRANCHES] = {"codec_gather", "codec_merge", "codec_dense"};
	size_t list, merged = 0, gathered = 0, dense = 0;
	struct tt_cost cost[TT_BRANCHES];
	struct tt_chooser *c;
	struct tt_plan_args a;
	struct tt_model m;
	int n, k, best;

	tt_model_default(&m);
	m.overhead = 4000;
	TT_REQUIRE(!tt_chooser_new("", 1 << 20, 1, &m, &c));
	for (n = 2; n <= 512; n *= 4) {
		a = args_of(n, 1 << 16, &codecs[LISTS + 1]);
		TT_CHECK(!strcmp(tt_choose(c, &a)->name, "codec_lists"));
		for (list = 64; list < tt_usual_list(&a); list *= 2) {
			a.list = list;
			for (k = best = 0; k < TT_BRANCHES; k++) {
				tt_cost(tt_alg_find(TT_COLL_ALLREDUCE, name[k]), &a, &m, &cost[k]);
				best = cost[k].time < cost[best].time ? k : best;
			}
			k = (int)tt_list_branch(&a, list * (size_t)n);
			TT_CHECK(cost[k].time <= 1.1 * cost[best].time);
			gathered += k == TT_BRANCH_GATHER;
			merged += k == TT_BRANCH_MERGE;
			dense += k == TT_BRANCH_DENSE;
			a.list = 0;
		}
	}
	TT_CHECK(gathered && merged && dense);
	printf("  lists: gathered %zu times, merged %zu, dense %zu\n", gathered, merged, dense);
	tt_chooser_free(c);
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

/* Only algorithms with codecs do calls with one, and no other. */
static void test_choice(void)
{
	struct tt_plan_args a = args_of(4, 1 << 20, &codecs[1]);
	const struct tt_alg *alg;
	struct tt_chooser *c;
	struct tt_model m;

	tt_model_default(&m);
	TT_REQUIRE(!tt_chooser_new("allreduce:ring:0-inf", 1 << 20, 4, &m, &c));
	a.codec = &codecs[LISTS]; /* its lists are shorter than the vector */
	a.count = 64;
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "codec_gather"));
	a.count = 1 << 20;
	a.codec = &codecs[LISTS + 1]; /* no bound says how short */
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "codec_lists"));
	a.codec = &codecs[LISTS + 2]; /* no lists */
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "codec_gather"));
	a.codec = &codecs[1];
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "codec_direct"));
	a.nranks = 1;
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "codec_direct"));
	a.codec = NULL;
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "single"));
	a.nranks = 4;
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "ring"));
	for (alg = tt_algs; alg->name; alg++)
		if (strstr(alg->name, "codec"))
			TT_CHECK(!tt_alg_can(alg, &a) && !alg->can(&a));
	tt_chooser_free(c);
}

static void compare(const struct tt_plan_args *a, const struct tt_model *m)
{
	struct tt_sim_result r;
	struct tt_cost cost;
	double ratio;

	TT_REQUIRE(!tt_sim(alg_of(a), a, m, &r));
	tt_cost(alg_of(a), a, m, &cost);
	ratio = cost.time / r.last;
	if (ratio < 0.5 || ratio > 2)
		printf("  n=%d count=%zu align=%zu lanes=%d: %.1f us, simulated %.1f\n", a->nranks,
		       a->count, a->codec->align, a->lanes, cost.time / 1e3, r.last / 1e3);
	TT_CHECK(ratio >= 0.5 && ratio <= 2);
}

static void test_costs(void)
{
	struct tt_plan_args a;
	struct tt_model m;
	size_t c, count;
	int n, slow;

	for (slow = 0; slow < 2; slow++)
		for (c = 0; c <= LISTS; c += 1 + (c == FIXED - 1))
			for (n = 1; n <= 16; n *= 2)
				for (count = 1 << 10; count <= 4 << 20; count *= 16) {
					tt_model_default(&m);
					if (slow)
						m.link[TT_LEVEL_LEAF] =
							(struct tt_hop){15000, 1 / 0.0125};
					a = args_of(n, count, &codecs[c]);
					compare(&a, &m);
					a.lanes = 4;
					compare(&a, &m);
				}
}

/* Of lists that are shorter than they may be. */
static void test_list_costs(void)
{
	static const char *const name[] = {"codec_gather", "codec_merge", "codec_dense",
					   "codec_lists"};
	struct tt_plan_args a;
	struct tt_model m;
	size_t count, k;
	int n;

	tt_model_default(&m);
	for (k = 0; k < 4; k++)
		for (n = 2; n <= 33; n += n < 8 ? 1 : 5)
			for (count = 1 << 10; count <= 4 << 20; count *= 16) {
				way = name[k];
				a = args_of(n, count, &codecs[LISTS + 1]);
				a.upto[0] = count / 4;
				a.upto[1] = count;
				for (a.list = count / 100 * ELEM; a.list < count * ELEM;
				     a.list *= 8)
					compare(&a, &m);
			}
	way = "codec_gather";
}

/* Messages are shorter, so a call over a slow network is faster by about as much. */
static void test_gain(void)
{
	struct tt_plan_args a = args_of(4, 4 << 20, &codecs[2]);
	struct tt_sim_result coded, plain;
	struct tt_model m;

	tt_model_default(&m);
	m.link[TT_LEVEL_LEAF] = (struct tt_hop){15000, 1 / 0.0125}; /* 100 Mbit/s */
	a.lanes = 4;
	TT_REQUIRE(!tt_sim(direct(), &a, &m, &coded));
	a.codec = NULL;
	TT_REQUIRE(!tt_sim(tt_alg_find(TT_COLL_ALLREDUCE, "ring"), &a, &m, &plain));
	printf("  16 MiB at 100 Mbit/s: plain %.0f ms, 1.5 bits per element %.0f ms\n",
	       plain.last / 1e6, coded.last / 1e6);
	TT_CHECK(plain.last / coded.last > 15);
}

static const struct tt_test tests[] = {
	{"proof", test_proof},
	{"merge_proof", test_merge_proof},
	{"dense_proof", test_dense_proof},
	{"lists_proof", test_lists_proof},
	{"counts", test_counts},
	{"forms", test_forms},
	{"cut_at_units", test_cut_at_units},
	{"faults", test_faults},
	{"list_counts", test_list_counts},
	{"merge_counts", test_merge_counts},
	{"lists_counts", test_lists_counts},
	{"lengths", test_lengths},
	{"hier_proof", test_hier_proof},
	{"hier_counts", test_hier_counts},
	{"hier_choice", test_hier_choice},
	{"list_faults", test_list_faults},
	{"late_heads", test_late_heads},
	{"choice", test_choice},
	{"costs", test_costs},
	{"list_costs", test_list_costs},
	{"gain", test_gain},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return tt_test_main("codec_plans", tests, argc, argv);
}
