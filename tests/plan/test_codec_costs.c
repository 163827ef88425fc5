/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces with codecs: bytes, steps and fan-in by formulas; costs against the simulator; which
 * algorithm is chosen.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/plan/cost.h"
#include "lib/verify/check.h"
#include "lib/verify/sim.h"
#include "tests/plan/codec_plans.h"
#include "tests/test.h"

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

/* The bytes that each way sends after the heads. */
static void test_lists_counts(void)
{
	const uint64_t bytes = 1024 * ELEM, head = sizeof(struct tt_coded_head);
	struct tt_plan_cost cost[TT_BRANCHES], alone;
	enum tt_branch taken;
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
	way = "codec_gather";
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
	{"counts", test_counts},
	{"list_counts", test_list_counts},
	{"merge_counts", test_merge_counts},
	{"lists_counts", test_lists_counts},
	{"lengths", test_lengths},
	{"hier_counts", test_hier_counts},
	{"hier_choice", test_hier_choice},
	{"choice", test_choice},
	{"costs", test_costs},
	{"list_costs", test_list_costs},
	{"gain", test_gain},
	{NULL, NULL},
};

int main(int argc, char **argv)
{
	return tt_test_main("codec_costs", tests, argc, argv);
}
