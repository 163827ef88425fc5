/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a plan: the ops of a round, the arrivals for them, the next round. */
#include <stdio.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/engine/node/node_ops.h"

#define ASK_MAX 8 /* peers asked at a time by a stuck request */

static char *ptr(const struct tt_plan_req *req, struct tt_ref ref, const void *net)
{
	return ref.buf == TT_BUF_NET ? (char *)net : req->base[ref.buf] + ref.off;
}

static void combine(struct tt_plan_req *req, const struct tt_op *op, const void *net)
{
	int divide_by = op->flags & TT_OPF_DIVIDE ? req->r.comm->size : 0;

	tt_combine(req, ptr(req, op->dst, net), ptr(req, op->a, net), ptr(req, op->b, net),
		   op->len / req->elem, divide_by);
	tt_wire_stats(req->r.comm->ctx->wire)->reduced_bytes += op->len;
}

static void copy(struct tt_plan_req *req, void *dst, const void *src, size_t len)
{
	if (dst == src)
		return;
	tt_copy_data(dst, src, len);
	tt_wire_stats(req->r.comm->ctx->wire)->copied_bytes += len;
}

/* Before lanes of lower priority. */
static void make_ready(struct tt_lane_run *lane)
{
	struct tt_list *ready = &lane->req->r.comm->ctx->ready, *at = ready;

	while (at->prev != ready &&
	       tt_container(at->prev, struct tt_lane_run, ready)->req->r.priority <
		       lane->req->r.priority)
		at = at->prev;
	tt_list_add(at, &lane->ready);
}

void tt_run_op_over(struct tt_lane_run *lane)
{
	struct tutti_context *ctx = lane->req->r.comm->ctx;

	lane->req->r.progressed = true;
	if (--lane->pending)
		return;
	lane->round++;
	tt_flight_more(ctx->flight, lane->req->r.flight, 1, 0);
	if (ctx->trace)
		tt_trace_round(ctx->trace, lane->req->r.flight, lane->lane, lane->round - 1,
			       lane->started);
	make_ready(lane);
}

/* The end of a SEND, RECV or RECV_REDUCE. */
static void xfer_over(struct tt_xfer *x, const void *data, int status)
{
	struct tt_op_run *run = tt_container(x, struct tt_op_run, x);
	struct tt_plan_req *req = run->lane->req;
	const struct tt_op *op = run->op;

	if (status) {
		tt_request_broken(&req->r, x->peer, status);
		return; /* the lane stays here; the sweep ends the request */
	}
	run->live = false;
	tt_flight_more(req->r.comm->ctx->flight, req->r.flight, 0, x->len);
	if (op->kind == TT_OP_RECV)
		copy(req, ptr(req, op->dst, NULL), data, x->len);
	else if (op->kind == TT_OP_RECV_REDUCE)
		combine(req, op, data);
	tt_run_op_over(run->lane);
}

/* Messages of blocks with a length that only two ranks know carry this rank's idea of it. */
static uint64_t fprint_of(const struct tt_plan_req *req, const struct tt_op *op)
{
	if (!req->counts)
		return req->fprint;
	return tt_pair_fprint(req->fprint, req->counts, op->peer, op->kind == TT_OP_SEND);
}

/* The part of all keys of a run. */
static struct tt_key key_of(const struct tt_plan_req *req)
{
	uint32_t init = req->fields.init;

	return (struct tt_key){.comm = req->r.comm->uid,
			       .seq = (uint32_t)req->r.seq,
			       .port = init ? TT_KEY_INIT | init : 0};
}

/* Whether there is something to send or receive; else the op is over, or the request will be. */
static bool varies(struct tt_op_run *run)
{
	if (!tt_code_len(run->lane->req, run->op, &run->x.len))
		return false;
	if (!run->x.len) /* both ends know */
		tt_run_op_over(run->lane);
	return run->x.len;
}

static void start_op(struct tt_op_run *run)
{
	struct tt_lane_run *lane = run->lane;
	struct tt_plan_req *req = lane->req;
	struct tt_wire *wire = req->r.comm->ctx->wire;
	const struct tt_op *op = run->op;
	struct tt_ref ref = op->kind == TT_OP_SEND ? op->a : op->dst;

	if (tt_outlive_op(run))
		return;
	run->x.peer = req->r.comm->world[op->peer];
	run->x.key = key_of(req);
	run->x.key.lane = (uint32_t)lane->lane;
	run->x.key.index = op->index;
	run->x.fprint = fprint_of(req, op);
	run->x.len = op->len;
	if (op->flags & TT_OPF_VARIES && !varies(run))
		return;
	run->x.priority = req->r.priority;
	run->x.fn = xfer_over;
	run->x.buf = req->base[ref.buf] + ref.off;
	run->x.region = req->region[ref.buf];
	if (op->kind != TT_OP_SEND && req->r.comm->tolerant)
		run->x.region = NULL; /* lands in memory that can be abandoned */
	if (op->kind == TT_OP_SEND) {
		tt_wire_send(wire, &run->x);
		return;
	}
	if (op->kind == TT_OP_RECV_REDUCE) {
		/* lands in bounce memory or is read in its slot; dst is written by the kernel */
		run->x.buf = NULL;
		run->x.region = NULL;
	}
	tt_wire_recv(wire, &run->x);
}

