/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans of neighbours in graphs: proved by the checker over graphs, counts, chunks, lanes and
 * channel limits; counted: out-degree x N bytes; simulated; and planted faults are found. Also
 * those of hosts as neighbours.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/graph/graph.h"
#include "lib/plan/stored.h"
#include "lib/verify/check.h"
#include "lib/verify/sim.h"
#include "tests/test.h"

#define ELEM 4
#define GRAPHS 9

static const struct tutti_edge lopsided[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {0, 4, 1}, {3, 1, 1},
					     {2, 1, 1}, {1, 0, 1}, {4, 4, 1}, {2, 4, 1}};

/* Some graph of n ranks; NULL: there is none of that kind. */
static struct tutti_graph *graph_of(int kind, int n)
{
	struct tutti_graph *g = NULL;
	int err = -EINVAL;

	switch (kind) {
	case 0:
		err = tutti_graph_ring(n, &g);
		break;
	case 1:
		err = n % 2 ? -EINVAL : tutti_graph_torus(2, n / 2, &g);
		break;
	case 2:
		err = tutti_graph_star(n, &g);
		break;
	case 3:
		err = tutti_graph_complete(n, &g);
		break;
	case 4:
		err = tutti_graph_exponential(n, &g);
		break;
	case 5:
		err = tutti_graph_one_peer(n, &g);
		break;
	case 6:
		err = n > 4 && n % 2 == 0 ? tutti_graph_regular(n, 3, 5, &g) : -EINVAL;
		break;
	case 7:
		err = n < 5 ? -EINVAL : tutti_graph_edges(n, lopsided, 9, TUTTI_WEIGHTS_GIVEN, &g);
		break;
	default:
		err = tutti_graph_edges(n, NULL, 0, TUTTI_WEIGHTS_IN, &g);
		break;
	}
	return err ? NULL : g;
}

static const enum tt_coll colls[] = {TT_COLL_NEIGHBOR_ALLREDUCE, TT_COLL_NEIGHBOR_ALLGATHER,
				     TT_COLL_NEIGHBOR_ALLTOALL};

static struct tt_plan_args args_of(enum tt_coll coll, const struct tt_edges *edges, size_t count)
{
	return (struct tt_plan_args){.coll = coll,
				     .nranks = edges->n,
				     .count = count,
				     .elem = ELEM,
				     .chunk = 1 << 20,
				     .lanes = 2,
				     .edges = edges};
}

/* One graph in one step, all small calls. */
static bool proved(const struct tt_edges *edges, uint64_t *dice)
{
	static const size_t counts[] = {0, 1, 3, 16, 41}, chunks[] = {ELEM, 5 * ELEM, 1 << 20};
	static const int limits[] = {1, 2, 0};
	static const size_t eager[] = {0, 2 * ELEM, SIZE_MAX};
	int k, c, in_place;

	for (k = 0; k < 3; k++)
		for (c = 0; c < 5; c++)
			for (in_place = 0; in_place <= (k == 0 && counts[c]); in_place++) {
				struct tt_plan_args a = args_of(colls[k], edges, counts[c]);
				struct tt_check_opts o = {.seed = tt_random(dice) % 1000};

				a.in_place = in_place;
				a.chunk = chunks[tt_random(dice) % 3];
				a.lanes = 1 + (int)(tt_random(dice) % 4);
				o.credits = limits[tt_random(dice) % 3];
				o.offers = limits[tt_random(dice) % 3];
				o.eager = eager[tt_random(dice) % 3];
				if (tt_plan_check(tt_alg_neighbors(colls[k]), &a, &o)) {
					printf("  %s of %d ranks, count %zu: %s\n",
					       tt_coll_name(colls[k]), edges->n, counts[c],
					       tt_fail_text(-EINVAL));
					return false;
				}
			}
	return true;
}

static void test_proved(void)
{
	struct tutti_graph *g;
	uint64_t dice = 1;
	int kind, n, t;

	for (kind = 0; kind < GRAPHS; kind++)
		for (n = 1; n <= 17; n++) {
			g = graph_of(kind, n);
			for (t = 0; g && t < g->period; t++)
				TT_CHECK(proved(g->step[t], &dice));
			if (g)
				tutti_graph_free(g);
		}
}

/* The cost of rank's plan. */
static struct tt_plan_cost cost_of(const struct tt_plan_args *whole, int rank)
{
	struct tt_plan_cost cost = {0};
	struct tt_plan *plan = NULL;
	struct tt_plan_args a;

