/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a request: bound to buffers, started, ended. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/engine/engine.h"

int tt_comm_check(struct tutti_comm *comm)
{
	if (!atomic_load_explicit(&comm->failed, memory_order_relaxed))
		return 0;
	return tt_fail_info(&comm->failure);
}

static int bind_buffer(struct tutti_request *req, enum tt_buf which, const void *buf, size_t len)
{
	struct tt_memory *memory = tt_wire_memory(req->comm->ctx->wire);

	len = buf ? len : 0;
	req->base[which] = (char *)buf;
	req->extent[which] = len;
	req->region[which] = len ? tt_mem_find(memory, buf, len) : NULL;
	if (len && !req->region[which] && tt_mem_partial(memory, buf, len))
		return tt_fail(-EINVAL,
			       "%s: the registered region does not cover the buffer: %zu bytes at %p",
			       tt_coll_name((enum tt_coll)req->fields.coll), len, buf);
	return 0;
}

/* Whether the multiple of a premultiplied sum's input can be made in recvbuf. */
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

static bool premultiplies(const struct tutti_request *req)
{
	return req->user && req->user->kind == TT_OP_PREMUL_SUM;
}

/* Memory for the multiple of the input where recvbuf can't have it. */
static int bind_scaled(struct tutti_request *req, size_t len)
{
	int err = 0;

	if (len && !req->scaled)
		err = tt_mem_alloc(tt_wire_memory(req->comm->ctx->wire), len, &req->scaled,
				   &req->scaled_region);
	req->base[TT_BUF_SEND] = req->scaled;
	req->extent[TT_BUF_SEND] = len;
	req->region[TT_BUF_SEND] = req->scaled_region;
	return err;
}

static int bind(struct tutti_request *req, const struct tt_call *call)
{
	const struct tt_plan_args *a = &req->plan->args;
	int err;

	req->base[TT_BUF_SCRATCH] = req->scratch;
	req->extent[TT_BUF_SCRATCH] = req->plan->scratch;
	req->unscaled = NULL;
	if (premultiplies(req))
		req->unscaled = call->in_place ? call->recvbuf : call->sendbuf;
	err = bind_buffer(req, TT_BUF_RECV, call->recvbuf, tt_recv_bytes(a));
	if (err)
		return err;
	if (a->in_place && call->recvbuf)
		return bind_buffer(req, TT_BUF_SEND, call->recvbuf, tt_recv_bytes(a));
	if (req->unscaled)
		return bind_scaled(req, tt_send_bytes(a));
	return bind_buffer(req, TT_BUF_SEND, call->sendbuf, tt_send_bytes(a));
}

/* The operator, if it is the caller's; changes what is planned. */
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

static struct tt_fields fields_of(const struct tutti_request *req, const struct tt_call *call)
{
	struct tt_fields f = {.coll = call->coll,
			      .datatype = call->datatype,
			      .op = req->user ? TUTTI_NUM_OPS + req->user->kind : call->op,
			      .root = call->root,
			      .count = req->counts ? 0 : call->count};
	int i;

	if (call->coll != TT_COLL_REDUCE_SCATTER && call->coll != TT_COLL_ALLGATHERV)
		return f;
	for (i = 0; i < req->comm->size; i++) {
		f.count += call->rcounts[i];
		f.counts = tt_hash_add(f.counts, call->rcounts[i]);
	}
	return f;
}

int tt_request_new(struct tutti_comm *comm, const struct tt_call *call, bool persistent,
		   struct tutti_request **out)
{
	struct tt_plan_args args = tt_call_args(comm, call);
	struct tutti_request *req;
	struct tt_userop *user;
	int err;

	err = find_op(comm, call, &args, &user);
	if (!err)
		err = tt_plans_get(comm, &args, &req);
	if (err)
		return err;
	req->persistent = persistent;
	req->status = 0;
	req->datatype = call->datatype;
	req->elem = args.elem;
	req->user = user;
	req->reduce = tt_coll_reduces(call->coll)
			      ? tt_reduce_get(call->datatype, user ? TUTTI_SUM : call->op)
			      : NULL;
	req->fields = fields_of(req, call);
	err = bind(req, call);
	if (err) {
		tt_plans_put(req);
		return err;
	}
	if (user)
		user->users++;
	atomic_store(&req->state, TT_REQ_IDLE);
	comm->requests++;
	*out = req;
	return 0;
}

void tt_request_free(struct tutti_request *req)
{
	req->comm->requests--;
	if (req->user)
		req->user->users--;
	tt_plans_put(req);
}

int tt_request_start(struct tutti_request *req)
{
	struct tutti_comm *comm = req->comm;
	struct tutti_context *ctx = comm->ctx;
	uint64_t now;
	int err;

	err = tt_comm_check(comm);
	if (err)
		return err;
	if (req->unscaled) {
		tt_wire_unlock(ctx->wire); /* nobody else knows the request, and it can take long */
		tt_combine_scale(req);
		tt_wire_lock(ctx->wire);
	}
	now = tt_now_ns();
	req->fprint = tt_comm_called(comm, &req->fields, req->counts);
	req->seq = comm->seq;
	req->status = 0;
	req->deadline = now + (uint64_t)ctx->env.timeout.number * TT_MS;
	req->late_at = now + (uint64_t)ctx->env.late_after.number * TT_MS;
	req->progressed = false;
	atomic_store(&req->state, TT_REQ_RUNNING);
	tt_list_add(&comm->active, &req->link);
	ctx->running++;
	tt_run_start(req);
	tt_run_ready(ctx);
	return 0;
}

void tt_request_end(struct tutti_request *req, int status)
{
	req->status = status;
	tt_list_del(&req->link);
	req->comm->ctx->running--;
	atomic_store(&req->state, TT_REQ_DONE);
}
