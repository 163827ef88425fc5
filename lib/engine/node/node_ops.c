/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node ops of plans: turns of a communicator in the memory of its host, see lib/node/node.h.
 * The groups come from node_comm.c.
 *
 * Turns of one communicator run one after the other, which costs nothing: every rank has them in
 * the same order. Ops that wait for a peer, or have work left, are in ctx->node_waits; every
 * progress step retries them.
 */
#include <errno.h>

#include "lib/base/copy.h"
#include "lib/base/hash.h"
#include "lib/engine/node/node_ops.h"

#define FEW 4	      /* calls whose turns a difference may concern */
#define LAST_STEP 255 /* of a turn */

/* ---- turns ---- */

void tt_node_start(struct tt_plan_req *req)
{
	struct tt_node_comm *nc = req->node;

	if (!req->resumed)
		req->turn = ++nc->turn;
	if (!req->resumed && nc->base)
		nc->base->starts += tt_hash_add(nc->init, nc->turn);
	tt_list_add(&req->r.comm->ctx->node_gated, &req->lanes[0].ready);
}

static bool may_begin(const struct tt_plan_req *req)
{
	const struct tt_node_comm *nc = req->node;

	if (!nc->group && !tt_node_series_there(req->r.comm, req->node))
		return false;
	return !nc->running && req->turn == nc->begun + 1 &&
	       !atomic_load_explicit(&nc->in_short, memory_order_acquire) &&
	       tt_node_may_begin(nc->group, req->turn);
}

/*
 * Ranks differ in a call, or in one of the few before it: a call without bytes takes no turn, so if
 * it has some at other ranks, those differ only in a later one. A verdict follows.
 */
static void tell(struct tutti_comm *comm, uint32_t init, uint64_t seq)
{
	uint64_t first = init ? seq : seq < FEW ? 1 : seq - FEW + 1;
	struct tt_past past;

	for (; first <= seq; first++)
		if (tt_comm_past(comm, init, first, &past))
			tt_stuck_differs(comm, past.seq, &past.fields);
}

static void report(struct tutti_comm *comm, struct tt_node_comm *nc, uint64_t turn)
{
	if (nc->told != turn)
		tell(comm, nc->init, nc->seq[turn % 4]);
	nc->told = turn;
}

/*
 * Whether all ranks have made the same calls up to a turn that all have finished; if not, a
 * verdict follows.
 */
static bool agreed(struct tutti_comm *comm, struct tt_node_comm *nc, uint64_t upto)
{
	uint64_t turn;

	if (tt_node_agreed(nc->group, upto, &turn))
		return true;
	report(comm, nc, turn);
	return false;
}

/* As tell, of the persistent operations that were started last. */
static void tell_started(struct tutti_comm *comm)
{
	struct tt_past past;
	uint32_t init;
	int i;

	for (i = 0; i < TT_STARTED; i++) {
		init = comm->started[i];
		if (init && tt_comm_past(comm, init, tt_comm_calls(comm, init), &past))
			tt_stuck_differs(comm, past.seq, &past.fields);
	}
}

void tt_node_check_last(struct tutti_comm *comm, struct tt_node_comm *nc)
{
	uint64_t turn;

	if (!nc || !nc->group || !comm->ctx->boot || atomic_load(&comm->coll_failed))
		return;
	if (!tt_node_last_agreed(nc->group, nc->turn, &turn)) {
		report(comm, nc, turn);
	} else if (!tt_node_end_turns(nc->group, nc->turn + nc->starts)) {
		/* a call had no bytes here, or there */
		tell(comm, nc->init, tt_comm_calls(comm, nc->init));
		tell_started(comm);
	}
}

