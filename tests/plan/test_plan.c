/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every all-reduce proved by the checker over ranks, counts, chunks, lanes and channel limits
 * (test_colls proves the other collectives); the cost of plans compared with the published
 * formulas; their two forms compared with each other.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verify/check.h"
#include "tests/plan/forms.h"
#include "tests/plan/whole.h"
#include "tests/test.h"

#define MAX_N 33
#define ELEM 4

static bool mixed; /* in place on every other rank only, as allreduce allows */

static int build_all(const struct tt_alg *alg, struct tt_plan_args a, struct tt_plan **plans)
{
	int err = 0;

	for (a.rank = 0; !err && a.rank < a.nranks; a.rank++) {
		if (mixed)
			a.in_place = a.rank % 2;
		err = tt_plan_build(alg, &a, &plans[a.rank]);
	}
	return err;
}

static unsigned turn; /* goes through the channel limits */

/* Check one call under howmany of the 81 channels. */
static bool check_call(const struct tt_alg *alg, const struct tt_plan_args *a, int howmany)
{
	struct tt_plan *plans[MAX_N] = {0};
	struct tt_check_opts o = {0};
	int i, err = build_all(alg, *a, plans);

	for (i = 0; !err && i < howmany; i++) {
		o = tt_whole_opts(turn++ * 37 % TT_WHOLE_OPTS,
				  ELEM); /* 37: a generator of the 81 */
		err = tt_plan_check_plans(plans, a->nranks, &o);
	}
	tt_free_plans(plans, a->nranks);
	if (err)
		tt_whole_describe(alg, a, &o);
	return !err;
}

static bool check_shapes(const struct tt_alg *alg, int n, size_t count)
{
	static const size_t chunks[] = {ELEM, 5 * ELEM, 1 << 20};
	struct tt_plan_args a = {
		.coll = alg->coll, .nranks = n, .count = count, .elem = ELEM, .node = true};
	int howmany = n <= 3 && count <= 5 ? TT_WHOLE_OPTS : n <= 8 ? 12 : count < 90 ? 3 : 1;
	unsigned i;

	for (i = 0; i < 3; i++)
		for (a.lanes = 1; a.lanes <= 4; a.lanes++) {
			a.chunk = chunks[i];
			a.in_place = false;
			a.divide = a.lanes % 2;
			a.ordered = true;
			a.ordered = !alg->can || alg->can(&a);
			if (!check_call(alg, &a, howmany))
				return false;
			a.in_place = true;
			if (!check_call(alg, &a, howmany))
				return false;
			mixed = n <= 6;
			if (mixed && !check_call(alg, &a, howmany))
				return false;
			mixed = false;
		}
	return true;
}

static void check_alg(enum tt_coll coll, const char *name)
{
	const struct tt_alg *alg = tt_alg_find(coll, name);
	struct tt_plan_args a = {.coll = coll, .node = true};
	int n, i;

	TT_REQUIRE(alg != NULL);
	for (n = 1; n <= MAX_N; n++) {
		size_t counts[] = {0, 1, 2, 3, 5, (size_t)n - 1, (size_t)n, (size_t)n + 1, 31, 97};

		a.nranks = n;
		if (alg->can && !alg->can(&a))
			continue;
		for (i = 0; i < 10; i++)
			TT_REQUIRE(check_shapes(alg, n, counts[i]));
	}
}

/* The slots of persistent operations are smaller; the longest vector fills one. */
static void test_persistent_slots(void)
{
	const struct tt_alg *alg;
	struct tt_plan_args a;
	int algs = 0;

	for (alg = tt_algs; alg->name; alg++) {
		if (strcmp(alg->name, "node_slots") || alg->coll == TT_COLL_REDUCE_SCATTER ||
		    alg->coll == TT_COLL_ALLGATHERV || tt_coll_own_counts(alg->coll))
			continue;
		a = (struct tt_plan_args){.coll = alg->coll,
					  .nranks = 3,
					  .count = TT_SLOT_SMALL / ELEM,
					  .elem = ELEM,
					  .chunk = 1 << 20,
					  .lanes = 1,
					  .node = true,
					  .persistent = true};
		while (a.count && !alg->can(&a))
			a.count--;
		TT_CHECK(a.count >= TT_SLOT_SMALL / ELEM / 3);
		TT_CHECK(check_call(alg, &a, 12));
		a.count = TT_SLOT_SMALL / ELEM + 1;
		TT_CHECK(!alg->can(&a));
		a.persistent = false;
		TT_CHECK(alg->can(&a));
		algs++;
	}
	TT_CHECK(algs >= 10);
}

