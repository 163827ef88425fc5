/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions of which each rank combines a part (such as allreduce) in memory that peers cannot
 * map, or that had better not be read where it is (lib/node/call_ways.c).
 *
 * A rank with such memory has a ring (lib/node/node.h) of shared memory, short enough to stay in
 * the cache. It fills the ring, piece by piece, with the input that the other ranks combine. They
 * combine straight out of all rings and store the result over the input in the rings; this rank
 * then takes it out. It combines its own part from its own memory into its own memory. Of N bytes
 * and n ranks (n-1)/n N are copied in, and as many out if there is a result. Pieces of all ranks'
 * parts have the same numbers, so the use of a place needs no message. Only each rank's progress is
 * published, and only if there are more pieces than places:
 *
 *	FILLED	  this rank's ring has pieces up to here, or has had them
 *	COMBINED  this rank has combined its part up to here
 *
 * The signals of the plan do the rest: a rank gives the first signal when the places are filled,
 * and takes the results out after all ranks have given the second.
 *
 * A scan has an op for each rank's result, the last rank's first: its input, which the result
 * replaces, is in no other result.
 */
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/engine/node/node_ops.h"

#define WHOLE_MOST TT_NODE_POOL_MOST /* a vector up to this size is one piece for each rank */
#define DEPTH 2
#define RING_BYTES                                                                                 \
	((size_t)512 << 10) /* half of a second-level cache; shorter pieces wait more often */
#define PIECE_LEAST ((size_t)4096)

static bool scatters(const struct tt_plan_args *a)
{
	return a->coll == TT_COLL_REDUCE_SCATTER_BLOCK || a->coll == TT_COLL_REDUCE_SCATTER;
}

/* Has an op for each result. */
static bool scans(const struct tt_plan_args *a)
{
	return a->coll == TT_COLL_SCAN || a->coll == TT_COLL_EXSCAN;
}

/* The part of a vector that rank j combines. */
static struct tt_span part_of(const struct tt_plan_args *a, int j)
{
	return scatters(a) ? tt_send_block(a, j) : tt_node_part(a, j);
}

/* The bytes of its piece k, which may be empty. */
static struct tt_span piece_of(const struct tt_plan_args *a, const struct tt_node_ring *shape,
			       int j, uint32_t k)
{
	struct tt_span part = part_of(a, j);
	size_t piece = shape->piece, at = (size_t)k * piece;

	if (at >= part.len)
		return (struct tt_span){part.off, 0};
	return (struct tt_span){part.off + at, part.len - at < piece ? part.len - at : piece};
}

/* The shortest part and the longest. */
static void find_lengths(const struct tt_plan_args *a, size_t *shortest, size_t *longest)
{
	size_t len;
	int j;

	*shortest = SIZE_MAX;
	*longest = 0;
	for (j = 0; j < a->nranks; j++) {
		len = part_of(a, j).len;
		*shortest = len < *shortest ? len : *shortest;
		*longest = len > *longest ? len : *longest;
	}
}

/* Of a vector; where parts differ, as if all were as long as the longest. */
static size_t vector_bytes(const struct tt_plan_args *a, size_t longest)
{
	return scatters(a) ? (size_t)a->nranks * longest : a->count * a->elem;
}

static bool serves(const struct tt_plan_args *a)
{
	if (tt_node_by_one(a))
		return false;
	return a->node && !(TT_NODE_LINE % a->elem) &&
	       (a->coll == TT_COLL_ALLREDUCE || a->coll == TT_COLL_REDUCE || scatters(a) ||
		scans(a));
}

unsigned tt_ring_kind(enum tt_coll coll)
{
	switch (coll) {
	case TT_COLL_ALLREDUCE:
		return 0;
	case TT_COLL_REDUCE:
		return 1;
	case TT_COLL_SCAN:
		return 2;
	default: /* reduce-scatters */
		return 3;
	}
}

unsigned tt_ring_mapped_way(const struct tt_node_group *g, const struct tt_plan_args *a)
{
	return scatters(a) ? 0 : tt_node_mapped_way(g, tt_ring_kind(a->coll), tt_ring_vector(a));
}

size_t tt_ring_vector(const struct tt_plan_args *a)
{
	size_t shortest, longest;

	find_lengths(a, &shortest, &longest);
	return vector_bytes(a, longest);
}

