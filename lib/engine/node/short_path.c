/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The short path: runs the node plan of a short blocking call without a request. Every collective
 * may take it whose plan has only node ops and local copies.
 *
 * The plan is that of a request, and so are the turn, the place in the history, and the bits. If
 * the other ranks do not come at once, the call goes on as a request at the op where it stopped.
 */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/engine/node/short_path.h"
#include "lib/plan/stored.h"

#define SPINS 2000  /* with a core per rank */
#define NEAR 32	    /* after so many, */
#define EARLY 128   /* and from then on every so many: check for a missing rank on this core */
#define YIELDS 50   /* oversubscribed */
#define LOOKS 64    /* for each of these, if the missing ranks run elsewhere */
#define PROGRESS 32 /* other communication progresses every so many calls */

/* A call under way. */
struct short_call {
	struct tutti_comm *comm;
	struct tt_node_group *group;
	const struct tt_call *call;
	struct tt_short_shape *shape; /* its own until the end: nc->in_short */
	unsigned at, step;	      /* the next op; the step that this rank has reached */
	char *base[TT_BUF_NET];
	uint64_t turn, fprint, seq, flight;
	bool quiet;   /* peers that sleep have been woken since the last step */
	bool in_slot; /* what peers read is a copy there, which the next turn leaves alone */
	struct tt_region *region[TT_NODE_WHICH]; /* of published vectors */
	struct tt_short_ring ring;
	/* which times it belongs to: tt_node_way, tt_node_mapped_way; 0: it is not measured */
	unsigned way;
	bool direct; /* without a ring, although peers cannot map a vector */
	enum tt_mapped mapped;
	uint64_t filled, from; /* ticks to fill the ring; when the first pull began, 0: not yet */
};

/* ---- ops ---- */

static char *ptr(const struct short_call *c, struct tt_ref ref)
{
	return c->base[ref.buf] + ref.off;
}

static void publish(struct short_call *c, enum tt_node_which which, struct tt_ref ref, size_t len,
		    bool by_ring)
{
	int copied = 0;

	if (by_ring)
		tt_node_publish_ring(c->group, c->turn, which, ptr(c, ref), c->ring.mem,
				     c->shape->ring_bytes, c->ring.region);
	else if (ref.buf)
		copied = tt_node_publish(c->group, c->turn, which, ptr(c, ref), len,
					 c->region[which], c->shape->how);
	if (copied > 0) {
		c->in_slot = true;
		tt_wire_stats(c->comm->ctx->wire)->copied_bytes += (uint64_t)copied;
	}
}

/* Copies the other ranks' parts of a vector into the ring or out of it. */
static void move(struct short_call *c, char *vector, bool in)
{
	tt_wire_stats(c->comm->ctx->wire)->copied_bytes +=
		tt_ring_move(c->group, &c->shape->plan->args, &c->shape->reduce.ring, c->ring.mem,
			     vector, 0, in);
}

static void fill(struct short_call *c, char *input)
{
	uint64_t from = c->way ? tt_ticks() : 0;

	move(c, input, true);
	c->filled = c->way ? tt_node_filled(from) : 0;
}

static void publish_both(struct short_call *c, const struct tt_op *op)
{
	publish(c, TT_NODE_INPUT, op->a, tt_node_input_len(op, c->shape->extent), c->ring.in);
	publish(c, TT_NODE_RESULT, op->dst, c->shape->extent[op->dst.buf] - op->dst.off,
		c->ring.out);
	c->ring.published |= op->a.buf;
	if (c->ring.in)
		fill(c, ptr(c, op->a));
}

static void signal_step(struct short_call *c, const struct tt_op *op)
{
	if (op->a.buf || op->dst.buf)
		publish_both(c, op);
	c->step = op->index;
	tt_node_tell(c->group, c->turn, c->step, c->fprint);
	c->quiet = false;
}

