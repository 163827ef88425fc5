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
