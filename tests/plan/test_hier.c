/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every two-level algorithm, proved by the checker: hosts x ranks on each, several assignments of
 * ranks to hosts, counts, chunks, lanes, channel limits. Also checks that the checker detects
 * missing operations.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/verify/check.h"
#include "lib/plan/stored.h"
#include "tests/plan/whole.h"
#include "tests/test.h"

#define ELEM 4
#define MAX_N 20
#define MAX_RANKS 36 /* whose sends are counted */
#define PART_LINE 64 /* parts begin at whole lines */

enum place { BLOCKED, CYCLIC, SHUFFLED, PLACES };

/* Ranks on each host. */
struct sizes {
	int n, of[4];
};

static int num_ranks(const struct sizes *s)
{
	int n = 0, i;

	for (i = 0; i < s->n; i++)
		n += s->of[i];
	return n;
}

static struct tt_hosts *sized_new(const struct sizes *s, enum place place)
{
	int n = num_ranks(s), r, k, left[4];
	uint64_t by[MAX_N], random = 11, t;
	struct tt_hosts *h;

	memcpy(left, s->of, sizeof(left));
	for (r = 0, k = 0; r < n; r++) {
		while (!left[k])
			k = (k + 1) % s->n;
		left[k]--;
		by[r] = (uint64_t)k;
		k = (k + (place != BLOCKED)) % s->n;
	}
	for (r = n - 1; place == SHUFFLED && r > 0; r--) {
		k = (int)(tt_random(&random) % (uint64_t)(r + 1));
		t = by[r];
		by[r] = by[k];
		by[k] = t;
	}
	return tt_hosts_new(by, n, &h) ? NULL : h;
}

static struct tt_hosts *hosts_new(int hosts, int each, enum place place)
{
	struct sizes s = {hosts, {each, each, each, each}};

	return sized_new(&s, place);
}

static bool is_hier(const struct tt_alg *alg)
{
	return !strncmp(alg->name, "hier", 4);
}

static bool check(const struct tt_alg *alg, const struct tt_plan_args *a, int howmany)
{
	static unsigned turn;
	struct tt_check_opts o;
	struct tt_whole w;
	int i, shape;

	for (shape = 0; shape < tt_whole_shapes(alg->coll); shape++) {
		tt_whole_init(&w, a, shape);
		w.args.node = false;
		for (i = 0; i < howmany; i++) {
			o = tt_whole_opts(turn++ * 37 % TT_WHOLE_OPTS, ELEM);
			if (!tt_plan_check(alg, &w.args, &o))
				continue;
			printf("  %d hosts, %d places, least %d, shape %d\n", a->hosts->hosts,
			       a->hosts->places, a->hosts->least, shape);
			tt_whole_describe(alg, a, &o);
			return false;
		}
	}
	return true;
}

static bool reduces_in_order(const struct tt_alg *alg, struct tt_plan_args a)
{
	a.ordered = true;
	return tt_coll_reduces(alg->coll) && alg->can(&a);
}

static bool has_blocks(enum tt_coll coll)
{
	return tt_coll_blocks(coll) || tt_coll_counts(coll);
}

static bool has_average(enum tt_coll coll)
{
	return tt_coll_reduces(coll) && coll != TT_COLL_SCAN && coll != TT_COLL_EXSCAN;
}

static bool check_counts(const struct tt_alg *alg, struct tt_plan_args a)
{
	static const size_t vectors[] = {0, 1, 6, 97, 333}, blocks[] = {0, 1, 5, 16, 37};
	const size_t *counts = has_blocks(alg->coll) ? blocks : vectors;
	size_t n = (size_t)a.nranks;
	unsigned i;
	int in_place;

	for (i = 0; i < 5; i++)
		for (in_place = 0; in_place < 2; in_place++) {
			a.count = counts[i];
			a.in_place = in_place > 0;
			a.root = tt_coll_rooted(alg->coll) ? (int)(i % n) : 0;
			a.ordered = false;
			a.divide = has_average(alg->coll) && a.lanes % 2;
			if (a.count > 100 && a.chunk == ELEM && n > 6)
				continue; /* thousands of slices */
			if (!check(alg, &a, 1))
				return false;
			a.ordered = true;
			if (reduces_in_order(alg, a) && !check(alg, &a, 1))
				return false;
		}
	return true;
}

