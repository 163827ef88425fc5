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
	/* not 0: blocks of recv, so long, that lie apart: each so far from the beginning as its rank times apart */
	size_t block, apart;
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

/* The first rank of this rank's host. */
static inline int tt_hier_first(const struct tt_plan_args *a)
{
	return a->hosts->rank[tt_hier_host(a) * a->hosts->each];
}

/* The arguments of what goes across: one rank for each host, one lane. */
struct tt_plan_args tt_hier_args(const struct tt_plan_args *a, enum tt_coll coll, size_t count);
/* *plan, if it is not of these arguments, becomes one that is, of that algorithm. False: b is broken. */
bool tt_hier_plan(struct tt_builder *b, const char *name, const struct tt_plan_args *across,
		  struct tt_plan **plan);
/* Its rounds, in the current lane. */
void tt_hier_add(struct tt_builder *b, const struct tt_across *where, const struct tt_plan *plan);

/*
 * A plan in lanes: all signal that they have begun, each lane does its slices when all have, and it ends when all lanes
 * of all ranks of the host have. In between nobody waits for ranks of the host.
 */
struct tt_hier {
	struct tt_builder *b;
	const struct tt_plan_args *a;
	const char *name;	/* of what goes across */
	struct tt_span part;	/* what this rank is in charge of, or a block */
	size_t slices, base, slot; /* of scratch: where it begins, bytes for a lane */
	int lanes;
	struct tt_plan *plan; /* of the last slice */
};
typedef void tt_hier_fn(struct tt_hier *h, struct tt_span at, int lane);

/* longest: part of any rank; chunks: in a slice of it. reads, writes: see tt_signal. */
void tt_hier_lanes(struct tt_hier *h, size_t longest, size_t chunks, struct tt_ref reads,
		   struct tt_ref writes, tt_hier_fn *slice);
/* The plan of a slice, of these arguments, in h->plan, and so many bytes of scratch of the lane; false: nothing to do. */
bool tt_hier_slice(struct tt_hier *h, const struct tt_plan_args *across, size_t scratch);
/* The part of a vector that this rank is in charge of; the length of the longest of all. */
struct tt_span tt_hier_part(const struct tt_plan_args *a, size_t *longest);

#endif
