/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of algorithm, chunk and lanes: TUTTI_ALGO's rules and their errors; on fixed
 * synthetic models the cheapest is chosen; measurements correct the model, without steps.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/plan/choose.h"
#include "lib/plan/cost.h"
#include "lib/plan/tune.h"
#include "tests/test.h"

/* Shared memory of one host with a processor for each rank; what many checks do not depend on. */
static struct tt_model model;

static void set_model(double alpha, double beta, double gamma)
{
	tt_model_default(&model);
	model.link[TT_LEVEL_LEAF] = (struct tt_hop){alpha, beta};
	model.gamma = gamma;
	model.overhead = 0;
	model.copy = 0;
	model.eager = SIZE_MAX;
}

static struct tt_plan_args call(enum tt_coll coll, int nranks, size_t bytes)
{
	return (struct tt_plan_args){.coll = coll, .nranks = nranks, .count = bytes, .elem = 1};
}

static bool chosen(const struct tt_chooser *c, enum tt_coll coll, int nranks, size_t bytes,
		   const char *name)
{
	struct tt_plan_args a = call(coll, nranks, bytes);

	return !strcmp(tt_choose(c, &a)->name, name);
}

/* Only rounds count: the fewest; only bytes: the fewest; both: as the table says. */
static void test_synthetic(void)
{
	struct tt_plan_args a = call(TT_COLL_ALLREDUCE, 5, 1 << 20);
	struct tt_chooser *c;

	set_model(1000, 0, 0);
	TT_REQUIRE(!tt_chooser_new("", 1 << 20, 1, &model, &c));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 8, 1 << 20, "radix")); /* one round */
	TT_CHECK(
		chosen(c, TT_COLL_ALLREDUCE, 128, 64, "single_master") ||
		chosen(c, TT_COLL_ALLREDUCE, 128, 64, "direct_rsag")); /* two; nothing else costs */
	TT_CHECK(chosen(c, TT_COLL_BCAST, 8, 1 << 20, "binomial"));
	TT_CHECK(chosen(c, TT_COLL_ALLGATHER, 64, 64, "bruck") ||
		 chosen(c, TT_COLL_ALLGATHER, 64, 64, "recursive_doubling"));
	TT_CHECK(chosen(c, TT_COLL_SCAN, 64, 64, "doubling"));
	tt_chooser_free(c);

	set_model(0, 1, 0);
	TT_REQUIRE(!tt_chooser_new("", 1 << 20, 1, &model, &c));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 7, 7 << 10, "ring") ||
		 chosen(c, TT_COLL_ALLREDUCE, 7, 7 << 10, "direct_rsag") ||
		 chosen(c, TT_COLL_ALLREDUCE, 7, 7 << 10, "circulant_rsag"));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 2, 1, "recursive_doubling")); /* nothing to halve */
	TT_CHECK(chosen(c, TT_COLL_GATHER, 8, 1 << 10, "linear"));
	tt_chooser_free(c);

	set_model(1000, 0.1, 0.05);
	TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &model, &c));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 1, 8, "single"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 1, 1 << 20, "single"));
	TT_CHECK(chosen(c, TT_COLL_BARRIER, 1, 0, "single"));
	TT_CHECK(chosen(c, TT_COLL_BARRIER, 7, 0, "dissemination"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 16, 8, "binomial"));
	TT_CHECK(!chosen(c, TT_COLL_BCAST, 16, 16 << 20, "binomial"));
	TT_CHECK(!chosen(c, TT_COLL_ALLREDUCE, 16, 16 << 20, "recursive_doubling"));
	TT_CHECK(!chosen(c, TT_COLL_ALLREDUCE, 16, 8, "ring"));
	a.ordered = true; /* a ring takes operands as they come round */
	TT_CHECK(tt_choose(c, &a)->can(&a));
	tt_chooser_free(c);
	set_model(1000, 0.1, 0.05);
}

