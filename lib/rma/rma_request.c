/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts one-sided operations, also as requests, such as tutti_iput. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/rma/rma.h"

struct tt_win_req {
	struct tutti_request r;
	struct tutti_win *win;
	struct tt_win_req *next;
	int rank;
	const char *call;
	bool cancelled; /* set by the cancel, which also ends the request */
	struct tt_win_end end;
	struct tt_win_flush flush;
	/* an atomic */
	uint32_t age;
	struct tt_win_amo amo;
	struct tt_stalled stalled;
	uint64_t *old;
	/* the end, while it waits for a decision */
	int status, lost; /* lost: the rank of the operation that failed */
	bool here;	  /* a fault of this end */
	uint64_t decision_by;
};

static struct tt_win_req *win_req(const struct tutti_request *r)
{
	return tt_container(r, struct tt_win_req, r);
}

static void req_end(struct tt_win_req *req, int status)
{
	struct tutti_comm *comm = req->r.comm;

	if (status)
		status = tt_win_judged(req->win, req->lost, status);
	tt_request_end(&req->r, status && atomic_load(&comm->failed) ? comm->failure.code : status);
}

static void amo_again(struct tt_stalled *stalled);

static void decide_again(struct tt_stalled *stalled)
{
	struct tt_win_req *req = tt_container(stalled, struct tt_win_req, stalled);

	if (!tt_win_decided(req->win, req->lost) && tt_now_ns() < req->decision_by)
		return;
	tt_list_del(&stalled->link);
	stalled->again = amo_again;
	req_end(req, req->status);
}

/* The end of a request whose connection to rank failed waits for the control tree's decision. */
static bool await_decision(struct tt_win_req *req, int rank, int status)
{
	req->lost = rank;
	if (!tt_win_doubtful(req->win, rank, status) || tt_win_decided(req->win, rank))
		return false;
	req->status = status;
	req->decision_by = tt_now_ns() + TT_WIN_DECISION;
	req->stalled.again = decide_again;
	tt_list_add(&req->win->comm->ctx->stalled, &req->stalled.link);
	return true;
}

static void req_over(struct tt_win_req *req, int rank, int status)
{
	if (req->cancelled)
		return;
	req->r.progressed = true;
	if (!status || !await_decision(req, rank, status))
		req_end(req, status);
}

static void op_over(struct tt_win_end *end, int status)
{
	struct tt_win_req *req = tt_container(end, struct tt_win_req, end);

	req->here = end->here;
	req_over(req, req->rank, status);
}

static const char *req_call(const struct tutti_request *r)
{
	return win_req(r)->call;
}

static void req_cancel(struct tutti_request *r)
{
	struct tt_win_req *req = win_req(r);

	req->cancelled = true;
	tt_list_del(&req->stalled.link);
	req->stalled.again = amo_again;
	if (!tt_list_empty(&req->flush.link))
		tt_win_flush_give_up(req->win, &req->flush);
	else if (req->rank >= 0) /* a flush of all ranks has no operations left */
		tt_win_take_back(req->win, req->rank);
}

/*
 * An atomic counts from its call on, so that a flush also waits for atomics that have not started.
 */
static void req_ended(struct tutti_request *r)
{
	if (win_req(r)->old)
		tt_win_end(win_req(r)->win, win_req(r)->rank, win_req(r)->age);
}

static void req_free(struct tutti_request *r)
{
	struct tt_win_req *req = win_req(r);

	req->win->requests--;
	req->next = req->win->free_reqs;
	req->win->free_reqs = req;
}

static const char *req_text(const struct tutti_request *r, char *buf, size_t size)
{
	if (win_req(r)->rank < 0)
		snprintf(buf, size, "%s on a window", win_req(r)->call);
	else
		snprintf(buf, size, "%s on the window of rank %d", win_req(r)->call,
			 win_req(r)->rank);
	return buf;
}

static int req_waits(const struct tutti_request *r, char *buf, size_t size)
{
	const struct tutti_comm *comm = r->comm;
	int rank = win_req(r)->rank, holder;

	buf[0] = 0;
	if (rank < 0)
		rank = tt_win_first_left(win_req(r)->win, &win_req(r)->flush);
	holder = tt_accs_holder(win_req(r)->win, rank);
	if (holder >= 0)
		rank = holder;
	else if (win_req(r)->rank >= 0)
		return comm->world[rank];
	if (rank < 0)
		return -1;
	snprintf(buf, size, "; it waits for rank %d on host %s", comm->world[rank],
		 tt_boot_host(comm->ctx->boot, comm->world[rank]));
	return comm->world[rank];
}

/* Each operation ends by itself when the connection to the dead rank is closed. */
static int req_needs(const struct tutti_request *r)
{
	(void)r;
	return -1;
}

static int req_explain(const struct tutti_request *r)
{
	const struct tt_win_req *req = win_req(r);

	if (req->old)
		return tt_win_amo_failure(req->win, req->rank, r->status);
	if (req->here)
		return tt_win_failure(req->win, req->lost, "a one-sided operation",
				      -TT_EFAULT_HERE);
	if (req->rank < 0)
		return tt_win_failure(req->win, req->lost, "a one-sided operation", r->status);
	return tt_win_failure(req->win, req->rank, req->call, r->status);
}

static void req_record(const struct tutti_request *r, struct tt_flight_op *op,
		       enum tutti_datatype *type)
{
	(void)type;
	op->peer = win_req(r)->rank;
}

static const struct tt_request_ops req_ops = {.list = TT_ACTIVE_OTHER,
					      .call = req_call,
					      .cancel = req_cancel,
					      .needs = req_needs,
					      .ended = req_ended,
					      .free = req_free,
					      .text = req_text,
					      .record = req_record,
					      .waits = req_waits,
					      .explain = req_explain};