	tt_plan_args_of(whole, rank, &a);
	TT_CHECK(!tt_plan_build(tt_alg_neighbors(a.coll), &a, &plan));
	if (plan)
		tt_plan_count(plan, &cost);
	tt_plan_free(plan);
	return cost;
}

static void test_counted(void)
{
	const size_t count = 100003, len = count * ELEM;
	struct tt_plan_args a;
	struct tt_plan_cost c;
	struct tutti_graph *g;
	int kind, r, k;

	for (kind = 0; kind < GRAPHS; kind++) {
		g = graph_of(kind, 8);
		TT_REQUIRE(g != NULL);
		for (k = 0; k < 3; k++) {
			a = args_of(colls[k], g->step[0], count);
			a.chunk = 1 << 16;
			for (r = 0; r < 8; r++) {
				size_t out = (size_t)tt_edges_out(a.edges, r);
				size_t in = (size_t)tt_edges_in(a.edges, r);

				c = cost_of(&a, r);
				TT_CHECK(c.bytes_sent == out * len && c.bytes_received == in * len);
				TT_CHECK(c.bytes_reduced == (k ? 0 : len));
				TT_CHECK(c.fan_in == (int)in);
			}
		}
		tutti_graph_free(g);
	}
}

/* Slots for many neighbours stay within bounds, whatever the length. */
static void test_scratch(void)
{
	struct tutti_graph *g = graph_of(2, 200);
	struct tt_plan *plan = NULL;
	struct tt_plan_args a;

	TT_REQUIRE(g != NULL);
	a = args_of(TT_COLL_NEIGHBOR_ALLREDUCE, g->step[0], 1 << 24);
	a.lanes = 4;
	TT_REQUIRE(!tt_plan_build(tt_alg_neighbors(a.coll), &a, &plan)); /* rank 0, the center */
	TT_CHECK(plan->scratch <= (size_t)16 << 20 && plan->scratch >= (size_t)8 << 20);
	tt_plan_free(plan);
	tutti_graph_free(g);
}

static void test_refused(void)
{
	struct tutti_graph *g = graph_of(0, 5);
	struct tt_plan *plan = NULL;
	struct tt_plan_args a;

	TT_REQUIRE(g != NULL);
	a = args_of(TT_COLL_NEIGHBOR_ALLREDUCE, g->step[0], 7);
	a.nranks = 4;
	TT_CHECK(tt_plan_build(tt_alg_neighbors(a.coll), &a, &plan) == -EINVAL);
	a.nranks = 5;
	a.edges = NULL;
	TT_CHECK(tt_plan_build(tt_alg_neighbors(a.coll), &a, &plan) == -EINVAL);
	TT_CHECK(plan == NULL);
	tutti_graph_free(g);
}

/* ---- planted faults ---- */

static struct tt_plan *plans[5];

static bool build_all(const struct tt_edges *edges)
{
	struct tt_plan_args whole = args_of(TT_COLL_NEIGHBOR_ALLREDUCE, edges, 3), a;
	int r;

	for (r = 0; r < 5; r++) {
		tt_plan_args_of(&whole, r, &a);
		if (tt_plan_build(tt_alg_neighbors(a.coll), &a, &plans[r]))
			return false;
	}
	return true;
}

/* The op of this kind in rank 2's plan. */
static struct tt_op *op_of(enum tt_op_kind kind)
{
	const struct tt_op *ops;
	int round, i, n;

	for (round = 0; round < tt_plan_rounds(plans[2], 0); round++) {
		n = tt_plan_ops(plans[2], 0, round, NULL, &ops);
		for (i = 0; i < n; i++)
			if (ops[i].kind == kind)
				return (struct tt_op *)(uintptr_t)&ops[i];
	}
	return NULL;
}

static bool found(const char *text)
{
	struct tt_check_opts o = {.eager = SIZE_MAX};
	int err = tt_plan_check_plans(plans, 5, &o), r;
	bool said = err == -EINVAL && strstr(tt_fail_text(err), text);

	if (!said)
		printf("  %d: %s\n", err, tt_fail_text(err));
	for (r = 0; r < 5; r++)
		tt_plan_free(plans[r]);
	return said;
}

static void test_faults(void)
{
	struct tutti_graph *g = graph_of(0, 5);

	TT_REQUIRE(g != NULL && build_all(g->step[0]));
	op_of(TT_OP_WEIGH)->peer = 1;
	TT_CHECK(found("adds up 1 neighbours, not 2"));
	TT_REQUIRE(build_all(g->step[0]));
	op_of(TT_OP_WEIGH)->index = 2;
	TT_CHECK(found("overlap"));
	TT_REQUIRE(build_all(g->step[0]));
	op_of(TT_OP_WEIGH)->a = op_of(TT_OP_WEIGH)->b;
	TT_CHECK(found("every neighbour's contribution exactly once with its weight"));
	TT_REQUIRE(build_all(g->step[0]));
	op_of(TT_OP_WEIGH)->b.off += 1 << 20;
	TT_CHECK(found("are outside of scratch"));
	TT_REQUIRE(build_all(g->step[0]));
	op_of(TT_OP_RECV)->dst = TT_RECVBUF(0);
	TT_CHECK(found("not written before"));
	tutti_graph_free(g);
}