/* False: not done, and a request has to do it again, or to fail for the same reason. */
static bool pull_op(struct short_call *c, const struct tt_op *op)
{
	struct tt_node_ref src = tt_node_ref_of(op->a), dst = {TT_NODE_RESULT, op->dst.off};
	struct tutti_context *ctx = c->comm->ctx;
	struct tt_node_count count = {0};
	int err, gone;

	if (op->flags & (TT_OPF_STREAMED | TT_OPF_ELSE) &&
	    !tt_op_applies(op, op->kind == TT_OP_PULL_COPY &&
				       tt_node_has_stream(c->group, c->turn, op->peer)))
		return true;
	if (c->way && !c->from)
		c->from = tt_ticks();
	if (op->flags & TT_OPF_TOLD)
		*(op->kind == TT_OP_PUSH ? &dst.off : &src.off) +=
			tt_node_told(c->group, c->turn, op->peer, op->b);
	tt_wire_lock(ctx->wire); /* published memory may have to be mapped */
	if (op->kind == TT_OP_PULL_COPY) {
		err = tt_node_pull_copy(c->group, c->turn, op->peer, src, ptr(c, op->dst), op->len,
					&count, &gone);
	} else if (op->kind == TT_OP_PUSH) {
		err = tt_node_push(c->group, c->turn, op->peer, dst, ptr(c, op->a), op->len, &count,
				   &gone);
	} else {
		if (op->b.buf)
			tt_node_own(c->group, c->turn, TT_NODE_INPUT, ptr(c, op->b));
		tt_node_own(c->group, c->turn, TT_NODE_RESULT, c->base[op->dst.buf]);
		c->shape->reduce.ranks = (int)op->index;
		err = tt_node_pull_reduce(c->group, c->turn, src, op->peer, dst, op->len,
					  &c->shape->reduce, &count, &gone);
	}
	if (!err)
		tt_node_count_bytes(ctx, &count);
	tt_wire_unlock(ctx->wire);
	return !err;
}

static bool tell_length(struct short_call *c, const struct tt_op *op)
{
	tt_node_tell_length(c->base[TT_BUF_SLOT], op);
	return true;
}

/* Any op but a wait. False: not done, and nothing has changed. */
static inline __attribute__((always_inline)) bool run_op(struct short_call *c,
							 const struct tt_op *op)
{
	char *slot;

	if (op->kind == TT_OP_SIGNAL) {
		signal_step(c, op);
	} else if (op->kind == TT_OP_COPY) {
		tt_copy_long(ptr(c, op->dst), ptr(c, op->a), op->len);
	} else if (op->a.buf != TT_BUF_SLOT) {
		return op->kind == TT_OP_TELL_LENGTH ? tell_length(c, op) : pull_op(c, op);
	} else if (op->kind == TT_OP_PULL_COPY) {
		slot = tt_node_slot_of(c->group, op->peer, c->turn);
		if (c->comm->size == 2 && op->len >= TT_NODE_BACK_LEAST)
			tt_copy_out(ptr(c, op->dst), slot + op->a.off, op->len);
		else
			tt_copy_data(ptr(c, op->dst), slot + op->a.off, op->len);
	} else if (op->kind == TT_OP_EXPECT_LENGTH) {
		return tt_node_tells(c->group, c->turn, op->peer, op);
	} else {
		tt_node_reduce_slots(c->group, c->turn, ptr(c, op->dst), op->a.off, op->len,
				     (int)op->index, &c->shape->reduce);
	}
	return true;
}

/* ---- waiting ---- */

/* A wait for the other ranks. */
struct meeting {
	bool spins, yields; /* neither: sleep soon */
	int left;
	unsigned looks;
};

static struct meeting meeting_of(const struct tutti_context *ctx)
{
	struct meeting m = {.spins = ctx->wait_mode == TT_WAIT_SPIN,
			    .yields = ctx->wait_mode == TT_WAIT_YIELD};

	m.left = m.spins ? SPINS : m.yields ? YIELDS : 1;
	return m;
}

/*
 * A rank in from .. end - 1 has not reached a step of a turn. If a missing rank was last seen on
 * this core, it needs the core. Otherwise polling is better than yielding to another waiting rank,
 * which costs as much as several calls.
 */
static void linger(struct short_call *c, int from, int end, uint64_t turn, unsigned step,
		   struct meeting *m)
{
	struct tutti_context *ctx = c->comm->ctx;
	bool forced = ctx->wait_forced, look, give;

	m->looks++;
	look = !forced && (m->yields || m->looks % EARLY == NEAR);
	give = !m->spins && (forced || m->looks % LOOKS == 0);
	if (look && tt_node_shares(c->group, from, end, turn, step)) {
		tt_spread(ctx, c->comm->node, turn);
		give = true;
	}
	m->left -= give || m->spins;
	if (give)
		sched_yield();
	else
		tt_cpu_relax();
}

/* While the signal travels; makes it visible before the check for sleepers. */
static void wake(struct short_call *c)
{
	if (!c->quiet)
		tt_node_wake_all(c->group);
	c->quiet = true;
}