unsigned tt_node_stores(struct tt_node_comm *nc, char *const *base, const size_t *extent)
{
	bool one = base[TT_BUF_SEND] == base[TT_BUF_RECV];
	size_t bytes = extent[TT_BUF_RECV] + (one ? 0 : extent[TT_BUF_SEND]);
	const void *buf = extent[TT_BUF_RECV] ? base[TT_BUF_RECV] : base[TT_BUF_SEND];
	struct tt_node_comm *of = nc->base ? nc->base : nc;

	return bytes < TT_STORES_LONG ? 0 : tt_stores_flags(&of->stores, buf, bytes);
}

static void begin(struct tt_plan_req *req)
{
	struct tt_node_comm *nc = req->node;
	int i;

	nc->running = req;
	nc->begun = req->turn;
	nc->seq[req->turn % 4] = req->r.seq;
	tt_node_began(nc->group, req->turn, req->fprint);
	req->base[TT_BUF_SLOT] = tt_node_slot(nc->group, req->turn);
	if (!req->resumed)
		req->step = 0;
	req->stores = tt_node_stores(nc, req->base, req->extent);
	tt_ring_begin(req);
	tt_list_del(&req->lanes[0].ready);
	for (i = 0; i < req->plan->nlanes; i++)
		tt_list_add(&req->r.comm->ctx->ready, &req->lanes[i].ready);
}

static void give_back(struct tt_plan_req *req)
{
	struct tt_memory *memory = tt_wire_memory(req->r.comm->ctx->wire);
	int i;

	for (i = 0; i < TT_NODE_WHICH; i++) {
		if (req->bounce[i])
			tt_mem_free(memory, req->bounce[i]);
		req->bounce[i] = NULL;
	}
	tt_ring_end(req);
	tt_stream_end(req);
}

/*
 * Redirects messages to a bounce buffer of the result that peers can reach; NULL: to its own
 * place.
 */
static void bounce_messages(struct tt_plan_req *req, void *copy, struct tt_region *region)
{
	if (copy) {
		req->unbounced = req->base[TT_BUF_RECV];
		req->unbounced_region = req->region[TT_BUF_RECV];
		req->base[TT_BUF_RECV] = copy;
		req->region[TT_BUF_RECV] = region;
	} else if (req->unbounced) {
		req->base[TT_BUF_RECV] = req->unbounced;
		req->region[TT_BUF_RECV] = req->unbounced_region;
		req->unbounced = NULL;
	}
}

bool tt_node_unbounce(struct tt_lane_run *lane)
{
	struct tt_plan_req *req = lane->req;

	if (!(req->bounce[TT_NODE_RESULT] || (req->ring.mem && req->ring.out)) ||
	    lane->round > lane->rounds || req->lanes_left > 1)
		return false;
	bounce_messages(req, NULL, NULL);
	req->base[TT_BUF_SLOT] = req->bounce[TT_NODE_RESULT]; /* no rank needs the slot any more */
	lane->tmp[0] = (struct tt_op){.kind = TT_OP_COPY,
				      .peer = -1,
				      .dst = {TT_BUF_RECV, 0},
				      .a = {TT_BUF_SLOT, 0},
				      .len = req->extent[TT_BUF_RECV]};
	lane->ops[0].lane = lane;
	lane->ops[0].op = &lane->tmp[0];
	lane->pending = 1;
	if (tt_node_start_op(&lane->ops[0]))
		tt_run_op_over(lane);
	return true;
}

void tt_node_ended(struct tt_plan_req *req)
{
	struct tt_node_comm *nc = req->node;

	bounce_messages(req, NULL, NULL);
	if (nc->running == req) {
		nc->running = NULL;
		if (!req->r.status) {
			tt_node_finish(nc->group, req->turn);
			tt_ring_over(req);
		}
	}
	req->resumed = false;
	req->first_round = 0;
	give_back(req);
}

void tt_node_cancel(struct tt_plan_req *req)
{
	if (req->node->group)
		tt_node_withdraw(req->node->group);
}

bool tt_node_fence(struct tt_plan_req *req)
{
	return !req->node->group || tt_node_try_withdraw(req->node->group);
}

/* ---- ops ---- */