uint32_t tt_ring_shape(const struct tt_plan_args *a, struct tt_node_ring *shape)
{
	size_t shortest, longest, most;

	if (!serves(a))
		return 0;
	find_lengths(a, &shortest, &longest);
	shape->piece = (longest + TT_NODE_LINE - 1) & ~(TT_NODE_LINE - 1);
	shape->depth = 1;
	if (vector_bytes(a, longest) <= WHOLE_MOST)
		return longest > 0;
	/*
	 * A rank that combines nothing would not refill its ring; and a second op needs the first
	 * pieces again.
	 */
	if (!shortest || (scans(a) && a->nranks > 2))
		return 0;
	shape->depth = DEPTH;
	most = RING_BYTES / (DEPTH * (size_t)(a->nranks - 1)) & ~(size_t)4095;
	most = most < PIECE_LEAST ? PIECE_LEAST : most;
	shape->piece = shape->piece < most ? shape->piece : most;
	return (uint32_t)((longest + shape->piece - 1) / shape->piece);
}

void tt_ring_begin(struct tt_plan_req *req)
{
	struct tt_ring_run *ring = &req->ring;

	if (!ring->known && !req->plan->mixed)
		ring->pieces = tt_ring_shape(&req->plan->args, &ring->shape);
	ring->known = true;
	/* the places that a short call has filled may hold results by now */
	ring->on = ring->made && ring->pieces;
	ring->filled = ring->made ? ring->pieces : 0;
	ring->combined = ring->drained = 0;
	ring->way = 0;
	ring->from = ring->filling = 0;
	ring->mapped = TT_MAPPED_LEFT;
	if (ring->pieces > ring->shape.depth)
		tt_node_uncount(req->node->group, req->turn);
}

void tt_ring_end(struct tt_plan_req *req)
{
	if (req->ring.pool)
		tt_mem_free(tt_wire_memory(req->r.comm->ctx->wire), req->ring.pool);
	req->ring.pool = NULL;
	req->ring.mem = NULL;
	req->ring.made = false;
}

void tt_ring_resume(struct tt_plan_req *req, const struct tt_short_ring *short_ring)
{
	struct tt_ring_run *ring = &req->ring;

	ring->made = short_ring->published;
	ring->mem = short_ring->mem;
	ring->pool = short_ring->pool;
	ring->in = short_ring->in;
	ring->out = short_ring->out;
}

void tt_ring_over(struct tt_plan_req *req)
{
	const struct tt_plan_args *a = &req->plan->args;
	struct tt_ring_run *ring = &req->ring;

	if (ring->mapped == TT_MAPPED_BACK && ring->stored)
		tt_ring_hand_back(a, req->base[TT_BUF_RECV]);
	if (ring->from)
		tt_node_went(req->node->group, ring->way, ring->mapped, tt_ring_vector(a),
			     ring->filling + tt_ticks() - ring->from);
}

/* ---- the first signal ---- */

static bool is_mapped(const struct tt_plan_req *req, struct tt_ref ref)
{
	return !ref.buf || tt_node_maps(req->node->group, req->region[ref.buf]);
}

char *tt_ring_memory(struct tutti_context *ctx, struct tt_node_group *g, uint64_t turn,
		     size_t bytes, void **pool, struct tt_region **region)
{
	struct tt_memory *memory = tt_wire_memory(ctx->wire);
	char *slot = tt_node_ring_slot(g, turn, bytes);

	*pool = NULL;
	*region = NULL;
	if (slot)
		return slot;
	if (tt_mem_alloc(memory, bytes, pool, region)) {
		*pool = NULL;
	} else if (!tt_node_maps(g, *region)) {
		tt_mem_free(memory, *pool);
		*pool = NULL;
	}
	return *pool;
}

static void publish(struct tt_plan_req *req, enum tt_node_which which, struct tt_ref ref,
		    bool by_ring, const struct tt_region *region)
{
	struct tt_node_group *g = req->node->group;
	char *addr = req->base[ref.buf] + ref.off;

	if (by_ring)
		tt_node_publish_ring(g, req->turn, which, addr, req->ring.mem,
				     tt_node_ring_bytes(g, &req->ring.shape), region);
	else if (ref.buf)
		tt_node_publish(g, req->turn, which, addr, req->extent[ref.buf] - ref.off,
				req->region[ref.buf], TT_NODE_COPIES);
}