/* Whether all ranks have made the same calls up to a turn that all have finished. */
static inline bool made_same(struct short_call *c, uint64_t upto)
{
	uint64_t other;

	return upto <= c->comm->node->met || tt_node_agreed(c->group, upto, &other);
}

/* The awaited ranks, of which j is missing, reach the step within a moment. */
static bool meet_soon(struct short_call *c, const struct tt_op *op, int j, int end)
{
	struct meeting m = meeting_of(c->comm->ctx);
	bool differs = false;

	while (j < end && !differs && m.left > 0) {
		linger(c, j, end, c->turn, op->index, &m);
		j = tt_node_missing(c->group, j, end, c->turn, op->index, c->fprint, &differs);
	}
	return j == end && !differs;
}

/* All ranks have reached a step: whether their earlier calls agree, too. */
static inline bool meets_all(struct short_call *c)
{
	struct tt_node_comm *nc = c->comm->node;

	if (!made_same(c, c->turn - 1))
		return false;
	if (nc->met < c->turn) {
		tt_node_all_began(c->group, c->turn);
		nc->met = c->turn;
	}
	return true;
}

/*
 * Whether the awaited ranks reach the step within a moment. If their calls differ, a request
 * waits again, and reports it.
 */
static inline bool meet(struct short_call *c, const struct tt_op *op)
{
	bool all = op->peer == TT_ALL_RANKS, differs = false;
	int end = all ? c->comm->size : op->peer + 1, j;

	if (c->in_slot && op->flags & TT_OPF_RELEASE)
		return true;
	wake(c);
	j = tt_node_missing(c->group, all ? 0 : op->peer, end, c->turn, op->index, c->fprint,
			    &differs);
	if (differs || (j < end && !meet_soon(c, op, j, end)))
		return false;
	if (all)
		return meets_all(c);
	return true;
}

/* ---- begin ---- */

/* Whether peers can map a vector that is published, if any is. */
static bool maps(struct short_call *c, enum tt_node_which which, struct tt_ref ref, size_t len)
{
	if (!ref.buf)
		return true;
	c->region[which] = tt_mem_find(tt_wire_memory(c->comm->ctx->wire), ptr(c, ref), len);
	return tt_node_maps(c->group, c->region[which]);
}

/* For its input, its result. False: there is no memory for it. */
static bool take_ring(struct short_call *c, bool in, bool out)
{
	c->ring.in = in;
	c->ring.out = out;
	c->ring.mem = tt_ring_memory(c->comm->ctx, c->group, c->turn, c->shape->ring_bytes,
				     &c->ring.pool, &c->ring.region);
	return c->ring.mem;
}

/* Whether the peer had better read an input where it is; else a request streams it. */
static bool stays(struct short_call *c, size_t len)
{
	struct tt_stream_choice *choice = &c->comm->node->choice;

	if (len <= TT_NODE_SLOT)
		return true;
	*choice = tt_stream_choose(c->comm, (enum tt_coll)c->shape->fields.coll, len,
				   c->comm->seq + 1);
	if (choice->streams)
		return false;
	choice->seq = 0;
	c->way = choice->way;
	c->direct = true;
	c->from = c->way ? choice->from : 0;
	c->shape->way_len = len;
	return true;
}

/* Whether peers can reach published vectors as they could those of a request; or has a ring. */
static bool find_vectors(struct short_call *c)
{
	const struct tt_op *op = c->shape->ops;
	bool in, out;
	size_t len;

	while (op->kind != TT_OP_SIGNAL) /* nothing is published after a wait */
		op++;
	len = tt_node_input_len(op, c->shape->extent);
	in = !maps(c, TT_NODE_INPUT, op->a, len);
	out = !maps(c, TT_NODE_RESULT, op->dst, c->shape->extent[op->dst.buf] - op->dst.off);
	if (!in && !out) {
		c->way = c->shape->mapped_way;
		if (c->way)
			c->mapped = tt_node_mapped(c->group, &c->way, c->shape->way_len);
		return c->mapped != TT_MAPPED_RINGS || take_ring(c, op->a.buf, op->dst.buf);
	}
	if (!c->shape->rings && tt_node_direct(c->group))
		return !in || stays(c, len);
	if (!c->shape->rings) /* a short input is published in the slot */
		return !out && len <= TT_NODE_SLOT && !c->shape->own_counts;
	c->way = c->shape->way;
	c->direct = c->way && tt_node_goes_direct(c->group, &c->way);
	return c->direct || take_ring(c, in, out);
}

