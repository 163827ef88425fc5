/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective as a request: a plan bound to the caller's buffers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/engine/node/node_ops.h"

static struct tt_plan_req *plan_req(const struct tutti_request *r)
{
	return tt_container(r, struct tt_plan_req, r);
}

/*
 * Buffers without a registration borrow one from the registration cache, if it is on. Each start
 * borrows anew: a persistent request's memory may be remapped between two starts.
 */
static void borrow_regions(struct tt_plan_req *req)
{
	struct tt_memory *memory = tt_wire_memory(req->r.comm->ctx->wire);
	int i;

	if (!tt_mem_caches(memory))
		return;
	for (i = TT_BUF_SEND; i <= TT_BUF_RECV; i++)
		if (!req->region[i] && req->extent[i])
			req->region[i] = tt_mem_borrow(memory, req->base[i], req->extent[i]);
}

static void plan_ended(struct tutti_request *r)
{
	struct tt_plan_req *req = plan_req(r);
	int i;

	if (req->plan->node)
		tt_node_ended(req);
	if (req->feedback)
		tt_feedback_end(req->feedback);
	for (i = TT_BUF_SEND; i <= TT_BUF_RECV; i++)
		if (req->region[i] && req->region[i]->cached) {
			tt_mem_return(req->region[i]);
			req->region[i] = NULL;
		}
	tt_feedback_apart(req);
	if (r->comm->stuck_seq == r->seq && r->comm->stuck.init == req->fields.init)
		r->comm->stuck_seq = 0; /* it is not stuck in it any more */
}

#define LEFT_BYTES (64u << 10) /* shorter calls start as fast as a thread wakes */

/*
 * Whether the progress thread begins the first rounds: where the kernel copies what is sent, the
 * start of a long call takes its caller hundreds of microseconds. So would a short one while such
 * lanes are ready, as it would begin them, too.
 */
static bool left_to_thread(const struct tt_plan_req *req)
{
	const struct tutti_context *ctx = req->r.comm->ctx;
	bool is_long =
		req->extent[TT_BUF_SEND] >= LEFT_BYTES || req->extent[TT_BUF_RECV] >= LEFT_BYTES;

	return ctx->thread_runs && !req->blocking &&
	       (!tt_list_empty(&ctx->ready) || (is_long && tt_wire_slow_poll(ctx->wire)));
}

static int plan_start(struct tutti_request *r)
{
	struct tt_plan_req *req = plan_req(r);
	bool left;
	int err;

	err = req->feedback ? tt_feedback_begin(req->feedback, r->ops->call(r)) : 0;
	if (err)
		return err;
	if (req->unscaled) {
		tt_wire_unlock(r->comm->ctx->wire); /* a long vector takes long */
		if (req->feedback)
			tt_feedback_add(req);
		else
			tt_combine_scale(req);
		tt_wire_lock(r->comm->ctx->wire);
	}
	tt_feedback_gather(req);
	err = tt_request_begin(r);
	if (err && req->feedback)
		tt_feedback_end(req->feedback);
	if (err) {
		tt_feedback_apart(req);
		return err;
	}
	if (req->feedback && req->unscaled)
		tt_feedback_clear(req);
	else if (req->feedback)
		req->feedback->empty = false;
	if (req->feedback)
		tt_feedback_gathered(req);
	borrow_regions(req);
	if (req->fields.init) {
		req->fprint = tt_series_called(r->comm, &req->series);
		r->seq = req->series.past.seq;
	} else {
		req->fprint = tt_comm_called(r->comm, &req->fields, req->counts);
		r->seq = r->comm->seq;
	}
	tt_record_plan(req);
	left = left_to_thread(req);
	tt_run_start(req);
	if (left)
		tt_wire_wake_soon(r->comm->ctx->wire);
	else
		tt_run_ready(r->comm->ctx);
	return 0;
}

