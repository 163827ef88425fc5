/* SPDX-License-Identifier: BSD-3-Clause */
/* The costs of algorithms in two levels: memory of a host, then so many ranks as there are hosts. */
#include "lib/coll/costs.h"

#define IN_CACHE 0.6 /* as in costs_node.c */

/* Ranks of a host; the model knows, where no plan is made. */
static int each_of(const struct tt_cost *c, const struct tt_plan_args *a)
{
	int hosts = tt_cost_hosts(c);

	return (a->nranks + hosts - 1) / hosts;
}

/* One rank of each host, and its part of the vector. */
static struct tt_plan_args across_of(const struct tt_cost *c, const struct tt_plan_args *a,
				     int parts)
{
	struct tt_plan_args across = *a;
	size_t n = (size_t)parts;

	across.nranks = tt_cost_hosts(c);
	across.count = a->count / n + (a->count % n > 0);
	across.hosts = NULL;
	return across;
}

/* Every rank reads its part of all inputs of its host, and stores it in all results. */
static void levels(struct tt_cost *c, const struct tt_plan_args *a, tt_cost_fn *cost)
{
	int each = each_of(c, a);
	struct tt_plan_args across = across_of(c, a, each);
	double slice;

	tt_cost_across(c, cost, &across, each);
	slice = tt_cost_num_slices(c) > 0 ? tt_cost_bytes(a) / tt_cost_num_slices(c) : 0;
	tt_cost_signals(c, 2);
	tt_cost_work(c, slice * IN_CACHE / 2, true, a->nranks);
	tt_cost_work(c, slice * IN_CACHE / 2, false, a->nranks);
}

void tt_cost_hier_ring(struct tt_cost *c, const struct tt_plan_args *a)
{
	levels(c, a, tt_cost_ring);
}

void tt_cost_hier_halving_doubling(struct tt_cost *c, const struct tt_plan_args *a)
{
	levels(c, a, tt_cost_halving_doubling);
}

void tt_cost_hier_recursive_doubling(struct tt_cost *c, const struct tt_plan_args *a)
{
	levels(c, a, tt_cost_recursive_doubling);
}

void tt_cost_hier_dbt(struct tt_cost *c, const struct tt_plan_args *a)
{
	levels(c, a, tt_cost_dbt);
}

void tt_cost_hier_leader(struct tt_cost *c, const struct tt_plan_args *a)
{
	struct tt_plan_args across = across_of(c, a, 1);
	double each = each_of(c, a), bytes = tt_cost_bytes(a) * IN_CACHE;

	across.lanes = 1;
	tt_cost_across(c, tt_cost_recursive_doubling, &across, 1);
	tt_cost_signals(c, 2);
	tt_cost_work(c, each * bytes, true, tt_cost_hosts(c));
	tt_cost_pull(c, bytes, a->nranks);
}