static void record(struct short_call *c)
{
	struct tutti_comm *comm = c->comm;

	if (comm->flight && comm->flight->uid == comm->uid)
		comm->flight->seq = c->seq;
	c->flight = tt_flight_begin(comm->ctx->flight, &c->shape->record, c->seq);
}

/*
 * Makes the call visible to the other ranks, before any bookkeeping, which then costs them no
 * time. Stores are seen in order, so the signal comes before tt_node_began, whose line has to be
 * taken back from ranks that have compared earlier calls.
 */
static void start(struct short_call *c)
{
	const struct tt_op *op = c->shape->ops, *end = op + c->shape->nops;

	for (; op < end && op->kind != TT_OP_WAIT; op++)
		run_op(c, op);
	tt_node_began(c->group, c->turn, c->fprint);
	c->at = (unsigned)(op - c->shape->ops);
}

enum begun { NOT, GATED, BEGUN };

/* Under the lock: makes the call, unless something is in the way. */
static enum begun begin(struct short_call *c)
{
	struct tutti_comm *comm = c->comm;
	struct tt_node_comm *nc = comm->node;
	struct tutti_context *ctx = comm->ctx;

	if (++nc->quick % PROGRESS == 0) {
		tt_engine_progress(ctx);
		tt_wire_leave(ctx->wire);
	}
	if (atomic_load(&comm->coll_failed) || ctx->running || nc->running ||
	    nc->begun != nc->turn || atomic_load_explicit(&nc->in_short, memory_order_acquire))
		return NOT;
	c->shape = tt_short_shape(comm, c->call);
	if (!c->shape->plan)
		return NOT;
	c->turn = nc->turn + 1;
	if (!tt_node_may_begin(c->group, c->turn))
		return GATED;
	if ((c->turn > 2 && !made_same(c, c->turn - 2)) ||
	    (c->shape->publishes && !find_vectors(c)))
		return NOT;
	if (c->shape->publishes)
		c->shape->reduce.flags = tt_node_stores(nc, c->base, c->shape->extent);
	c->fprint = tt_comm_called_mixed(comm, &c->shape->fields, c->shape->mixed,
					 c->shape->own_counts);
	c->seq = nc->seq[c->turn % 4] = comm->seq;
	nc->begun = nc->turn = c->turn;
	atomic_store_explicit(&nc->in_short, true, memory_order_relaxed);
	c->base[TT_BUF_SLOT] = tt_node_slot(c->group, c->turn);
	start(c);
	record(c);
	tt_node_count_bytes(ctx, &c->shape->bytes);
	return BEGUN;
}

/* As begin, with the lock free; waits a moment for ranks that are two turns behind. */
static bool begin_soon(struct short_call *c)
{
	struct tt_wire *wire = c->comm->ctx->wire;
	struct meeting m = {0};
	enum begun begun;

	for (;;) {
		tt_wire_lock(wire);
		begun = begin(c);
		tt_wire_unlock(wire);
		if (begun != GATED)
			return begun == BEGUN;
		if (!m.looks)
			m = meeting_of(c->comm->ctx);
		if (m.left <= 0)
			return false;
		linger(c, 0, c->comm->size, c->turn - 1, 1, &m);
	}
}

/* ---- end ---- */

static void trace(const struct short_call *c)
{
	tt_wire_lock(c->comm->ctx->wire);
	tt_trace_call(c->comm->ctx->trace, c->flight, 0);
	tt_wire_unlock(c->comm->ctx->wire);
}

/* Takes the result out of the ring. */
static void drain(struct short_call *c)
{
	struct tt_wire *wire = c->comm->ctx->wire;

	tt_wire_lock(wire);
	if (c->ring.out)
		move(c, c->base[TT_BUF_RECV], false);
	if (c->ring.pool)
		tt_mem_free(tt_wire_memory(wire), c->ring.pool);
	tt_wire_unlock(wire);
}

