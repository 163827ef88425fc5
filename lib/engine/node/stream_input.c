/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inputs of copies in memory that peers can neither map nor read; and of two ranks, where the
 * kernel would take longer to read them, as both measure (lib/node/call_ways.c).
 *
 * The owner publishes a stream (lib/node/node.h) and gives its signal at once. In every progress
 * step it puts pieces of its input into the stream, and each reader copies out what is there. So
 * the two copies of a byte overlap with those of other bytes, and with few places in use they stay
 * in the cache. Of N bytes N are copied in, and N out by each reader.
 *
 * Where ranks share cores, the owner fills the stream before the signal: a reader would only take
 * its core.
 *
 * An owner whose caller waits first lets readers leave one of few places. If they do not, or if its
 * caller may be busy later, it uses more places, so that no reader waits for another one.
 */
#include "lib/base/clock.h"
#include "lib/engine/node/node_ops.h"
#include "lib/plan/stored.h"

#define FEW ((size_t)384 << 10) /* bytes of these places: more leave the cache sooner */
#define PATIENCE 256		/* progress steps */

/* Each reader copies a block of its own. */
static bool has_lanes(enum tt_coll coll)
{
	return coll == TT_COLL_SCATTER || coll == TT_COLL_SCATTERV || coll == TT_COLL_ALLTOALL ||
	       coll == TT_COLL_ALLTOALLV;
}

static bool serves(const struct tt_plan_args *a)
{
	bool by_one = a->coll == TT_COLL_EXSCAN && tt_node_by_one(a); /* a copy */

	return a->node && !tt_coll_neighbors(a->coll) && (!tt_coll_reduces(a->coll) || by_one);
}

/* Empties the lanes of blocks that are in the slot: of ranks that this rank does not wait for. */
static void keep_longer(const struct tt_plan *plan, struct tt_node_lane *lane)
{
	const struct tt_op *op = plan->lane[0].ops;
	const struct tt_op *end = op + plan->lane[0].begin[plan->lane[0].nrounds];
	bool longer[TT_NODE_RANKS] = {false};
	int i;

	for (; op < end; op++)
		if (op->kind == TT_OP_WAIT && op->peer != TT_ALL_RANKS)
			longer[op->peer] = true;
	for (i = 0; i < plan->args.nranks - 1; i++)
		if (!longer[lane[i].reader])
			lane[i].len = 0;
}

/* The lanes of len bytes at `from` of the input; returns their number. */
static int find_lanes(const struct tt_plan *plan, size_t from, size_t len,
		      struct tt_node_lane *lane)
{
	const struct tt_plan_args *a = &plan->args;
	bool gathers = a->coll == TT_COLL_GATHER || a->coll == TT_COLL_GATHERV;
	struct tt_span block;
	int i, j;

	if (!has_lanes(a->coll)) {
		lane[0] = (struct tt_node_lane){0, len, gathers ? a->root : TT_NODE_ALL};
		return 1;
	}
	for (i = 1; i < a->nranks; i++) {
		j = (a->rank + i) % a->nranks;
		block = tt_send_block(a, j);
		lane[i - 1] = (struct tt_node_lane){block.off - from, block.len, j};
	}
	if (tt_coll_own_counts(a->coll))
		keep_longer(plan, lane);
	return a->nranks - 1;
}

/* -1: inputs of others, whose plans are not for that, are not streamed if peers can read them. */
static int copy_kind(enum tt_coll coll)
{
	switch (coll) {
	case TT_COLL_BCAST:
	case TT_COLL_EXSCAN:
		return TT_NODE_TO_ALL;
	case TT_COLL_SCATTER:
	case TT_COLL_SCATTERV:
		return TT_NODE_SCATTERS;
	case TT_COLL_GATHER:
		return TT_NODE_GATHERS;
	case TT_COLL_ALLGATHER:
	case TT_COLL_ALLGATHERV:
		return TT_NODE_ALL_TO_ALL;
	case TT_COLL_ALLTOALL:
	case TT_COLL_ALLTOALLV:
		return TT_NODE_EXCHANGES;
	default:
		return -1;
	}
}

struct tt_stream_choice tt_stream_choose(struct tutti_comm *comm, enum tt_coll coll, size_t len,
					 uint64_t seq)
{
	struct tt_stream_choice c = {.seq = seq, .from = tt_ticks(), .len = len};
	struct tt_node_group *g = comm->node->group;
	int kind = comm->ctx->wait_mode == TT_WAIT_SPIN ? copy_kind(coll) : -1;

	c.way = kind < 0 ? 0 : tt_node_copy_way(g, (enum tt_node_copy_kind)kind, len);
	c.streams = c.way && tt_node_streams(g, &c.way, &c.asks);
	return c;
}

int tt_stream_publish(struct tt_plan_req *req, struct tt_ref ref, size_t len)
{
	struct tt_memory *memory = tt_wire_memory(req->r.comm->ctx->wire);
	struct tt_node_lane lane[TT_NODE_RANKS];
	struct tt_node_group *g = req->node->group;
	struct tt_stream_run *s = &req->stream;
	struct tt_region *region;
	size_t bytes;
	void *mem;
	int i, err;

	if (!serves(&req->plan->args) ||
	    (!s->choice.streams && (req->r.comm->ctx->node_can & TT_NODE_READS)))
		return 0;
	s->lanes = find_lanes(req->plan, ref.off, len, lane);
	bytes = tt_node_stream_bytes(g, lane, s->lanes);
	err = tt_mem_alloc(memory, bytes, &mem, &region);
	if (err)
		return err;
	s->mem = mem;
	if (!tt_node_maps(g, region)) {
		s->choice = (struct tt_stream_choice){0};
		tt_stream_end(req);
		return tt_fail(-ENOMEM, "peers can map no more pool memory of this process");
	}
	tt_node_publish_stream(g, req->turn, s->mem, bytes, region, lane, s->lanes, s->choice.asks);
	s->input = req->base[ref.buf] + ref.off;
	s->piece = 0;
	for (i = 0; i < s->lanes; i++)
		if (tt_node_stream_next(lane[i].len, 0) > s->piece)
			s->piece = tt_node_stream_next(lane[i].len, 0);
	s->waited = 0;
	s->full = false;
	return 1;
}

