/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for requests, one or several, of one context or more, and their results.
 *
 * A receive has no deadline of its own, as it may be posted long before its message is sent. A wait
 * has one for each receive that it waits for, from the begin of the wait. At the deadline the wait
 * cancels the receive. A receive that a message has matched cannot be cancelled, as its sender may
 * write the buffer at any moment: its request is overdue and remains, unless the caller cannot
 * return to it. Shortly before a deadline the wait asks the source what it is doing.
 */
#include <errno.h>
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/engine/engine.h"

#define ASK_NS (500 * TT_MS)	/* before the deadline, or a quarter of the timeout */
#define FIRST_NS TT_MS		/* no timeout is shorter */
#define ROUND_NS (20 * 1000ull) /* in one context before the next one's turn, to begin with */
#define ROUND_MAX_NS (2 * TT_MS)

struct set {
	struct tutti_request **req;
	int n;
	int settled; /* the first so many are */
	bool any, blocking, asked;
	uint64_t begin; /* of the wait; 0: the clock was not read yet */
};

static bool receives(const struct tutti_request *req)
{
	return req->ops->list == TT_ACTIVE_RECV;
}

/* Or freed by another thread, against the rules: no wait may last for ever because of that. */
static bool over(const struct tutti_request *req)
{
	int state = atomic_load_explicit(&req->state, memory_order_acquire);

	return state == TT_REQ_IDLE || state >= TT_REQ_DONE;
}

static bool settled(const struct tutti_request *req)
{
	return !req || over(req) || req->overdue;
}

/* An operation whose end has not been reported. */
static bool reportable(const struct tutti_request *req)
{
	return req && (req->overdue ||
		       atomic_load_explicit(&req->state, memory_order_acquire) == TT_REQ_DONE);
}

static bool active(const struct tutti_request *req)
{
	int state = req ? atomic_load_explicit(&req->state, memory_order_acquire) : TT_REQ_IDLE;

	return state != TT_REQ_IDLE && state != TT_REQ_FREED;
}

static bool one_done(void *arg)
{
	return over(arg);
}

static bool set_done(void *arg)
{
	struct set *s = arg;
	bool none = true;
	int i;

	if (!s->any) {
		while (s->settled < s->n && settled(s->req[s->settled]))
			s->settled++;
		return s->settled == s->n;
	}
	for (i = 0; i < s->n; i++) {
		if (reportable(s->req[i]))
			return true;
		none &= !active(s->req[i]);
	}
	return none;
}

static uint64_t later(uint64_t begin, uint64_t timeout)
{
	return timeout == TT_NEVER ? TT_NEVER : begin + timeout;
}

static uint64_t ask_before(uint64_t timeout)
{
	return timeout / 2 < ASK_NS ? timeout / 2 : ASK_NS;
}

/* The next moment at which this wait has to do something itself; *who: because of that receive. */
static uint64_t next_event(struct set *s, struct tutti_request **who)
{
	uint64_t first = TT_NEVER, at, timeout;
	int i;

	for (i = s->settled; i < s->n; i++) {
		if (settled(s->req[i]) || !receives(s->req[i]))
			continue;
		if (!s->begin)
			s->begin = tt_now_ns();
		timeout = tt_request_timeout(s->req[i]);
		at = later(s->begin, timeout);
		if (!s->asked && at != TT_NEVER)
			at -= ask_before(timeout);
		if (at >= first)
			continue;
		first = at;
		*who = s->req[i];
	}
	return first;
}

/* In all contexts of what is left: each notices by itself that the process was stopped. */
static bool is_due(const struct set *s, uint64_t deadline)
{
	int i;

	for (i = s->settled; i < s->n; i++)
		if (!settled(s->req[i]) && !tt_engine_due(s->req[i]->comm->ctx, deadline))
			return false;
	return true;
}

