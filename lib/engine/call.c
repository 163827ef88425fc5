/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective as a request: a plan bound to the caller's buffers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/engine/engine.h"

static struct tt_plan_req *plan_req(const struct tutti_request *r)
{
	return tt_container(r, struct tt_plan_req, r);
}

/*
 * What is not registered comes from the registration cache, if that is on, for each start anew: the
 * memory of a persistent request may be another between two of them.
 */
static void borrow_regions(struct tt_plan_req *req)
{
	struct tt_memory *memory = tt_wire_memory(req->r.comm->ctx->wire);
	int i;

	for (i = TT_BUF_SEND; i <= TT_BUF_RECV; i++)
		if (!req->region[i] && req->extent[i])
			req->region[i] = tt_mem_borrow(memory, req->base[i], req->extent[i]);
}

static void plan_ended(struct tutti_request *r)
{
	struct tt_plan_req *req = plan_req(r);
	int i;

	for (i = TT_BUF_SEND; i <= TT_BUF_RECV; i++)
		if (req->region[i] && req->region[i]->cached) {
			tt_mem_return(req->region[i]);
			req->region[i] = NULL;
		}
}

static int plan_start(struct tutti_request *r)
{
	struct tt_plan_req *req = plan_req(r);
	int err = tt_request_begin(r);

	if (err)
		return err;
	borrow_regions(req);
	req->fprint = tt_comm_called(r->comm, &req->fields);
	r->seq = r->comm->seq;
	tt_run_start(req);
	tt_run_ready(r->comm->ctx);
	return 0;
}

static void plan_cancel(struct tutti_request *r)
{
	tt_run_cancel(plan_req(r));
}

static void plan_free(struct tutti_request *r)
{
	tt_plans_put(plan_req(r));
}

static void plan_late(struct tutti_request *r)
{
	tt_stuck_report(r->comm, r->seq, &plan_req(r)->fields);
}

static const char *plan_call(const struct tutti_request *r)
{
	return tt_coll_name((enum tt_coll)plan_req(r)->fields.coll);
}

static const char *plan_text(const struct tutti_request *r, char *buf, size_t size)
{
	return tt_fields_text(&plan_req(r)->fields, r->seq, buf, size);
}

static int plan_waits(const struct tutti_request *r, char *buf, size_t size)
{
	const struct tutti_comm *comm = r->comm;
	int i, rank = -1;

	for (i = 0; comm->late_seq == r->seq && i < comm->nlate; i++) {
		rank = rank < 0 ? comm->late[i] : rank;
		snprintf(buf + strlen(buf), size - strlen(buf), "%s rank %d on host %s",
			 i ? "," : "; it waits for", comm->late[i],
			 tt_boot_host(comm->ctx->boot, comm->late[i]));
	}
	return rank;
}

static const struct tt_request_ops plan_ops = {.list = TT_ACTIVE_COLL,
					       .call = plan_call,
					       .start = plan_start,
					       .cancel = plan_cancel,
					       .ended = plan_ended,
					       .free = plan_free,
					       .late = plan_late,
					       .text = plan_text,
					       .waits = plan_waits};

static int bind_buffer(struct tt_plan_req *req, enum tt_buf which, const void *buf, size_t len)
{
	struct tt_memory *memory = tt_wire_memory(req->r.comm->ctx->wire);

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
	struct tt_plan_req *req;
	int err;

	err = tt_plans_get(comm, call, &req);
	if (err)
		return err;
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
	tt_request_init(&req->r, &plan_ops, comm, persistent);
	*out = &req->r;
	return 0;
}