static void test_allreduce_single(void)
{
	check_alg(TT_COLL_ALLREDUCE, "single");
}

static void test_allreduce_ring(void)
{
	check_alg(TT_COLL_ALLREDUCE, "ring");
}

static void test_allreduce_single_master(void)
{
	check_alg(TT_COLL_ALLREDUCE, "single_master");
}

static void test_allreduce_direct_rsag(void)
{
	check_alg(TT_COLL_ALLREDUCE, "direct_rsag");
}

static void test_allreduce_recursive_doubling(void)
{
	check_alg(TT_COLL_ALLREDUCE, "recursive_doubling");
}

static void test_allreduce_halving_doubling(void)
{
	check_alg(TT_COLL_ALLREDUCE, "halving_doubling");
}

static void test_allreduce_radix(void)
{
	check_alg(TT_COLL_ALLREDUCE, "radix");
}

static void test_allreduce_dbt(void)
{
	check_alg(TT_COLL_ALLREDUCE, "dbt");
}

static void test_allreduce_circulant(void)
{
	check_alg(TT_COLL_ALLREDUCE, "circulant");
}

static void test_allreduce_circulant_rsag(void)
{
	check_alg(TT_COLL_ALLREDUCE, "circulant_rsag");
}

static void test_allreduce_node_slots(void)
{
	check_alg(TT_COLL_ALLREDUCE, "node_slots");
}

static void test_allreduce_node_pull(void)
{
	check_alg(TT_COLL_ALLREDUCE, "node_pull");
}

/*
 * An all-reduce without a test here would go unproved; test_colls finds the other collectives by
 * itself.
 */
static const struct tt_test tests[];

static void test_every_algorithm_is_tested(void)
{
	const struct tt_alg *alg;
	const struct tt_test *t;
	char name[64];

	for (alg = tt_algs; alg->name; alg++) {
		if (alg->coll != TT_COLL_ALLREDUCE ||
		    !strncmp(alg->name, "hier", 4) || /* test_hier */
		    strstr(alg->name, "codec"))	      /* test_codec_plans */
			continue;
		snprintf(name, sizeof(name), "%s_%s", tt_coll_name(alg->coll), alg->name);
		for (t = tests; t->name && strcmp(t->name, name); t++)
			;
		if (!t->name)
			printf("  no case %s\n", name);
		TT_CHECK(t->name != NULL);
	}
}

static int log2_up(int n)
{
	int k = 0;

	while (1 << k < n)
		k++;
	return k;
}

static bool cost_of(enum tt_coll coll, const char *name, struct tt_plan_args a, int rank,
		    struct tt_plan_cost *cost)
{
	struct tt_plan *plan;

	a.coll = coll;
	a.rank = rank;
	if (tt_plan_build(tt_alg_find(coll, name), &a, &plan))
		return false;
	tt_plan_count(plan, cost);
	tt_plan_free(plan);
	return true;
}

static void test_cost_ring(void)
{
	struct tt_plan_args a = {.elem = ELEM, .chunk = 1 << 20, .lanes = 4};
	struct tt_plan_cost c;
	int n, r;

	for (n = 2; n <= MAX_N; n++)
		for (r = 0; r < n; r++) {
			uint64_t bytes = 12 * (uint64_t)n * ELEM, moved = 2 * (n - 1) * bytes / n;

			a.nranks = n;
			a.count = bytes / ELEM;
			a.chunk = 1 << 20;
			TT_REQUIRE(cost_of(TT_COLL_ALLREDUCE, "ring", a, r, &c));
			TT_CHECK(c.bytes_sent == moved && c.bytes_received == moved);
			TT_CHECK(c.bytes_reduced == moved / 2);
			TT_CHECK(c.steps == 2 * (n - 1) && c.messages_sent == (uint64_t)c.steps);
			TT_CHECK(c.fan_in == 1);
			a.chunk = 2 * ELEM; /* six slices over four lanes: the longest has two */
			TT_REQUIRE(cost_of(TT_COLL_ALLREDUCE, "ring", a, r, &c));
			TT_CHECK(c.bytes_sent == moved && c.bytes_received == moved);
			TT_CHECK(c.steps == 2 * 2 * (n - 1));
		}
}