int tt_request_resume(struct tutti_request *r, const struct tt_short_stop *stop)
{
	struct tt_plan_req *req = plan_req(r);
	int err = tt_request_begin(r);

	if (err)
		return err;
	borrow_regions(req);
	req->fprint = stop->fprint;
	r->seq = stop->seq;
	req->turn = stop->turn;
	req->step = stop->step;
	req->first_round = stop->round;
	req->resumed = true;
	tt_ring_resume(req, &stop->ring);
	r->flight = stop->flight;
	tt_flight_more(r->comm->ctx->flight, r->flight, (uint32_t)stop->round, 0);
	tt_run_start(req);
	tt_run_ready(r->comm->ctx);
	return 0;
}

static void plan_cancel(struct tutti_request *r)
{
	tt_run_cancel(plan_req(r));
}

static bool plan_fence(struct tutti_request *r)
{
	return !plan_req(r)->plan->node || tt_node_fence(plan_req(r));
}

static bool plan_abandon(struct tutti_request *r)
{
	return tt_run_abandon(plan_req(r));
}

static void plan_outlive(struct tutti_request *r)
{
	tt_outlive(plan_req(r));
}

static void plan_free(struct tutti_request *r)
{
	struct tt_plan_req *req = plan_req(r);

	if (req->user)
		tt_userop_put(req->user);
	if (req->feedback)
		tt_feedback_put(req->feedback);
	if (req->fields.init) {
		tt_series_free(r->comm, &req->series);
		if (req->plan->node)
			tt_node_series_free(r->comm, req->node);
	}
	tt_plans_put(req);
}

#define VERDICT_NS (3 * TT_SEC / 2) /* before the deadline */

static int plan_awaits(const struct tutti_request *r, int *ranks, int max)
{
	return tt_run_awaited(plan_req(r), ranks, max);
}

static void plan_late(struct tutti_request *r)
{
	if (r->deadline - tt_now_ns() < VERDICT_NS)
		(void)tt_stuck_forms_differ(r->comm, r->seq, &plan_req(r)->fields);
	tt_late_ask(r, plan_req(r)->fields.init, r->deadline);
	tt_stuck_ask(r->comm, r->seq, &plan_req(r)->fields);
	tt_late_remind(r->comm, r->seq, &plan_req(r)->fields);
	tt_run_ask(plan_req(r));
}

static const char *plan_call(const struct tutti_request *r)
{
	return tt_fields_call(&plan_req(r)->fields);
}

static const char *plan_text(const struct tutti_request *r, char *buf, size_t size)
{
	return tt_fields_text(&plan_req(r)->fields, r->seq, buf, size);
}

static int plan_waits(const struct tutti_request *r, char *buf, size_t size)
{
	return tt_late_text(r, plan_req(r)->fields.init, buf, size);
}

static bool plan_expire(struct tutti_request *r)
{
	if (!tt_stuck_forms_differ(r->comm, r->seq, &plan_req(r)->fields))
		return false;
	tt_request_due(r, tt_now_ns() + TT_SEC); /* the verdict comes from another rank */
	return true;
}

static uint64_t plan_where(struct tutti_request *r, char *phase, size_t size)
{
	return tt_run_where(plan_req(r), phase, size);
}

#define PLAN_OPS(active, ...)                                                                      \
	{                                                                                          \
		__VA_ARGS__.list = active, .plan = true, .call = plan_call, .start = plan_start,   \
		.cancel = plan_cancel, .fence = plan_fence, .abandon = plan_abandon,               \
		.ended = plan_ended, .free = plan_free, .late = plan_late, .text = plan_text,      \
		.waits = plan_waits, .awaits = plan_awaits, .expire = plan_expire,                 \
		.where = plan_where                                                                \
	}
static const struct tt_request_ops plan_ops = PLAN_OPS(TT_ACTIVE_COLL, );
static const struct tt_request_ops persistent_ops = PLAN_OPS(TT_ACTIVE_PERSISTENT, );
static const struct tt_request_ops neighbor_ops =
	PLAN_OPS(TT_ACTIVE_NEIGHBORS, .outlive = plan_outlive, );