/* ---- hosts ---- */

static bool hier_proved(const struct tt_plan_args *whole, uint64_t *dice)
{
	static const size_t counts[] = {0, 1, 3, 16, 41}, chunks[] = {ELEM, 5 * ELEM, 1 << 20};
	static const int limits[] = {1, 2, 0};
	static const size_t eager[] = {0, 2 * ELEM, SIZE_MAX};
	int c, in_place;

	for (c = 0; c < 5; c++)
		for (in_place = 0; in_place <= (counts[c] > 0); in_place++) {
			struct tt_check_opts o = {.seed = tt_random(dice) % 1000};
			struct tt_plan_args a = *whole;

			a.count = counts[c];
			a.in_place = in_place;
			a.chunk = chunks[tt_random(dice) % 3];
			a.lanes = 1 + (int)(tt_random(dice) % 4);
			o.credits = limits[tt_random(dice) % 3];
			o.offers = limits[tt_random(dice) % 3];
			o.eager = eager[tt_random(dice) % 3];
			if (tt_plan_check(tt_alg_neighbors(a.coll), &a, &o) ||
			    tt_plan_check(tt_alg_neighbors_hier(), &a, &o)) {
				printf("  %d ranks on %d hosts, count %zu: %s\n", a.nranks,
				       a.hosts->hosts, a.count, tt_fail_text(-EINVAL));
				return false;
			}
		}
	return true;
}

/* Every graph of the hosts of random layouts, in one of its steps. */
static void test_hier_proved(void)
{
	struct tt_plan_args a;
	struct tt_hosts *hosts;
	struct tutti_graph *g;
	uint64_t dice = 2, by[12];
	int n, kind, r, most, t;

	for (n = 1; n <= 12; n++)
		for (kind = 0; kind < GRAPHS; kind++)
			for (t = 0; t < 4; t++) {
				most = t ? 1 + (int)(tt_random(&dice) % (uint64_t)n) : n;
				for (r = 0; r < n; r++)
					by[r] = tt_random(&dice) % (uint64_t)most;
				TT_REQUIRE(!tt_hosts_any(by, n, &hosts));
				g = graph_of(kind, hosts->hosts);
				if (g) {
					a = args_of(TT_COLL_NEIGHBOR_HIER_ALLREDUCE,
						    g->step[t % g->period], 0);
					a.nranks = n;
					a.hosts = hosts;
					TT_CHECK(hier_proved(&a, &dice));
					tutti_graph_free(g);
				}
				free(hosts);
			}
}

/* Hosts of 4: a quarter of the vector to both neighbours, three quarters to the host and back. */
static void test_hier_counted(void)
{
	const size_t count = 1 << 17, len = count * ELEM;
	struct tutti_graph *g = graph_of(0, 3);
	struct tt_hosts *hosts = NULL;
	struct tt_plan_args a;
	struct tt_plan_cost c;
	int r;

	TT_REQUIRE(g != NULL && !tt_hosts_blocks(12, 4, &hosts));
	a = args_of(TT_COLL_NEIGHBOR_HIER_ALLREDUCE, g->step[0], count);
	a.nranks = 12;
	a.hosts = hosts;
	for (r = 0; r < 12; r++) {
		c = cost_of(&a, r);
		TT_CHECK(c.bytes_sent == 2 * len / 4 + 2 * (3 * len / 4));
		TT_CHECK(c.bytes_received == c.bytes_sent);
		TT_CHECK(c.bytes_reduced == 2 * len / 4);
	}
	free(hosts);
	tutti_graph_free(g);
}

static int waits_of(size_t count)
{
	struct tutti_graph *g = graph_of(0, 1);
	struct tt_plan_args a = args_of(TT_COLL_NEIGHBOR_HIER_ALLREDUCE, g->step[0], count);
	struct tt_plan *plan = NULL;
	struct tt_hosts *host = NULL;
	const struct tt_op *op, *end;
	int waits = 0;

	a.nranks = 4;
	a.lanes = 1;
	TT_CHECK(!tt_hosts_any((const uint64_t[4]){0}, 4, &host));
	a.hosts = host;
	TT_CHECK(!tt_plan_build(tt_alg_neighbors_hier(), &a, &plan));
	end = plan->lane[0].ops + plan->lane[0].begin[plan->lane[0].nrounds];
	for (op = plan->lane[0].ops; op < end; op++)
		waits += op->kind == TT_OP_WAIT;
	tt_plan_free(plan);
	free(host);
	tutti_graph_free(g);
	return waits;
}