/* Nothing that can do the call, cut in any of the ways that are tried, is cheaper. */
static void check_cheapest(const struct tt_chooser *c, struct tt_plan_args a)
{
	struct tt_plan_args b = a, d;
	const struct tt_alg *taken = tt_choose(c, &b), *alg;
	struct tt_cost best, cost;

	tt_cost(taken, &b, &model, &best);
	for (alg = tt_algs; alg->name; alg++) {
		if (alg->coll != a.coll || (alg->can && !alg->can(&a)))
			continue;
		for (d = a, d.chunk = 256 << 10; d.chunk >= 32 << 10; d.chunk /= 2)
			for (d.lanes = 1; d.lanes <= 4; d.lanes *= 2) {
				tt_cost(alg, &d, &model, &cost);
				TT_CHECK(best.time <= 1.03 * cost.time);
				if (best.time > 1.03 * cost.time)
					printf("  %s n=%d count=%zu: %s %zu %d costs %.0f, %s %zu "
					       "%d only %.0f\n",
					       tt_coll_name(a.coll), a.nranks, a.count, taken->name,
					       b.chunk, b.lanes, best.time, alg->name, d.chunk,
					       d.lanes, cost.time);
			}
	}
}

static void test_cheapest(void)
{
	static const double alphas[] = {0, 300, 20000}, betas[] = {0, 0.1, 8};
	struct tt_plan_args a;
	struct tt_chooser *c;
	int i, k, n, coll;
	size_t bytes;

	for (i = 0; i < 9; i++) {
		set_model(alphas[i / 3], betas[i % 3], 0.1);
		model.overhead = alphas[i / 3] / 4;
		model.eager = 4096;
		TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &model, &c));
		for (coll = 0; coll < TT_NUM_COLLS; coll++)
			for (n = 2; n <= 64; n = 2 * n + n % 3)
				for (k = 0, bytes = 4; k < 7; k++, bytes *= 23) {
					a = call((enum tt_coll)coll, n, bytes);
					if (coll < TT_COLL_REDUCE_SCATTER || coll == TT_COLL_SCAN ||
					    coll == TT_COLL_ALLGATHER || coll == TT_COLL_GATHER ||
					    coll == TT_COLL_SCATTER || coll == TT_COLL_ALLTOALL)
						check_cheapest(c, a);
				}
		tt_chooser_free(c);
	}
	set_model(1000, 0.1, 0.05);
}

/*
 * Measured times bend the curves: an algorithm slower than predicted is not chosen; no step at a
 * switch.
 */
static void test_measured(void)
{
	struct tt_point slow[] = {
		{.coll = TT_COLL_ALLREDUCE, .algo = "recursive_doubling", .bytes = 64, .time = 1e9},
		{.coll = TT_COLL_ALLREDUCE, .algo = "none of ours", .bytes = 64, .time = 1}};
	struct tt_candidate list[TT_CANDIDATES];
	struct tt_plan_args a;
	struct tt_chooser *c;
	double last = 0, now;
	int n, pick;
	size_t bytes;

	model.overhead = 200;
	TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &model, &c));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 4, 8, "radix"));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 32, 64, "recursive_doubling") ||
		 chosen(c, TT_COLL_ALLREDUCE, 32, 64, "radix"));
	TT_REQUIRE(!tt_chooser_measured(c, slow, 2, 32));
	TT_CHECK(!chosen(c, TT_COLL_ALLREDUCE, 32, 64, "recursive_doubling"));
	a = call(TT_COLL_ALLREDUCE, 32, 64);
	n = tt_candidates(c, &a, list, TT_CANDIDATES);
	for (pick = 0; pick < n; pick++)
		if (!strcmp(list[pick].alg->name, "recursive_doubling"))
			TT_CHECK(list[pick].measured == 1e9 && list[pick].time > 0.99e9);
	for (bytes = 64; bytes <= 64 << 20; bytes += bytes / 8 / 4 * 4) {
		a = call(TT_COLL_ALLREDUCE, 32, bytes);
		n = tt_candidates(c, &a, list, TT_CANDIDATES);
		pick = tt_pick(c, &a, list, n);
		now = list[pick].time;
		TT_CHECK(last == 0 || now <= 1.3 * last); /* an eighth more bytes */
		last = now;
	}
	tt_chooser_free(c);
}

/* How the ring cuts a vector on 4 ranks. */
static int lanes_of_ring(const struct tt_chooser *c, size_t bytes)
{
	struct tt_candidate list[TT_CANDIDATES];
	struct tt_plan_args a = call(TT_COLL_ALLREDUCE, 4, bytes);
	int n = tt_candidates(c, &a, list, TT_CANDIDATES), i;

	for (i = 0; i < n; i++)
		if (!strcmp(list[i].alg->name, "ring"))
			return list[i].lanes;
	return -1;
}