/* The place in the group of the rank that an op names. */
static int place_of(const struct tt_plan_req *req, int rank)
{
	const struct tt_hosts *hosts = req->plan->args.hosts;

	return hosts && rank != TT_ALL_RANKS ? hosts->local[rank] : rank;
}

bool tt_node_may_move(struct tutti_context *ctx, size_t n)
{
	if (n > ctx->node_left)
		return false;
	ctx->node_left -= n;
	return true;
}

/*
 * How much of len bytes may be moved now: long work is split, and the lock is released in between.
 * The rest keeps whole elements.
 */
static size_t spend(struct tutti_context *ctx, size_t len, size_t elem)
{
	size_t unit = 4096 % elem ? elem : 4096;
	size_t n = len <= ctx->node_left ? len : ctx->node_left - ctx->node_left % unit;

	ctx->node_left -= n;
	return n;
}

/*
 * Copies one piece of len bytes; returns whether it was the last. In place, a block may move down
 * over a part of itself.
 */
static bool copy_piece(struct tt_op_run *run, char *dst, const char *src, size_t len)
{
	struct tutti_context *ctx = run->lane->req->r.comm->ctx;
	size_t left = len - run->at, n;

	if (left > TT_STREAM_STEP && tt_stream_in_step(run->lane->req))
		left = TT_STREAM_STEP;
	n = spend(ctx, left, 1);

	tt_copy_near(dst + run->at, src + run->at, n);
	tt_wire_stats(ctx->wire)->copied_bytes += n;
	run->at += n;
	return run->at == len;
}

static bool copy_op(struct tt_op_run *run)
{
	struct tt_plan_req *req = run->lane->req;
	const struct tt_op *op = run->op;
	char *dst, *src;

	if (req->ring.mem && run->lane->round == run->lane->rounds) /* the lane has ended */
		return tt_ring_drain(run);
	dst = req->base[op->dst.buf] + op->dst.off;
	src = req->base[op->a.buf] + op->a.off;
	return dst == src || copy_piece(run, dst, src, op->len);
}

/* Publishes a copy in the pool. */
static int bounce(struct tt_plan_req *req, enum tt_node_which which, size_t len)
{
	struct tutti_context *ctx = req->r.comm->ctx;
	struct tt_region *region;
	int err;

	err = tt_mem_alloc(tt_wire_memory(ctx->wire), len, &req->bounce[which], &region);
	if (err)
		return err;
	if (!tt_node_maps(req->node->group, region)) {
		tt_mem_free(tt_wire_memory(ctx->wire), req->bounce[which]);
		req->bounce[which] = NULL;
		return tt_fail(-ENOMEM, "peers can map no more pool memory of this process");
	}
	if (which == TT_NODE_RESULT && req->plan->mixed)
		bounce_messages(req, req->bounce[which], region);
	return tt_node_publish(req->node->group, req->turn, which, req->bounce[which], len, region,
			       TT_NODE_STAYS);
}

/* Publishes memory that peers cannot reach as it is, or had better not. */
static int copy_aside(struct tt_plan_req *req, enum tt_node_which which, struct tt_ref ref,
		      size_t len)
{
	int rc = which == TT_NODE_INPUT ? tt_stream_publish(req, ref, len) : 0;

	return rc ? (rc < 0 ? rc : 0) : bounce(req, which, len);
}

enum tt_node_how tt_node_how(enum tt_coll coll)
{
	if (tt_coll_own_counts(coll)) /* lengths are in the slot */
		return TT_NODE_STAYS;
	if (coll == TT_COLL_ALLGATHER || coll == TT_COLL_ALLGATHERV || coll == TT_COLL_ALLTOALL)
		return TT_NODE_BOTH_WAYS;
	if (coll == TT_COLL_REDUCE || coll == TT_COLL_SCAN)
		return TT_NODE_OPERAND;
	return tt_coll_reduces(coll) && coll != TT_COLL_EXSCAN ? TT_NODE_COPIES : TT_NODE_ONE_WAY;
}

