/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost functions against the simulator, which plays the very plans: every algorithm, many
 * numbers of ranks, sizes and ways to cut, on models as different as a switch of RDMA, slow
 * Ethernet, and one host with and without enough processors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/plan/choose.h"
#include "lib/plan/cost.h"
#include "lib/verify/sim.h"
#include "tests/test.h"

#define WITHIN 2.1	  /* times; anything */
#define WITHIN_FLAT 2.2	  /* flat algorithms on hosts with several ranks */
#define WITHIN_UNEVEN 3.2 /* no closed form knows which ranks are alone on their hosts */
#define CLOSE 1.25	  /* most of them: */
#define SHARE 0.85
#define SHARE_HIER 0.8
#define SHARE_FLAT 0.8
#define SHARE_UNEVEN 0.6
#define APART 1.7 /* nearly all algorithms that differ by this factor are in the right order: */
#define ORDERED 0.985
#define ORDERED_HOSTS 0.98

static const char *const names[] = {"rdma", "ethernet", "host", "crowded host"};
enum { MODELS = 4 };

static struct tt_model model_of(int which)
{
	struct tt_model m;

	tt_model_default(&m);
	if (which == 1) {
		m.link[TT_LEVEL_LEAF] = (struct tt_hop){15000, 1 / 0.119};
		m.overhead = 3000;
	}
	if (which >= 1)
		m.eager = 4096;
	if (which >= 2)
		m.ranks_per_host = 64;
	if (which == 3)
		m.cores = 2;
	return m;
}

static int next_ranks(int n)
{
	return n < 5 ? n + 1 : n < 8 ? 8 : n == 16 ? 33 : 2 * n;
}

/* v forms are costed as the others. */
static bool simulated(enum tt_coll coll)
{
	return coll != TT_COLL_REDUCE_SCATTER && coll != TT_COLL_ALLGATHERV &&
	       coll != TT_COLL_GATHERV && coll != TT_COLL_SCATTERV && coll != TT_COLL_ALLTOALLV;
}

static size_t largest(enum tt_coll coll)
{
	bool blocks = coll == TT_COLL_ALLGATHER || coll == TT_COLL_GATHER ||
		      coll == TT_COLL_SCATTER || coll == TT_COLL_ALLTOALL ||
		      coll == TT_COLL_REDUCE_SCATTER_BLOCK;

	return blocks ? 1 << 20 : 8 << 20;
}

static bool can(const struct tt_alg *alg, const struct tt_plan_args *a)
{
	return strcmp(alg->name, "single") != 0 && (!alg->can || alg->can(a));
}

static bool is_hier(const struct tt_alg *alg)
{
	return !strncmp(alg->name, "hier", 4);
}

struct score {
	int all, close;
};

static void compare(const struct tt_alg *alg, const struct tt_plan_args *a,
		    const struct tt_model *m, const char *name, struct score *score)
{
	bool uneven = a->hosts && a->hosts->least < a->hosts->places;
	double within = uneven ? WITHIN_UNEVEN : a->hosts && !is_hier(alg) ? WITHIN_FLAT : WITHIN;
	struct tt_sim_result r;
	struct tt_cost cost;
	double ratio;

	TT_REQUIRE(!tt_sim(alg, a, m, &r));
	tt_cost(alg, a, m, &cost);
	ratio = cost.time / r.last;
	score->all++;
	score->close += ratio >= 1 / CLOSE && ratio <= CLOSE;
	if (ratio < 1 / within || ratio > within)
		printf("  %s: %s %s n=%d count=%zu chunk=%zu lanes=%d: %.1f us, simulated %.1f\n",
		       name, tt_coll_name(alg->coll), alg->name, a->nranks, a->count, a->chunk,
		       a->lanes, cost.time / 1e3, r.last / 1e3);
	TT_CHECK(ratio >= 1 / within && ratio <= within);
}