/* Returns whether the op is over. */
static bool start_local(struct tt_op_run *run)
{
	if (run->op->kind >= TT_OP_ENCODE && run->op->kind <= TT_OP_DECODE_ADD)
		return tt_code_op(run->lane->req, run->op);
	if (run->op->kind == TT_OP_WEIGH) {
		tt_combine_weigh(run->lane->req, run->op);
		return true;
	}
	if (run->op->kind != TT_OP_REDUCE)
		return tt_node_start_op(run);
	combine(run->lane->req, run->op, NULL);
	return true;
}

static bool is_receive(const struct tt_op *op)
{
	return op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE;
}

/* Receives first, so that offers travel while sends are prepared. */
static void start_round(struct tt_lane_run *lane)
{
	struct tt_plan_req *req = lane->req;
	const struct tt_op *ops;
	int i, n;

	if (req->r.comm->ctx->trace)
		lane->started = tt_ticks();
	n = tt_plan_branch_ops(req->plan, req->way, lane->lane, lane->round, lane->tmp, &ops);
	lane->pending = n + 1; /* counts one extra, so that the round cannot end while it starts */
	for (i = 0; i < n; i++) {
		lane->ops[i].lane = lane;
		lane->ops[i].op = &ops[i];
		lane->ops[i].x.state = 0;
		if (is_receive(&ops[i]))
			start_op(&lane->ops[i]);
	}
	for (i = 0; i < n; i++) {
		if (ops[i].kind == TT_OP_SEND)
			start_op(&lane->ops[i]);
		else if (!is_receive(&ops[i]) && start_local(&lane->ops[i]))
			tt_run_op_over(lane);
	}
	tt_run_op_over(lane);
}

void tt_run_ready(struct tutti_context *ctx)
{
	while (!tt_list_empty(&ctx->ready)) {
		struct tt_lane_run *lane = tt_container(ctx->ready.next, struct tt_lane_run, ready);

		tt_list_del(&lane->ready);
		ctx->moves++;
		if (lane->req->plan->nways && lane->round == lane->req->plan->fork &&
		    !tt_code_branch(lane->req))
			continue; /* the sweep ends the request */
		if (lane->round < lane->rounds)
			start_round(lane);
		else if (lane->req->plan->node && tt_node_unbounce(lane))
			continue; /* it is handled once more */
		else if (--lane->req->lanes_left == 0)
			tt_request_end(&lane->req->r, lane->req->missed ? -TUTTI_EPEER : 0);
	}
}

void tt_run_start(struct tt_plan_req *req)
{
	struct tutti_context *ctx = req->r.comm->ctx;
	struct tt_key key = key_of(req);
	int i;

	req->leaving = 0;
	req->missed = false;
	req->way = req->plan->way;
	tt_wire_early_again(ctx->wire, &key);
	req->lanes_left = req->plan->nlanes;
	if (!req->lanes_left) {
		tt_request_end(&req->r, 0);
		return;
	}
	for (i = 0; i < req->plan->nlanes; i++) {
		req->lanes[i].round = req->first_round;
		req->lanes[i].pending = 0;
		if (!req->plan->node)
			make_ready(&req->lanes[i]);
	}
	if (req->plan->node)
		tt_node_start(req);
}

/* Receives into memory of the library need no fence: other communicators keep the connection. */
void tt_run_cancel(struct tt_plan_req *req)
{
	struct tt_wire *wire = req->r.comm->ctx->wire;
	int i, k;

	if (req->plan->node)
		tt_node_cancel(req);
	for (i = 0; i < req->plan->nlanes; i++) {
		tt_list_del(&req->lanes[i].ready);
		if (!req->lanes[i].pending)
			continue;
		for (k = 0; k < req->plan->max_ops; k++) {
			struct tt_op_run *run = &req->lanes[i].ops[k];

			tt_list_del(&run->wait);
			if (run->x.state && is_receive(run->op) && !run->x.region)
				tt_wire_abandon(wire, &run->x);
			else if (run->x.state)
				tt_wire_cancel(wire, &run->x);
		}
		req->lanes[i].pending = 0;
	}
}

