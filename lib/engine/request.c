/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a request: bound to buffers, started, ended. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
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

	req->base[which] = (char *)buf;
	req->extent[which] = len;
	req->region[which] = len ? tt_mem_find(memory, buf, len) : NULL;
	if (len && !req->region[which] && tt_mem_partial(memory, buf, len))
		return tt_fail(-EINVAL,
			       "%s: the registered region does not cover the buffer: %zu bytes at %p",
			       tt_coll_name((enum tt_coll)req->fields.coll), len, buf);
	return 0;
}

int tt_request_new(struct tutti_comm *comm, const struct tt_call *call, bool persistent,
		   struct tutti_request **out)
{
	size_t elem = tutti_datatype_size(call->datatype);
	struct tutti_request *req;
	int err;

	err = tt_plans_get(comm, call, &req);
	if (err)
		return err;
	req->persistent = persistent;
	req->status = 0;
	req->datatype = call->datatype;
	req->elem = elem;
	req->reduce = call->coll == TT_COLL_ALLREDUCE ? tt_reduce_get(call->datatype, call->op)
						       : NULL;
	req->fields = (struct tt_fields){.coll = call->coll,
					 .datatype = call->datatype,
					 .op = call->op,
					 .root = call->root,
					 .count = call->count};
	err = bind_buffer(req, TT_BUF_RECV, call->recvbuf, call->count * elem);
	if (!err)
		err = bind_buffer(req, TT_BUF_SEND, call->sendbuf ? call->sendbuf : call->recvbuf,
				  call->count * elem);
	req->base[TT_BUF_SCRATCH] = req->scratch;
	req->extent[TT_BUF_SCRATCH] = req->plan->scratch;
	if (err) {
		tt_plans_put(req);
		return err;
	}
	atomic_store(&req->state, TT_REQ_IDLE);
	comm->requests++;
	*out = req;
	return 0;
}

void tt_request_free(struct tutti_request *req)
{
	req->comm->requests--;
	tt_plans_put(req);
}

/*
 * What is not registered comes from the registration cache, if that is on, for each start anew: the
 * memory of a persistent request may be another between two of them.
 */
static void borrow_regions(struct tutti_request *req)
{
	struct tt_memory *memory = tt_wire_memory(req->comm->ctx->wire);
	int i;

	for (i = TT_BUF_SEND; i <= TT_BUF_RECV; i++)
		if (!req->region[i] && req->extent[i])
			req->region[i] = tt_mem_borrow(memory, req->base[i], req->extent[i]);
}

static void return_regions(struct tutti_request *req)
{
	int i;

	for (i = TT_BUF_SEND; i <= TT_BUF_RECV; i++)
		if (req->region[i] && req->region[i]->cached) {
			tt_mem_return(req->region[i]);
			req->region[i] = NULL;
		}
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
	now = tt_now_ns();
	req->fprint = tt_comm_called(comm, &req->fields);
	req->seq = comm->seq;
	req->status = 0;
	req->deadline = now + (uint64_t)ctx->env.timeout.number * TT_MS;
	req->late_at = now + (uint64_t)ctx->env.late_after.number * TT_MS;
	req->progressed = false;
	borrow_regions(req);
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
	return_regions(req);
	tt_list_del(&req->link);
	req->comm->ctx->running--;
	atomic_store(&req->state, TT_REQ_DONE);
}