static void against_simulator(const struct tt_alg *alg, int which, struct score *score)
{
	struct tt_model m = model_of(which);
	struct tt_plan_args a;
	int n, lanes;
	size_t bytes;

	for (n = 2; n <= 33; n = next_ranks(n))
		for (bytes = 512; bytes <= largest(alg->coll); bytes *= 32)
			for (lanes = 1; lanes <= 4; lanes += 3) {
				a = (struct tt_plan_args){.coll = alg->coll,
							  .nranks = n,
							  .elem = 4,
							  .count = bytes / 4,
							  .chunk = 64 << 10,
							  .lanes = lanes};
				if (can(alg, &a))
					compare(alg, &a, &m, names[which], score);
			}
}

static void test_simulator(void)
{
	struct score score = {0};
	const struct tt_alg *alg;
	int which;

	for (which = 0; which < MODELS; which++)
		for (alg = tt_algs; alg->name; alg++)
			if (simulated(alg->coll))
				against_simulator(alg, which, &score);
	printf("  %d of %d within %g\n", score.close, score.all, CLOSE);
	TT_CHECK(score.close >= SHARE * score.all);
}

/* ---- hosts with several ranks ---- */

/* Ranks of all, and of one host after the other, over and over. */
static const struct layout {
	int n, sizes, of[3];
} layouts[] = {{4, 1, {2}},  {8, 1, {4}}, {8, 1, {2}},	  {16, 1, {4}},	     {16, 1, {2}},
	       {32, 1, {4}}, {9, 1, {3}}, {4, 2, {3, 1}}, {7, 3, {4, 2, 1}}, {6, 3, {1, 4, 1}}};
enum { EVEN = 7, LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

static struct tt_hosts *hosts_of(const struct layout *l, struct tt_model *m)
{
	struct tt_hosts *h;

	TT_CHECK(!tt_hosts_sized(l->n, l->of, l->sizes, &h) && h);
	m->ranks_per_host = h->places;
	m->hosts = h->hosts;
	m->host = h->host;
	return h;
}

static void host_against_simulator(const struct tt_model *model, const struct layout *l, bool hier,
				   struct score *score)
{
	struct tt_plan_args a;
	struct tt_model m = *model;
	const struct tt_alg *alg;
	struct tt_hosts *h = hosts_of(l, &m);
	int lanes;
	size_t bytes;