/* Advances the contexts of a set in turn until it is done or the deadline. */
static void wait_in_turn(struct set *s, uint64_t deadline)
{
	uint64_t round = ROUND_NS, now, until;
	struct tutti_context *ctx, *last;
	int i;

	while (!set_done(s) && !(tt_passed(deadline) && is_due(s, deadline))) {
		last = NULL;
		for (i = s->settled; i < s->n; i++) {
			if (settled(s->req[i]) || s->req[i]->comm->ctx == last)
				continue;
			ctx = last = s->req[i]->comm->ctx;
			now = tt_now_ns();
			until = now + round;
			if (until > deadline && now < deadline)
				until = deadline;
			if (!tt_engine_wait_turn(ctx, set_done, s, until))
				return;
		}
		round = round < ROUND_MAX_NS ? 2 * round : round;
	}
}

/* The context of all that is left; NULL: there are several, or nothing is left. */
static struct tutti_context *only_context(const struct set *s)
{
	struct tutti_context *ctx = NULL;
	int i;

	for (i = s->settled; i < s->n; i++) {
		if (settled(s->req[i]))
			continue;
		if (ctx && ctx != s->req[i]->comm->ctx)
			return NULL;
		ctx = s->req[i]->comm->ctx;
	}
	return ctx;
}

static void wait_until(struct set *s, uint64_t deadline)
{
	struct tutti_context *ctx = only_context(s);

	if (ctx)
		tt_engine_wait(ctx, set_done, s, deadline);
	else
		wait_in_turn(s, deadline);
}

/*
 * Waits for all, one after the other, while each ends soon, as most do: no deadline is computed.
 * Returns how many have ended.
 */
static inline int wait_briefly(int n, struct tutti_request **req)
{
	int i;

	for (i = 0; i < n; i++)
		if (req[i] && !tt_request_finished(req[i]) &&
		    tt_engine_wait_a_while(req[i]->comm->ctx, one_done, req[i], FIRST_NS))
			break;
	return i;
}

static void ask(const struct tutti_request *req)
{
	char unused[192] = "";

	tt_wire_lock(req->comm->ctx->wire);
	if (!tt_request_finished(req))
		tt_doing_ask(req->comm->ctx, req->ops->waits(req, unused, sizeof(unused)));
	tt_wire_unlock(req->comm->ctx->wire);
}

/* The deadline of req has passed. */
static void give_up(struct set *s, struct tutti_request *req)
{
	tt_wire_lock(req->comm->ctx->wire);
	if (tt_request_finished(req) || req->ops->expire(req)) {
		;
	} else if (!s->blocking) {
		req->overdue = true;
	} else if (req->progressed) { /* its message is coming */
		req->progressed = false;
		s->begin = tt_now_ns();
	} else {
		tt_request_time_out(req);
	}
	tt_wire_unlock(req->comm->ctx->wire);
}

static void wait_set(struct set *s)
{
	struct tutti_request *who = NULL;
	uint64_t at, now;
	int i;

	for (i = s->settled; i < s->n; i++)
		if (s->req[i])
			s->req[i]->overdue = false;
	while (!set_done(s)) {
		at = next_event(s, &who);
		wait_until(s, at);
		if (!tt_passed(at) || set_done(s))
			continue;
		if (!s->asked) {
			s->asked = true;
			ask(who);
			continue;
		}
		now = tt_now_ns();
		for (i = s->settled; i < s->n; i++)
			if (!settled(s->req[i]) && receives(s->req[i]) &&
			    now >= later(s->begin, tt_request_timeout(s->req[i])))
				give_up(s, s->req[i]);
	}
}

void tt_wait_set(int n, struct tutti_request **req, bool any)
{
	struct set s = {.req = req, .n = n, .any = any};

	if (!any && (s.settled = wait_briefly(n, req)) == n)
		return;
	wait_set(&s);
}

int tt_wait_blocking(struct tutti_request **req, uint64_t *begin)
{
	struct set s = {.req = req, .n = 1, .blocking = true, .begin = *begin};

	if (!wait_briefly(1, req))
		wait_set(&s);
	*begin = s.begin;
	return tt_request_collect(req);
}

