/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of all algorithms (algs.def), and common predicates for "can it do this call?". */
#include "lib/plan/plan.h"

const struct tt_alg tt_algs[] = {
#define TT_ALG(coll, name, emit, can, cost) {TT_COLL_##coll, name, emit, can, cost},
#include "lib/coll/algs.def"
#undef TT_ALG
	{0, NULL, NULL, NULL, NULL}};

bool tt_one_rank(const struct tt_plan_args *args)
{
	return args->nranks == 1;
}

bool tt_more_ranks(const struct tt_plan_args *args)
{
	return args->nranks > 1;
}

bool tt_any_ranks(const struct tt_plan_args *args)
{
	return true;
}

bool tt_commuting(const struct tt_plan_args *args)
{
	return args->nranks > 1 && !args->ordered;
}

bool tt_can_node_ranks(const struct tt_plan_args *args)
{
	return args->node && args->nranks > 1;
}