#define BCAST_LEAST ((size_t)256 << 10) /* the others wait for the copy */
#define SCAN_MOST ((size_t)64 << 20)	/* peers read it for each rank's result */

static bool prefers_pool(const struct tt_plan_req *req, const struct tt_region *region, size_t len)
{
	size_t least = tt_node_slot_bytes(req->node->group), most = TT_NODE_POOL_MOST;

	if (req->fields.coll == TT_COLL_BCAST)
		least = BCAST_LEAST;
	if (req->fields.coll == TT_COLL_SCAN || req->fields.coll == TT_COLL_EXSCAN)
		most = SCAN_MOST;
	if (len <= least || len > most || tt_node_maps(req->node->group, region) ||
	    tt_node_direct(req->node->group))
		return false;
	/* not if each peer reads, or stores, only a part */
	return req->fields.coll != TT_COLL_GATHER && req->fields.coll != TT_COLL_SCATTER &&
	       req->fields.coll != TT_COLL_ALLTOALL && !tt_coll_own_counts(req->fields.coll);
}

static int publish(struct tt_plan_req *req, enum tt_node_which which, struct tt_ref ref, size_t len)
{
	char *addr = req->base[ref.buf] + ref.off;
	int rc;

	if (!ref.buf || req->node->n == 1) /* no other rank is here */
		return 0;
	/* scratch is in the pool, and the plan, not the engine, copies results out of it */
	if (ref.buf != TT_BUF_SCRATCH && prefers_pool(req, req->region[ref.buf], len) &&
	    !copy_aside(req, which, ref, len))
		return 0;
	if (which == TT_NODE_INPUT && ref.buf != TT_BUF_SCRATCH &&
	    !tt_node_maps(req->node->group, req->region[ref.buf]) &&
	    tt_stream_instead(req, ref, len))
		return 0;
	rc = tt_node_publish(req->node->group, req->turn, which, addr, len, req->region[ref.buf],
			     tt_node_how(req->fields.coll));
	if (rc == -EOPNOTSUPP && ref.buf == TT_BUF_SCRATCH)
		return tt_fail(-ENOMEM, "peers can map no more pool memory of this process");
	if (rc == -EOPNOTSUPP)
		return copy_aside(req, which, ref, len);
	if (rc < 0)
		return rc;
	tt_wire_stats(req->r.comm->ctx->wire)->copied_bytes += (uint64_t)rc;
	return 0;
}

static int signal_op(struct tt_op_run *run)
{
	struct tt_plan_req *req = run->lane->req;
	const struct tt_op *op = run->op;
	const char *input = req->base[op->a.buf] + op->a.off;
	struct tt_ref own = tt_input(&req->plan->args), dst = op->dst;
	size_t result = req->extent[dst.buf] > dst.off ? req->extent[dst.buf] - dst.off : 0;
	int err = 0;

	if (!run->published && !tt_ring_publish(req, op)) {
		err = publish(req, TT_NODE_INPUT, op->a, tt_node_input_len(op, req->extent));
		if (!err)
			err = publish(req, TT_NODE_RESULT, op->dst, result);
	}
	if (err)
		return err;
	run->published = true;
	if (req->ring.mem && !req->step && !tt_ring_fill(req))
		return 0;
	if (op->a.buf && req->bounce[TT_NODE_INPUT] &&
	    !copy_piece(run, req->bounce[TT_NODE_INPUT], input, tt_node_input_len(op, req->extent)))
		return 0;
	if (!op->a.buf && op->dst.buf && req->unbounced &&
	    req->plan->args.in_place && /* also the input */
	    !copy_piece(run, req->base[TT_BUF_RECV] + own.off, req->unbounced + own.off,
			tt_send_bytes(&req->plan->args)))
		return 0;
	if (!tt_stream_begun(req))
		return 0;
	req->step = op->index == TT_NEXT_STEP ? req->step + 1 : op->index;
	tt_node_signal(req->node->group, req->turn, req->step, req->fprint);
	tt_stream_feed(req);
	return 1;
}