bool tt_stream_instead(struct tt_plan_req *req, struct tt_ref ref, size_t len)
{
	struct tutti_comm *comm = req->r.comm;
	struct tt_stream_choice *c = &req->stream.choice;

	if (!req->blocking || req->node != comm->node)
		return false;
	*c = comm->node->choice;
	comm->node->choice.seq = 0;
	if (c->seq != req->r.seq || c->len != len)
		*c = tt_stream_choose(comm, (enum tt_coll)req->fields.coll, len, req->r.seq);
	if (!c->streams)
		return false;
	if (tt_stream_publish(req, ref, len) > 0)
		return true;
	*c = (struct tt_stream_choice){0}; /* no room in the pool: it stays where it is */
	return false;
}

void tt_stream_end(struct tt_plan_req *req)
{
	struct tt_stream_choice *c = &req->stream.choice;

	if (c->way && !req->r.status)
		tt_node_went(req->node->group, c->way, !c->streams, c->len, tt_ticks() - c->from);
	*c = (struct tt_stream_choice){0};
	if (req->stream.mem)
		tt_mem_free(tt_wire_memory(req->r.comm->ctx->wire), req->stream.mem);
	req->stream.mem = NULL;
}

bool tt_stream_hungry(const struct tt_plan_req *req)
{
	return req->stream.mem && !req->stream.full;
}

bool tt_stream_in_step(const struct tt_plan_req *req)
{
	const struct tutti_context *ctx = req->r.comm->ctx;

	return req->blocking && ctx->wait_mode == TT_WAIT_SPIN &&
	       (req->stream.mem || !(ctx->node_can & TT_NODE_READS));
}

/* One piece into each lane that has room; returns the bytes. */
static size_t fill_once(struct tt_plan_req *req)
{
	struct tutti_context *ctx = req->r.comm->ctx;
	struct tt_stream_run *s = &req->stream;
	size_t most = tt_stream_in_step(req) && s->waited < PATIENCE ? FEW : SIZE_MAX;
	size_t bytes = 0, n;
	int i;

	for (i = 0; i < s->lanes && ctx->node_left >= s->piece; i++) {
		n = tt_node_stream_fill(req->node->group, s->mem, i, s->input, most);
		ctx->node_left -= n;
		bytes += n;
	}
	return bytes;
}

bool tt_stream_feed(struct tt_plan_req *req)
{
	struct tt_stream_run *s = &req->stream;
	size_t bytes = 1, moved = 0;

	if (!tt_stream_hungry(req))
		return false;
	for (; bytes; moved += bytes) {
		bytes = fill_once(req);
		if (bytes)
			tt_node_wake_all(req->node->group);
	}
	tt_wire_stats(req->r.comm->ctx->wire)->copied_bytes += moved;
	req->r.progressed |= moved > 0;
	if (moved)
		s->full = tt_node_stream_full(req->node->group, s->mem);
	if (s->waited < PATIENCE)
		s->waited = moved ? 0 : s->waited + 1;
	return moved;
}

bool tt_stream_begun(struct tt_plan_req *req)
{
	if (req->r.comm->ctx->wait_mode == TT_WAIT_SPIN)
		return true;
	tt_stream_feed(req);
	return !tt_stream_hungry(req);
}

/* The next piece, if it is there and may be copied now; returns its bytes, or a negative code. */
static int64_t take_piece(struct tt_op_run *run, int from, struct tt_node_ref src, char *dst,
			  int *gone)
{
	struct tt_plan_req *req = run->lane->req;
	struct tutti_context *ctx = req->r.comm->ctx;
	size_t took, len = run->op->len;
	int err;

	if (run->at == len || ctx->node_left < tt_node_stream_next(len, run->at))
		return 0;
	err = tt_node_stream_take(req->node->group, req->turn, from, src, dst, run->at, len, &took,
				  gone);
	if (err || !took)
		return err;
	tt_node_wake_all(req->node->group);
	ctx->node_left -= took;
	run->at += took;
	return (int64_t)took;
}

int tt_stream_pull(struct tt_op_run *run, int from, struct tt_node_ref src, char *dst, int *gone)
{
	struct tt_plan_req *req = run->lane->req;
	struct tt_node_count count = {0};
	int64_t took;

	do {
		took = take_piece(run, from, src, dst, gone);
		if (took < 0)
			return (int)took;
		count.pulled += (uint64_t)took;
	} while (took && (count.pulled < TT_STREAM_STEP || !tt_stream_in_step(req)));
	tt_node_count_bytes(req->r.comm->ctx, &count);
	tt_flight_more(req->r.comm->ctx->flight, req->r.flight, 0, count.pulled);
	return run->at == run->op->len;
}

bool tt_stream_there(const struct tt_op_run *run, int from, struct tt_node_ref src)
{
	const struct tt_plan_req *req = run->lane->req;

	return tt_node_stream_there(req->node->group, req->turn, from, src, run->op->len, run->at);
}