static void check_alg(const struct tt_alg *alg, const struct sizes *sizes, enum place place)
{
	static const size_t chunks[] = {ELEM, 5 * ELEM, 24 * ELEM, 1 << 20};
	struct tt_plan_args a = {.coll = alg->coll, .nranks = num_ranks(sizes), .elem = ELEM};
	struct tt_hosts *h = sized_new(sizes, place);
	unsigned i;

	TT_REQUIRE(h != NULL && h->hosts == sizes->n);
	a.hosts = h;
	if (!alg->can(&a)) { /* in order of rank only */
		free(h);
		return;
	}
	for (i = 0; i < 4; i++)
		for (a.lanes = 1; a.lanes <= 4; a.lanes++) {
			a.chunk = chunks[i];
			if (a.lanes % 3 != (int)i % 3) /* not all of them */
				continue;
			TT_REQUIRE(check_counts(alg, a));
		}
	free(h);
}

static void test_grid(void)
{
	static const struct sizes grid[] = {
		{2, {2, 2}},	   {2, {3, 1}},	   {3, {2, 2, 2}},   {3, {4, 2, 1}}, {2, {3, 3}},
		{4, {2, 2, 2, 2}}, {3, {3, 3, 3}}, {2, {4, 4}},	     {3, {1, 3, 1}}, {2, {1, 2}},
		{4, {4, 4, 4, 4}}, {3, {2, 3, 2}}, {4, {2, 1, 1, 3}}};
	const struct tt_alg *alg;
	unsigned i;
	int place, seen = 0;

	for (alg = tt_algs; alg->name; alg++) {
		if (!is_hier(alg))
			continue;
		seen++;
		for (i = 0; i < sizeof(grid) / sizeof(grid[0]); i++)
			for (place = BLOCKED; place < PLACES; place++)
				if (place == BLOCKED || i < 4)
					check_alg(alg, &grid[i], place);
	}
	TT_CHECK(seen > 4);
}

/* Elements of other lengths, one longer than a cache line. */
static void test_elements(void)
{
	static const size_t sizes[] = {1, 2, 8, 128};
	struct tt_plan_args a = {.nranks = 6, .lanes = 3};
	struct tt_hosts *h = hosts_new(3, 2, CYCLIC);
	const struct tt_alg *alg;
	unsigned i;

	TT_REQUIRE(h != NULL);
	a.hosts = h;
	for (alg = tt_algs; alg->name; alg++)
		for (i = 0; is_hier(alg) && i < 4; i++) {
			a.coll = alg->coll;
			a.elem = sizes[i];
			a.chunk = 7 * a.elem;
			for (a.count = 1; a.count < 200 && alg->can(&a); a.count = a.count * 3 + 1)
				TT_REQUIRE(check(alg, &a, 1));
		}
	free(h);
}

/* The ranks at the places of hosts of one, four and two ranks. */
static void test_places(void)
{
	static const uint64_t by[] = {8, 1, 1, 5, 1, 1, 5};
	static const int at[3][4] = {{0, 0, 0, 0}, {1, 2, 4, 5}, {3, 6, 3, 6}};
	struct tt_hosts *h;
	int i, j;

	TT_REQUIRE(!tt_hosts_new(by, 7, &h) && h);
	TT_CHECK(h->hosts == 3 && h->places == 4 && h->least == 1 && !h->in_order);
	TT_CHECK(h->size[0] == 1 && h->size[1] == 4 && h->size[2] == 2);
	for (i = 0; i < 3; i++)
		for (j = 0; j < 4; j++)
			TT_CHECK(h->rank[i * 4 + j] == at[i][j]);
	free(h);
}