static void finish(struct short_call *c)
{
	struct tutti_context *ctx = c->comm->ctx;

	if (c->ring.out || c->ring.pool)
		drain(c);
	tt_node_finish(c->group, c->turn);
	if (c->mapped == TT_MAPPED_BACK && c->shape->stored)
		tt_ring_hand_back(&c->shape->plan->args, c->base[TT_BUF_RECV]);
	if (c->from)
		tt_node_went(c->group, c->way, c->direct || c->mapped, c->shape->way_len,
			     c->filled + tt_ticks() - c->from);
	wake(c);
	tt_flight_done(ctx->flight, c->flight, c->shape->extent[TT_BUF_RECV]);
	if (ctx->trace)
		trace(c);
	atomic_store_explicit(&c->comm->node->in_short, false, memory_order_release);
}

/* The round of the next op; takes back the bytes of its ops, which a request repeats. */
static int stopped_in(struct short_call *c)
{
	struct tutti_stats *stats = tt_wire_stats(c->comm->ctx->wire);
	const struct tt_lane *lane = c->shape->plan->lane;
	struct tt_node_count bytes;
	unsigned i;
	int round;

	for (round = 0; lane->begin[round + 1] <= c->at; round++)
		;
	for (i = lane->begin[round]; i < c->shape->nops; i++) {
		bytes = tt_short_bytes(c->shape->plan, &lane->ops[i]);
		stats->copied_bytes -= bytes.copied;
		stats->reduced_bytes -= bytes.reduced;
		stats->pulled_bytes -= bytes.pulled;
	}
	return round;
}

/*
 * Under the lock, which is free between two looks: other threads need it while a peer reads what
 * was published. Not inlined: the short path would take more instructions.
 */
static __attribute__((noinline)) void take_back(const struct short_call *c)
{
	static const struct timespec nap = {0, TT_MS / 10};
	struct tt_wire *wire = c->comm->ctx->wire;

	while (!tt_node_try_withdraw(c->group)) {
		tt_wire_unlock(wire);
		nanosleep(&nap, NULL);
		tt_wire_lock(wire);
	}
}

/* Under the lock: goes on as a request. */
static int resume(struct short_call *c, const struct tt_call *call, struct tutti_request **out)
{
	struct tutti_comm *comm = c->comm;
	struct tt_short_stop stop = {.fprint = c->fprint,
				     .seq = c->seq,
				     .turn = c->turn,
				     .flight = c->flight,
				     .round = stopped_in(c),
				     .step = c->step,
				     .ring = c->ring};
	struct tutti_request *req;
	int err;

	atomic_store_explicit(&comm->node->in_short, false, memory_order_release);
	err = tt_request_new(comm, call, false, &req);
	if (err) { /* the other ranks have begun it */
		tt_comm_fail(comm, err, -1, tt_coll_name(call->coll), c->seq, "", "%s",
			     tt_fail_text(err));
	} else {
		comm->node->begun--;
		err = tt_request_resume(req, &stop);
		if (err)
			tt_request_free(req);
		else
			*out = req;
	}
	if (err) { /* no request will end its record, or take back what it has published */
		tt_flight_end(comm->ctx->flight, c->flight, err, tt_ticks());
		take_back(c);
		if (c->ring.pool)
			tt_mem_free(tt_wire_memory(comm->ctx->wire), c->ring.pool);
	}
	return err;
}

int tt_short_run(struct tutti_comm *comm, const struct tt_call *call, struct tutti_request **out)
{
	struct short_call c;
	const struct tt_op *op, *end;
	int err;

	*out = NULL;
	if (!comm->node)
		return TT_SHORT_NOT;
	c.call = call;
	c.comm = comm;
	c.group = comm->node->group;
	c.base[TT_BUF_RECV] = call->recvbuf;
	c.base[TT_BUF_SEND] = tt_short_sends_recvbuf(call) ? call->recvbuf : (void *)call->sendbuf;
	c.at = c.step = 0;
	c.quiet = true;
	c.in_slot = false;
	c.ring = (struct tt_short_ring){0};
	c.way = 0;
	c.direct = false;
	c.mapped = TT_MAPPED_LEFT;
	c.filled = c.from = 0;
	if (!begin_soon(&c))
		return TT_SHORT_NOT;
	end = c.shape->ops + c.shape->nops;
	for (op = c.shape->ops + c.at; op < end; op++)
		if (op->kind == TT_OP_WAIT ? !meet(&c, op) : !run_op(&c, op))
			break;
	if (op == end) {
		finish(&c);
		return 0;
	}
	c.at = (unsigned)(op - c.shape->ops);
	tt_wire_lock(comm->ctx->wire);
	err = resume(&c, call, out);
	tt_wire_unlock(comm->ctx->wire);
	return err;
}
