/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dissemination barrier.
 *
 * In round k, rank r sends to r + 2^k and receives from r - 2^k (mod n). After round k a rank knows
 * that the 2^(k+1) ranks up to itself have entered, so after ceil(log2 n) rounds all ranks have.
 * Plans have no empty messages, so a message is one byte without meaning, from and to scratch.
 *
 * Cost: ceil(log2 n) steps, as many messages of one byte sent by every rank, fan-in 1.
 *
 * Hensgen, Finkel, Manber: Two algorithms for barrier synchronization. Int. J. Parallel Program.
 * 17(1), 1988.
 */
#include "lib/plan/plan.h"

void tt_barrier_dissemination(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	size_t out = tt_scratch(b, 1), in = tt_scratch(b, 1);
	int n = a->nranks, r = a->rank;
	long dist;

	for (dist = 1; dist < n; dist *= 2) {
		tt_round(b);
		tt_send(b, (int)((r + dist) % n), TT_SCRATCH(out), 1);
		tt_recv(b, (int)((r - dist + n) % n), TT_SCRATCH(in), 1);
	}
}
