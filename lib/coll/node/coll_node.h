/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by algorithms for the ranks of one host. */
#ifndef TT_COLL_NODE_H
#define TT_COLL_NODE_H

#include "lib/plan/plan.h"

static inline unsigned tt_node_flags(const struct tt_plan_args *a)
{
	return a->divide ? TT_OPF_DIVIDE : 0;
}

#endif