void tt_test_set(int n, struct tutti_request **req)
{
	struct tutti_context *ctx = NULL;
	int i;

	for (i = 0; i < n; i++) {
		if (!req[i] || over(req[i]) || req[i]->comm->ctx == ctx)
			continue;
		ctx = req[i]->comm->ctx;
		tt_wire_lock(ctx->wire);
		tt_engine_progress(ctx);
		if (!tt_request_finished(req[i]))
			tt_engine_timers(ctx);
		tt_wire_leave(ctx->wire);
		tt_wire_unlock(ctx->wire);
	}
}

int tt_request_waited_out(const struct tutti_request *req)
{
	struct tutti_error_info info = {.size = sizeof(info), .code = -ETIMEDOUT};
	struct tutti_context *ctx = req->comm->ctx;
	char text[128], waits[192] = "", name[TT_COMM_NAME], limit[64], doing[220];

	info.rank = req->ops->waits(req, waits, sizeof(waits));
	if (info.rank >= 0)
		snprintf(info.host, sizeof(info.host), "%s", tt_boot_host(ctx->boot, info.rank));
	snprintf(info.call, sizeof(info.call), "%s", req->ops->call(req));
	if (req->ops->where)
		info.bytes = req->ops->where((struct tutti_request *)req, info.phase,
					     sizeof(info.phase));
	snprintf(info.text, sizeof(info.text), "%s of %s timed out after %s%s%s",
		 req->ops->text(req, text, sizeof(text)),
		 tt_comm_name(req->comm, name, sizeof(name)),
		 tt_request_timeout_text(req, limit, sizeof(limit)), waits,
		 tt_doing_text(ctx, info.rank, doing, sizeof(doing)));
	return tt_fail_info(&info);
}

int tt_request_overdue(const struct tutti_request *req)
{
	int err;

	tt_wire_lock(req->comm->ctx->wire);
	err = tt_request_waited_out(req);
	tt_wire_unlock(req->comm->ctx->wire);
	return err;
}

/* The lock is held. */
static inline int result(struct tutti_request *req)
{
	struct tutti_comm *comm = req->comm;
	int status = atomic_load(&req->state) == TT_REQ_DONE ? req->status : 0;

	if (!status)
		return 0;
	comm->told |= atomic_load(&comm->failed) != 0;
	if (req->ops->explain && status != atomic_load(&comm->failed))
		req->ops->explain(req);
	else if (comm->failure.code != -TUTTI_EMISMATCH && req->phase[0])
		tt_comm_failure(comm, req->ops->call(req), req->seq, req->phase, req->bytes);
	else
		tt_fail_info(&comm->failure);
	return status;
}

int tt_request_result(struct tutti_request *req)
{
	int status;

	tt_wire_lock(req->comm->ctx->wire);
	status = result(req);
	tt_wire_unlock(req->comm->ctx->wire);
	return status;
}

/* The lock is held. */
static void settle(struct tutti_request **request)
{
	struct tutti_request *req = *request;

	if (req->persistent) {
		atomic_store_explicit(&req->state, TT_REQ_IDLE, memory_order_release);
		return;
	}
	*request = NULL;
	tt_request_free(req);
}

static void leave(struct tutti_context *ctx)
{
	if (ctx->reap_due)
		ctx->reap(ctx);
	tt_wire_unlock(ctx->wire);
}

void tt_collect_successes(int n, struct tutti_request **req)
{
	struct tutti_context *ctx = NULL;
	int i;

	for (i = 0; i < n; i++) {
		if (!req[i] || req[i]->ops->collected ||
		    atomic_load_explicit(&req[i]->state, memory_order_acquire) != TT_REQ_DONE ||
		    req[i]->status)
			continue;
		if (req[i]->comm->ctx != ctx) {
			if (ctx)
				leave(ctx);
			ctx = req[i]->comm->ctx;
			tt_wire_lock(ctx->wire);
		}
		settle(&req[i]);
	}
	if (ctx)
		leave(ctx);
}

int tt_request_collect(struct tutti_request **request)
{
	struct tutti_request *req = *request;
	struct tutti_context *ctx = req->comm->ctx;
	int status;

	if (req->ops->collected)
		req->ops->collected(req);
	tt_wire_lock(ctx->wire);
	status = result(req);
	settle(request);
	leave(ctx);
	if (status)
		tt_record_due(ctx);
	return status;
}