	for (alg = tt_algs; alg->name; alg++)
		for (bytes = 512; bytes <= largest(alg->coll) && simulated(alg->coll); bytes *= 32)
			for (lanes = 1; lanes <= 4 && is_hier(alg) == hier; lanes += 3) {
				a = (struct tt_plan_args){.coll = alg->coll,
							  .nranks = l->n,
							  .elem = 4,
							  .count = bytes / 4,
							  .chunk = 64 << 10,
							  .lanes = lanes,
							  .hosts = h};
				if (can(alg, &a))
					compare(alg, &a, &m, hier ? "two levels" : "hosts", score);
			}
	free(h);
}

static void on_hosts(bool hier, int from, int to, double share)
{
	struct score score = {0};
	struct tt_model m;
	int which, i;

	for (which = 0; which < 2; which++)
		for (i = from; i < to; i++) {
			m = model_of(which);
			host_against_simulator(&m, &layouts[i], hier, &score);
		}
	printf("  %d of %d within %g\n", score.close, score.all, CLOSE);
	TT_CHECK(score.close >= share * score.all);
}

static void test_hier(void)
{
	on_hosts(true, 0, EVEN, SHARE_HIER);
}

static void test_flat(void)
{
	on_hosts(false, 0, EVEN, SHARE_FLAT);
}

static void test_uneven(void)
{
	on_hosts(true, EVEN, LAYOUTS, SHARE_UNEVEN);
	on_hosts(false, EVEN, LAYOUTS, SHARE_UNEVEN);
}

/* ---- order, and the choice ---- */

struct tally {
	int pairs, right, picks, hier; /* hier: picks in two levels */
	double lost, worst;
	const struct tt_model *levels; /* on NUMA nodes: the model of two levels; else NULL */
};

static void judge(const struct tt_chooser *c, const struct tt_plan_args *a,
		  const struct tt_model *m, struct tally *t)
{
	struct tt_candidate list[TT_CANDIDATES];
	double sim[TT_CANDIDATES], best = INFINITY, lost;
	int n = tt_candidates(c, a, list, TT_CANDIDATES), i, k;
	struct tt_sim_result r;
	struct tt_plan_args p;

	for (i = 0; i < n; i++) {
		bool hier = t->levels && is_hier(list[i].alg);

		p = *a;
		p.chunk = list[i].chunk;
		p.lanes = list[i].lanes;
		p.node = a->node && !hier;
		p.hosts = p.node ? NULL : a->hosts;
		TT_REQUIRE(!tt_sim(list[i].alg, &p, hier ? t->levels : m, &r));
		sim[i] = r.last;
		best = r.last < best ? r.last : best;
	}
	for (i = 0; i < n; i++)
		for (k = 0; k < n; k++)
			if (sim[i] > APART * sim[k]) {
				t->pairs++;
				t->right += list[i].predicted > list[k].predicted;
			}
	lost = sim[tt_pick(c, a, list, n)] / best;
	t->picks++;
	t->hier += is_hier(list[tt_pick(c, a, list, n)].alg);
	t->lost += lost;
	if (lost > t->worst)
		t->worst = lost;
	if (lost > 1.5)
		printf("  %s n=%d count=%zu: %s takes %.2f times the best one's time\n",
		       tt_coll_name(a->coll), a->nranks, a->count,
		       list[tt_pick(c, a, list, n)].alg->name, lost);
}

/* The choice among flat and two-level algorithms, on hosts with several ranks. */
static void test_picks_on_hosts(void)
{
	struct tally t = {0};
	struct tt_plan_args a;
	struct tt_chooser *c;
	struct tt_hosts *h;
	struct tt_model m;
	int which, i, coll;
	size_t bytes;

	for (which = 0; which < 2; which++)
		for (i = 0; i < LAYOUTS; i++) {
			m = model_of(which);
			h = hosts_of(&layouts[i], &m);
			TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &m, &c));
			for (coll = 0; coll < TT_NUM_COLLS; coll++)
				for (bytes = 8; simulated(coll) && bytes <= largest(coll);
				     bytes *= 8) {
					a = (struct tt_plan_args){.coll = coll,
								  .nranks = layouts[i].n,
								  .elem = 4,
								  .count = bytes / 4,
								  .hosts = h};
					judge(c, &a, &m, &t);
				}
			tt_chooser_free(c);
			free(h);
		}
	printf("  %d of %d pairs in order; picks take %.3f times the best one's time on average, "
	       "%.2f at worst\n",
	       t.right, t.pairs, t.lost / t.picks, t.worst);
	TT_CHECK(t.right >= ORDERED_HOSTS * t.pairs);
	TT_CHECK(t.lost <= 1.05 * t.picks);
	TT_CHECK(t.worst <= WITHIN);
}

/* On one host, this many ranks on each of its NUMA nodes. */
struct numa {
	int n;
	struct tt_model model, levels;
	struct tt_hosts *hosts;
};

static void numa_new(int n, int nodes, struct numa *u)
{
	struct tt_layout layout = {.hosts = 1,
				   .ranks_per_host = n,
				   .cores = n,
				   .numa = nodes,
				   .ranks_per_numa = n / nodes};

	u->n = n;
	tt_model_of(&u->model, &layout, tt_link_default("shm"), tt_link_default("ofi"));
	tt_model_numa(&u->model, &layout, &u->levels);
	TT_REQUIRE(!tt_hosts_blocks(n, n / nodes, &u->hosts));
}

