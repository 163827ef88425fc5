/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proof by counting: bytes sent, received and reduced in the all-reduce plans of every rank, their
 * steps and fan-in, compared with the formulas of doc/ALGORITHMS.md, n = 2..33. Exact wherever
 * there is a closed form, for any length: if n (or the fold's power of two) does not divide it,
 * the blocks of each rank are stated. The double tree and the circulant graph are compared with a
 * bound for each rank, and exactly for all ranks together.
 */
#include <stdio.h>

#include "lib/verify/check.h"
#include "tests/test.h"

#define MAX_N 33
#define ELEM 4

struct want {
	uint64_t sent, received, reduced;
	int steps, fan_in; /* of one slice */
};

typedef struct want want_fn(const struct tt_plan_args *a);

/* Bytes of blocks [i, j) of the vector in n blocks, the first ones longer by an element. */
static uint64_t blocks(size_t count, int n, int i, int j)
{
	size_t q = count / (size_t)n, r = count % (size_t)n, bytes = 0;

	for (; i < j; i++)
		bytes += (q + ((size_t)i < r)) * ELEM;
	return bytes;
}

static uint64_t block(const struct tt_plan_args *a, int i)
{
	i = (i + a->nranks) % a->nranks;
	return blocks(a->count, a->nranks, i, i + 1);
}

static uint64_t vector(const struct tt_plan_args *a)
{
	return a->count * ELEM;
}

/* 2(n-1)/n N: all blocks but one in either half. A step in which both blocks are empty is none. */
static struct want ring(const struct tt_plan_args *a)
{
	int n = a->nranks, r = a->rank, k;
	struct want w = {.sent = 2 * vector(a) - block(a, r) - block(a, r + 1),
			 .received = 2 * vector(a) - block(a, r - 1) - block(a, r),
			 .reduced = vector(a) - block(a, r - 1)};

	for (k = 0; k < n - 1; k++) {
		w.steps += block(a, r - 1 - k) || block(a, r - 2 - k); /* the reduce-scatter's, */
		w.steps += block(a, r - k) || block(a, r - 1 - k);     /* and the all-gather's */
	}
	w.fan_in = w.received > 0;
	return w;
}

static struct want single_master(const struct tt_plan_args *a)
{
	uint64_t others = (uint64_t)a->nranks - 1, moved = vector(a) * (a->rank ? 1 : others);

	return (struct want){.sent = moved,
			     .received = moved,
			     .reduced = a->rank ? 0 : moved,
			     .steps = moved ? 2 : 0,
			     .fan_in = !moved	 ? 0
				       : a->rank ? 1
						 : (int)others};
}

/* 2(n-1)/n N: every block but the own one pushed, and the own one given to all others. */
static struct want ps(const struct tt_plan_args *a)
{
	uint64_t own = block(a, a->rank), others = (uint64_t)a->nranks - 1;
	int servers = a->count < (size_t)a->nranks ? (int)a->count : a->nranks; /* with a block */

	return (struct want){.sent = vector(a) - own + others * own,
			     .received = vector(a) - own + others * own,
			     .reduced = others * own,
			     .steps = a->count ? 2 : 0,
			     .fan_in = own ? (int)others : servers};
}

/*
 * The fold of n ranks to a core: adds its steps and bytes. Returns the rank's number in the core,
 * -1: it is folded, and *w is complete.
 */
static int fold(const struct tt_plan_args *a, int core, struct want *w)
{
	int extra = a->nranks - core, r = a->rank;

	*w = (struct want){.fan_in = a->count > 0};
	if (r >= 2 * extra)
		return r - extra;
	w->sent = w->received = vector(a);
	w->steps = a->count ? 2 : 0;
	if (r % 2)
		return -1;
	w->reduced = vector(a);
	return r / 2;
}

static int power_below(int n)
{
	int p = 1;

	while (2 * p <= n)
		p *= 2;
	return p;
}

/* N log2 p */
static struct want recursive_doubling(const struct tt_plan_args *a)
{
	int p = power_below(a->nranks);
	struct want w;

	if (fold(a, p, &w) < 0)
		return w;
	for (; p > 1; p /= 2) {
		w.sent += vector(a);
		w.received += vector(a);
		w.reduced += vector(a);
		w.steps += a->count > 0;
	}
	return w;
}

/* 2(p-1)/p N: a half given away and the other one kept, again and again. */
static struct want halving_doubling(const struct tt_plan_args *a)
{
	int p = power_below(a->nranks), lo = 0, hi = p, v, mid;
	struct want w;

	v = fold(a, p, &w);
	w.fan_in = w.received > 0;
	for (; v >= 0 && hi - lo > 1; v /= 2) {
		uint64_t lower, upper;

		mid = (lo + hi) / 2;
		lower = blocks(a->count, p, lo, mid);
		upper = blocks(a->count, p, mid, hi);
		w.sent += lower + upper; /* one going in, the other one coming back */
		w.received += lower + upper;
		w.reduced += v % 2 ? upper : lower;
		w.steps += lower + upper ? 2 : 0;
		w.fan_in |= lower + upper > 0;
		if (v % 2)
			lo = mid;
		else
			hi = mid;
	}
	return w;
}

/* The bytes exchanged by n ranks in each step; with a fold if the product is less than n. */
static const char *const factors[MAX_N + 1] = {
	NULL, NULL, "2",  "3",	 "4",  "5",  "6",  "7",	 "8",  "33", "52", "52",
	"62", "62", "72", "53",	 "82", "82", "63", "63", "54", "73", "73", "73",
	"83", "55", "55", "333", "74", "74", "65", "65", "84", "84"};

/* N sum(k - 1) */
static struct want radix(const struct tt_plan_args *a)
{
	const char *f = factors[a->nranks];
	struct want w;
	int core = 1;

	for (; *f; f++)
		core *= *f - '0';
	if (fold(a, core, &w) < 0)
		return w;
	for (f = factors[a->nranks]; *f; f++) {
		uint64_t k1 = (uint64_t)(*f - '1');

		w.sent += k1 * vector(a);
		w.received += k1 * vector(a);
		w.reduced += k1 * vector(a);
		w.steps += a->count > 0;
		w.fan_in = !a->count || w.fan_in > (int)k1 ? w.fan_in : (int)k1;
	}
	return w;
}

static bool count_plan(const char *name, const struct tt_plan_args *a, struct tt_plan_cost *c)
{
	struct tt_plan *plan;

	if (tt_plan_build(tt_alg_find(TT_COLL_ALLREDUCE, name), a, &plan))
		return false;
	tt_plan_count(plan, c);
	tt_plan_free(plan);
	return true;
}

static bool as_wanted(const char *name, const struct tt_plan_args *a, const struct want *w,
		      int slices)
{
	struct tt_plan_cost c;
	bool ok;

	if (!count_plan(name, a, &c))
		return false;
	ok = c.bytes_sent == w->sent && c.bytes_received == w->received &&
	     c.bytes_reduced == w->reduced && c.steps == slices * w->steps && c.fan_in == w->fan_in;
	if (!ok)
		printf("  %s n=%d rank %d count=%zu: sent %llu of %llu, received %llu of %llu, "
		       "reduced "
		       "%llu of %llu, steps %d of %d, fan-in %d of %d\n",
		       name, a->nranks, a->rank, a->count, (unsigned long long)c.bytes_sent,
		       (unsigned long long)w->sent, (unsigned long long)c.bytes_received,
		       (unsigned long long)w->received, (unsigned long long)c.bytes_reduced,
		       (unsigned long long)w->reduced, c.steps, slices * w->steps, c.fan_in,
		       w->fan_in);
	return ok;
}

/*
 * Every rank of n = 2..33, divisible lengths and others; one slice, and all bytes again in many
 * slices and lanes.
 */
static void exactly(const char *name, want_fn *wanted)
{
	struct tt_plan_args a = {.coll = TT_COLL_ALLREDUCE, .elem = ELEM};
	size_t i;

	for (a.nranks = 2; a.nranks <= MAX_N; a.nranks++) {
		size_t n = (size_t)a.nranks,
		       counts[] = {96 * n, 97, 1000 + n, n - 1, n / 2, 2, 1, 0};

		for (i = 0; i < 8; i++)
			for (a.rank = 0; a.rank < a.nranks; a.rank++) {
				struct want w;

				a.count = counts[i];
				a.chunk = 1 << 20;
				a.lanes = 1;
				w = wanted(&a);
				TT_REQUIRE(as_wanted(name, &a, &w, 1));
				a.divide = a.in_place = true;
				TT_REQUIRE(as_wanted(name, &a, &w, 1));
				a.divide = a.in_place = false;
			}
	}
}

/* Twelve slices on four lanes: the same bytes, three times the steps. */
static void sliced(const char *name, want_fn *wanted, bool blocks_sliced)
{
	struct tt_plan_args a = {.coll = TT_COLL_ALLREDUCE, .elem = ELEM, .lanes = 4};

	for (a.nranks = 2; a.nranks <= MAX_N; a.nranks++)
		for (a.rank = 0; a.rank < a.nranks; a.rank++) {
			struct want w;

			a.chunk = 16 * ELEM;
			a.count = 12 * 16 * (blocks_sliced ? (size_t)a.nranks : 1);
			w = wanted(&a);
			TT_REQUIRE(as_wanted(name, &a, &w, 3));
		}
}

static void test_ring(void)
{
	exactly("ring", ring);
	sliced("ring", ring, true);
}

static void test_single_master(void)
{
	exactly("single_master", single_master);
	sliced("single_master", single_master, false);
}

static void test_ps(void)
{
	exactly("direct_rsag", ps);
	sliced("direct_rsag", ps, true);
}

static void test_recursive_doubling(void)
{
	exactly("recursive_doubling", recursive_doubling);
	sliced("recursive_doubling", recursive_doubling, false);
}

static void test_halving_doubling(void)
{
	exactly("halving_doubling", halving_doubling);
}

/*
 * 2(n-1)/n N for any n: all blocks but the own one sent up, and the own one's n - 1 times back, on
 * the way.
 */
static struct want circulant_rsag(const struct tt_plan_args *a)
{
	int n = a->nranks, s, half, first;
	struct want w = {.sent = vector(a) - block(a, a->rank)};

	w.received = w.sent;
	for (s = n; s > 1; s = half) { /* s blocks left: half of them stay */
		uint64_t given = 0, taken = 0;

		half = (s + 1) / 2;
		for (first = 0; first < s - half; first++) {
			given += block(a, a->rank + half + first);
			taken += block(a, a->rank + first);
		}
		w.reduced += taken;
		w.sent += taken; /* finished ones, on the way back */
		w.received += taken;
		w.steps += given || taken ? 2 : 0;
		w.fan_in |= given || taken;
	}
	return w;
}

static void test_circulant_rsag(void)
{
	exactly("circulant_rsag", circulant_rsag);
}

static void test_radix(void)
{
	exactly("radix", radix);
	sliced("radix", radix, false);
}

/*
 * The closed forms as they are printed, for powers of two (and n where any n will do) and a length
 * they divide.
 */
static void test_table(void)
{
	struct tt_plan_args a = {
		.coll = TT_COLL_ALLREDUCE, .elem = ELEM, .chunk = 1 << 20, .lanes = 1};
	struct tt_plan_cost c;
	uint64_t bytes, optimal;
	int log = 0;

	for (a.nranks = 2; a.nranks <= MAX_N; a.nranks++) {
		a.count = 64 * (size_t)a.nranks;
		bytes = a.count * ELEM;
		optimal = 2 * (bytes - bytes / (uint64_t)a.nranks);
		a.rank = a.nranks / 2;
		TT_REQUIRE(count_plan("ring", &a, &c));
		TT_CHECK(c.bytes_sent == optimal && c.steps == 2 * (a.nranks - 1) && c.fan_in == 1);
		TT_REQUIRE(count_plan("direct_rsag", &a, &c));
		TT_CHECK(c.bytes_sent == optimal && c.steps == 2 && c.fan_in == a.nranks - 1);
		if (power_below(a.nranks) != a.nranks)
			continue;
		log++;
		TT_REQUIRE(count_plan("recursive_doubling", &a, &c));
		TT_CHECK(c.bytes_sent == bytes * (uint64_t)log && c.steps == log && c.fan_in == 1);
		TT_REQUIRE(count_plan("halving_doubling", &a, &c));
		TT_CHECK(c.bytes_sent == optimal && c.steps == 2 * log && c.fan_in == 1);
	}
	TT_CHECK(log == 5);
}

static int log2_up(int n)
{
	int k = 0;

	while (1 << k < n)
		k++;
	return k;
}

/*
 * All ranks together 2(n-1) N, because every tree has n - 1 edges with half of N each way. A rank
 * has at most four edges, receives over each as much as it sends, and combines at most one half of
 * its own twice.
 */
static void test_dbt(void)
{
	struct tt_plan_args a = {.coll = TT_COLL_ALLREDUCE, .elem = ELEM};
	size_t slices, i;
	int lanes;

	for (a.nranks = 2; a.nranks <= MAX_N; a.nranks++)
		for (i = 0; i < 12; i++) {
			size_t n = (size_t)a.nranks, counts[] = {96 * n, 97, 1, 2 * n + 1};
			uint64_t sum = 0, reduced = 0;
			struct tt_plan_cost c;

			a.count = counts[i % 4];
			a.chunk = i / 4 ? 5 * ELEM : 1 << 20;
			lanes = a.lanes = i / 4 == 2 ? 5 : 2;
			slices = ((a.count + 1) / 2 * ELEM + a.chunk - 1) / a.chunk;
			slices = (slices + (size_t)lanes / 2 - 1) / ((size_t)lanes / 2);
			for (a.rank = 0; a.rank < a.nranks; a.rank++) {
				size_t depth = (size_t)log2_up(a.nranks);

				TT_REQUIRE(count_plan("dbt", &a, &c));
				TT_CHECK(c.bytes_sent == c.bytes_received);
				TT_CHECK(c.bytes_sent <= 4 * ((a.count + 1) / 2) * ELEM);
				TT_CHECK(c.bytes_reduced <= 2 * ((a.count + 1) / 2) * ELEM);
				TT_CHECK(c.fan_in <= 2);
				TT_CHECK((size_t)c.steps <= 2 * slices + 3 * depth + 1);
				TT_CHECK(slices > 1 || c.steps <= 6);
				sum += c.bytes_sent;
				reduced += c.bytes_reduced;
			}
			TT_CHECK(sum == 2 * (n - 1) * a.count * ELEM);
			TT_CHECK(reduced == (n - 1) * a.count * ELEM);
		}
}

/* Together 2(n-1) N in 2(B - 1 + q) rounds, and in each of them at most a block a rank. */
static void test_circulant(void)
{
	struct tt_plan_args a = {.coll = TT_COLL_ALLREDUCE, .elem = ELEM, .lanes = 1};
	size_t i;

	for (a.nranks = 2; a.nranks <= MAX_N; a.nranks++)
		for (i = 1; i <= 40; i++) {
			uint64_t n = (uint64_t)a.nranks, sum = 0, reduced = 0;
			int q = log2_up(a.nranks), rounds = (int)i - 1 + q;
			struct tt_plan_cost c;

			a.count = 3 * i;
			a.chunk = 3 * ELEM;
			for (a.rank = 0; a.rank < a.nranks; a.rank++) {
				TT_REQUIRE(count_plan("circulant", &a, &c));
				TT_CHECK(c.bytes_sent <= (uint64_t)(2 * rounds) * a.chunk);
				TT_CHECK(a.rank ? c.bytes_sent >= a.count * ELEM
						: c.bytes_sent == (uint64_t)rounds * a.chunk);
				TT_CHECK(c.bytes_sent <=
					 a.count * ELEM + (uint64_t)rounds * a.chunk);
				TT_CHECK(c.bytes_received <=
					 a.count * ELEM + (uint64_t)rounds * a.chunk);
				TT_CHECK(c.bytes_received ==
					 c.bytes_reduced + (a.rank ? a.count * ELEM : 0));
				TT_CHECK(a.rank ? c.steps <= 2 * rounds : c.steps == 2 * rounds);
				TT_CHECK(c.fan_in == 1);
				sum += c.bytes_sent;
				reduced += c.bytes_reduced;
			}
			TT_CHECK(sum == 2 * (n - 1) * a.count * ELEM);
			TT_CHECK(reduced == (n - 1) * a.count * ELEM);
		}
}

/* Number of peers of a rank: few in trees and doublings. */
static int peers_of(const char *name, const struct tt_plan_args *a, bool *seen)
{
	const struct tt_op *ops;
	struct tt_plan *plan;
	struct tt_op tmp[64];
	int l, r, i, n, peers = 0;

	if (tt_plan_build(tt_alg_find(TT_COLL_ALLREDUCE, name), a, &plan))
		return -1;
	for (l = 0; l < plan->nlanes; l++)
		for (r = 0; r < tt_plan_rounds(plan, l); r++) {
			n = plan->max_ops <= 64 ? tt_plan_ops(plan, l, r, tmp, &ops) : 0;
			for (i = 0; i < n; i++) {
				if (ops[i].peer < 0 || seen[ops[i].peer])
					continue;
				seen[ops[i].peer] = true;
				peers++;
			}
		}
	for (i = 0; i < a->nranks; i++)
		seen[i] = false;
	tt_plan_free(plan);
	return peers;
}

static void test_connections(void)
{
	static bool seen[24576];
	struct tt_plan_args a = {.coll = TT_COLL_ALLREDUCE,
				 .elem = ELEM,
				 .count = 1 << 20,
				 .chunk = 64 << 10,
				 .lanes = 4};
	static const int sizes[] = {2, 33, 1000, 1024, 24575, 24576};
	size_t i;

	for (i = 0; i < 6; i++) {
		a.nranks = sizes[i];
		for (a.rank = 0; a.rank < a.nranks; a.rank += a.nranks / 16 + 1) {
			int log = log2_up(a.nranks);

			TT_CHECK(peers_of("ring", &a, seen) <= 2);
			TT_CHECK(peers_of("dbt", &a, seen) <= 6);
			TT_CHECK(peers_of("recursive_doubling", &a, seen) <= log + 1);
			TT_CHECK(peers_of("halving_doubling", &a, seen) <= log + 1);
			TT_CHECK(peers_of("circulant", &a, seen) <= 2 * log);
			TT_CHECK(peers_of("circulant_rsag", &a, seen) <= 2 * log);
		}
	}
}

static const struct tt_test tests[] = {{"table", test_table},
				       {"ring", test_ring},
				       {"single_master", test_single_master},
				       {"direct_rsag", test_ps},
				       {"recursive_doubling", test_recursive_doubling},
				       {"halving_doubling", test_halving_doubling},
				       {"radix", test_radix},
				       {"dbt", test_dbt},
				       {"circulant", test_circulant},
				       {"circulant_rsag", test_circulant_rsag},
				       {"connections", test_connections},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("count", tests, argc, argv);
}
