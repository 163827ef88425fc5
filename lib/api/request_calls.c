/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests, one at a time: start, test, wait, cancel. */
#include <errno.h>

#include "lib/api/api.h"
#include "lib/p2p/p2p.h"

/* 0 if it can be started. */
static int check_start(const char *name, const struct tutti_request *req)
{
	int err = tt_request_stale(name, req);

	if (err)
		return err;
	if (!req->persistent)
		return tt_fail(-EINVAL, "%s: the request is not persistent", name);
	if (!tt_request_finished(req))
		return tt_fail(-EBUSY, "%s: the request is running", name);
	if (atomic_load(&req->state) == TT_REQ_DONE)
		return tt_fail(-EBUSY, "%s: the request has ended and must be waited for", name);
	return 0;
}

int tutti_start(struct tutti_request *req)
{
	int err;

	if (!req)
		return tt_fail(-EINVAL, "tutti_start: request is NULL");
	err = tt_request_stale(__func__, req); /* its communicator may be gone */
	if (err)
		return err;
	tt_wire_lock(req->comm->ctx->wire);
	err = check_start(__func__, req);
	if (!err)
		err = tt_request_launch(req);
	tt_wire_unlock(req->comm->ctx->wire);
	return err;
}

/*
 * As tutti_start, but a request that its communicator refuses ends with the error. Other ranks may
 * hear of the failure later, and have then started this request and those after it, which may be
 * of other communicators: this rank starts them, too.
 */
static int start_or_end(struct tutti_request *req)
{
	struct tutti_context *ctx = req->comm->ctx;
	int err, status;

	tt_wire_lock(ctx->wire);
	err = check_start("tutti_startall", req); /* it may be in the list twice */
	status = err ? 0 : tt_request_launch(req);
	if (status) {
		req->status = status;
		req->phase[0] = 0;
		atomic_store(&req->state, TT_REQ_DONE);
	}
	tt_wire_unlock(ctx->wire);
	return err;
}

int tutti_startall(int n, struct tutti_request **requests)
{
	int i, err;

	if (n < 0 || (n && !requests))
		return tt_fail(-EINVAL, "tutti_startall: %s",
			       n < 0 ? "n is negative" : "requests is NULL");
	for (i = 0; i < n; i++) {
		err = requests[i] ? check_start(__func__, requests[i]) : 0;
		if (err)
			return err;
	}
	for (i = 0; i < n; i++) {
		err = requests[i] ? start_or_end(requests[i]) : 0;
		if (err)
			return err;
	}
	return 0;
}

int tutti_test(struct tutti_request **request, int *done)
{
	int err;

	if (!request || !done)
		return tt_fail(-EINVAL, "tutti_test: %s is NULL", request ? "done" : "request");
	err = *request ? tt_group_refuse(__func__) : 0;
	if (!err && *request)
		err = tt_request_stale(__func__, *request);
	if (err)
		return err;
	*done = 1;
	if (!*request)
		return 0;
	if (!tt_request_finished(*request))
		tt_test_set(1, request);
	if (!tt_request_finished(*request)) {
		*done = 0;
		return 0;
	}
	return tt_request_collect(request);
}

int tutti_request_get_status(struct tutti_request *request, int *done)
{
	int err;

	if (!done)
		return tt_fail(-EINVAL, "tutti_request_get_status: done is NULL");
	err = request ? tt_group_refuse(__func__) : 0;
	if (!err && request)
		err = tt_request_stale(__func__, request);
	if (err)
		return err;
	*done = 1;
	if (!request)
		return 0;
	if (!tt_request_finished(request))
		tt_test_set(1, &request);
	*done = tt_request_finished(request);
	return *done ? tt_request_result(request) : 0;
}

int tutti_wait(struct tutti_request **request)
{
	int err;

	if (!request)
		return tt_fail(-EINVAL, "tutti_wait: request is NULL");
	if (!*request)
		return 0;
	err = tt_group_refuse(__func__);
	if (err)
		return err;
	if (!tt_request_finished(*request)) {
		err = tt_request_stale(__func__, *request);
		if (err)
			return err;
		tt_wait_set(1, request, false);
		err = tt_request_stale(__func__, *request);
		if (err)
			return err;
		if (!tt_request_finished(*request))
			return tt_request_overdue(*request);
	}
	return tt_request_collect(request);
}

int tutti_cancel(struct tutti_request *request)
{
	int err;

	if (!request)
		return tt_fail(-EINVAL, "tutti_cancel: request is NULL");
	err = tt_group_refuse(__func__);
	if (!err)
		err = tt_request_stale(__func__, request);
	if (err)
		return err;
	tt_wire_lock(request->comm->ctx->wire);
	err = tt_p2p_cancel(request);
	tt_wire_unlock(request->comm->ctx->wire);
	return err;
}

int tutti_request_set_timeout(struct tutti_request *request, int ms)
{
	int err;

	if (!request || ms < TUTTI_NEVER)
		return tt_fail(
			-EINVAL,
			request ? "tutti_request_set_timeout: ms is %d; it must be 0 or more, "
				  "or TUTTI_NEVER"
				: "tutti_request_set_timeout: request is NULL",
			ms);
	err = tt_request_stale(__func__, request);
	if (err)
		return err;
	tt_wire_lock(request->comm->ctx->wire);
	tt_request_set_timeout(request, ms);
	tt_wire_unlock(request->comm->ctx->wire);
	return 0;
}

int tutti_request_free(struct tutti_request *request)
{
	struct tutti_context *ctx;
	int err;

	if (!request)
		return 0;
	err = tt_request_stale(__func__, request);
	if (err)
		return err;
	ctx = request->comm->ctx;
	tt_wire_lock(ctx->wire);
	if (tt_request_finished(request))
		tt_request_free(request);
	else if (!tt_request_orphan(request))
		err = tt_fail(-EBUSY, "tutti_request_free: the request is %s",
			      atomic_load(&request->state) == TT_REQ_HELD
				      ? "in a group; call tutti_group_end first"
				      : "running; wait for it first");
	if (ctx->reap_due)
		ctx->reap(ctx);
	tt_wire_unlock(ctx->wire);
	return err;
}