static void test_cost_bcast(void)
{
	struct tt_plan_args a = {.elem = ELEM, .count = 100, .chunk = 1 << 20, .lanes = 4};
	int n, r, most, slices = 10;
	struct tt_plan_cost c;

	for (n = 1; n <= MAX_N; n++) {
		uint64_t sent = 0;

		a.nranks = n;
		a.root = n / 2;
		for (r = 0, most = 0; r < n; r++) {
			TT_REQUIRE(cost_of(TT_COLL_BCAST, "binomial", a, r, &c));
			TT_CHECK(c.bytes_received == (r == a.root ? 0 : 400));
			TT_CHECK(r != a.root || c.steps == log2_up(n));
			TT_CHECK(c.fan_in == (r != a.root));
			most = c.steps > most ? c.steps : most;
			sent += c.bytes_sent;
		}
		TT_CHECK(most == log2_up(n));
		TT_CHECK(sent == 400 * (uint64_t)(n - 1));
	}
	a.chunk = 40;
	a.lanes = 1;
	for (n = 3; n <= MAX_N; n++)
		for (r = 0; r < n; r++) {
			bool last = r == (a.root + n - 1) % n;

			a.nranks = n;
			a.root = n / 2;
			last = r == (a.root + n - 1) % n;
			TT_REQUIRE(cost_of(TT_COLL_BCAST, "chain", a, r, &c));
			TT_CHECK(c.bytes_sent == (last ? 0 : 400));
			TT_CHECK(c.bytes_received == (r == a.root ? 0 : 400));
			TT_CHECK(c.steps == slices + (r != a.root && !last));
		}
}

static void test_cost_barrier(void)
{
	struct tt_plan_args a = {0};
	struct tt_plan_cost c;

	for (a.nranks = 1; a.nranks <= MAX_N; a.nranks++) {
		TT_REQUIRE(cost_of(TT_COLL_BARRIER, "dissemination", a, a.nranks - 1, &c));
		TT_CHECK(c.steps == log2_up(a.nranks));
		TT_CHECK(c.messages_sent == (uint64_t)c.steps && c.bytes_sent == (uint64_t)c.steps);
		TT_CHECK(c.fan_in == (a.nranks > 1));
	}
}

static void check_forms(const struct tt_alg *alg)
{
	static const size_t counts[] = {0, 1, 5, 31, 97, 1000};
	enum tt_coll coll = alg->coll;
	struct tt_plan_args a = {.coll = coll, .elem = ELEM, .divide = coll == TT_COLL_ALLREDUCE};
	int generated = 0, same;
	size_t i;

	for (a.nranks = 2; a.nranks <= 17; a.nranks += 3)
		for (i = 0; i < 6; i++)
			for (a.lanes = 1; a.lanes <= 4; a.lanes++)
				for (a.rank = 0; a.rank < a.nranks; a.rank++) {
					a.count = counts[i];
					a.chunk = ELEM * (1 + i);
					a.root = coll == TT_COLL_BCAST ? a.nranks / 2 : 0;
					same = tt_same_forms(alg, &a);
					if (!same)
						printf("%s n=%d rank=%d count=%zu chunk=%zu "
						       "lanes=%d\n",
						       alg->name, a.nranks, a.rank, a.count,
						       a.chunk, a.lanes);
					TT_REQUIRE(same);
					generated += same == 2;
				}
	TT_CHECK(generated > 500);
}

/* The all-reduce over messages behind alg (NULL: the first one); NULL: none. All are sliced. */
static const struct tt_alg *next(const struct tt_alg *alg)
{
	for (alg = alg ? alg + 1 : tt_algs; alg->name; alg++)
		if (alg->coll == TT_COLL_ALLREDUCE && strcmp(alg->name, "single") &&
		    strncmp(alg->name, "node", 4) && strncmp(alg->name, "hier", 4) &&
		    !strstr(alg->name, "codec"))
			return alg;
	return NULL;
}

static void test_forms(void)
{
	const struct tt_alg *alg;

	for (alg = next(NULL); alg; alg = next(alg))
		check_forms(alg);
	check_forms(tt_alg_find(TT_COLL_BCAST, "chain"));
}

