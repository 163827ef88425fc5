/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts in plans of the collectives other than all-reduce, compared with their file headers:
 * bytes, steps, fan-in. Lengths divide evenly; slices are one unless said otherwise.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/verify/check.h"
#include "tests/test.h"

#define MAX_N 33
#define ELEM 4

static struct tt_plan_cost cost[MAX_N];
static uint64_t sent, received; /* by all ranks */
static int steps;		/* most of any */

/* Count the plans of all ranks. */
static bool count(const char *name, struct tt_plan_args a)
{
	struct tt_plan_args mine;
	struct tt_plan *plan;
	int r;

	sent = received = 0;
	steps = 0;
	for (r = 0; r < a.nranks; r++) {
		tt_plan_args_of(&a, r, &mine);
		if (tt_plan_build(tt_alg_find(a.coll, name), &mine, &plan)) {
			printf("  %s %s of %d ranks: %s\n", tt_coll_name(a.coll), name, a.nranks,
			       tt_fail_text(-EINVAL));
			return false;
		}
		tt_plan_count(plan, &cost[r]);
		tt_plan_free(plan);
		sent += cost[r].bytes_sent;
		received += cost[r].bytes_received;
		steps = cost[r].steps > steps ? cost[r].steps : steps;
	}
	return sent == received;
}

static struct tt_plan_args call(enum tt_coll coll, int n, size_t elems)
{
	return (struct tt_plan_args){.coll = coll,
				     .nranks = n,
				     .count = elems,
				     .elem = ELEM,
				     .chunk = 1 << 30,
				     .lanes = 1};
}

static int log2_up(int n)
{
	int k = 0;

	while (1 << k < n)
		k++;
	return k;
}

static int log2_down(int n)
{
	return 1 << log2_up(n) == n ? log2_up(n) : log2_up(n) - 1;
}

/* Every rank sends and receives these bytes, in these steps, from one rank at a time. */
static bool all_alike(uint64_t bytes, int howmany, int fan_in, int n)
{
	int r;

	for (r = 0; r < n; r++)
		if (cost[r].bytes_sent != bytes || cost[r].bytes_received != bytes ||
		    cost[r].steps != howmany || cost[r].fan_in != fan_in) {
			printf("  %d ranks: rank %d sends %llu, receives %llu in %d steps, fan-in "
			       "%d\n",
			       n, r, (unsigned long long)cost[r].bytes_sent,
			       (unsigned long long)cost[r].bytes_received, cost[r].steps,
			       cost[r].fan_in);
			return false;
		}
	return true;
}

static void test_reduce(void)
{
	uint64_t bytes, gathered;
	int n, r, depth;

	for (n = 2; n <= MAX_N; n++) {
		struct tt_plan_args a = call(TT_COLL_REDUCE, n, 8 * 32 * (size_t)n);

		a.root = n / 3;
		bytes = a.count * ELEM;
		TT_REQUIRE(count("linear", a));
		TT_CHECK(sent == (uint64_t)(n - 1) * bytes && steps == n - 1);
		TT_REQUIRE(count("binomial", a));
		TT_CHECK(sent == (uint64_t)(n - 1) * bytes && steps == log2_up(n));
		TT_REQUIRE(count("chain", a));
		TT_CHECK(sent == (uint64_t)(n - 1) * bytes && cost[a.root].bytes_received == bytes);
		TT_CHECK(cost[a.root].bytes_reduced == bytes);
		a.lanes = 2;
		TT_REQUIRE(count("dbt", a));
		depth = log2_up(n);
		for (r = 0; r < n; r++) {
			TT_CHECK(cost[r].bytes_sent == (r == a.root ? 0 : bytes));
			TT_CHECK(cost[r].bytes_received <= bytes);
			TT_CHECK(cost[r].fan_in <= 2 && cost[r].steps <= 1 + 3 * depth);
		}
		TT_CHECK(cost[a.root].bytes_received == bytes);
	}
	for (n = 2; n <= 32; n *= 2) {
		struct tt_plan_args a = call(TT_COLL_REDUCE, n, 32 * (size_t)n);
		uint64_t part = (uint64_t)(n - 1) * 32 * ELEM;

		a.root = n - 1;
		TT_REQUIRE(count("halving_gather", a));
		TT_CHECK(cost[a.root].bytes_sent == part &&
			 cost[a.root].bytes_received == 2 * part);
		for (r = 0; r < n; r++) {
			TT_CHECK(cost[r].bytes_sent <= 2 * part && cost[r].bytes_reduced == part);
			TT_CHECK(cost[r].fan_in == 1 && cost[r].steps <= 2 * log2_up(n));
		}
		TT_CHECK(steps == 2 * log2_up(n));
		/* the gather moves half a vector over each of the n/2, n/4, ... pairs of a step */
		for (gathered = 0, r = n / 2; r; r /= 2)
			gathered += (uint64_t)r * 32 * ELEM * (uint64_t)(n / 2 / r);
		TT_CHECK(sent == (uint64_t)n * part + gathered);
	}
}

