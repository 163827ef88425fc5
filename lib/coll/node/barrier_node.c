/* SPDX-License-Identifier: BSD-3-Clause */
/* Barrier in the memory of one host. Cost: one signal and one wait for all. */
#include "lib/coll/node/coll_node.h"

void tt_barrier_node(struct tt_builder *b)
{
	tt_meet(b, 1, TT_NONE, TT_NONE);
}