static void left(struct tt_xfer *x, const void *data, int status)
{
	struct tt_op_run *run = tt_container(x, struct tt_op_run, x);
	struct tt_plan_req *req = run->lane->req;

	(void)data;
	(void)status;
	run->lane->pending--;
	if (--req->leaving == 1)
		tt_request_end(&req->r, -TUTTI_EPEER);
}

/* How many operations of the lane go on: puts to live ranks out of the caller's buffer. */
static int leave_lane(struct tt_plan_req *req, struct tt_lane_run *lane)
{
	struct tt_wire *wire = req->r.comm->ctx->wire;
	int k, n = 0;

	tt_list_del(&lane->ready);
	for (k = 0; lane->pending && k < req->plan->max_ops; k++) {
		struct tt_op_run *run = &lane->ops[k];

		tt_list_del(&run->wait);
		if (!run->x.state || tt_wire_abandon(wire, &run->x))
			continue;
		run->x.fn = left;
		n++;
	}
	lane->pending = n;
	return n;
}

bool tt_run_abandon(struct tt_plan_req *req)
{
	int i;

	if (req->leaving)
		return false;
	if (req->plan->node)
		tt_node_cancel(req);
	for (req->leaving = 1, i = 0; i < req->plan->nlanes; i++)
		req->leaving += leave_lane(req, &req->lanes[i]);
	return req->leaving == 1;
}

static uint64_t round_bytes(struct tt_plan_req *req, int lane, int round)
{
	const struct tt_op *ops;
	int i, n = tt_plan_branch_ops(req->plan, req->way, lane, round, req->lanes[lane].tmp, &ops);
	uint64_t bytes = 0;

	for (i = 0; i < n; i++)
		if ((is_receive(&ops[i]) || ops[i].kind == TT_OP_PULL_REDUCE ||
		     ops[i].kind == TT_OP_PULL_COPY || ops[i].kind == TT_OP_PUSH) &&
		    tt_node_op_applies(req, &ops[i]))
			bytes += ops[i].len;
	return bytes;
}

uint64_t tt_run_where(struct tt_plan_req *req, char *phase, size_t size)
{
	const struct tt_plan *plan = req->plan;
	int i, r, slowest = 0;
	uint64_t bytes = 0;

	for (i = 0; i < plan->nlanes; i++) {
		struct tt_lane_run *lane = &req->lanes[i];

		for (r = 0; r < lane->round; r++)
			bytes += round_bytes(req, i, r);
		if (lane->rounds - lane->round >
		    req->lanes[slowest].rounds - req->lanes[slowest].round)
			slowest = i;
	}
	if (!plan->nlanes)
		return 0;
	snprintf(phase, size, "round %d of %d", req->lanes[slowest].round + 1,
		 req->lanes[slowest].rounds);
	if (plan->nlanes > 1)
		snprintf(phase + strlen(phase), size - strlen(phase), " in lane %d of %d",
			 slowest + 1, plan->nlanes);
	return bytes;
}

/*
 * This rank's call of a key; NULL: no such communicator, not called yet, or too long ago. A key has
 * the lower half of the sequence number.
 */
static struct tutti_comm *past_of(struct tutti_context *ctx, const struct tt_key *key,
				  struct tt_past *past)
{
	struct tutti_comm *comm = tt_comm_find_any(ctx, key->comm);
	uint32_t behind;
	uint64_t made;

	if (!comm)
		return NULL;
	made = tt_comm_calls(comm, tt_key_init(key));
	behind = (uint32_t)made - key->seq;
	if (behind > INT32_MAX || !tt_comm_past(comm, tt_key_init(key), made - behind, past))
		return NULL;
	return comm;
}

/* A message from peer does not match this rank's call: finds out why. */
static void report(struct tutti_comm *comm, const struct tt_past *past, int peer)
{
	int rank = past->counts ? tt_comm_rank_of(comm, peer) : -1;

	/* in this order: the peer reports a block before it answers rank 0 that its call is alike
	 */
	if (rank >= 0)
		tt_pair_ask(comm, past, rank);
	tt_stuck_differs(comm, past->seq, &past->fields);
}

void tt_run_mismatch(void *arg, int peer, const struct tt_key *key)
{
	struct tt_past past;
	struct tutti_comm *comm = past_of(arg, key, &past);

	if (comm)
		report(comm, &past, peer);
}

void tt_run_early(void *arg, int peer, const struct tt_key *key, uint64_t fprint, bool offer)
{
	struct tt_past past;
	/* messages ahead of this rank's own call are checked when it is made */
	struct tutti_comm *comm = past_of(arg, key, &past);
	uint64_t expected;
	int rank;

	if (!comm)
		return;
	expected = past.fprint;
	rank = past.counts ? tt_comm_rank_of(comm, peer) : -1;
	if (rank >= 0)
		expected = tt_pair_fprint(expected, past.counts, rank, offer);
	if (fprint != expected)
		report(comm, &past, peer);
}

