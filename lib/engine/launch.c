/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts new requests: at once, or, inside a group of the thread, at the end of the outermost
 * group.
 */
#include <errno.h>

#include "lib/engine/launch.h"

/*
 * Linked through the requests, so that a group allocates nothing. Every call looks at it: the model
 * makes that one load, and takes a few bytes of what the C library keeps for libraries loaded
 * later.
 */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
	int depth;
	struct tutti_request *first, *last;
} group;

int tt_group_refuse(const char *name)
{
	if (!group.depth)
		return 0;
	return tt_fail(-EINVAL, "%s: not between tutti_group_start and tutti_group_end", name);
}

bool tt_group_is_open(void)
{
	return group.depth;
}

int tt_request_launch(struct tutti_request *req)
{
	int err;

	if (group.depth) {
		atomic_store(&req->state, TT_REQ_HELD);
		req->in_group = NULL;
		req->group_waits = false;
		if (group.first)
			group.last->in_group = req;
		else
			group.first = req;
		group.last = req;
		return 0;
	}
	err = tt_request_start(req);
	if (err && !req->persistent)
		tt_request_free(req);
	if (req->comm->ctx->thread_runs)
		tt_wire_started(req->comm->ctx->wire);
	return err;
}

int tt_request_finish(struct tutti_request **req)
{
	uint64_t begin = 0;

	if (!group.depth)
		return tt_wait_blocking(req, &begin);
	(*req)->group_waits = true;
	*req = NULL;
	return 0;
}

void tt_group_begin(void)
{
	group.depth++;
}

/* Moves the lock from one context to another, or to none. */
static struct tutti_context *enter(struct tutti_context *from, struct tutti_context *to)
{
	if (from == to)
		return to;
	if (from) {
		if (from->thread_runs)
			tt_wire_started(from->wire);
		tt_wire_unlock(from->wire);
	}
	if (to)
		tt_wire_lock(to->wire);
	return to;
}

/*
 * Starts all in order, with no progress between requests of one context. Returns the list of
 * requests that the group waits for. The rest belong to the caller once started: its other threads
 * may free them.
 */
static struct tutti_request *start_all(struct tutti_request *first)
{
	struct tutti_request *waits = NULL, **tail = &waits;
	struct tutti_context *ctx = NULL;
	struct tutti_request *req, *next;
	int err;

	for (req = first; req; req = next) {
		next = req->in_group;
		req->in_group = NULL;
		if (req->group_waits) {
			*tail = req;
			tail = &req->in_group;
		}
		ctx = enter(ctx, req->comm->ctx);
		if (atomic_load(&req->state) != TT_REQ_HELD || tt_fuse(req, next))
			continue;
		err = tt_request_start(req);
		if (err) { /* the waiting thread reads it */
			req->status = err;
			atomic_store(&req->state, TT_REQ_DONE);
		}
	}
	enter(ctx, NULL);
	return waits;
}

int tt_group_end(void)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct tutti_request *req, *next, *first = group.first;
	uint64_t begin = 0;
	int err, status = 0;

	if (--group.depth)
		return 0;
	group.first = group.last = NULL;
	for (req = start_all(first); req; req = next) {
		next = req->in_group;
		err = tt_wait_blocking(&req, &begin);
		if (err && !status) {
			status = err;
			tutti_last_error(&info);
		}
	}
	return status ? tt_fail_info(&info) : 0;
}