/* Layouts without plans in two levels, and the numbers of layouts that have them. */
static void test_layouts(void)
{
	static const uint64_t uneven[] = {0, 0, 1, 1, 1}, one[] = {4, 4, 4}, alone[] = {0, 1, 2},
			      cyclic[] = {7, 3, 7, 3, 7, 3}, blocks[] = {9, 9, 2, 2};
	struct tt_hosts *h;
	int r;

	TT_REQUIRE(!tt_hosts_new(uneven, 5, &h) && h);
	TT_CHECK(h->hosts == 2 && h->places == 3 && h->least == 2 && h->in_order);
	free(h);
	TT_CHECK(!tt_hosts_new(one, 3, &h) && !h);
	TT_CHECK(!tt_hosts_new(alone, 3, &h) && !h);
	TT_REQUIRE(!tt_hosts_new(blocks, 4, &h) && h);
	TT_CHECK(h->hosts == 2 && h->places == 2 && h->least == 2 && h->in_order);
	free(h);
	TT_REQUIRE(!tt_hosts_new(cyclic, 6, &h) && h);
	TT_CHECK(h->hosts == 2 && h->places == 3 && !h->in_order);
	for (r = 0; r < 6; r++) {
		TT_CHECK(h->host[r] == r % 2 && h->local[r] == r / 2);
		TT_CHECK(h->rank[h->host[r] * 3 + h->local[r]] == r);
	}
	free(h);
}

/* ---- sends ---- */

struct sent {
	size_t bytes, steps;
	int fan_in;
};

static bool sends(const struct tt_alg *alg, const struct tt_plan_args *whole, int rank,
		  struct sent want)
{
	struct tt_plan_cost c;
	struct tt_plan_args a;
	struct tt_plan *plan;

	tt_plan_args_of(whole, rank, &a);
	if (tt_plan_build(alg, &a, &plan))
		return false;
	tt_plan_count(plan, &c);
	tt_plan_free(plan);
	if (c.bytes_sent == want.bytes && (size_t)c.steps == want.steps && c.fan_in == want.fan_in)
		return true;
	printf("  %s %s, %d hosts x %d, rank %d: %zu bytes in %d steps from %d, not %zu in %zu "
	       "from %d\n",
	       tt_coll_name(alg->coll), alg->name, whole->hosts->hosts, whole->hosts->places, rank,
	       (size_t)c.bytes_sent, c.steps, c.fan_in, want.bytes, want.steps, want.fan_in);
	return false;
}

/* The bytes that a rank sends in another algorithm with one rank for each host. */
static struct sent flat(enum tt_coll coll, const char *name, int hosts, int rank, size_t count)
{
	struct tt_plan_args a = {.coll = coll,
				 .rank = rank,
				 .nranks = hosts,
				 .count = count,
				 .elem = ELEM,
				 .chunk = 1 << 20,
				 .lanes = 1,
				 .in_place = coll == TT_COLL_ALLREDUCE};
	struct tt_plan *plan;
	struct tt_plan_cost c = {0};

	if (!tt_plan_build(tt_alg_find(coll, name), &a, &plan)) {
		tt_plan_count(plan, &c);
		tt_plan_free(plan);
	}
	return (struct sent){c.bytes_sent, (size_t)c.steps, c.fan_in};
}

static int log2_up(int n)
{
	int log = 0;

	while (1 << log < n)
		log++;
	return log;
}

/*
 * Blocks that grow with their rank, with gaps at odd ranks: every block goes round except the next
 * rank's.
 */
static bool gatherv_sends(struct tt_plan_args a, int rank)
{
	size_t counts[MAX_RANKS], displs[MAX_RANKS * MAX_RANKS], sum = 0, n = (size_t)a.nranks, i,
								 k;
	const struct tt_hosts *h = a.hosts;
	int place = h->local[rank], host;

	for (i = 0; i < n; i++)
		counts[i] = i + 1;
	for (i = 0; i < n; i++)
		for (k = 0; k < n; k++)
			displs[i * n + k] = k * (k + 1) / 2 + (i % 2) * k;
	a.coll = TT_COLL_ALLGATHERV;
	a.count = 0;
	a.rcounts = counts;
	a.rdispls = displs;
	for (host = 0; host < h->hosts; host++)
		if (host != (h->host[rank] + 1) % h->hosts)
			sum += counts[h->rank[host * h->places + place]];
	return sends(tt_alg_find(a.coll, "hier_ring"), &a, rank,
		     (struct sent){sum * ELEM, (size_t)h->hosts - 1, 1});
}