static void numa_costs(const struct numa *u, struct score *score)
{
	const struct tt_alg *alg;
	struct tt_plan_args a;
	size_t bytes;

	for (alg = tt_algs; alg->name; alg++)
		for (bytes = 512;
		     is_hier(alg) && simulated(alg->coll) && bytes <= largest(alg->coll);
		     bytes *= 32) {
			a = (struct tt_plan_args){.coll = alg->coll,
						  .nranks = u->n,
						  .elem = 4,
						  .count = bytes / 4,
						  .chunk = 64 << 10,
						  .lanes = 1,
						  .hosts = u->hosts};
			if (can(alg, &a))
				compare(alg, &a, &u->levels, "NUMA", score);
		}
}

/* *hier: the longest all-reduce goes in two levels. */
static void numa_picks(const struct numa *u, struct tally *t, bool *hier)
{
	struct tt_plan_args a = {.coll = TT_COLL_ALLREDUCE,
				 .nranks = u->n,
				 .elem = 4,
				 .node = true,
				 .hosts = u->hosts};
	struct tt_chooser *c;
	size_t bytes;
	int before;

	TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &u->model, &c));
	tt_chooser_levels(c, &u->levels);
	t->levels = &u->levels;
	for (bytes = 4096; bytes <= 64 << 20; bytes *= 8) {
		a.count = bytes / 4;
		before = t->hier;
		judge(c, &a, &u->model, t);
		*hier = t->hier > before;
	}
	tt_chooser_free(c);
}

/*
 * Two levels on one host: as costly as in the simulator, picked where many ranks share a node, and
 * not where few do.
 */
static void test_numa(void)
{
	static const int ranks[] = {4, 16, 64}, nodes[] = {2, 4};
	struct score score = {0};
	struct tally t = {0};
	size_t i, k;

	for (i = 0; i < 3; i++)
		for (k = 0; k < 2 && nodes[k] < ranks[i]; k++) {
			struct numa u;
			bool hier = false;

			numa_new(ranks[i], nodes[k], &u);
			numa_picks(&u, &t, &hier);
			numa_costs(&u, &score);
			TT_CHECK(hier == (ranks[i] / nodes[k] >= 16));
			free(u.hosts);
		}
	printf("  %d of %d within %g; picks take %.3f times the best one's time on average, %.2f "
	       "at worst\n",
	       score.close, score.all, CLOSE, t.lost / t.picks, t.worst);
	TT_CHECK(score.close >= SHARE_HIER * score.all);
	TT_CHECK(t.lost <= 1.05 * t.picks);
	TT_CHECK(t.worst <= WITHIN);
}

static void test_picks(void)
{
	struct tally t = {0};
	struct tt_plan_args a;
	struct tt_chooser *c;
	struct tt_model m;
	int which, n, coll;
	size_t bytes;

	for (which = 0; which < MODELS; which++) {
		m = model_of(which);
		TT_REQUIRE(!tt_chooser_new("", 256 << 10, 4, &m, &c));
		for (coll = 0; coll < TT_NUM_COLLS; coll++)
			for (n = 2; simulated(coll) && n <= 33; n = next_ranks(n))
				for (bytes = 8; bytes <= largest(coll); bytes *= 8) {
					a = (struct tt_plan_args){.coll = coll,
								  .nranks = n,
								  .elem = 4,
								  .count = bytes / 4};
					judge(c, &a, &m, &t);
				}
		tt_chooser_free(c);
	}
	printf("  %d of %d pairs in order; picks take %.3f times the best one's time on average, "
	       "%.2f at worst\n",
	       t.right, t.pairs, t.lost / t.picks, t.worst);
	TT_CHECK(t.right >= ORDERED * t.pairs);
	TT_CHECK(t.lost <= 1.05 * t.picks);
	TT_CHECK(t.worst <= WITHIN);
}

static const struct tt_test tests[] = {
	{"simulator", test_simulator}, {"hier", test_hier},
	{"flat", test_flat},	       {"uneven", test_uneven},
	{"picks", test_picks},	       {"picks_on_hosts", test_picks_on_hosts},
	{"numa", test_numa},	       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("cost", tests, argc, argv);
}
