/* SPDX-License-Identifier: BSD-3-Clause */
/* The stored form of a plan, shared by the builder (writer) and plan.c (reader). */
#ifndef TT_STORED_H
#define TT_STORED_H

#include "lib/plan/plan.h"

/* Round r of a lane is ops[begin[r]] up to ops[begin[r + 1]]; begin has nrounds + 1 entries. */
struct tt_lane {
	const struct tt_op *ops;
	const uint32_t *begin;
	int nrounds;
};

/* The ops of a round of a generated plan. */
int tt_sliced_ops(const struct tt_plan *plan, int lane, int round, struct tt_op *ops);

#endif