/* The generated form is proved too, not only compared. */
static void test_generated_is_right(void)
{
	struct tt_plan_args a = {
		.elem = ELEM, .nranks = 6, .count = 97, .chunk = 2 * ELEM, .lanes = 3};
	size_t max = tt_plan_store_max;
	const struct tt_alg *alg;

	tt_plan_store_max = 0;
	a.coll = TT_COLL_ALLREDUCE;
	for (alg = next(NULL); alg; alg = next(alg))
		TT_CHECK(check_call(alg, &a, TT_WHOLE_OPTS));
	a.coll = TT_COLL_BCAST;
	TT_CHECK(check_call(tt_alg_find(a.coll, "chain"), &a, TT_WHOLE_OPTS));
	tt_plan_store_max = max;
}

/* More ranks than the other tests have time for. */
static void test_many_ranks(void)
{
	static const int sizes[] = {48, 64, 100, 127};
	struct tt_plan_args a = {
		.coll = TT_COLL_ALLREDUCE, .elem = ELEM, .chunk = 4 * ELEM, .lanes = 2};
	struct tt_check_opts o = {.credits = 1, .offers = 1, .eager = 2 * ELEM};
	const struct tt_alg *alg;
	size_t k;

	for (alg = next(NULL); alg; alg = next(alg))
		for (k = 0; k < 4; k++) {
			int err;

			a.nranks = sizes[k];
			a.count = k % 2 ? 13 : 3 * (size_t)a.nranks + 5;
			o.seed++;
			err = tt_plan_check(alg, &a, &o);
			if (err)
				tt_whole_describe(alg, &a, &o);
			TT_CHECK(!err);
		}
}

/* Sizes beyond 32 bits, and thousands of ranks, are not stored. */
static void check_huge(const struct tt_alg *alg)
{
	struct tt_plan_args a = {.coll = TT_COLL_ALLREDUCE,
				 .nranks = 2,
				 .rank = 1,
				 .elem = 1,
				 .count = (5ull << 30) + 1,
				 .chunk = 256 << 10,
				 .lanes = 4};
	struct tt_plan_cost c;
	struct tt_plan *plan;

	TT_REQUIRE(!tt_plan_build(alg, &a, &plan));
	tt_plan_count(plan, &c);
	TT_CHECK(plan->generated);
	TT_CHECK(c.bytes_sent == a.count && c.bytes_received == a.count);
	tt_plan_free(plan);
	a.nranks = 24576;
	a.rank = 24574;
	TT_REQUIRE(!tt_plan_build(alg, &a, &plan));
	TT_CHECK(plan->generated);
	tt_plan_free(plan);
	a.count = 8; /* and short vectors are no burden */
	TT_REQUIRE(!tt_plan_build(alg, &a, &plan));
	tt_plan_count(plan, &c);
	TT_CHECK(c.messages_sent <= 2 * 24576);
	tt_plan_free(plan);
}

static void test_huge(void)
{
	struct tt_plan_args a = {.coll = TT_COLL_BCAST,
				 .nranks = 24576,
				 .rank = 1,
				 .elem = 1,
				 .count = (5ull << 30) + 1,
				 .chunk = 256 << 10,
				 .lanes = 4};
	struct tt_plan_cost c;
	struct tt_plan *plan;
	const struct tt_alg *alg;

	for (alg = next(NULL); alg; alg = next(alg))
		check_huge(alg);
	TT_REQUIRE(!tt_plan_build(tt_alg_find(a.coll, "chain"), &a, &plan));
	tt_plan_count(plan, &c);
	TT_CHECK(c.bytes_sent == a.count && c.bytes_received == a.count);
	tt_plan_free(plan);
}

