/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of one rank: nobody to talk to.
 *
 * All-reduce: the result is the input, copied unless the call is in place. The average of one
 * vector is the vector itself (dividing by 1 changes no bit), so there is nothing to divide.
 * Broadcast and barrier: nothing at all.
 *
 * Cost: no message; out of place N bytes copied.
 */
#include "lib/plan/plan.h"

void tt_allreduce_single(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);

	if (!a->in_place)
		tt_copy(b, TT_RECVBUF(0), TT_SENDBUF(0), a->count * a->elem);
}

void tt_bcast_single(struct tt_builder *b)
{
}

void tt_barrier_single(struct tt_builder *b)
{
}