/* By its uid, or by that of its messages. */
static struct tutti_comm *owner(struct tutti_context *ctx, uint64_t uid)
{
	struct tutti_comm *comm = tt_comm_find(ctx, uid);
	struct tt_list *l, *tmp;

	if (comm)
		return comm;
	tt_list_each(l, tmp, &ctx->comms)
	{
		comm = tt_container(l, struct tutti_comm, link);
		if (comm->p2p && tt_comm_port(comm) == uid)
			return comm;
	}
	return NULL;
}

void tt_run_fenced(void *arg, int peer, bool mine, uint64_t uid)
{
	struct tutti_context *ctx = arg;
	const struct tutti_comm *comm = mine ? owner(ctx, uid) : NULL;
	struct tutti_error_info info = {.size = sizeof(info), .rank = peer};

	if (comm && atomic_load(&comm->failed)) {
		info = comm->failure;
	} else if (comm) { /* an earlier failure of another rank is not the cause */
		info.code = -TUTTI_EABORTED;
		snprintf(info.text, sizeof(info.text),
			 "this rank took back an operation that rank %d had not finished, and "
			 "closed "
			 "the connection",
			 peer);
	} else if (ctx->first_failure.code) {
		info = ctx->first_failure;
	} else {
		info.code = -TUTTI_EABORTED;
		snprintf(info.text, sizeof(info.text), "the connection to rank %d was closed by %s",
			 peer, mine ? "this rank" : "that rank");
	}
	tt_comm_fail_with(ctx, peer, &info);
}

void tt_run_ask(struct tt_plan_req *req)
{
	int i, k, left = ASK_MAX;
	struct tt_past past;

	if (!tt_comm_past(req->r.comm, req->fields.init, req->r.seq, &past) || !past.counts)
		return;
	for (i = 0; i < req->plan->nlanes; i++)
		for (k = 0; req->lanes[i].pending && k < req->plan->max_ops && left; k++)
			if (req->lanes[i].ops[k].x.state) {
				tt_pair_ask(req->r.comm, &past, req->lanes[i].ops[k].op->peer);
				left--;
			}
}

/* The ranks that a wait in the memory of the host needs. */
static int node_awaited(const struct tt_op_run *run, int *ranks, int max)
{
	const struct tt_plan_req *req = run->lane->req;
	const struct tt_node_comm *nc = req->node;
	int n = 0, i;
	bool differs;

	if (run->op->peer != TT_ALL_RANKS) {
		ranks[0] = req->r.comm->world[run->op->peer];
		return 1;
	}
	for (i = (int)run->at; i < nc->n && n < max; i++)
		if (nc->member[i] != req->r.comm->rank &&
		    !tt_node_reached(nc->group, i, req->turn, run->op->index, req->fprint,
				     &differs))
			ranks[n++] = req->r.comm->world[nc->member[i]];
	return n;
}

/* The ranks that keep a call from its turn in the memory of the host. */
static int behind(const struct tt_plan_req *req, int *ranks, int max)
{
	const struct tt_list *gated = &req->r.comm->ctx->node_gated, *l;
	const struct tt_node_comm *nc = req->node;
	int n = 0, i;

	for (l = gated->next; l != gated; l = l->next)
		if (tt_container(l, struct tt_lane_run, ready)->req == req && nc->group)
			break;
	if (l == gated)
		return 0;
	for (i = tt_node_behind(nc->group, 0, req->turn); i >= 0 && n < max;
	     i = tt_node_behind(nc->group, i + 1, req->turn))
		ranks[n++] = req->r.comm->world[nc->member[i]];
	return n;
}

int tt_run_awaited(const struct tt_plan_req *req, int *ranks, int max)
{
	const struct tt_list *waits = &req->r.comm->ctx->node_waits, *l;
	const struct tt_op_run *run;
	int i, k, n;

	n = behind(req, ranks, max);
	for (l = waits->next; l != waits && n < max; l = l->next) {
		run = tt_container(l, struct tt_op_run, wait);
		if (run->lane->req == req && run->op->kind == TT_OP_WAIT)
			n += node_awaited(run, ranks + n, max - n);
	}
	for (i = 0; i < req->plan->nlanes; i++)
		for (k = 0; req->lanes[i].pending && k < req->plan->max_ops && n < max; k++)
			if (req->lanes[i].ops[k].x.state)
				ranks[n++] = req->lanes[i].ops[k].x.peer;
	return n;
}