/* On one host the ranks wait for each other once in a short call, else twice. */
static void test_hier_waits(void)
{
	TT_CHECK(waits_of(1) == 1);
	TT_CHECK(waits_of(TT_SLOT_SMALL / ELEM) == 1);
	TT_CHECK(waits_of(TT_SLOT_SMALL / ELEM + 1) == 2);
}

/* ---- simulated ---- */

/* alpha + N beta, and the sum's share, in each step of a graph with one peer. */
static void test_simulated(void)
{
	struct tutti_graph *one = graph_of(5, 64), *ring = graph_of(0, 64);
	struct tt_sim_result peer = {0}, both = {0}, all = {0};
	struct tt_plan_args a;
	struct tt_model m;

	TT_REQUIRE(one && ring);
	tt_model_default(&m);
	m.link[TT_LEVEL_LEAF] = m.link[TT_LEVEL_FAR] = (struct tt_hop){1000, 0.1};
	m.ranks_per_host = 1;
	m.gamma = m.copy = m.overhead = 0;
	m.eager = SIZE_MAX;
	a = args_of(TT_COLL_NEIGHBOR_ALLREDUCE, one->step[3], 1 << 20);
	a.chunk = 1 << 23;
	a.lanes = 1;
	TT_REQUIRE(!tt_sim(tt_alg_neighbors(a.coll), &a, &m, &peer));
	TT_CHECK(peer.bytes == 64ull * 4 << 20);
	TT_CHECK(peer.last >= 1000 + (4 << 20) * 0.1 &&
		 peer.last < 1.05 * (1000 + (4 << 20) * 0.1));
	a.edges = ring->step[0];
	TT_REQUIRE(!tt_sim(tt_alg_neighbors(a.coll), &a, &m, &both));
	TT_CHECK(both.bytes == 2 * peer.bytes && both.last > 1.9 * peer.last);
	a.coll = TT_COLL_ALLREDUCE;
	TT_REQUIRE(!tt_sim(tt_alg_find(a.coll, "ring"), &a, &m, &all));
	printf("  64 hosts, 4 MiB: one peer %.0f us, ring of 2 %.0f us, all-reduce %.0f us\n",
	       peer.last / 1e3, both.last / 1e3, all.last / 1e3);
	TT_CHECK(peer.last < 0.6 * all.last);
	tutti_graph_free(one);
	tutti_graph_free(ring);
}

/* In two levels by messages that cost nothing: a rank adds up its quarter of 4 vectors. */
static void test_hier_simulated(void)
{
	struct tutti_graph *g = graph_of(0, 2);
	struct tt_sim_result result = {0};
	struct tt_hosts *hosts = NULL;
	struct tt_plan_args a;
	struct tt_model m;
	double bytes = 1 << 20;

	TT_REQUIRE(g && !tt_hosts_blocks(8, 4, &hosts));
	tt_model_default(&m);
	m.link[TT_LEVEL_HOST] = m.link[TT_LEVEL_LEAF] = (struct tt_hop){0, 0};
	m.ranks_per_host = 4;
	m.copy = m.overhead = m.host_overhead = 0;
	m.gamma = 1;
	m.cores = 0;
	a = args_of(TT_COLL_NEIGHBOR_HIER_ALLREDUCE, g->step[0], 1 << 18);
	a.nranks = 8;
	a.hosts = hosts;
	a.lanes = 1;
	TT_REQUIRE(!tt_sim(tt_alg_neighbors(a.coll), &a, &m, &result));
	/* the 3 other ranks of the host, then the other host */
	TT_CHECK(result.first > 0.999 * bytes && result.last < 1.001 * bytes);
	free(hosts);
	tutti_graph_free(g);
}

static const struct tt_test tests[] = {{"proved", test_proved},
				       {"counted", test_counted},
				       {"scratch", test_scratch},
				       {"refused", test_refused},
				       {"faults", test_faults},
				       {"hier_proved", test_hier_proved},
				       {"hier_counted", test_hier_counted},
				       {"hier_waits", test_hier_waits},
				       {"simulated", test_simulated},
				       {"hier_simulated", test_hier_simulated},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("neighbors", tests, argc, argv);
}