static void flush_over(struct tt_win_flush *flush)
{
	struct tt_win_req *req = tt_container(flush, struct tt_win_req, flush);
	int at = -1, status;

	if (req->cancelled)
		return;
	status = tt_win_take_status(req->win, req->rank, &at);
	req->here = status == -TT_EFAULT_HERE;
	req_over(req, at, req->here ? -EFAULT : status);
}

static void amo_done(struct tt_win_amo *amo)
{
	struct tt_win_req *req = tt_container(amo, struct tt_win_req, amo);

	if (!amo->status)
		*req->old = amo->at.old;
	req_over(req, req->rank, amo->status);
}

/* It has started, has ended, or is to be retried. */
static void amo_try(struct tt_win_req *req)
{
	tt_win_amo_try(&req->amo);
	if (req->amo.started)
		return; /* amo_done ends the request, or has done so */
	if (req->amo.over)
		req_over(req, req->rank, req->amo.status);
	else
		tt_list_add(&req->win->comm->ctx->stalled, &req->stalled.link);
}

static void amo_again(struct tt_stalled *stalled)
{
	tt_list_del(&stalled->link);
	amo_try(tt_container(stalled, struct tt_win_req, stalled));
}

/* A request under way; NULL: *err is the code of the last error. */
static struct tt_win_req *req_new(struct tutti_win *win, int rank, const char *call, int *err)
{
	struct tt_win_req *req = win->free_reqs;

	if (req) {
		win->free_reqs = req->next;
	} else {
		req = tt_request_alloc(win->comm->ctx, sizeof(*req), 0);
		if (!req) {
			*err = tt_fail(-ENOMEM, "no memory for a request");
			return NULL;
		}
		req->win = win;
		req->stalled.again = amo_again;
		req->end.over = op_over;
		tt_list_init(&req->stalled.link);
		req->flush.over = flush_over;
		tt_list_init(&req->flush.link);
	}
	req->rank = rank;
	req->call = call;
	req->cancelled = req->here = req->end.here = false;
	req->old = NULL;
	win->requests++;
	tt_request_init(&req->r, &req_ops, win->comm, false);
	*err = tt_request_begin(&req->r);
	if (!*err)
		return req;
	tt_request_free(&req->r);
	return NULL;
}

void tt_win_free_reqs(struct tutti_win *win)
{
	struct tt_win_req *req;

	while ((req = win->free_reqs)) {
		win->free_reqs = req->next;
		tt_request_release(win->comm->ctx, &req->r, sizeof(*req));
	}
}

/* Gives the wire back to the progress thread, if one runs. */
static void leave_wire(struct tutti_context *ctx)
{
	if (ctx->thread_runs)
		tt_wire_started(ctx->wire);
	tt_wire_unlock(ctx->wire);
}

/* Hands out a request, or frees it if its operation could not start. */
static void hand_out(struct tt_win_req *req, int err, struct tutti_request **request)
{
	if (err) {
		tt_request_end(&req->r, err);
		tt_request_free(&req->r);
	} else {
		*request = &req->r;
	}
}

int tt_win_iop(struct tutti_win *win, const struct tt_win_access *access, const char *call,
	       struct tutti_request **request)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct tt_win_req *req;
	int err;

	tt_wire_lock(ctx->wire);
	req = req_new(win, access->rank, call, &err);
	if (req) {
		err = tt_win_op_start(win, access, &req->end);
		if (err && await_decision(req, access->rank, err))
			err = 0;
		hand_out(req, err, request);
	}
	leave_wire(ctx);
	return err;
}

int tt_win_run(struct tutti_win *win, tt_win_start_fn *start, const void *what)
{
	struct tutti_context *ctx = win->comm->ctx;
	int err;

	tt_wire_lock(ctx->wire);
	err = start(win, what, NULL);
	leave_wire(ctx);
	return err;
}

int tt_win_irun(struct tutti_win *win, int rank, const char *call, tt_win_start_fn *start,
		const void *what, struct tutti_request **request)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct tt_win_req *req;
	int err;

	tt_wire_lock(ctx->wire);
	req = req_new(win, rank, call, &err);
	if (req) {
		err = start(win, what, &req->end);
		hand_out(req, err, request);
	}
	leave_wire(ctx);
	return err;
}

int tt_win_iatomic(struct tutti_win *win, int rank, enum tt_amo_op op, uint64_t operand,
		   uint64_t compare, uint64_t offset, uint64_t *old, const char *call,
		   struct tutti_request **request)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct tt_win_req *req;
	int err;

	tt_wire_lock(ctx->wire);
	req = req_new(win, rank, call, &err);
	if (req) {
		req->old = old;
		req->age = tt_win_begin(win, rank);
		tt_win_amo_init(&req->amo, win, rank, op, operand, compare, offset);
		req->amo.done = amo_done;
		*request = &req->r;
		amo_try(req);
	}
	leave_wire(ctx);
	return err;
}

/* ---- flushes ---- */

int tt_win_iflush(struct tutti_win *win, int rank, const char *call, struct tutti_request **request)
{
	struct tutti_context *ctx = win->comm->ctx;
	struct tt_win_req *req;
	int err;

	atomic_thread_fence(memory_order_seq_cst); /* as in tt_win_wait: copies took no lock */
	tt_wire_lock(ctx->wire);
	tt_engine_progress(ctx); /* sends held operations, ends complete ones */
	req = req_new(win, rank, call, &err);
	if (req) {
		tt_win_flush_begin(win, rank, &req->flush);
		if (!req->flush.left)
			flush_over(&req->flush);
		*request = &req->r;
	}
	tt_wire_leave(ctx->wire); /* it has polled */
	leave_wire(ctx);
	return err;
}