/* Of a collective with displacements: the block that ends the buffer. */
static void say_last_block(const struct tt_plan_args *a, enum tt_buf which, char *text, size_t size)
{
	const size_t *counts = which == TT_BUF_SEND ? a->scounts : a->rcounts;
	const size_t *displs = which == TT_BUF_SEND ? a->sdispls : a->rdispls;
	int i, last = -1;

	text[0] = 0;
	for (i = 0; counts && displs && i < a->nranks; i++)
		if (counts[i] && (last < 0 || displs[i] + counts[i] > displs[last] + counts[last]))
			last = i;
	if (last >= 0)
		snprintf(text, size,
			 "; the last of them are those of rank %d: %zu elements at displacement "
			 "%zu from there",
			 last, counts[last], displs[last]);
}

static int bind_buffer(struct tt_plan_req *req, enum tt_buf which, const void *buf, size_t len)
{
	struct tt_memory *memory = tt_wire_memory(req->r.comm->ctx->wire);
	char last[160];

	len = buf ? len : 0;
	req->base[which] = (char *)buf;
	req->extent[which] = len;
	req->region[which] = NULL;
	if (!len || tt_mem_find_buffer(memory, buf, len, &req->region[which]))
		return 0;
	say_last_block(&req->plan->args, which, last, sizeof(last));
	return tt_fail(-EINVAL,
		       "%s: the buffer is only partly in memory of tutti_alloc: %zu bytes at %p%s",
		       tt_coll_name((enum tt_coll)req->fields.coll), len, buf, last);
}

/* Whether recvbuf can hold the scaled input of a premultiplied sum. */
static bool scale_in_recvbuf(const struct tt_plan_args *a)
{
	switch (a->coll) {
	case TT_COLL_REDUCE:
		return a->rank == a->root;
	case TT_COLL_REDUCE_SCATTER_BLOCK:
	case TT_COLL_REDUCE_SCATTER:
		return a->in_place;
	default:
		return true;
	}
}

/* Residuals are to be added, but nothing is encoded. */
static bool adds_residual(const struct tt_plan_req *req)
{
	return req->feedback && !req->plan->args.codec;
}

static bool premultiplies(const struct tt_plan_req *req)
{
	return req->user && req->user->kind == TT_OP_PREMUL_SUM;
}

/* Allocates memory for the scaled input where recvbuf cannot hold it. */
static int bind_scaled(struct tt_plan_req *req, size_t len)
{
	int err = 0;

	if (len && !req->scaled)
		err = tt_mem_alloc(tt_wire_memory(req->r.comm->ctx->wire), len, &req->scaled,
				   &req->scaled_region);
	req->base[TT_BUF_SEND] = req->scaled;
	req->extent[TT_BUF_SEND] = len;
	req->region[TT_BUF_SEND] = req->scaled_region;
	return err;
}

static int bind(struct tt_plan_req *req, const struct tt_call *call)
{
	const struct tt_plan_args *a = &req->plan->args;
	int err;

	req->base[TT_BUF_SCRATCH] = req->scratch;
	req->extent[TT_BUF_SCRATCH] = req->plan->scratch;
	req->unscaled = NULL;
	if (call->feedback)
		req->base[TT_BUF_RESIDUAL] = (char *)call->feedback->state;
	if (premultiplies(req) || (adds_residual(req) && call->count))
		req->unscaled = call->in_place ? call->recvbuf : call->sendbuf;
	err = bind_buffer(req, TT_BUF_RECV, call->recvbuf, tt_recv_bytes(a));
	if (err)
		return err;
	if (a->in_place && call->recvbuf)
		return bind_buffer(req, TT_BUF_SEND, call->recvbuf, tt_recv_bytes(a));
	if (premultiplies(req))
		return bind_scaled(req, tt_send_bytes(a));
	return bind_buffer(req, TT_BUF_SEND, call->sendbuf, tt_send_bytes(a));
}