static void test_bcast(void)
{
	uint64_t bytes;
	int n, r;

	for (n = 2; n <= MAX_N; n++) {
		struct tt_plan_args a = call(TT_COLL_BCAST, n, 4 * (size_t)n);

		a.root = n / 2;
		bytes = a.count * ELEM;
		TT_REQUIRE(count("scatter_allgather", a));
		TT_CHECK(steps <= n - 1 + log2_up(n));
		for (r = 0; r < n; r++) {
			TT_CHECK(cost[r].bytes_received == (r == a.root ? 0 : bytes));
			TT_CHECK(cost[r].bytes_sent <= 2 * bytes * (uint64_t)(n - 1) / (uint64_t)n);
		}
		a.lanes = 2;
		TT_REQUIRE(count("dbt", a));
		for (r = 0; r < n; r++) {
			TT_CHECK(cost[r].bytes_received == (r == a.root ? 0 : bytes));
			TT_CHECK(cost[r].bytes_sent <= bytes && cost[r].fan_in == (r != a.root));
			TT_CHECK(cost[r].messages_sent <= 3 && cost[r].steps <= 2);
		}
		TT_CHECK(cost[a.root].bytes_sent == bytes);
	}
}

static void test_reduce_scatter(void)
{
	int n, r, in_place;

	for (n = 2; n <= MAX_N; n++)
		for (in_place = 0; in_place < 2; in_place++) {
			struct tt_plan_args a = call(TT_COLL_REDUCE_SCATTER_BLOCK, n, 6);
			uint64_t part = (uint64_t)(n - 1) * 6 * ELEM;

			a.in_place = in_place;
			TT_REQUIRE(count("direct", a));
			TT_CHECK(all_alike(part, n - 1, 1, n));
			TT_REQUIRE(count("ring", a));
			TT_CHECK(all_alike(part, n - 1, 1, n));
			for (r = 0; r < n; r++)
				TT_CHECK(cost[r].bytes_reduced == part);
			TT_REQUIRE(count("halving", a));
			if (1 << log2_up(n) == n) {
				TT_CHECK(all_alike(part, log2_up(n), 1, n));
				continue;
			}
			/* the folded one sends all and gets its block */
			TT_CHECK(steps == log2_down(n) + 2 && cost[1].steps == 2);
			TT_CHECK(cost[1].bytes_sent == (uint64_t)n * 6 * ELEM);
			TT_CHECK(cost[1].bytes_received == 6 * ELEM);
			for (r = 0; r < n; r++)
				TT_CHECK(cost[r].fan_in == 1);
		}
}

static void test_allgather(void)
{
	int n, r;

	for (n = 2; n <= MAX_N; n++) {
		struct tt_plan_args a = call(TT_COLL_ALLGATHER, n, 6);
		uint64_t part = (uint64_t)(n - 1) * 6 * ELEM;

		TT_REQUIRE(count("ring", a));
		TT_CHECK(all_alike(part, n - 1, 1, n));
		TT_REQUIRE(count("bruck", a));
		TT_CHECK(all_alike(part, log2_up(n), 1, n));
		for (r = 0; r < n; r++)
			TT_CHECK(cost[r].messages_sent <= 2 * (uint64_t)log2_up(n));
		TT_REQUIRE(count("direct", a));
		TT_CHECK(all_alike(part, (n + 2) / 4, n - 1 < 4 ? n - 1 : 4, n));
		TT_REQUIRE(count("recursive_doubling", a));
		if (1 << log2_up(n) == n) {
			TT_CHECK(all_alike(part, log2_up(n), 1, n));
		} else {
			TT_CHECK(steps == log2_down(n) + 2 && received == (uint64_t)n * part);
		}
	}
}

static void test_rooted(void)
{
	static const char *const names[] = {"linear", "binomial"};
	uint64_t part;
	int n, i;

	for (n = 2; n <= MAX_N; n++)
		for (i = 0; i < 2; i++) {
			struct tt_plan_args a = call(TT_COLL_GATHER, n, 6);

			a.root = n - 1;
			part = (uint64_t)(n - 1) * 6 * ELEM;
			TT_REQUIRE(count(names[i], a));
			TT_CHECK(cost[a.root].bytes_received == part && !cost[a.root].bytes_sent);
			TT_CHECK(steps == (i ? log2_up(n) : (n + 6) / 8));
			TT_CHECK(i || sent == part);
			a.coll = TT_COLL_SCATTER;
			TT_REQUIRE(count(names[i], a));
			TT_CHECK(cost[a.root].bytes_sent == part && !cost[a.root].bytes_received);
			TT_CHECK(steps == (i ? log2_up(n) : (n + 6) / 8));
			TT_CHECK(i || sent == part);
		}
}