static int wait_op(struct tt_op_run *run)
{
	struct tt_plan_req *req = run->lane->req;
	struct tt_node_group *g = req->node->group;
	const struct tt_op *op = run->op;
	int peer = place_of(req, op->peer);
	int j = peer == TT_ALL_RANKS ? (int)run->at : peer;
	int end = peer == TT_ALL_RANKS ? req->node->n : peer + 1;
	bool differs = false;

	for (; j < end; j++, run->at++) {
		if (!tt_node_reached(g, j, req->turn, op->index, req->fprint, &differs))
			return 0;
		if (!differs)
			continue;
		if (!run->told)
			tell(req->r.comm, req->fields.init, req->r.seq);
		run->told = true;
		return 0; /* until the verdict comes */
	}
	if (peer != TT_ALL_RANKS)
		return 1;
	if (!agreed(req->r.comm, req->node, req->turn - 1)) {
		run->told = true;
		return 0;
	}
	tt_node_all_began(g, req->turn);
	return 1;
}

static void pair(void *arg, void *dst, const void *a, const void *b, size_t count)
{
	tt_combine(arg, dst, a, b, count, 0);
}

struct tt_node_reduce tt_node_reduction(struct tt_plan_req *req, const struct tt_op *op)
{
	bool own = req->user && req->user->kind != TT_OP_PREMUL_SUM;

	return (struct tt_node_reduce){.datatype = req->datatype,
				       .op = req->op,
				       .elem = req->elem,
				       .divide_by = op->flags & TT_OPF_HOST	? req->node->n
						    : op->flags & TT_OPF_DIVIDE ? req->r.comm->size
										: 0,
				       .flags = req->stores,
				       .fn = own ? pair : NULL,
				       .ranks = (int)op->index,
				       .arg = req};
}

void tt_node_count_bytes(struct tutti_context *ctx, const struct tt_node_count *count)
{
	struct tutti_stats *stats = tt_wire_stats(ctx->wire);

	stats->pulled_bytes += count->pulled;
	stats->reduced_bytes += count->reduced;
	stats->copied_bytes += count->copied;
}

static bool reads_stream(const struct tt_op_run *run)
{
	const struct tt_plan_req *req = run->lane->req;

	return run->op->kind == TT_OP_PULL_COPY &&
	       tt_node_ref_of(run->op->a).which == TT_NODE_INPUT &&
	       tt_node_has_stream(req->node->group, req->turn, place_of(req, run->op->peer));
}

bool tt_node_op_applies(const struct tt_plan_req *req, const struct tt_op *op)
{
	if (!(op->flags & (TT_OPF_STREAMED | TT_OPF_ELSE)))
		return true;
	return tt_op_applies(op, op->kind == TT_OP_PUSH
					 ? req->stream.mem != NULL
					 : tt_node_has_stream(req->node->group, req->turn,
							      place_of(req, op->peer)));
}

/* Where a pull begins; and in a push, this rank's memory. */
static struct tt_node_ref source_of(const struct tt_op_run *run)
{
	const struct tt_plan_req *req = run->lane->req;
	struct tt_node_ref src = tt_node_ref_of(run->op->a);

	if (run->op->kind == TT_OP_PULL_COPY && run->op->flags & TT_OPF_TOLD)
		src.off += tt_node_told(req->node->group, req->turn, place_of(req, run->op->peer),
					run->op->b);
	return src;
}