/*
 * One lane where that was measured to be faster, and about there; the settings may allow fewer
 * still.
 */
static void test_measured_lanes(void)
{
	struct tt_point points[] = {
		{.coll = TT_COLL_ALLREDUCE, .algo = "ring", .bytes = 1 << 20, .time = 1e6},
		{.coll = TT_COLL_ALLREDUCE,
		 .algo = "ring",
		 .bytes = 16 << 20,
		 .lanes = 1,
		 .time = 9e6}};
	struct tt_chooser *c;

	TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &model, &c));
	TT_REQUIRE(lanes_of_ring(c, 1 << 20) > 1 && lanes_of_ring(c, 16 << 20) > 1);
	TT_REQUIRE(!tt_chooser_measured(c, points, 2, 4));
	TT_CHECK(lanes_of_ring(c, 1 << 20) > 1 && lanes_of_ring(c, 8 << 20) > 1);
	TT_CHECK(lanes_of_ring(c, 9 << 20) == 1 && lanes_of_ring(c, 16 << 20) == 1 &&
		 lanes_of_ring(c, 64 << 20) == 1);
	points[1].lanes = 8;
	TT_REQUIRE(!tt_chooser_measured(c, points, 2, 4));
	TT_CHECK(lanes_of_ring(c, 16 << 20) > 1 && lanes_of_ring(c, 16 << 20) <= 4);
	tt_chooser_free(c);
}

/* Some algorithm for every call, whatever its size, and one that can do it. */
static void test_every_collective(void)
{
	static const size_t counts[64];
	struct tt_chooser *c;
	struct tt_plan_args a;
	const struct tt_alg *alg;
	int coll, n, ordered;
	size_t bytes;

	TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &model, &c));
	for (coll = 0; coll < TT_NUM_COLLS; coll++)
		for (n = 1; n <= 64; n++)
			for (bytes = 0; bytes <= 1ull << 34; bytes = 4 * bytes + 1)
				for (ordered = 0; ordered < 2; ordered++) {
					a = call((enum tt_coll)coll, n, bytes);
					a.ordered = ordered && tt_coll_reduces(a.coll);
					a.rcounts = counts;
					alg = tt_choose(c, &a);
					TT_REQUIRE(alg && alg->coll == a.coll);
					TT_CHECK(!alg->can || alg->can(&a));
					TT_CHECK(a.lanes >= 1 && a.lanes <= 4);
					TT_CHECK(a.chunk >= 1 && a.chunk <= 256 << 10);
				}
	tt_chooser_free(c);
}

/*
 * On one host by the defaults: short vectors in slots, longer ones pulled, neither when it is off.
 */
static void test_node(void)
{
	struct tt_chooser_params p = {.rules = "",
				      .chunk = 256 << 10,
				      .lanes = 4,
				      .layout = {.hosts = 1, .cores = 64},
				      .inside = "shm",
				      .between = ""};
	struct tt_candidate list[TT_CANDIDATES];
	struct tt_plan_args a, blocks;
	double slots, pull, ring;
	struct tt_chooser *c;
	int i, n, k;
	size_t bytes;

	for (p.nranks = 2; p.nranks <= 64; p.nranks *= 2) {
		p.layout.ranks_per_host = p.nranks;
		TT_REQUIRE(!tt_chooser_by_table(&p, &c));
		for (k = 0, bytes = 8; k < 2; k++, bytes = 32 << 10) {
			a = call(TT_COLL_ALLREDUCE, p.nranks, bytes / 4);
			a.elem = 4;
			TT_CHECK(strncmp(tt_choose(c, &a)->name, "node", 4));
			a = call(TT_COLL_ALLREDUCE, p.nranks, bytes / 4);
			a.elem = 4;
			a.node = true;
			slots = pull = ring = 0;
			n = tt_candidates(c, &a, list, TT_CANDIDATES);
			for (i = 0; i < n; i++) {
				slots = strcmp(list[i].alg->name, "node_slots") ? slots
										: list[i].time;
				pull = strcmp(list[i].alg->name, "node_pull") ? pull : list[i].time;
				ring = strcmp(list[i].alg->name, "ring") ? ring : list[i].time;
			}
			TT_CHECK(slots > 0 && pull > 0 && pull < ring);
			TT_CHECK(k ? pull < slots : slots < pull && slots < ring);
			blocks = call(TT_COLL_GATHER, p.nranks, bytes);
			blocks.node = blocks.direct = true;
			TT_CHECK(!strcmp(tt_choose(c, &blocks)->name,
					 k ? "node_pull" : "node_slots"));
		}
		tt_chooser_free(c);
	}
}