/* Looks up a user-defined operator; it changes what is planned. */
static int find_op(struct tutti_comm *comm, const struct tt_call *call, struct tt_plan_args *args,
		   struct tt_userop **user)
{
	*user = NULL;
	if (!tt_coll_reduces(call->coll) || call->op < TUTTI_NUM_OPS)
		return 0;
	*user = tt_userop_find(comm->ctx, call->op);
	if (!*user)
		return -EINVAL;
	if ((*user)->kind == TT_OP_PREMUL_SUM && (*user)->datatype != call->datatype)
		return tt_fail(-EINVAL, "%s: the operator multiplies by a scalar of %s, not %s",
			       tt_coll_name(call->coll), tt_datatype_name((*user)->datatype),
			       tt_datatype_name(call->datatype));
	args->ordered = (*user)->kind == TT_OP_ORDERED;
	if ((*user)->kind == TT_OP_PREMUL_SUM)
		args->in_place = scale_in_recvbuf(args);
	return 0;
}

struct tt_fields tt_call_fields(const struct tutti_comm *comm, const struct tt_call *call,
				const struct tt_userop *user)
{
	struct tt_fields f = {.coll = call->coll,
			      .datatype = call->datatype,
			      .op = user ? TUTTI_NUM_OPS + user->kind : call->op,
			      .root = call->inner ? (int32_t)call->inner : call->root,
			      .count = tt_coll_own_counts(call->coll) ? 0 : call->count,
			      .counts = call->edges ? call->edges->hash : call->shape,
			      .codec = call->named ? tt_codec_hash(call->named) : 0};
	bool sums = call->coll == TT_COLL_REDUCE_SCATTER || call->coll == TT_COLL_ALLGATHERV;
	int i;

	for (i = 0; i < comm->size && sums; i++) {
		f.count += call->rcounts[i];
		f.counts = tt_hash_add(f.counts, call->rcounts[i]);
	}
	if (!tt_coll_rooted(call->coll) && (f.count || tt_coll_own_counts(call->coll)))
		f.in_place = call->in_place;
	return f;
}

static int make_series(struct tt_plan_req *req)
{
	struct tutti_comm *comm = req->r.comm;
	int err = req->plan->node ? tt_node_series_new(req) : 0;

	if (err)
		return err;
	err = tt_series_new(comm, &req->series, &req->fields, req->counts);
	if (err && req->plan->node)
		tt_node_series_free(comm, req->node);
	return err;
}

int tt_request_new(struct tutti_comm *comm, const struct tt_call *call, bool persistent,
		   struct tutti_request **out)
{
	struct tt_plan_args args = tt_call_args(comm, call);
	struct tt_plan_req *req;
	struct tt_userop *user;
	int err;

	args.persistent = persistent;
	if (call->feedback && !call->codec) /* the input and the residual are added in recvbuf */
		args.in_place = true;
	err = find_op(comm, call, &args, &user);
	if (!err)
		err = tt_plans_get(comm, &args, &req);
	if (err)
		return err;
	req->datatype = call->datatype;
	req->elem = args.elem;
	req->blocking = call->blocking;
	req->user = user;
	req->op = user ? TUTTI_SUM : call->op;
	req->feedback = call->feedback;
	req->fields = tt_call_fields(comm, call, user);
	if (call->named)
		tt_codec_name_add(req->fields.codec, tt_codec_label(call->named));
	err = bind(req, call);
	if (!err && persistent)
		err = make_series(req);
	if (err) {
		tt_plans_put(req);
		return err;
	}
	if (user)
		user->users++;
	if (req->feedback)
		atomic_fetch_add(&req->feedback->refs, 1);
	tt_request_init(&req->r,
			tt_coll_outlives(call->coll) ? &neighbor_ops
			: persistent		     ? &persistent_ops
						     : &plan_ops,
			comm, persistent);
	*out = &req->r;
	return 0;
}