/* The formulas of doc/ALGORITHMS.md, of n bytes, with H hosts of m ranks. */
static void check_sent(struct tt_plan_args a, int rank)
{
	size_t H = (size_t)a.hosts->hosts, part = a.count * ELEM / (size_t)a.hosts->places;
	size_t m = (size_t)a.hosts->places, block = a.count * ELEM,
	       rounds = (size_t)log2_up(a.hosts->hosts);
	bool first = !a.hosts->local[rank], two = tt_fold_pow2((int)H) == (int)H;
	struct sent none = {0};

	a.coll = TT_COLL_ALLREDUCE;
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_ring"), &a, rank,
		       (struct sent){2 * (H - 1) * part / H, 2 * (H - 1), 1}));
	if (two) {
		TT_CHECK(sends(tt_alg_find(a.coll, "hier_halving_doubling"), &a, rank,
			       (struct sent){2 * (H - 1) * part / H, 2 * rounds, 1}));
		TT_CHECK(sends(tt_alg_find(a.coll, "hier_recursive_doubling"), &a, rank,
			       (struct sent){rounds * part, rounds, 1}));
		TT_CHECK(sends(tt_alg_find(a.coll, "hier_leader"), &a, rank,
			       first ? (struct sent){rounds * block, rounds, 1} : none));
	}
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_dbt"), &a, rank,
		       flat(a.coll, "dbt", (int)H, a.hosts->host[rank], part / ELEM)));
	a.coll = TT_COLL_BCAST;
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_binomial"), &a, rank,
		       flat(a.coll, "binomial", (int)H, a.hosts->host[rank], part / ELEM)));
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_leader"), &a, rank,
		       first ? flat(a.coll, "binomial", (int)H, a.hosts->host[rank], a.count)
			     : none));
	a.coll = TT_COLL_REDUCE;
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_binomial"), &a, rank,
		       flat(a.coll, "binomial", (int)H, a.hosts->host[rank], part / ELEM)));
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_leader"), &a, rank,
		       first ? flat(a.coll, "binomial", (int)H, a.hosts->host[rank], a.count)
			     : none));
	a.coll = TT_COLL_REDUCE_SCATTER_BLOCK;
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_ring"), &a, rank,
		       (struct sent){(H - 1) * block, H - 1, 1}));
	a.coll = TT_COLL_ALLGATHER;
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_ring"), &a, rank,
		       (struct sent){(H - 1) * block, H - 1, 1}));
	TT_CHECK(gatherv_sends(a, rank));
	a.coll = TT_COLL_ALLTOALL;
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_pairwise"), &a, rank,
		       (struct sent){(H - 1) * m * block, H - 1, 1}));
	a.coll = TT_COLL_GATHER;
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_leader"), &a, rank,
		       !first ? none
		       : rank ? (struct sent){m * block, 1, 0}
			      : (struct sent){0, 1, (int)H - 1}));
	a.coll = TT_COLL_SCATTER;
	TT_CHECK(sends(tt_alg_find(a.coll, "hier_leader"), &a, rank,
		       !first ? none
		       : rank ? (struct sent){0, 1, 1}
			      : (struct sent){(H - 1) * m * block, 1, 0}));
	a.coll = TT_COLL_SCAN;
	TT_CHECK(
		sends(tt_alg_find(a.coll, "hier_leader"), &a, rank,
		      first ? flat(TT_COLL_EXSCAN, "doubling", (int)H, a.hosts->host[rank], a.count)
			    : none));
	a.coll = TT_COLL_BARRIER;
	TT_CHECK(sends(tt_alg_find(a.coll, "hier"), &a, rank,
		       first ? (struct sent){rounds, rounds, 1} : none));
}