/* The sizes of v forms: a mean block where all know all counts, nothing where they do not. */
static void test_v_forms(void)
{
	static const size_t counts[4] = {40 << 10, 0, 0, 0},
			    even[4] = {10 << 10, 10 << 10, 10 << 10, 10 << 10};
	struct tt_plan_args a = call(TT_COLL_ALLGATHERV, 4, 0), b = a;
	struct tt_chooser *c;

	TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &model, &c));
	a.rcounts = counts;
	b.rcounts = even;
	TT_CHECK(tt_choose(c, &a) == tt_choose(c, &b) && a.chunk == b.chunk && a.lanes == b.lanes);
	a.coll = TT_COLL_REDUCE_SCATTER;
	a.ordered = true;
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "direct"));
	a = call(TT_COLL_GATHERV, 4, 8); /* another rank's count may be another one */
	b = call(TT_COLL_GATHERV, 4, 8 << 20);
	TT_CHECK(tt_choose(c, &a) == tt_choose(c, &b));
	TT_CHECK(a.chunk == 256 << 10 && a.lanes == 4 && b.chunk == a.chunk && b.lanes == 4);
	tt_chooser_free(c);
}

/* Every all-reduce can be asked for, and gets pieces it can use. */
static void test_allreduces(void)
{
	struct tt_plan_args a;
	struct tt_chooser *c;
	const struct tt_alg *alg;
	char rule[64];
	size_t bytes;

	for (alg = tt_algs; alg->name; alg++) {
		a = call(TT_COLL_ALLREDUCE, 5, 0);
		if (alg->coll != a.coll || !alg->can(&a))
			continue;
		snprintf(rule, sizeof(rule), "allreduce:%s", alg->name);
		TT_REQUIRE(!tt_chooser_new(rule, 256 << 10, 4, &model, &c));
		for (bytes = 0; bytes <= 1ull << 36; bytes = 8 * bytes + 1) {
			a = call(TT_COLL_ALLREDUCE, 5, bytes);
			TT_CHECK(tt_choose(c, &a) == alg);
			TT_CHECK(a.lanes >= 1 && a.lanes <= 4);
			TT_CHECK(a.chunk >= 1 && a.chunk <= 256 << 10);
			if (!strcmp(alg->name, "dbt") &&
			    bytes > 1) /* both trees at the same time */
				TT_CHECK(a.lanes % 2 == 0);
		}
		a.ordered = true; /* algorithms that cannot execute the call are skipped */
		TT_CHECK(!tt_choose(c, &a)->can || tt_choose(c, &a)->can(&a));
		tt_chooser_free(c);
	}
}

static void test_rules(void)
{
	struct tt_chooser *c;

	TT_REQUIRE(!tt_chooser_new("bcast:chain:1K-2K; bcast:binomial:2K-inf;bcast:chain:1M-2M;"
				   "barrier:dissemination",
				   1 << 18, 4, &model, &c));
	TT_CHECK(!chosen(c, TT_COLL_BCAST, 5, 1023, "chain")); /* the default */
	TT_CHECK(chosen(c, TT_COLL_BCAST, 5, 1024, "chain"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 5, 2047, "chain"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 5, 2048, "binomial"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 5, 1 << 20, "binomial")); /* the first that fits */
	TT_CHECK(chosen(c, TT_COLL_BCAST, 1, 1024, "single"));
	TT_CHECK(chosen(c, TT_COLL_BARRIER, 5, 0, "dissemination"));
	TT_CHECK(!chosen(c, TT_COLL_ALLREDUCE, 5, 1024, "single"));
	tt_chooser_free(c);
	/* one that can't do the call is passed over */
	TT_REQUIRE(!tt_chooser_new("allreduce:single:0-inf", 1 << 18, 4, &model, &c));
	TT_CHECK(!chosen(c, TT_COLL_ALLREDUCE, 5, 1024, "single"));
	tt_chooser_free(c);
	TT_REQUIRE(!tt_chooser_new(NULL, 1 << 18, 4, &model, &c));
	tt_chooser_free(c);
	TT_REQUIRE(!tt_chooser_new(" ;; ", 1 << 18, 4, &model, &c));
	tt_chooser_free(c);
}