static void test_builder(void)
{
	struct tt_plan_args a = {.nranks = 3, .elem = 1, .count = 9, .chunk = 9, .lanes = 9};
	struct tt_builder *b = tt_builder_new(&a, "by hand");
	struct tt_op tmp[4];
	const struct tt_op *ops;
	struct tt_plan *plan;
	int i;

	tt_round(b);
	tt_round(b);
	tt_send(b, 1, TT_SENDBUF(0), 3);
	tt_round(b);
	tt_send(b, 1, TT_SENDBUF(0), 0); /* vanishes, and its round too */
	tt_round(b);
	tt_recv(b, 1, TT_RECVBUF(0), 3);
	tt_send(b, 1, TT_SENDBUF(3), 3);
	tt_send(b, 2, TT_SENDBUF(3), 3);
	tt_round(b);
	tt_lane(b, 2);
	tt_send(b, 1, TT_SENDBUF(3), 3);
	TT_CHECK(tt_scratch(b, 1) == 0);
	TT_CHECK(tt_scratch(b, 100) == 64);
	TT_CHECK(tt_scratch(b, 1) == 192);
	TT_REQUIRE(!tt_plan_finish(b, &plan));
	TT_CHECK(plan->nlanes == 3 && plan->max_ops == 3 && plan->scratch == 193);
	TT_CHECK(tt_plan_rounds(plan, 0) == 2 && tt_plan_rounds(plan, 1) == 0);
	TT_CHECK(tt_plan_rounds(plan, 2) == 1);
	TT_CHECK(tt_plan_ops(plan, 0, 0, tmp, &ops) == 1 && ops[0].index == 0);
	TT_CHECK(tt_plan_ops(plan, 0, 1, tmp, &ops) == 3);
	TT_CHECK(ops[0].index == 0 && ops[1].index == 1 && ops[2].index == 0);
	TT_CHECK(tt_plan_ops(plan, 2, 0, tmp, &ops) == 1 && ops[0].index == 0);
	tt_plan_free(plan);

	b = tt_builder_new(&a, "many peers");
	for (i = 0; i < 1000; i++)
		tt_send(b, i % 500, TT_SENDBUF(0), 1);
	TT_REQUIRE(!tt_plan_finish(b, &plan));
	TT_CHECK(plan->max_ops == 1000);
	tt_plan_ops(plan, 0, 0, tmp, &ops);
	TT_CHECK(ops[499].index == 0 && ops[500].index == 1 && ops[999].peer == 499);
	tt_plan_free(plan);
}

static void test_bad_args(void)
{
	const struct tt_plan_args good = {
		.coll = TT_COLL_BCAST, .nranks = 3, .count = 4, .elem = 4, .chunk = 8, .lanes = 1};
	const struct tt_alg *alg = tt_alg_find(TT_COLL_BCAST, "binomial");
	struct tt_plan_args a[9];
	struct tt_plan *plan = NULL;
	int i;

	for (i = 0; i < 9; i++)
		a[i] = good;
	a[0].rank = 3;
	a[1].root = -1;
	a[2].elem = 0;
	a[3].chunk = 6;
	a[4].chunk = 0;
	a[5].lanes = 0;
	a[6].count = SIZE_MAX / 2;
	a[7].coll = TT_COLL_ALLREDUCE;
	a[8].nranks = 0;
	for (i = 0; i < 9; i++)
		TT_CHECK(tt_plan_build(alg, &a[i], &plan) == -EINVAL && !plan);
	alg = tt_alg_find(TT_COLL_BCAST, "single");
	TT_CHECK(tt_plan_build(alg, &good, &plan) == -EINVAL && !plan);
}

static const struct tt_test tests[] = {
	{"builder", test_builder},
	{"bad_args", test_bad_args},
	{"every_algorithm_is_tested", test_every_algorithm_is_tested},
	{"persistent_slots", test_persistent_slots},
	{"allreduce_single", test_allreduce_single},
	{"allreduce_ring", test_allreduce_ring},
	{"allreduce_single_master", test_allreduce_single_master},
	{"allreduce_direct_rsag", test_allreduce_direct_rsag},
	{"allreduce_recursive_doubling", test_allreduce_recursive_doubling},
	{"allreduce_halving_doubling", test_allreduce_halving_doubling},
	{"allreduce_radix", test_allreduce_radix},
	{"allreduce_dbt", test_allreduce_dbt},
	{"allreduce_circulant", test_allreduce_circulant},
	{"allreduce_circulant_rsag", test_allreduce_circulant_rsag},
	{"allreduce_node_slots", test_allreduce_node_slots},
	{"allreduce_node_pull", test_allreduce_node_pull},
	{"cost_ring", test_cost_ring},
	{"cost_bcast", test_cost_bcast},
	{"cost_barrier", test_cost_barrier},
	{"forms", test_forms},
	{"generated_is_right", test_generated_is_right},
	{"many_ranks", test_many_ranks},
	{"huge", test_huge},
	{NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("plan", tests, argc, argv);
}