/* Peers reach both vectors where they are. */
static void choose_way(struct tt_plan_req *req)
{
	const struct tt_plan_args *a = &req->plan->args;
	struct tt_node_group *g = req->node->group;
	struct tt_ring_run *ring = &req->ring;

	if (req->blocking && req->plan->nlanes == 1)
		ring->way = tt_ring_mapped_way(g, a);
	if (ring->way)
		ring->mapped = tt_node_mapped(g, &ring->way, tt_ring_vector(a));
}

bool tt_ring_publish(struct tt_plan_req *req, const struct tt_op *op)
{
	bool in = !is_mapped(req, op->a), out = !is_mapped(req, op->dst);
	struct tt_ring_run *ring = &req->ring;
	struct tt_node_group *g = req->node->group;
	struct tt_region *region;

	if (!ring->pieces || !op->a.buf)
		return false;
	ring->on = true;
	ring->stored = op->dst.buf;
	if (!in && !out)
		choose_way(req);
	if (ring->mapped == TT_MAPPED_RINGS) {
		in = op->a.buf;
		out = op->dst.buf;
	}
	/*
	 * Peers that read directly from this rank's memory need not wait for it, which may be
	 * busy.
	 */
	if (!(in || out) || (ring->shape.depth > 1 && !req->blocking &&
			     (req->r.comm->ctx->node_can & TT_NODE_READS)))
		return false;
	ring->mem = tt_ring_memory(req->r.comm->ctx, g, req->turn,
				   tt_node_ring_bytes(g, &ring->shape), &ring->pool, &region);
	if (!ring->mem) {
		ring->way = 0; /* not measured, as it is none of the two */
		return false;
	}
	ring->in = in;
	ring->out = out;
	publish(req, TT_NODE_INPUT, op->a, in, region);
	publish(req, TT_NODE_RESULT, op->dst, out, region);
	return true;
}

/* ---- pieces ---- */

size_t tt_ring_move(struct tt_node_group *g, const struct tt_plan_args *a,
		    const struct tt_node_ring *shape, char *ring, char *vector, uint32_t k, bool in)
{
	struct tt_span at;
	size_t copied = 0;
	char *user, *place;
	int i, j;

	for (i = 1; i < a->nranks; i++) {
		j = (a->rank + i) % a->nranks;
		at = piece_of(a, shape, j, k);
		user = vector + at.off;
		place = ring + tt_node_ring_place(g, shape, a->rank, j, k);
		tt_copy_data(in ? place : user, in ? user : place, at.len);
		copied += at.len;
	}
	return copied;
}

void tt_ring_hand_back(const struct tt_plan_args *a, char *result)
{
	struct tt_span part;
	int j;

	for (j = 0; j < a->nranks; j++) {
		part = part_of(a, j);
		if (j != a->rank)
			tt_hand_back(result + part.off, part.len);
	}
}

static void move(struct tt_plan_req *req, uint32_t k, bool in)
{
	struct tt_ring_run *ring = &req->ring;

	if (in ? ring->in : ring->out)
		tt_wire_stats(req->r.comm->ctx->wire)->copied_bytes +=
			tt_ring_move(req->node->group, &req->plan->args, &ring->shape, ring->mem,
				     req->base[in ? TT_BUF_SEND : TT_BUF_RECV], k, in);
}

bool tt_ring_fill(struct tt_plan_req *req)
{
	struct tt_ring_run *ring = &req->ring;
	size_t bytes = tt_node_ring_bytes(req->node->group, &ring->shape);
	uint64_t from;

	if (ring->filled || !tt_node_may_move(req->r.comm->ctx, bytes))
		return ring->filled;
	from = ring->way ? tt_ticks() : 0;
	while (ring->filled < ring->pieces && ring->filled < ring->shape.depth)
		move(req, ring->filled++, true);
	if (ring->way)
		ring->filling = tt_node_filled(from);
	return true;
}

bool tt_ring_is_on(struct tt_plan_req *req)
{
	struct tt_node_group *g = req->node->group;
	int j;

	for (j = 0; req->ring.on && j < req->plan->args.nranks; j++)
		if (tt_node_has_ring(g, req->turn, j))
			return true;
	return false;
}

