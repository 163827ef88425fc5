/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of algorithm, chunk and lanes: TUTTI_ALGO's rules, their errors, the defaults. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/plan/choose.h"
#include "tests/test.h"

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

static void test_defaults(void)
{
	struct tt_plan_args a = call(TT_COLL_ALLREDUCE, 5, 1 << 20);
	struct tt_chooser *c;

	TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &c));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 1, 8, "single"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 1, 1 << 20, "single"));
	TT_CHECK(chosen(c, TT_COLL_BARRIER, 1, 0, "single"));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 2, 0, "recursive_doubling"));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 8, 32 << 10, "recursive_doubling"));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 8, (32 << 10) + 1, "ring"));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 8, 1 << 30, "ring"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 3, 64 << 10, "binomial"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 3, (64 << 10) + 1, "chain"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 2, 1 << 30, "binomial"));
	TT_CHECK(chosen(c, TT_COLL_BARRIER, 7, 0, "dissemination"));
	a.ordered = true; /* a ring takes operands as they come round */
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "halving_doubling"));
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

	TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &c));
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

/* The sizes of v forms: a mean block where all know all counts, nothing where they do not. */
static void test_v_forms(void)
{
	static const size_t counts[4] = {40 << 10, 0, 0, 0};
	struct tt_plan_args a = call(TT_COLL_ALLGATHERV, 4, 0);
	struct tt_chooser *c;

	TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &c));
	a.rcounts = counts;
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "ring") && a.chunk <= 10 << 10);
	a.coll = TT_COLL_REDUCE_SCATTER;
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "ring"));
	a.ordered = true;
	TT_CHECK(!strcmp(tt_choose(c, &a)->name, "direct"));
	a = call(TT_COLL_GATHERV, 4, 8); /* another rank's count may be another one */
	tt_choose(c, &a);
	TT_CHECK(a.chunk == 256 << 10 && a.lanes == 4);
	tt_chooser_free(c);
}

/* Every all-reduce can be asked for, and gets pieces it can use. */
static void test_allreduces(void)
{
	static const char *const names[] = {"ring",
					    "single_master",
					    "ps",
					    "radix",
					    "dbt",
					    "recursive_doubling",
					    "circulant",
					    "circulant_rsag",
					    "halving_doubling"};
	struct tt_plan_args a;
	struct tt_chooser *c;
	char rule[64];
	size_t i, bytes;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(rule, sizeof(rule), "allreduce:%s", names[i]);
		TT_REQUIRE(!tt_chooser_new(rule, 256 << 10, 4, &c));
		for (bytes = 0; bytes <= 1ull << 36; bytes = 8 * bytes + 1) {
			a = call(TT_COLL_ALLREDUCE, 5, bytes);
			TT_CHECK(!strcmp(tt_choose(c, &a)->name, names[i]));
			TT_CHECK(a.lanes >= 1 && a.lanes <= 4);
			TT_CHECK(a.chunk >= 1 && a.chunk <= 256 << 10);
			if (!strcmp(names[i], "dbt")) /* both trees at the same time */
				TT_CHECK(a.lanes % 2 == 0);
		}
		a.ordered = true; /* those that can't are passed over */
		TT_CHECK(!tt_choose(c, &a)->can || tt_choose(c, &a)->can(&a));
		tt_chooser_free(c);
	}
}

static void test_rules(void)
{
	struct tt_chooser *c;

	TT_REQUIRE(!tt_chooser_new("bcast:chain:1K-2K; bcast:binomial:2K-inf;bcast:chain:1M-2M;"
				   "barrier:dissemination",
				   1 << 18, 4, &c));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 5, 1023, "binomial")); /* the default */
	TT_CHECK(chosen(c, TT_COLL_BCAST, 5, 1024, "chain"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 5, 2047, "chain"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 5, 2048, "binomial"));
	TT_CHECK(chosen(c, TT_COLL_BCAST, 5, 1 << 20, "binomial")); /* the first that fits */
	TT_CHECK(chosen(c, TT_COLL_BCAST, 1, 1024, "single"));
	TT_CHECK(chosen(c, TT_COLL_BARRIER, 5, 0, "dissemination"));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 5, 1024, "recursive_doubling"));
	tt_chooser_free(c);
	/* one that can't do the call is passed over */
	TT_REQUIRE(!tt_chooser_new("allreduce:single:0-inf", 1 << 18, 4, &c));
	TT_CHECK(chosen(c, TT_COLL_ALLREDUCE, 5, 1024, "recursive_doubling"));
	tt_chooser_free(c);
	TT_REQUIRE(!tt_chooser_new(NULL, 1 << 18, 4, &c));
	tt_chooser_free(c);
	TT_REQUIRE(!tt_chooser_new(" ;; ", 1 << 18, 4, &c));
	tt_chooser_free(c);
}

static bool bad(const char *rules, const char *says)
{
	struct tt_chooser *c = NULL;
	int err = tt_chooser_new(rules, 1 << 18, 4, &c);

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

	TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &c));
	tt_choose(c, &a);
	TT_CHECK(a.lanes == 1);
	a = call(TT_COLL_ALLREDUCE, 4, 4 * 128 << 10); /* blocks of 128K: two lanes of 64K */
	tt_choose(c, &a);
	TT_CHECK(a.lanes == 2 && a.chunk == 64 << 10);
	a = call(TT_COLL_ALLREDUCE, 4, 64 << 20);
	tt_choose(c, &a);
	TT_CHECK(a.lanes == 4 && a.chunk == 256 << 10);
	a = call(TT_COLL_BCAST, 8, 1 << 20); /* as many slices as ranks */
	tt_choose(c, &a);
	TT_CHECK(a.lanes == 4 && a.chunk == 128 << 10);
	a = call(TT_COLL_BARRIER, 8, 0);
	a.elem = 0;
	tt_choose(c, &a);
	TT_CHECK(a.lanes == 1 && a.chunk >= 1);
	tt_chooser_free(c);

	/* whole elements, at least one, never above the setting otherwise */
	TT_REQUIRE(!tt_chooser_new("", 1001, 3, &c));
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

static const struct tt_test tests[] = {{"defaults", test_defaults}, {"every_collective", test_every_collective},
				       {"v_forms", test_v_forms},
				       {"allreduces", test_allreduces},
				       {"rules", test_rules},	    {"bad_rules", test_bad_rules},
				       {"pieces", test_pieces},	    {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("choose", tests, argc, argv);
}
