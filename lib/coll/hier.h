/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What algorithms in two levels share: ranks of a host in its memory, and across hosts, for each place on a host,
 * the ranks at that place, one of each host. What goes across is the plan of another algorithm for so
 * many ranks as there are hosts, whose ops become ops of the plan of all: the stages of a lane follow one another, and
 * while one lane is on the network, another one is in memory.
 */
#ifndef TT_COLL_HIER_H
#define TT_COLL_HIER_H

#include "lib/coll/node.h"

/* Where the plan across hosts has its buffers. */
struct tt_across {
	int local; /* of all its ranks */
	struct tt_ref send, recv;
	size_t scratch;
};

static inline bool tt_can_hier(const struct tt_plan_args *a)
{
	return a->hosts && (!a->ordered || a->hosts->in_order);
}

static inline int tt_hier_host(const struct tt_plan_args *a)
{
	return a->hosts->host[a->rank];
}

static inline int tt_hier_local(const struct tt_plan_args *a)
{
	return a->hosts->local[a->rank];
}

/* The arguments of what goes across: one rank for each host, one lane. */
struct tt_plan_args tt_hier_args(const struct tt_plan_args *a, enum tt_coll coll, size_t count);
/* *plan, if it is not of these arguments, becomes one that is, of that algorithm. False: b is broken. */
bool tt_hier_plan(struct tt_builder *b, const char *name, const struct tt_plan_args *across,
		  struct tt_plan **plan);
/* Its rounds, in the current lane. */
void tt_hier_add(struct tt_builder *b, const struct tt_across *where, const struct tt_plan *plan);

#endif