/* Whether all other ranks have come to more than n; ranks without a ring fill none. */
static bool all_counted(const struct tt_plan_req *req, enum tt_node_counter which, uint32_t n)
{
	const struct tt_node_group *g = req->node->group;
	int j;

	for (j = 0; j < req->plan->args.nranks; j++)
		if (j != req->plan->args.rank && !tt_node_counted(g, req->turn, j, which, n) &&
		    (which != TT_NODE_FILLED || tt_node_has_ring(g, req->turn, j)))
			return false;
	return true;
}

/* Whether all rings have the piece that this rank combines next. */
static bool has_next(const struct tt_plan_req *req)
{
	const struct tt_ring_run *ring = &req->ring;

	return ring->combined < ring->pieces && (ring->combined < ring->shape.depth ||
						 all_counted(req, TT_NODE_FILLED, ring->combined));
}

/* Whether all other ranks have combined the piece that the next one would overwrite. */
static bool has_room(const struct tt_plan_req *req)
{
	const struct tt_ring_run *ring = &req->ring;

	return ring->mem && ring->filled < ring->pieces &&
	       all_counted(req, TT_NODE_COMBINED, ring->drained);
}

/* Returns whether a piece was combined; or a negative code. */
static int combine_next(struct tt_op_run *run, int *gone)
{
	struct tt_plan_req *req = run->lane->req;
	struct tt_node_group *g = req->node->group;
	struct tutti_context *ctx = req->r.comm->ctx;
	struct tt_ring_run *ring = &req->ring;
	const struct tt_op *op = run->op;
	size_t at = (size_t)ring->combined * ring->shape.piece;
	size_t len = at < op->len ? op->len - at : 0;
	struct tt_node_reduce r;
	struct tt_node_count count = {0};
	int err;

	len = len < ring->shape.piece ? len : ring->shape.piece;
	if (!has_next(req) || !tt_node_may_move(ctx, len))
		return 0;
	r = tt_node_reduction(req, op);
	r.ring = ring->shape;
	r.number = ring->combined;
	if (!req->bounce[TT_NODE_RESULT])
		tt_node_own(g, req->turn, TT_NODE_RESULT, req->base[op->dst.buf]);
	err = len ? tt_node_pull_reduce(
			    g, req->turn, (struct tt_node_ref){TT_NODE_INPUT, op->a.off + at},
			    op->peer, (struct tt_node_ref){TT_NODE_RESULT, op->dst.off + at}, len,
			    &r, &count, gone)
		  : 0;
	if (err)
		return err;
	tt_node_count_bytes(req->r.comm->ctx, &count);
	tt_flight_more(ctx->flight, req->r.flight, 0, len);
	ring->combined++;
	if (ring->pieces > ring->shape.depth)
		tt_node_count(g, req->turn, TT_NODE_COMBINED, ring->combined);
	return 1;
}

/* Returns whether a piece was taken out and another one put in its place. */
static bool refill(struct tt_op_run *run)
{
	struct tt_plan_req *req = run->lane->req;
	struct tt_ring_run *ring = &req->ring;
	size_t bytes = tt_node_ring_bytes(req->node->group, &ring->shape) / ring->shape.depth;

	if (!has_room(req) || !tt_node_may_move(req->r.comm->ctx, 2 * bytes))
		return false;
	move(req, ring->drained++, false);
	move(req, ring->filled++, true);
	tt_node_count(req->node->group, req->turn, TT_NODE_FILLED, ring->filled);
	return true;
}

int tt_ring_pull(struct tt_op_run *run, int *gone)
{
	struct tt_ring_run *ring = &run->lane->req->ring;
	bool moved = true;
	int rc;

	if (!run->at)
		ring->combined = 0;
	if (ring->way && !ring->from)
		ring->from = tt_ticks();
	while (moved) {
		rc = combine_next(run, gone);
		if (rc < 0)
			return rc;
		moved = refill(run) || rc;
		run->at += moved;
	}
	return ring->combined == ring->pieces && (!ring->mem || ring->filled == ring->pieces);
}

bool tt_ring_ready(struct tt_op_run *run)
{
	return has_next(run->lane->req) || has_room(run->lane->req);
}

bool tt_ring_drain(struct tt_op_run *run)
{
	struct tt_plan_req *req = run->lane->req;
	struct tt_ring_run *ring = &req->ring;

	if (!tt_node_may_move(req->r.comm->ctx, tt_node_ring_bytes(req->node->group, &ring->shape)))
		return false;
	while (ring->drained < ring->pieces)
		move(req, ring->drained++, false);
	return true;
}
