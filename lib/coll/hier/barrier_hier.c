/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barrier in two levels: the first rank of each host waits for the ranks of its host, runs a
 * dissemination barrier with the first ranks of the other hosts, and releases its host. Cost: two
 * signals within the host, log2 H messages by its first rank, H hosts.
 */
#include "lib/coll/hier/hier.h"

void tt_barrier_hier(struct tt_builder *b)
{
	const struct tt_plan_args *a = tt_builder_args(b);
	struct tt_plan_args across = tt_hier_args(a, TT_COLL_BARRIER, 0);
	struct tt_across where = {0};

	tt_signal(b, 1, TT_NONE, TT_NONE);
	if (a->rank != tt_hier_near(a, 0)) {
		tt_wait(b, tt_hier_near(a, 0), 2);
		return;
	}
	tt_wait(b, TT_ALL_RANKS, 1);
	tt_hier_once(b, "dissemination", &across, where);
	tt_signal(b, 2, TT_NONE, TT_NONE);
}