static void test_counts(void)
{
	struct tt_plan_args a = {.elem = ELEM, .chunk = 1 << 20, .lanes = 1};
	struct tt_hosts *h;
	int hosts, each, r;

	for (hosts = 2; hosts <= 9; hosts++)
		for (each = 2; each <= 4; each++) {
			TT_REQUIRE(!tt_hosts_blocks(hosts * each, each, &h) && h);
			a.hosts = h;
			a.nranks = hosts * each;
			a.count = (size_t)(hosts * each) * PART_LINE / ELEM;
			for (r = 0; r < a.nranks; r++)
				check_sent(a, r);
			free(h);
		}
}

/* ---- errors that the checker must detect ---- */

static int build_all(const struct tt_alg *alg, const struct tt_plan_args *whole,
		     struct tt_plan **plans)
{
	struct tt_plan_args a;
	int r, err = 0;

	for (r = 0; !err && r < whole->nranks; r++) {
		tt_plan_args_of(whole, r, &a);
		err = tt_plan_build(alg, &a, &plans[r]);
	}
	return err;
}

/* The nth op of a kind in a plan; the test may change it. */
static struct tt_op *op_at(struct tt_plan *plan, enum tt_op_kind kind, int nth)
{
	const struct tt_op *ops;
	int l, r, i, n;

	for (l = 0; l < plan->nlanes; l++)
		for (r = 0; r < tt_plan_rounds(plan, l); r++) {
			n = tt_plan_ops(plan, l, r, NULL, &ops);
			for (i = 0; i < n; i++)
				if (ops[i].kind == kind && !nth--)
					return (struct tt_op *)&ops[i];
		}
	return NULL;
}

/* Whether any order finds it. */
static bool refused(struct tt_plan **plans, int n)
{
	struct tt_check_opts o;
	unsigned i;

	for (i = 0; i < TT_WHOLE_OPTS; i++) {
		o = tt_whole_opts(i, ELEM);
		if (tt_plan_check_plans(plans, n, &o))
			return true;
	}
	return false;
}

static void test_faults(void)
{
	struct tt_plan_args a = {
		.coll = TT_COLL_ALLREDUCE, .nranks = 4, .elem = ELEM, .count = 400, .lanes = 3};
	const struct tt_alg *alg = tt_alg_find(TT_COLL_ALLREDUCE, "hier_ring");
	struct tt_plan *plans[4] = {0};
	struct tt_hosts *h = hosts_new(2, 2, BLOCKED);
	struct tt_op *op, saved;
	int r;

	TT_REQUIRE(h != NULL);
	a.hosts = h;
	a.chunk = 16 * ELEM;
	TT_REQUIRE(!build_all(alg, &a, plans));
	TT_REQUIRE(plans[1]->nlanes == 3 && plans[1]->mixed && !refused(plans, 4));
	op = op_at(plans[1], TT_OP_WAIT, 1); /* the last one, of lane 0 */
	TT_REQUIRE(op && op->index == 4);
	op->index = 3; /* returns before all lanes of the others have ended */
	TT_CHECK(refused(plans, 4));
	op->index = 5;
	TT_CHECK(refused(plans, 4)); /* never */
	op->index = 4;
	op = op_at(plans[1], TT_OP_WAIT, 0);
	TT_REQUIRE(op && op->index == 1);
	saved = *op;
	*op = (struct tt_op){.kind = TT_OP_WAIT, .peer = 1, .index = 1}; /* for itself only */
	TT_CHECK(refused(plans, 4));
	*op = saved;
	op = op_at(plans[2], TT_OP_PUSH, 1);
	TT_REQUIRE(op != NULL);
	op->dst.off -= 4; /* into what its neighbour is in charge of */
	TT_CHECK(refused(plans, 4));
	op->dst.off += 4;
	op = op_at(plans[2], TT_OP_PULL_REDUCE, 0);
	TT_REQUIRE(op != NULL);
	op->a.off += 4;
	TT_CHECK(refused(plans, 4));
	op->a.off -= 4;
	TT_CHECK(!refused(plans, 4));
	for (r = 0; r < 4; r++)
		tt_plan_free(plans[r]);
	free(h);
}

static const struct tt_test tests[] = {{"grid", test_grid},
				       {"elements", test_elements},
				       {"layouts", test_layouts},
				       {"places", test_places},
				       {"counts", test_counts},
				       {"faults", test_faults},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("hier", tests, argc, argv);
}