static void test_alltoall(void)
{
	int n, j, moves;

	for (n = 2; n <= MAX_N; n++) {
		struct tt_plan_args a = call(TT_COLL_ALLTOALL, n, 6);
		uint64_t block = 6 * ELEM;

		TT_REQUIRE(count("pairwise", a));
		TT_CHECK(all_alike((uint64_t)(n - 1) * block, n - 1, 1, n));
		TT_REQUIRE(count("linear", a));
		TT_CHECK(all_alike((uint64_t)(n - 1) * block, (n + 6) / 8, n - 1 < 8 ? n - 1 : 8,
				   n));
		for (j = 1, moves = 0; j < n; j++)
			moves += __builtin_popcount((unsigned)j);
		TT_REQUIRE(count("bruck", a));
		TT_CHECK(all_alike((uint64_t)moves * block, log2_up(n), 1, n));
	}
}

static void test_scans(void)
{
	int n, r, coll;

	for (n = 2; n <= MAX_N; n++)
		for (coll = TT_COLL_SCAN; coll <= TT_COLL_EXSCAN; coll++) {
			struct tt_plan_args a = call((enum tt_coll)coll, n, 6);
			bool ex = coll == TT_COLL_EXSCAN;

			TT_REQUIRE(count("chain", a));
			for (r = 0; r < n; r++) {
				TT_CHECK(cost[r].bytes_sent == (r < n - 1 ? 6 * ELEM : 0));
				TT_CHECK(cost[r].bytes_received == (r ? 6 * ELEM : 0));
			}
			TT_REQUIRE(count("doubling", a));
			TT_CHECK(steps == (ex ? 1 + log2_up(n - 1) : log2_up(n)));
			TT_CHECK(cost[n - 1].bytes_sent == 0);
			for (r = 0; r < n; r++)
				TT_CHECK(cost[r].fan_in == (r > 0));
		}
}

/* S slices of a pipeline: S + n - 2 steps at the end of a chain. */
static void test_pipelines(void)
{
	struct tt_plan_args a = call(TT_COLL_REDUCE, 9, 100);

	a.chunk = 10 * ELEM;
	TT_REQUIRE(count("chain", a));
	TT_CHECK(cost[0].steps == 10 && cost[8].steps == 10 && cost[4].steps == 11);
	a.coll = TT_COLL_SCAN;
	TT_REQUIRE(count("chain", a));
	TT_CHECK(cost[0].steps == 10 && cost[8].steps == 10 && cost[4].steps == 11);
	a.coll = TT_COLL_BCAST;
	a.lanes = 2;
	TT_REQUIRE(count("dbt", a)); /* five slices a tree, a round more inside */
	TT_CHECK(steps == 6 && cost[0].steps == 5);
}

/* Lengths beyond 32 bits; a pipeline or ring of many slices is not stored, however many ranks. */
static void test_huge(void)
{
	static const struct {
		enum tt_coll coll;
		const char *name;
		bool generated;
	} algs[] = {{TT_COLL_BCAST, "chain", true},
		    {TT_COLL_BCAST, "dbt", true},
		    {TT_COLL_REDUCE, "chain", true},
		    {TT_COLL_REDUCE, "dbt", true},
		    {TT_COLL_SCAN, "chain", true},
		    {TT_COLL_EXSCAN, "chain", true},
		    {TT_COLL_REDUCE_SCATTER_BLOCK, "ring", true},
		    {TT_COLL_ALLGATHER, "ring", true},
		    {TT_COLL_ALLTOALL, "pairwise", false},
		    {TT_COLL_SCATTER, "linear", false},
		    {TT_COLL_REDUCE, "halving_gather", false}};
	size_t i, bytes = (5ull << 30) + 1;
	struct tt_plan_cost c;
	struct tt_plan *plan;
	struct tt_plan_args a;

	for (i = 0; i < sizeof(algs) / sizeof(algs[0]); i++) {
		a = call(algs[i].coll, 2, bytes);
		a.elem = 1;
		a.chunk = 256 << 10;
		a.lanes = 4;
		TT_REQUIRE(!tt_plan_build(tt_alg_find(a.coll, algs[i].name), &a, &plan));
		TT_CHECK(plan->generated == algs[i].generated);
		TT_CHECK(plan->scratch <= 16 * 8 * a.chunk);
		tt_plan_count(plan, &c);
		TT_CHECK(c.bytes_sent + c.bytes_received >= bytes);
		TT_CHECK(c.bytes_sent + c.bytes_received <= 2 * bytes);
		tt_plan_free(plan);
		if (!algs[i].generated)
			continue;
		a.nranks = 24576;
		a.rank = 12345;
		TT_REQUIRE(!tt_plan_build(tt_alg_find(a.coll, algs[i].name), &a, &plan));
		TT_CHECK(plan->generated && plan->scratch <= 32 * a.chunk);
		tt_plan_free(plan);
	}
}

static const struct tt_test tests[] = {{"reduce", test_reduce},
				       {"bcast", test_bcast},
				       {"reduce_scatter", test_reduce_scatter},
				       {"allgather", test_allgather},
				       {"rooted", test_rooted},
				       {"alltoall", test_alltoall},
				       {"scans", test_scans},
				       {"pipelines", test_pipelines},
				       {"huge", test_huge},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("colls_count", tests, argc, argv);
}