static bool bad(const char *rules, const char *says)
{
	struct tt_chooser *c = NULL;
	int err = tt_chooser_new(rules, 1 << 18, 4, &model, &c);

	return err == -EINVAL && !c && strstr(tt_fail_text(err), says) &&
	       strstr(tt_fail_text(err), "TUTTI_ALGO");
}

static void test_bad_rules(void)
{
	TT_CHECK(bad("allreduce:rng:0-inf", "did you mean ring?"));
	TT_CHECK(bad("bcast:binomail:0-inf", "did you mean binomial?"));
	TT_CHECK(bad("bcast:zzzzzzzzzz", "there are single, binomial, chain"));
	TT_CHECK(bad("alreduce:ring:0-inf", "did you mean allreduce?"));
	TT_CHECK(bad("xyzzy:ring:0-inf", "there are allreduce, bcast, barrier"));
	TT_CHECK(bad("bcast:ring:0-inf", "bcast has no algorithm \"ring\""));
	TT_CHECK(bad("allreduce", "collective:algorithm:LO-HI"));
	TT_CHECK(bad("allreduce:ring:64K", "LO-HI"));
	TT_CHECK(bad("allreduce:ring:64K-1K", "LO below HI"));
	TT_CHECK(bad("allreduce:ring:1K-1K", "LO below HI"));
	TT_CHECK(bad("allreduce:ring:0-64Q", "LO-HI"));
	TT_CHECK(bad("allreduce:ring:-1-5", "LO-HI"));
	TT_CHECK(bad("allreduce:ring:0-inf;bcast:chian:0-1", "bcast:chian:0-1"));
}

static void test_pieces(void)
{
	struct tt_plan_args a = call(TT_COLL_ALLREDUCE, 4, 8);
	struct tt_chooser *c;
	size_t elem;

	TT_REQUIRE(!tt_chooser_new("allreduce:ring;bcast:chain", 256 << 10, 4, &model, &c));
	tt_choose(c, &a);
	TT_CHECK(a.lanes == 1);
	a = call(TT_COLL_ALLREDUCE, 4, 64 << 20); /* lanes hide what each of them waits for */
	tt_choose(c, &a);
	TT_CHECK(a.lanes > 1);
	a = call(TT_COLL_BCAST, 8, 1 << 20); /* more slices than ranks, to fill the chain */
	tt_choose(c, &a);
	TT_CHECK((1 << 20) / a.chunk >= 8);
	a = call(TT_COLL_BARRIER, 8, 0);
	a.elem = 0;
	tt_choose(c, &a);
	TT_CHECK(a.lanes == 1 && a.chunk >= 1);
	tt_chooser_free(c);

	/* whole elements, at least one, never above the setting otherwise */
	TT_REQUIRE(!tt_chooser_new("", 1001, 3, &model, &c));
	for (elem = 1; elem <= 2048; elem *= 2) {
		a = call(TT_COLL_ALLREDUCE, 3, 1 << 20);
		a.elem = elem;
		tt_choose(c, &a);
		TT_CHECK(a.chunk % elem == 0 && a.chunk >= elem);
		TT_CHECK(a.chunk <= 1001 || a.chunk == elem);
		TT_CHECK(a.lanes >= 1 && a.lanes <= 3);
	}
	tt_chooser_free(c);
}

static const struct tt_test tests[] = {{"synthetic", test_synthetic},
				       {"cheapest", test_cheapest},
				       {"measured", test_measured},
				       {"measured_lanes", test_measured_lanes},
				       {"every_collective", test_every_collective},
				       {"node", test_node},
				       {"v_forms", test_v_forms},
				       {"allreduces", test_allreduces},
				       {"rules", test_rules},
				       {"bad_rules", test_bad_rules},
				       {"pieces", test_pieces},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	set_model(1000, 0.1, 0.05);
	return tt_test_main("choose", tests, argc, argv);
}
