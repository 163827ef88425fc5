/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: start, test, wait. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/base/clock.h"

static bool finished(const struct tutti_request *req)
{
	int state = atomic_load_explicit(&req->state, memory_order_acquire);

	return state == TT_REQ_DONE || state == TT_REQ_IDLE;
}

static bool request_done(void *arg)
{
	return finished(arg);
}

/* Passes the result of a finished request to the caller; NULLs *request unless it is persistent. */
static int collect(struct tutti_request **request)
{
	struct tutti_request *req = *request;
	struct tutti_comm *comm = req->comm;
	bool persistent = req->persistent;
	int status;

	if (req->ops->collected)
		req->ops->collected(req);
	tt_wire_lock(comm->ctx->wire);
	status = atomic_load(&req->state) == TT_REQ_DONE ? req->status : 0;
	comm->told |= status != 0;
	if (status && req->ops->explain && status != atomic_load(&comm->failed))
		req->ops->explain(req);
	else if (status && comm->failure.code != -TUTTI_EMISMATCH && req->phase[0])
		tt_comm_failure(comm, req->ops->call(req), req->seq, req->phase, req->bytes);
	else if (status)
		tt_fail_info(&comm->failure);
	if (persistent)
		atomic_store(&req->state, TT_REQ_IDLE);
	else
		tt_request_free(req);
	tt_wire_unlock(comm->ctx->wire);
	if (status)
		tt_record_due(comm->ctx);
	if (!persistent)
		*request = NULL;
	return status;
}

int tutti_start(struct tutti_request *req)
{
	int err;

	if (!req)
		return tt_fail(-EINVAL, "tutti_start: request is NULL");
	if (!req->persistent)
		return tt_fail(-EINVAL, "tutti_start: the request is not persistent");
	tt_wire_lock(req->comm->ctx->wire);
	if (!finished(req))
		err = tt_fail(-EBUSY, "tutti_start: the request is running");
	else
		err = tt_request_launch(req);
	tt_wire_unlock(req->comm->ctx->wire);
	return err;
}

int tutti_test(struct tutti_request **request, int *done)
{
	struct tutti_context *ctx;
	int err;

	if (!request || !done)
		return tt_fail(-EINVAL, "tutti_test: %s is NULL", request ? "done" : "request");
	err = *request ? tt_group_refuse("tutti_test") : 0;
	if (err)
		return err;
	*done = 1;
	if (!*request)
		return 0;
	if (!finished(*request)) {
		ctx = (*request)->comm->ctx;
		tt_wire_lock(ctx->wire);
		tt_engine_progress(ctx);
		if (!finished(*request))
			tt_engine_timers(ctx);
		tt_wire_wake(ctx->wire); /* the poll has disarmed the descriptor on which the
					    progress thread sleeps */
		tt_wire_unlock(ctx->wire);
	}
	if (!finished(*request)) {
		*done = 0;
		return 0;
	}
	return collect(request);
}

int tutti_wait(struct tutti_request **request)
{
	int err;

	if (!request)
		return tt_fail(-EINVAL, "tutti_wait: request is NULL");
	if (!*request)
		return 0;
	err = tt_group_refuse("tutti_wait");
	if (err)
		return err;
	if (!finished(*request))
		tt_engine_wait((*request)->comm->ctx, request_done, *request, TT_NEVER);
	return collect(request);
}

int tutti_waitall(int n, struct tutti_request **requests)
{
	int i, err, first = 0;

	if (n < 0 || (n && !requests))
		return tt_fail(-EINVAL, "tutti_waitall: %s",
			       n < 0 ? "n is negative" : "requests is NULL");
	for (i = 0; i < n; i++) {
		err = tutti_wait(&requests[i]);
		if (err && !first)
			first = err;
	}
	return first;
}

struct any {
	int n, index;
	struct tutti_request **requests;
};

static bool any_done(void *arg)
{
	struct any *any = arg;
	int i;

	for (i = 0; i < any->n; i++)
		if (any->requests[i] && finished(any->requests[i])) {
			any->index = i;
			return true;
		}
	return false;
}

int tutti_waitany(int n, struct tutti_request **requests, int *index)
{
	struct any any = {.n = n, .index = -1, .requests = requests};
	struct tutti_context *ctx = NULL;
	int i, err;

	if (n < 0 || (n && !requests) || !index)
		return tt_fail(-EINVAL, "tutti_waitany: %s",
			       n < 0   ? "n is negative"
			       : index ? "requests is NULL"
				       : "index is NULL");
	for (i = 0; i < n && !ctx; i++)
		if (requests[i])
			ctx = requests[i]->comm->ctx;
	if (!ctx) {
		*index = -1;
		return 0;
	}
	err = tt_group_refuse("tutti_waitany");
	if (err)
		return err;
	tt_engine_wait(ctx, any_done, &any, TT_NEVER);
	*index = any.index;
	return collect(&requests[any.index]);
}

int tutti_request_free(struct tutti_request **request)
{
	struct tutti_request *req;
	int err = 0;

	if (!request || !*request)
		return 0;
	req = *request;
	tt_wire_lock(req->comm->ctx->wire);
	if (!finished(req))
		err = tt_fail(-EBUSY,
			      "tutti_request_free: the request is running; wait for it first");
	else
		tt_request_free(req);
	tt_wire_unlock(req->comm->ctx->wire);
	if (!err)
		*request = NULL;
	return err;
}
