/* SPDX-License-Identifier: BSD-3-Clause */
/* The costs of algorithms in the memory of one host. */
#include "lib/coll/costs.h"

#define IN_CACHE 0.6 /* of the time that as much costs in memory: slots stay there */

void tt_cost_node_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	double n = a->nranks;

	tt_cost_signals(c, 1);
	tt_cost_work(c, n * tt_cost_bytes(a) * IN_CACHE, true, n);
}

void tt_cost_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, tt_cost_bytes(a), true, a->nranks);
}

void tt_cost_barrier_node(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
}

void tt_cost_bcast_node_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
	tt_cost_work(c, 2 * tt_cost_bytes(a) * IN_CACHE, false, a->nranks);
}

void tt_cost_bcast_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, tt_cost_bytes(a), false, a->nranks - 1);
}

void tt_cost_reduce_node_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
	tt_cost_work(c, a->nranks * tt_cost_bytes(a) * IN_CACHE, true, 1);
}

/* What is stored is a part, where an all-reduce stores as much as it reads. */
void tt_cost_reduce_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, tt_cost_bytes(a) * IN_CACHE, true, a->nranks);
}

void tt_cost_reduce_scatter_node(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, a->nranks * tt_cost_bytes(a) * IN_CACHE, true, a->nranks);
}

void tt_cost_allgather_node_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
	tt_cost_work(c, (a->nranks + 1) * tt_cost_bytes(a) * IN_CACHE, false, a->nranks);
}

void tt_cost_allgather_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, (a->nranks - 1) * tt_cost_bytes(a), false, a->nranks);
}

void tt_cost_gather_node_slots(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 1);
	tt_cost_work(c, (a->nranks + 1) * tt_cost_bytes(a) * IN_CACHE, false, 1);
}

void tt_cost_gather_node_pull(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, (a->nranks - 1) * tt_cost_bytes(a), false, 1);
}

void tt_cost_scatter_node(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, tt_cost_bytes(a), false, a->nranks);
}

void tt_cost_alltoall_node(struct tt_cost *c, const struct tt_plan_args *a)
{
	tt_cost_signals(c, 2);
	tt_cost_work(c, (a->nranks - 1) * tt_cost_bytes(a), false, a->nranks);
}
