/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by algorithms in two levels: the ranks of a host work in its memory; across hosts, the
 * ranks at the same place of each host communicate. The part across hosts is the plan of another
 * algorithm with one rank for each host, whose ops become ops of the whole plan. The stages of a
 * lane follow one another, and while one lane is on the network, another is in memory.
 */
#ifndef TT_COLL_HIER_H
#define TT_COLL_HIER_H

#include "lib/coll/node/coll_node.h"

/* The buffers of the plan across hosts; the arguments give the places of blocks in the v forms. */
struct tt_across {
	int place; /* of all its ranks; -1: ranks are those of the communicator */
	struct tt_ref send, recv;
	size_t scratch;
	size_t vector; /* of a part that is encoded: where it begins in the vector */
};

static inline bool tt_can_hier(const struct tt_plan_args *a)
{
	return a->hosts && (!a->ordered || a->hosts->in_order);
}

static inline int tt_hier_host(const struct tt_plan_args *a)
{
	return a->hosts->host[a->rank];
}

/* Ranks of this rank's host. */
static inline int tt_hier_size(const struct tt_plan_args *a)
{
	return a->hosts->size[tt_hier_host(a)];
}

/* The rank at a place of a host, */
static inline int tt_hier_rank(const struct tt_plan_args *a, int host, int place)
{
	return a->hosts->rank[host * a->hosts->places + place];
}

/* and at a place of this rank's host. */
static inline int tt_hier_near(const struct tt_plan_args *a, int place)
{
	return tt_hier_rank(a, tt_hier_host(a), place);
}

/* This rank's first place, and from there the next one; places end at hosts->places. */
static inline int tt_hier_place(const struct tt_plan_args *a)
{
	return a->hosts->local[a->rank];
}

static inline int tt_hier_next_place(const struct tt_plan_args *a, int place)
{
	return place + tt_hier_size(a);
}

/* The rank whose own place this is on a host; -1: there are fewer. */
static inline int tt_hier_own(const struct tt_plan_args *a, int host, int place)
{
	return place < a->hosts->size[host] ? tt_hier_rank(a, host, place) : -1;
}

/* The arguments of the plan across hosts: one rank for each host, one lane. */
struct tt_plan_args tt_hier_args(const struct tt_plan_args *a, enum tt_coll coll, size_t count);
/* Its rounds, in the current lane. */
void tt_hier_add(struct tt_builder *b, const struct tt_across *where, const struct tt_plan *plan);
/* One that goes across once, from scratch on; where->scratch is taken. */
void tt_hier_once(struct tt_builder *b, const char *name, const struct tt_plan_args *across,
		  struct tt_across where);

/*
 * A plan in lanes. All ranks of the host signal that they have begun; then each lane processes its
 * slices; the plan ends when all lanes of all ranks of the host have ended. In between no rank
 * waits for ranks of its host. A rank works for each of its places; all hosts process a slice of a
 * place in the same lane and in the same order.
 */
struct tt_hier {
	struct tt_builder *b;
	const struct tt_plan_args *a;
	const char *name; /* of the plan across hosts */
	size_t slices;
	int lanes, lane;	 /* how many; where the builder is */
	struct tt_span *scratch; /* of each lane */
	size_t *counts, *displs; /* room for those of a v form across */
	struct tt_ref result;	 /* the result's place, if the caller of tt_hier_lanes sets one */
	struct tt_plan *plan;	 /* of the last slice */
};
/* Emits a slice of a place; not called for empty slices. */
typedef void tt_hier_fn(struct tt_hier *h, int place, size_t slice);

/*
 * longest: length of the longest part that is cut; chunks: in a slice of it. reads, writes: see
 * tt_signal.
 */
void tt_hier_lanes(struct tt_hier *h, size_t longest, size_t chunks, struct tt_ref reads,
		   struct tt_ref writes, tt_hier_fn *slice);
/*
 * Builds the plan of a slice in h->plan and reserves where->scratch for it, and further bytes of
 * the lane's scratch at offset *more; false: nothing to do.
 */
bool tt_hier_slice(struct tt_hier *h, const struct tt_plan_args *across, struct tt_across *where,
		   size_t bytes, size_t *more);
/* Combines this range of all inputs of this host in rank order. */
void tt_hier_combine(struct tt_builder *b, struct tt_ref dst, struct tt_ref a, size_t len);
/*
 * Stores a range of recvbuf at the other ranks of this host, at the same offset in the buffers
 * that they have published.
 */
void tt_hier_store(struct tt_hier *h, struct tt_ref from, size_t off, size_t len);
void tt_hier_push(struct tt_hier *h, size_t off, size_t len);
/* The part of a vector that belongs to a place; a slice of it; the length of the longest part. */
struct tt_span tt_hier_part(const struct tt_hier *h, int place, size_t slice);
size_t tt_hier_longest_part(const struct tt_plan_args *a);
/* A slice of a block. */
static inline struct tt_span tt_hier_piece(const struct tt_hier *h, struct tt_span block,
					   size_t slice)
{
	return tt_pieces(block, h->a->elem, h->slices, slice, 1);
}

#endif