static int pull_op(struct tt_op_run *run, int *gone)
{
	struct tt_plan_req *req = run->lane->req;
	struct tt_node_group *g = req->node->group;
	const struct tt_op *op = run->op;
	struct tt_node_ref src = source_of(run), dst = {TT_NODE_RESULT, op->dst.off};
	int err, peer = place_of(req, op->peer);
	struct tt_node_count count = {0};
	struct tt_node_reduce r;
	size_t len;

	if (!tt_node_op_applies(req, op))
		return 1;
	if (reads_stream(run))
		return tt_stream_pull(run, peer, src, req->base[op->dst.buf] + dst.off, gone);
	if (op->kind == TT_OP_PUSH && op->flags & TT_OPF_TOLD)
		dst.off += tt_node_told(g, req->turn, peer, op->b);
	len = spend(req->r.comm->ctx, op->len - run->at, req->elem);
	if (!len)
		return 0;
	src.off += run->at;
	dst.off += run->at;
	if (op->kind == TT_OP_PUSH) {
		err = tt_node_push(g, req->turn, peer, dst, req->base[op->a.buf] + src.off, len,
				   &count, gone);
	} else if (op->kind == TT_OP_PULL_COPY) {
		err = tt_node_pull_copy(g, req->turn, peer, src, req->base[op->dst.buf] + dst.off,
					len, &count, gone);
	} else {
		r = tt_node_reduction(req, op);
		if (req->ring.way && !req->ring.from)
			req->ring.from = tt_ticks();
		if (op->b.buf)
			tt_node_own(g, req->turn, TT_NODE_INPUT, req->base[op->b.buf] + op->b.off);
		if (!req->bounce[TT_NODE_RESULT]) /* it may not be published */
			tt_node_own(g, req->turn, TT_NODE_RESULT, req->base[op->dst.buf]);
		err = tt_node_pull_reduce(g, req->turn, src, peer, dst, len, &r, &count, gone);
	}
	if (err)
		return err;
	tt_node_count_bytes(req->r.comm->ctx, &count);
	run->at += len;
	tt_flight_more(req->r.comm->ctx->flight, req->r.flight, 0, len);
	return run->at == op->len;
}

/* If the peer tells another length, it is asked, and a verdict follows. */
static int expect_length(struct tt_op_run *run)
{
	struct tt_plan_req *req = run->lane->req;
	const struct tt_op *op = run->op;
	struct tt_past past;

	if (tt_node_tells(req->node->group, req->turn, place_of(req, op->peer), op))
		return 1;
	if (!run->told && tt_comm_past(req->r.comm, req->fields.init, req->r.seq, &past) &&
	    past.counts)
		tt_pair_ask(req->r.comm, &past, op->peer);
	run->told = true;
	return 0;
}

/* Returns whether the op is over. */
static bool try_op(struct tt_op_run *run)
{
	struct tt_plan_req *req = run->lane->req;
	struct tutti_comm *comm = req->r.comm;
	int rc, gone = place_of(req, comm->rank);

	if (run->broken)
		return false; /* the sweep ends the request */
	if (run->op->kind == TT_OP_COPY)
		rc = copy_op(run);
	else if (run->op->kind == TT_OP_SIGNAL)
		rc = signal_op(run);
	else if (run->op->kind == TT_OP_WAIT)
		rc = wait_op(run);
	else if (run->op->kind == TT_OP_TELL_LENGTH)
		rc = (tt_node_tell_length(req->base[TT_BUF_SLOT], run->op), 1);
	else if (run->op->kind == TT_OP_EXPECT_LENGTH)
		rc = expect_length(run);
	else if (run->op->kind == TT_OP_PULL_REDUCE && tt_ring_is_on(req))
		rc = tt_ring_pull(run, &gone);
	else
		rc = pull_op(run, &gone);
	if (rc < 0)
		run->broken = true;
	/*
	 * A rank that has withdrawn lives: it knows already why this call has failed, and the news
	 * is on its way here.
	 */
	if (rc < 0 && rc != -EPIPE) {
		gone = req->node->member[gone];
		tt_request_broken(&req->r, comm->world[gone],
				  tt_is_shortage(rc) || tt_is_fault(rc) || rc == -EPERM ? rc
				  : gone == comm->rank ? -TUTTI_ETRANSPORT
						       : -TUTTI_EPEER);
	}
	return rc > 0;
}

/* Before those of lower priority: a step moves a limited number of bytes. */
static void wait_for_turn(struct tt_op_run *run)
{
	struct tutti_request *r = &run->lane->req->r;
	struct tt_list *waits = &r->comm->ctx->node_waits, *at = waits;

	while (at->prev != waits &&
	       tt_container(at->prev, struct tt_op_run, wait)->lane->req->r.priority < r->priority)
		at = at->prev;
	tt_list_add(at, &run->wait);
}

bool tt_node_start_op(struct tt_op_run *run)
{
	run->at = 0;
	run->told = run->broken = run->published = false;
	if (try_op(run))
		return true;
	wait_for_turn(run);
	return false;
}

/* ---- progress ---- */

int tt_node_poll(struct tutti_context *ctx)
{
	struct tt_list *l, *tmp;
	int n = 0;

	tt_list_each(l, tmp, &ctx->node_gated)
	{
		struct tt_lane_run *lane = tt_container(l, struct tt_lane_run, ready);

		if (!may_begin(lane->req) ||
		    (lane->req->turn > 2 &&
		     !agreed(lane->req->r.comm, lane->req->node, lane->req->turn - 2)))
			continue;
		begin(lane->req);
		n++;
	}
	tt_list_each(l, tmp, &ctx->node_waits)
	{
		struct tt_op_run *run = tt_container(l, struct tt_op_run, wait);
		bool fed = tt_stream_feed(run->lane->req);
		size_t at = run->at;
		bool over = try_op(run);

		n += fed || over || run->at != at;
		run->lane->req->r.progressed |= run->at != at;
		if (!over)
			continue;
		tt_list_del(&run->wait);
		tt_run_op_over(run->lane);
	}
	return n;
}

bool tt_node_keep_core(struct tutti_context *ctx)
{
	struct tt_list *l, *tmp;

	if (!tt_list_empty(&ctx->node_gated) || tt_list_empty(&ctx->node_waits))
		return false;
	tt_list_each(l, tmp, &ctx->node_waits)
	{
		struct tt_op_run *run = tt_container(l, struct tt_op_run, wait);
		struct tt_plan_req *req = run->lane->req;
		struct tt_node_comm *nc = req->node;
		bool all = run->op->peer == TT_ALL_RANKS, stream = reads_stream(run);
		int j = all ? (int)run->at : place_of(req, run->op->peer);

		if (run->op->kind != TT_OP_WAIT && !stream)
			return false;
		if (!tt_node_shares(nc->group, j, all ? nc->n : j + 1, req->turn,
				    stream ? LAST_STEP : run->op->index))
			continue;
		tt_spread(ctx, nc, req->turn);
		return false;
	}
	return true;
}

bool tt_node_ready(struct tutti_context *ctx)
{
	struct tt_list *l, *tmp;
	bool differs;

	tt_list_each(l, tmp,
		     &ctx->node_gated) if (may_begin(tt_container(l, struct tt_lane_run, ready)
							     ->req)) return true;
	tt_list_each(l, tmp, &ctx->node_waits)
	{
		struct tt_op_run *run = tt_container(l, struct tt_op_run, wait);
		struct tt_plan_req *req = run->lane->req;
		int j = run->op->peer == TT_ALL_RANKS ? (int)run->at : place_of(req, run->op->peer);

		if (run->broken || run->told)
			continue;
		if (tt_stream_hungry(req))
			return true;
		if (reads_stream(run)) {
			if (tt_stream_there(run, j, source_of(run)))
				return true;
			continue;
		}
		if (run->op->kind == TT_OP_PULL_REDUCE && tt_ring_is_on(req)) {
			if (tt_ring_ready(run))
				return true;
			continue;
		}
		if (run->op->kind != TT_OP_WAIT ||
		    tt_node_reached(req->node->group, j, req->turn, run->op->index, req->fprint,
				    &differs))
			return true;
	}
	return false;
}
